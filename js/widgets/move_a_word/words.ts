/* What is said about the scores, and what is asked before they are seen. */

import type { Staged } from "../../kit/quiz.tsx";
import { minus, named, raised, show } from "../../kit/text.ts";
import { KINDS, type Kind, type OfKind, type State, scoreOf } from "./maths.ts";

/** A number that is next to nothing is a rounding error, and said to be none. */
export const stays = (change: number): boolean => change < 1e-9;

/** How much something has changed: with three digits, and the power of ten where it is tiny. */
export function showChange(change: number): string {
  if (change === 0) return "0";
  if (change >= 0.0005) return change.toFixed(3);
  return `10${raised(Math.floor(Math.log10(change)))}`;
}

export const signed = (steps: number): string => (steps > 0 ? `+${steps}` : minus(String(steps)));

export const showScore = (score: number | null): string => (score === null ? "no row" : minus(score.toFixed(3)));

export const nameOf = (state: State, kind: Kind): string => state.kinds[kind];

/** What a picture shows, in a sentence or two. */
export function describe(state: State, { kind, score, change, width }: OfKind, distance: number): string {
  const words = named(state.sentence.split(" "));
  const moved = state.shift === 0 ? "" : ` Moved together by ${signed(state.shift)}: ${describeChange(change, score)}.`;
  const wide = stays(width)
    ? "at each distance it is the same wherever the two stand"
    : `at some distance it differs by ${show(width)} between places`;
  return `${nameOf(state, kind)}: “${words[state.query]}” asks “${words[state.key]}” at distance ${signed(distance)}, score ${showScore(score)}; ${wide}.${moved}`;
}

export function describeChange(change: number, score: number | null): string {
  if (score === null) return "no row there";
  return stays(change) ? "stays" : `changed by up to ${showChange(change)}`;
}

/** Questions to be answered before looking. Which option is right, the numbers say. */
export function questions(state: State): Staged<State>[] {
  const first: State = {
    ...state,
    sentence: state.sentences.includes("dog bites man") ? "dog bites man" : state.sentences[0]!,
    places: [4, 12, 20],
    shift: 0,
    query: 1,
    key: 0,
    content: 1,
    length: 64,
  };
  const { sentence, query, key, content, length } = first;
  const begin = { sentence, query, key, content, length, shift: 0 };
  const which = (options: readonly (readonly [string, readonly Kind[]])[], found: Kind[]) =>
    options.map(([label, kinds]) => ({ label, right: kinds.join() === found.join() }));

  function ask(
    text: string,
    from: Partial<State>,
    to: Partial<State>,
    options: (found: Kind[], by: (kind: Kind) => number) => { label: string; right: boolean }[],
    why: string,
  ): Staged<State> {
    const before = { ...begin, places: first.places, ...from };
    const after = { ...before, ...to };
    const [a, b] = [
      { ...first, ...before },
      { ...first, ...after },
    ];
    const by = (kind: Kind) => scoreOf(kind, b)! - scoreOf(kind, a)!;
    const moved = KINDS.filter((kind) => !stays(Math.abs(by(kind))));
    return { text, before, after, options: options(moved, by), why };
  }

  return [
    ask(
      "All words move on by 20 places together. Whose score changes?",
      {},
      { places: [24, 32, 40], shift: 20 },
      (found) =>
        which(
          [
            ["all but no positions", ["sinusoidal", "learned", "rotary", "alibi"]],
            ["sinusoidal and learned", ["sinusoidal", "learned"]],
            ["learned only", ["learned"]],
          ],
          found,
        ),
      "Rotary positions and ALiBi know the distance only, and that is the same. Where a vector is added, the score has parts in which a word meets a place.",
    ),
    ask(
      "Only “dog” moves on, by 5 places. Whose score stays?",
      {},
      { places: [9, 12, 20] },
      (found) =>
        which(
          [
            ["no positions only", ["sinusoidal", "learned", "rotary", "alibi"]],
            ["no positions and rotary", ["sinusoidal", "learned", "alibi"]],
            ["nobody's", KINDS],
          ],
          found,
        ),
      "The distance has changed. Without positions a score depends on the two words, and not on where they are.",
    ),
    ask(
      "The words are silent: their features are multiplied by 0. All move on by 20. Does the sinusoidal score change?",
      { content: 0 },
      { places: [24, 32, 40], shift: 20 },
      (found) => [
        { label: "yes", right: found.includes("sinusoidal") },
        { label: "no", right: !found.includes("sinusoidal") },
      ],
      "What is left is place with place, and of two sinusoidal positions the dot product depends on the distance only. What moved the score before were the parts in which a word meets a place.",
    ),
    ask(
      "ALiBi with slope 1/4. “dog” moves from 4 places before “bites” to 12 before. By how much does the score fall?",
      { places: [8, 12, 20], head: 2 },
      { places: [0, 12, 20] },
      (_, by) => [2, 4, 8].map((fall) => ({ label: `by ${fall}`, right: Math.abs(by("alibi") + fall) < 1e-9 })),
      "Eight steps further at a quarter each. A straight line, whatever the words are.",
    ),
  ];
}
