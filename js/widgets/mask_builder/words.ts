/* What is said about a mask. */

import { count, named, quoted, show } from "../../kit/text.ts";
import type { Audit, Reason, Sizes, State, Task } from "./maths.ts";

// ---- The judgement ------------------------------------------------------------------------------------------------

const REASONS: Record<Reason, string> = {
  next: "the word to be predicted",
  later: "a word that comes later",
  padding: "padding, which is no word",
  text: "a word of the other text",
};
const TOO_EARLY =
  "The loss in training gets wonderful. But when the model has to write, these words are not there yet.";
const HARM: Record<Reason, string> = {
  next: TOO_EARLY,
  later: TOO_EARLY,
  padding: "Nobody said these words, and yet they change what the model makes of the sentence.",
  text: "So one text changes what the model makes of the other.",
};

/** A weight in a cell: 0 and 1 short, else two digits. */
export const short = (weight: number): string => (weight === 0 || weight === 1 ? String(weight) : weight.toFixed(2));

/** The words at the rows and columns, as they stand there and (`query`, `key`) as sentences name them. */
export function labels(task: Task, { m, n, padding }: Sizes) {
  const keys = task.keys.slice(0, n).map((word, j) => (padding.includes(j) ? "pad" : word));
  const queries = task.queries ? task.queries.slice(0, m) : keys.slice(n - m);
  return { keys, queries, key: named(keys), query: task.queries ? named(queries) : named(keys).slice(n - m) };
}
export type Labels = ReturnType<typeof labels>;

export interface Verdict {
  kind: "leak" | "empty" | "blind" | "fits" | "nothing";
  headline: string;
  text: string;
}
type Judged = Pick<State, "task" | "preset" | "empty" | "masks">;

/** The judgement: its kind, a headline, and why. */
export function verdict(state: Judged, all: Audit, words: Labels): Verdict {
  const { kind, headline, text } = judge(state, all, words);
  const forPadding = state.masks.find((mask) => mask.name === state.preset)?.rule.includes("_real");
  const unpadded = forPadding && !all.padding.length;
  return { kind, headline, text: unpadded ? `No key is padded yet: tick one above. ${text}` : text };
}

function judge(state: Judged, all: Audit, words: Labels): Verdict {
  const blind = all.hidden.flat().filter(Boolean).length;
  const masked = `${count(blind, "cell is", "cells are")} masked without need`;
  const also = blind ? ` Besides, ${masked}.` : "";
  if (all.leaks.flat().includes(true)) return aboutLeaks(all, words, also);
  if (all.emptyRows.includes(true)) return aboutEmpty(state, all, words, also);
  if (blind) return aboutMasked(state, all, words, masked);
  if (!all.read.includes(true)) {
    const text = "No word is left that looks: every mask does here. Untick a key above.";
    return { kind: "nothing", headline: "Every query is padding", text };
  }
  const words_ = all.n - all.padding.length;
  const behind = all.padding.length > 0 && all.padding.every((position) => position >= words_);
  const unneeded = state.task === "write" && state.preset === "causal" && behind;
  const more = unneeded ? " The padding comes after every word, so the causal mask hides it too." : "";
  return {
    kind: "fits",
    headline: "This mask fits the task",
    text: `No leak, and every query sees all that it may.${more}`,
  };
}

function aboutLeaks(all: Audit, { key, query }: Labels, also: string): Verdict {
  const leaks = all.leaks.flat().filter(Boolean).length;
  const i = all.leaked.indexOf(Math.max(...all.leaked));
  const reason = all.why[i]![all.leaks[i]!.indexOf(true)]!;
  const seen = key.filter((_, j) => all.leaks[i]![j]);
  const others = seen.length > 1 ? `, and ${quoted(seen.slice(1))}` : "";
  const take = seen.length > 1 ? "They take" : "It takes";
  return {
    kind: "leak",
    headline: `Leak: ${count(leaks, "cell")}`,
    text: `“${query[i]}” sees “${seen[0]}”, ${REASONS[reason]}${others}. ${take} ${show(all.leaked[i]!)} of its weight. ${HARM[reason]}${also}`,
  };
}

function aboutEmpty({ empty }: Judged, all: Audit, { query }: Labels, also: string): Verdict {
  const rows = all.emptyRows.flatMap((is, i) => (is ? [i] : []));
  const read = rows.filter((i) => all.read[i]);
  const who = read.length
    ? `${quoted(read.map((i) => query[i]!))} ${read.length === 1 ? "sees" : "see"} nothing`
    : "The padding’s own rows see nothing";
  const text = {
    zeros: "This package gives an empty row weights 0 and output 0, and nothing else is touched.",
    nan: read.length
      ? "All weights there are 0 ÷ 0, not a number."
      : "Nobody reads these rows. But they are NaN, and NaN does not stay where it is.",
    sentinel: "With −1e9 such a row shares its weight among keys that the mask forbids.",
  }[empty];
  return {
    kind: "empty",
    headline: `No leak, but ${count(rows.length, "row is", "rows are")} empty`,
    text: `${who}. ${text}${also}`,
  };
}

