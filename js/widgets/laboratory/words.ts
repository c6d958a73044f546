/* What is said of two models. */

import type { TaskName } from "./engine.ts";
import { describe, type Experiment, NEW, type Pair } from "./setups.ts";
import type { Look, Point } from "./worker.ts";

/** What a task asks, in a sentence. */
export const ASKS: Record<TaskName, string> = {
  look_up: "Six pairs of a letter and a digit, then one of the letters. Which digit belongs to it?",
  two_look_ups:
    "Six pairs of a letter and a digit, then two of the letters. Which digits belong to the first and the second?",
  bites: "A sentence of three words. Who bites? The answer is asked at the verb.",
  write_on:
    "Three letters, then the same three, each one further in the alphabet (after h comes a), and so on. Which letter is next? It is asked at every letter; then the model writes by itself.",
};

export const two = (value: number): string => value.toFixed(2);
/** A share in percent; not 100 % unless it is all, nor 0 % unless it is none. */
export function percent(share: number): string {
  const whole = Math.round(100 * share);
  if (whole === 100 && share < 1) return "> 99 %";
  if (whole === 0 && share > 0) return "< 1 %";
  return `${whole} %`;
}
export type Winner = "A" | "B" | "same";

/** What counts: where a model writes, the share of letters that it writes correctly; else the share of answers. */
export const score = (point: Point): number => point.written ?? point.accuracy;
const does = (point: Point): string => (point.written === null ? "answers" : "writes");
const what = (point: Point): string => (point.written === null ? `${NEW} new sequences` : "the letters");

/** Whether two shares of so many sequences differ by no more than luck in the sequences explains. */
export const isClose = (a: number, b: number): boolean =>
  Math.abs(a - b) <= 0.02 + 2 * Math.sqrt((a * (1 - a) + b * (1 - b)) / NEW);

const LEARNED = 0.9;
/** The first measured step at which most is correct. */
const arrival = (points: readonly Point[]): number => points.find((point) => score(point) >= LEARNED)?.step ?? Infinity;

/** Which of two models did better: by what it does in the end or, where that is alike, by when it got there. */
export function winner([a, b]: Pair<readonly Point[]>): Winner {
  const [one, other] = [score(a.at(-1)!), score(b.at(-1)!)];
  if (!isClose(one, other)) return one > other ? "A" : "B";
  const [first, second] = [arrival(a), arrival(b)];
  if (Math.max(first, second) === Infinity || Math.abs(first - second) < Math.max(40, 0.25 * Math.max(first, second)))
    return "same";
  return first < second ? "A" : "B";
}

/** What a run showed: what both do in the end, which did better, as far as that can be told, and whether that was
    predicted. */
export function sayRun(
  { differ, values }: Experiment,
  points: Pair<readonly Point[]>,
  predicted: Winner | "" = "",
): string {
  const [a, b] = points.map((all) => all.at(-1)!) as Pair<Point>;
  const names = values.map((value, i) => `${"AB"[i]} (${describe(differ, value)})`);
  const start = `${names[0]} ${does(a)} ${percent(score(a))} of ${what(a)} correctly, ${names[1]} ${percent(score(b))}.`;
  const said = predicted === "same" ? "no difference" : predicted;
  const guess = !predicted ? "" : predicted === winner(points) ? " As you predicted." : ` You predicted ${said}.`;
  return `${start} ${sayWinner(points)}${guess}`;
}

function sayWinner(points: Pair<readonly Point[]>): string {
  const [a, b] = points.map((all) => all.at(-1)!) as Pair<Point>;
  const won = winner(points);
  if (won === "same") return "That is too close to tell.";
  const [better, worse, other] = won === "A" ? [a, b, "B"] : [b, a, "A"];
  if (isClose(score(a), score(b))) {
    const [first, second] = points.map(arrival).sort((x, y) => x - y);
    return `In the end that is too close to tell, but ${won} got to ${percent(LEARNED)} sooner: after ${first} steps, ${other} after ${second}.`;
  }
  const lower = worse.loss < better.loss;
  return lower
    ? `${other} has the lower loss (${two(worse.loss)}, ${won} ${two(better.loss)}), and yet ${won} ${does(better)} better.`
    : `In this run ${won} did better.${sayFirst(points)}`;
}

const UNLIKE = 0.2;
/** How sharply both looked before they had learned anything, if that was not alike. */
function sayFirst([[a], [b]]: Pair<readonly Point[]>): string {
  if (Math.abs(a!.largest - b!.largest) < UNLIKE) return "";
  return ` Before the first step A gave one token ${two(a!.largest)} of its weight on average, B ${two(b!.largest)}.`;
}

/** One start of several: what both do in the end. */
export interface Start {
  seed: number;
  scores: Pair<number>;
}

const ends = (numbers: readonly number[]): string =>
  `${percent(Math.min(...numbers))} to ${percent(Math.max(...numbers))}`;

/** The lowest and the highest of some shares. */
export const sayRange = (starts: readonly Start[], which: 0 | 1): string =>
  ends(starts.map(({ scores }) => scores[which]));

/** What several starts show together. */
export function sayStarts(starts: readonly Start[]): string {
  const better = starts.filter(({ scores: [a, b] }) => !isClose(a, b)).map(({ scores: [a, b] }) => (a > b ? "A" : "B"));
  const [a, b] = ["A", "B"].map((name) => better.filter((one) => one === name).length) as Pair<number>;
  const all = starts.length;
  if (a === all || b === all) return `${a ? "A" : "B"} does better in each of the ${all} starts.`;
  if (!a && !b) return `In none of the ${all} starts can the two be told apart.`;
  const close = all - a - b;
  return `Of ${all} starts A does better in ${a}, B in ${b}${close ? `, and ${close} ${close === 1 ? "is" : "are"} too close to tell` : ""}: one run may be luck.`;
}

/** The share of a head's weights that lies on later positions. */
export function onLater({ ids, weights }: Look, head: number): number {
  const n = ids.length;
  let later = 0;
  for (let i = 0; i < n; i++) for (let j = i + 1; j < n; j++) later += weights[(head * n + i) * n + j]!;
  return later / n;
}

const sayPoint = (name: string, { loss, accuracy, gradient, largest, written }: Point): string =>
  [
    `${name}: ${percent(accuracy)} correct`,
    `loss ${two(loss)}`,
    ...(written === null ? [] : [`${percent(written)} written correctly`]),
    `largest weight ${two(largest)}`,
    ...(gradient === null ? [] : [`gradient of W^Q ${gradient.toPrecision(2)}`]),
  ].join(", ");

/** Everything that the curves show, in lines. */
export const sayPoints = ([a, b]: Pair<readonly Point[]>): string[] =>
  a.map((point, i) => `Step ${point.step}. ${sayPoint("A", point)}; ${sayPoint("B", b[i]!)}.`);
