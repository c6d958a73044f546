/* Judging an answer and saying what is wrong with it, in the order in which the package's tables do. */

import { range } from "../../kit/maths.ts";
import { type Reading, read } from "./reading.ts";

export interface State {
  question: string;
  kind: "number" | "numbers" | "shape" | "choice";
  choices: string[];
  /** One number or several, the sizes of a shape, or the place of a choice. */
  right: number[];
  wrong: { answer: number[]; words: string }[];
  tolerance: number;
  rest: string;
  /** What the reader has typed or chosen; a blank stands for an empty field that was checked. */
  given: string;
}

export interface Reply {
  /** Null where there is nothing to judge yet. */
  right: boolean | null;
  words: string;
}

const HOW = {
  number: "type the number itself, worked out and without words.",
  numbers: "type the numbers themselves, worked out and without words, with a comma between them.",
  shape: "type the whole numbers, worked out and without words, with a comma between them.",
  choice: "choose one of the answers.",
};

/** How many decimals are enough; none are asked for where the answer is whole. */
export const decimals = ({ right, tolerance }: Pick<State, "right" | "tolerance">): number =>
  right.every(Number.isInteger) ? 0 : Math.ceil(-Math.log10(2 * tolerance));

/** What kind of answer belongs in the field: "a number with 2 decimals". */
export function wanted(state: Pick<State, "kind" | "right" | "tolerance">): string {
  const most = decimals(state);
  const form = most > 0 ? `with ${most} decimals` : "";
  if (state.kind === "number") return form ? `a number ${form}` : "a whole number";
  if (state.kind === "shape") return "whole numbers, such as 2, 3";
  return form ? `numbers ${form}` : "whole numbers";
}

/** Whether a number is the right one with fewer decimals than asked for, or cut off where it is to be rounded. */
function isRightSoFar(x: number, right: number, most: number): boolean {
  const off = (right - x) * Math.sign(right);
  return range(most + 1).some((n) => {
    const step = 10 ** -n;
    const known = x === Number(x.toFixed(n)) && x * right > 0 && Math.abs(right) >= step;
    return known && off > -0.5 * step - 1e-9 && off < step - 1e-9;
  });
}

/** A diagnosis as a sentence, as in `judging.py`: names of code and symbols stay as they are. */
function sentence(words: string): string {
  const first = /^(a|[a-z]{2,})([ ,:;'.]|$)/.test(words) ? words.slice(0, 1).toUpperCase() : words.slice(0, 1);
  return `${first}${words.slice(1)}${/[.?]$/.test(words) ? "" : "."}`;
}

/** What there is to say about an answer; null before one is given. */
export function reply(state: State): Reply | null {
  const { kind, choices, right, wrong, tolerance, rest, given } = state;
  if (given === "") return null;
  if (given.trim() === "") return { right: null, words: `The field is empty: ${HOW[kind]}` };
  const place = choices.indexOf(given);
  const readings: Reading[] = kind !== "choice" ? read(kind, given) : place >= 0 ? [[[place]]] : [];
  if (readings.length === 0) return { right: null, words: sentence(HOW[kind]) };

  const isNear = (x: number, y: number) => Math.abs(x - y) <= tolerance;
  const fits = (answer: number[], isSame = isNear) =>
    readings.some((way) => way.length === answer.length && answer.every((y, i) => way[i]!.some((x) => isSame(x, y))));
  if (fits(right)) return { right: true, words: "Right." };
  const known = wrong.find(({ answer }) => fits(answer));
  if (known) return { right: false, words: `Not yet. ${sentence(known.words)}` };
  const most = decimals(state);
  if (most > 0 && fits(right, (x, y) => isNear(x, y) || isRightSoFar(x, y, most)))
    return { right: null, words: `Right so far; give ${most} decimals, rounded.` };
  return { right: false, words: `Not yet. ${sentence(rest)}` };
}