function aboutMasked({ preset, task }: Judged, all: Audit, { key, query }: Labels, masked: string): Verdict {
  const i = all.hidden.findLastIndex((row) => row.includes(true));
  const missed = key.filter((_, j) => all.hidden[i]![j]);
  const itself = missed.includes(query[i]!) && missed.length > 1 && task !== "translate" ? ", itself included" : "";
  const reason = {
    window: "A window masks what is long past on purpose: less to compute in a long text.",
    upper_left:
      "With a cache the newest query belongs to the newest key, so the triangle has to stand at the lower right.",
  }[preset];
  return {
    kind: "blind",
    headline: `No leak, but ${masked}`,
    text: `“${query[i]}” does not see ${quoted(missed)}${itself}. ${reason ?? "Nothing forbids it."}`,
  };
}

// ---- Rows in which every key is masked, cells, and all of it ------------------------------------------------------

/** What happens to rows in which every key is masked. */
export function aboutEmptyRows({ empty }: Pick<State, "empty">, { emptyRows, n }: Audit): string {
  if (!emptyRows.includes(true)) {
    return "No row is empty now, so all three answers give the same weights. Mask a whole row to see them differ.";
  }
  if (empty === "zeros") {
    return "A sum over no keys is 0: weights 0, output 0, and finite gradients. No other row notices.";
  }
  if (empty === "nan") {
    return (
      "Every score of the row is −∞. The softmax divides e to the power of −∞, which is 0, by the sum of such zeros: 0 ÷ 0 is NaN. " +
      "And since 0 × NaN is NaN, it spreads:"
    );
  }
  if (n === 1)
    return "The row’s only score is −1e9, and the softmax gives its key all the weight. No NaN, no error: exactly what the mask forbids.";
  return (
    `All ${n} scores of the row are −1e9, so they are equal, and the softmax gives each key 1/${n} = ${show(1 / n)}. ` +
    "No NaN, no error: an average of exactly what the mask forbids."
  );
}

/** What NaN has reached: a name, which rows, and in words. */
export function aboutSpread({ spread: reached }: Audit) {
  const lost = (rows: boolean[]) => rows.filter(Boolean).length;
  const text = (rows: boolean[], one: string) => `${lost(rows)} of ${count(rows.length, one)}`;
  const { weights, output, second, gradients } = reached;
  return [
    { name: "weights", lost: weights, text: text(weights, "row") },
    { name: "output", lost: output, text: text(output, "row") },
    ...(second ? [{ name: "second layer", lost: second, text: text(second, "row") }] : []),
    {
      name: "gradients of the values",
      lost: gradients,
      text: `${text(gradients, "key")}, even if the loss leaves the empty rows out`,
    },
  ];
}

/** One cell: a title and what it means. */
export function aboutCell(i: number, j: number, { empty }: Pick<State, "empty">, all: Audit, { key, query }: Labels) {
  const on = all.allowed[i]![j]!;
  const weight = show(all.weights[i]![j]!);
  const score = show(all.scores[i]![j]!);
  const title = `Query “${query[i]}”, key “${key[j]}”: ${on ? "allowed" : "masked"}`;
  const why = all.why[i]![j];
  const reason = why ? REASONS[why] : "";
  if (all.emptyRows[i]) {
    const text = {
      zeros: "The row is empty. This package gives it weights of 0.",
      nan: "The row is empty: 0 ÷ 0, so this weight is NaN.",
      sentinel: `The row is empty: every score is −1e9, and this masked key gets ${weight}.`,
    }[empty]!;
    return { title, text };
  }
  if (!all.read[i]) {
    const text = `Weight ${weight}. The query is padding: nobody reads its output, so nothing can go wrong here.`;
    return { title, text };
  }
  if (all.leaks[i]![j]) {
    return { title, text: `A leak: it is ${reason}. It takes ${weight} of the weight of “${query[i]}”.` };
  }
  if (on) return { title, text: `The score ${score} stays, and gives the weight ${weight}.` };
  const becomes = `The score ${score} becomes ${empty === "sentinel" ? "−1e9" : "−∞"}, and the weight 0.`;
  const right = reason ? `Right: it is ${reason}.` : `The task would let “${query[i]}” look at it.`;
  return { title, text: `${becomes} ${right}` };
}

/** The mask and the weights, query by query. */
export function describe(all: Audit, { key, query }: Labels): string[] {
  return query.map((word, i) => {
    const which = (row: boolean[]) => quoted(key.filter((_, j) => row[j]));
    const weights = key.map((name, j) => `“${name}” ${show(all.weights[i]![j]!)}`).join(", ");
    const sees = all.emptyRows[i] ? "sees nothing" : `sees ${which(all.allowed[i]!)}`;
    const leaking = all.leaks[i]!.includes(true);
    const leak = leaking ? ` Leak: ${which(all.leaks[i]!)} with ${show(all.leaked[i]!)}.` : "";
    return `“${word}” ${sees}. Weights: ${weights}.${leak}`;
  });
}
