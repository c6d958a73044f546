/* The guided tour of the translator, from outside in. Its words and numbers are those of what is shown. */

import { argmax, range, sum, topK } from "../../kit/maths.ts";
import { count, quoted, show } from "../../kit/text.ts";
import type { Card } from "../../kit/tour.tsx";
import type { Data, State } from "./index.tsx";
import { END, type Machine, rowOf, type Sheet, weightsOf } from "./machine.ts";
import { columnsOf, END_NAME, KINDS, rowsOf, spell } from "./words.ts";

const numbersIn = (sheets: Iterable<Sheet>): number => sum([...sheets].map(({ data }) => data.length));
const wordOf = (machine: Machine, id: number): string => (id === END ? END_NAME : machine.italian[id]!);

export function cardsOf(state: State, data: Data, open: { name: string; sheet: Sheet }): Card[] {
  const { machine, words, written, trace, step, every, axes, now, layer, done } = data;
  const { d_model, num_heads, encoder_layers, decoder_layers } = machine.sizes;
  const word = every.steps[step - 1]!;
  const before = every.steps.slice(0, step - 1);
  const [first, second] = topK(now, 2) as [number, number];
  // Where this step looks in cross-attention, by the mean of the heads, and by each head
  const cross = state.attention === "cross" ? layer : 0;
  const looks = range(num_heads + 1).map((head) =>
    rowOf(weightsOf(trace, ["cross", cross], head, num_heads), step - 1),
  );
  const most = (weights: Float64Array) => `“${every.source[argmax(weights)]}” (${show(weights[argmax(weights)]!)})`;
  // The map that is open
  const kind = state.attention;
  const rows = rowsOf(kind, axes);
  const row = Math.min(step, rows.length) - 1;
  const map = rowOf(weightsOf(trace, [kind, layer], Math.min(state.head, num_heads), num_heads), row);
  const largest = argmax(open.sheet.data.map(Math.abs));
  const text = spell(written.ids, machine);

  return [
    {
      part: "typing",
      title: "A sentence goes in",
      text: `The machine reads “${words.join(" ")}”, ${count(words.length, "word")}, and writes “${text || "nothing"}”. It consists of ${numbersIn(machine.parameters.values()).toLocaleString("en")} numbers that training found. Type another sentence, and it is translated here in the page.`,
    },
    {
      part: "reading",
      title: "Words become vectors",
      text: `Each word is replaced by ${d_model} numbers. The encoder, ${count(encoder_layers, "layer")}, lets the words look at each other, so that every vector comes to know its sentence.`,
    },
    {
      part: "writing",
      title: "One word after the other",
      text: `The decoder, ${count(decoder_layers, "layer")}, writes ${count(written.ids.length, "word")}, the last of which may say that it is done. Chosen is word ${step}, “${word}”; ${before.length ? `it was written after ${quoted(before.slice(-3))}` : "nothing stood before it"}. Press Play to see them come.`,
    },
    {
      part: "candidates",
      title: "A probability for every word",
      text: `At word ${step} each of ${machine.italian.length} Italian entries gets a probability: “${wordOf(machine, first)}” ${show(now[first]!)}, then “${wordOf(machine, second)}” ${show(now[second]!)}. The likeliest is written and read again for the next word.`,
    },
    {
      part: "reading",
      title: "Where it looks",
      text: `To write “${word}” it looks back at what it read, most at ${most(looks[0]!)}. The colours of the words are these weights, the mean of all heads.`,
    },
    {
      part: "kinds",
      title: "Three attentions",
      text: KINDS.map(({ text, about }) => `${text[0]!.toUpperCase()}${text.slice(1)}: ${about}`).join(" "),
    },
    {
      part: "heads",
      title: "Several heads",
      text: `Each attention has ${num_heads} heads of ${d_model / num_heads} features, and each looks in its own way. At “${word}”, ${looks
        .slice(1)
        .map((weights, h) => `head ${h + 1} looks most at ${most(weights)}`)
        .join(", ")}.`,
    },
    {
      part: "map",
      title: "All weights of one attention",
      text: `A row looks, a column is looked at. The row “${rows[row]}” sums to ${show(sum([...map]))}; its largest weight, ${show(map[argmax(map)]!)}, is at “${columnsOf(kind, axes)[argmax(map)]}”. Tap a place and this edge is masked.`,
    },
    {
      part: "operations",
      title: "An operation",
      text: `Take a head away, swap keys and values, shift the mask: what the machine then writes stands beside what it writes unchanged. ${done.length ? `Done so far: ${done.map(({ text }) => text).join("; ")}.` : "Nothing is done to it yet."}`,
    },
    {
      part: "matrix",
      title: "Down to a single number",
      text: `Every matrix of the computation can be opened. ${open.name} has ${open.sheet.rows} rows and ${open.sheet.columns} columns; its largest number by size is ${show(open.sheet.data[largest]!)}. Change one, and all that follows from it is computed again.`,
    },
  ];
}
