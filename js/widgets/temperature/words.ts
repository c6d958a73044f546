/* What is said about the numbers, and what is asked before they are seen. */

import { mean } from "../../kit/maths.ts";
import type { Question } from "../../kit/quiz.tsx";
import { minus, raised, show } from "../../kit/text.ts";
import { type Measured, median, mediansOf } from "./maths.ts";

/** A number with a few digits, also where it is tiny. */
export function brief(value: number): string {
  if (value === 0 || Math.abs(value) >= 0.001) return minus(value.toFixed(3));
  const [digit = "", exponent = ""] = value.toExponential(0).split("e");
  return `${minus(digit)} · 10${raised(exponent)}`;
}

export const showTemperature = (temperature: number): string => show(Number(temperature.toPrecision(4)));

/** What one row of weights is like. */
export function verdict(largest: number, share: number): string {
  if (largest >= 0.9) return "saturated, one key takes nearly everything";
  if (share >= 0.97) return "nearly a plain average of all keys";
  return "some preference, nothing settled";
}

/** A question, where the picture stands while it is asked, and where it goes with the answer. */
export interface Asked extends Question {
  before: { d_k: number; divisor: string };
  after: { d_k: number; divisor: string };
}

type Holds = (from: number, to: number) => boolean;
type Choices = readonly (readonly [label: string, holds: Holds])[];

const near = (a: number, b: number, tolerance: number) => Math.abs(a - b) <= tolerance;

const MOVED: Choices = [
  ["It shrinks", (from, to) => to < 0.9 * from],
  ["It stays about the same", (from, to) => to >= 0.9 * from && to <= 1.1 * from],
  ["It grows", (from, to) => to > 1.1 * from],
];

/** Questions to be answered before looking. Which option is right, the numbers say: `at(d_k, divisor)` measures. */
export function questions(at: (dK: number, divisor: string) => Measured, keyCount: number): Asked[] {
  const [narrow, moderate, wide] = [4, 16, 256];
  const typical = (dK: number, divisor: string) => mediansOf(at(dK, divisor));
  const where = (d_k: number, divisor: string) => ({ d_k, divisor });
  const sharp = (from: number): Choices => [
    ["It goes to nearly 1", (_, to) => to > 0.95],
    [`It stays near ${from.toFixed(1)}`, (_, to) => near(to, from, 0.1)],
    [`It goes to about 1/${keyCount}`, (_, to) => near(to, 1 / keyCount, 0.03)],
  ];
  const options = (choices: Choices, from: number, to: number) =>
    choices.map(([label, holds]) => ({ label, right: holds(from, to) }));

  function ask(
    text: string,
    what: "largest" | "entropy" | "norm",
    [before, after]: [Asked["before"], Asked["after"]],
    choices: Choices | ((from: number) => Choices),
    why: string,
  ): Asked {
    const from = typical(before.d_k, before.divisor)[what];
    const to = typical(after.d_k, after.divisor)[what];
    const offered = typeof choices === "function" ? choices(from) : choices;
    const said = `It goes from ${brief(from)} to ${brief(to)}. ${why}`;
    return { text, before, after, options: options(offered, from, to), why: said };
  }

  const trap = at(wide, "none").norm;
  const [middle, average] = [median(trap), mean(trap)];
  return [
    ask(
      "Nothing is divided (÷ 1), and dₖ grows from 4 to 256. What happens to the largest weight of a typical query?",
      "largest",
      [where(narrow, "none"), where(wide, "none")],
      sharp,
      "With 256 features the scores have a standard deviation of about 16. The best key leads by several points, and each point of lead multiplies a ratio of weights by 2.72.",
    ),
    ask(
      "Nothing is divided (÷ 1), and dₖ grows from 4 to 16 only. What does the norm of the Jacobian do?",
      "norm",
      [where(narrow, "none"), where(moderate, "none")],
      MOVED,
      "Moderately sharp weights respond more than flat ones. Move dₖ on to 256 and see it fall.",
    ),
    ask(
      "Now every score is divided by √dₖ, and dₖ grows from 4 to 256. What does the entropy of a typical query do?",
      "entropy",
      [where(narrow, "sqrt(d_k)"), where(wide, "sqrt(d_k)")],
      MOVED,
      "The standard deviation of the scores is about 1 at both widths, so the softmax does not notice the width.",
    ),
    ask(
      "At dₖ = 256, divide by dₖ in place of √dₖ. What happens to the largest weight of a typical query?",
      "largest",
      [where(wide, "sqrt(d_k)"), where(wide, "d_k")],
      sharp,
      "The standard deviation of the scores is 1/16: they are nearly equal, whatever the query is.",
    ),
    {
      text: "At dₖ = 256 and with nothing divided (÷ 1) the median norm of the Jacobian is almost 0. And the mean over the queries?",
      before: where(wide, "none"),
      after: where(wide, "none"),
      options: [
        { label: "Almost 0 as well", right: average < 3 * middle },
        { label: "Many times larger", right: average >= 3 * middle },
      ],
      why: `The median is ${brief(middle)}, the mean ${brief(average)}. A few queries have two keys neck and neck, and a large Jacobian. The mean sees the few.`,
    },
  ];
}
