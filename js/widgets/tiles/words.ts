/* What is said about a step, and what is asked before it is seen. */

import type { Question } from "../../kit/quiz.tsx";
import { minus, raised, show } from "../../kit/text.ts";
import { type Computed, compute, maskedScores, type State, type Step } from "./maths.ts";

/** A number for the eye, in a few letters, also where it is infinite, none, huge or tiny. */
export function brief(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (Math.abs(value) === Infinity) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size === 0 || (size >= 0.0005 && size < 1e6)) {
    return size < 1000 ? show(value) : minus(String(Number(value.toFixed(1))));
  }
  const [digits = "", power = ""] = value.toExponential(1).split("e");
  return `${minus(digits)} · 10${raised(Number(power))}`;
}

/** How far the output by blocks is from the other one, in words; equal but for rounding is equal. */
export function compare(byTiles: number, whole: number): { right: boolean; difference: number } {
  const difference = Math.abs(byTiles - whole);
  return { right: difference <= 1e-9 * Math.max(1, Math.abs(whole)), difference };
}

/** The arithmetic of a step, a line each. */
export function arithmetic(step: Step, { no_maximum, forget }: State): [name: string, sum: string][] {
  const { before, t, top, off, due, factor, lBefore, l, exps, gain, uBefore, u, o } = step;
  const taken = off < 0 ? `+ ${brief(-off)}` : `− ${brief(off)}`;
  const first = before === -Infinity;
  const less = `${brief(before)} − ${t < 0 ? `(${brief(t)})` : brief(t)}`;
  const why = no_maximum
    ? "1, no maximum is subtracted"
    : forget
      ? `1, forgotten: it would be ${brief(due)}`
      : Number.isNaN(due)
        ? `e^(${less}) = NaN`
        : t === -Infinity
          ? `${brief(due)}: every key so far is masked, and 0 is subtracted in place of −∞`
          : `e^(${less}) = ${brief(due)}`;
  const kept = (part: number) => `${brief(factor)} · ${brief(part)}`;
  return [
    ["t", no_maximum ? "not used" : `max(${brief(before)}, ${brief(top)}) = ${brief(t)}`],
    ["factor", first && !forget && !no_maximum && due === 0 ? `${why}; no allowed key came before` : why],
    [
      no_maximum ? "e^s" : "e^(s − t)",
      exps.map((e) => brief(e)).join(", ") + (no_maximum || off === 0 ? "" : `, each score ${taken}`),
    ],
    ["l", `${kept(lBefore)} + ${brief(exps.reduce((a, b) => a + b, 0))} = ${brief(l)}`],
    ["u", `${kept(uBefore)} + ${brief(gain)} = ${brief(u)}`],
    ["o", l === 0 && o === 0 ? "l = 0, so the output is set to 0" : `${brief(u)} / ${brief(l)} = ${brief(o)}`],
  ];
}

/** What has gone wrong, if something has: the cause that the numbers show. */
export function diagnose(state: State, { steps, whole }: Pick<Computed, "steps" | "whole">): string {
  const last = steps.at(-1)!;
  const { right, difference } = compare(last.o, whole.output);
  const allowed = maskedScores(state).filter((score) => score !== -Infinity);
  if (right && last.t === -Infinity) return "Every key is masked. Both answer with 0, as the package does.";
  if (right && state.forget && steps.some((step) => step.due !== step.factor && step.lBefore > 0))
    return "Right by luck: what was not rescaled was next to nothing.";
  if (right && state.forget && !state.no_maximum)
    return "The factor was forgotten, and nobody notices: the maximum did not rise after the first block.";
  if (right && state.no_maximum) return "No maximum was subtracted, and these scores are small enough for that.";
  if (right && state.careless) return "Nobody took care, and here no care was needed.";
  if (right) return "Block by block or all at once: the same output, up to rounding.";
  const nothing = Number.isNaN(last.o)
    ? "0 / 0 is NaN."
    : "the output looks like that of a row in which every key is masked.";
  if (steps.some((step) => step.exps.includes(Infinity)))
    return "Overflow: e to the power of a large score is ∞, and ∞ / ∞ is NaN.";
  if (allowed.length === 0 && last.l === 0) return "Every key is masked, so the sum is 0, and 0 / 0 is NaN.";
  if (last.l === 0) return `Underflow: every exponential is 0 to the computer, so the sum is 0, and ${nothing}`;
  if (Number.isNaN(last.o))
    return "A block in which every key is masked: −∞ − (−∞) is NaN, and NaN stays in every sum that it enters.";
  const cause = state.no_maximum
    ? "without the maximum, exponentials are too large or too small to be exact"
    : "what was summed before a new maximum counts too much";
  return `Wrong by ${brief(difference)}, and nothing warns of it: ${cause}.`;
}

/** What a step adds to what came before, as a line of a list. */
export function describe(steps: readonly Step[], whole: Computed["whole"]): string[] {
  return [
    ...steps.map(
      ({ first, end, t, factor, l, u, o }, b) =>
        `Block ${b + 1}, keys ${first + 1} to ${end}: maximum ${brief(t)}, factor ${brief(factor)}, sum l ${brief(l)}, sum u ${brief(u)}, output so far ${brief(o)}.`,
    ),
    `The whole row at once: weights ${whole.weights.map(brief).join(", ")}; output ${brief(whole.output)}.`,
  ];
}

/** What comes out at the end, as a question; the numbers say which option is right. */
export function question(state: State): Question {
  const { steps, whole } = compute(state);
  const { o } = steps.at(-1)!;
  const { right } = compare(o, whole.output);
  return {
    text: "All blocks are read with these switches. What is the output?",
    options: [
      { label: "The softmax's", right },
      { label: "Another number", right: !right && !Number.isNaN(o) },
      { label: "NaN", right: Number.isNaN(o) },
    ],
    why: diagnose(state, { steps, whole }),
  };
}
