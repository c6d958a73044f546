/* The guided tour of the translator, from outside in. Its words and numbers are those of what is shown. */

import { argmax, range, sum, topK } from "../../kit/maths.ts";
import { count, quoted, show } from "../../kit/text.ts";
import type { Card } from "../../kit/tour.tsx";
import type { Data, State } from "./index.tsx";
import { END, type Machine, rowOf, type Sheet, weightsOf } from "./machine.ts";
import { columnsOf, END_NAME, rowsOf } from "./words.ts";

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

  return [
    {
      part: "typing",
      title: "From outside",
      text: `${count(words.length, "English word")} ${words.length === 1 ? "goes" : "go"} in. In between stand ${numbersIn(machine.parameters.values()).toLocaleString("en")} numbers that training found.`,
    },
    {
      part: "writing",
      title: "What comes out",
      text: `Italian, one word at a time, ${count(written.ids.length, "step")} in all. Step ${step} writes “${word}”, ${before.length ? `after ${quoted(before.slice(-2))}` : "with nothing before it"}. Play shows it.`,
    },
    {
      part: "candidates",
      title: "A probability for every word",
      text: `At step ${step}, each of ${machine.italian.length} Italian entries gets one: “${wordOf(machine, first)}” ${show(now[first]!)}, then “${wordOf(machine, second)}” ${show(now[second]!)}. The likeliest is written, and read again.`,
    },
    {
      part: "typing",
      title: "One half reads",
      text: `The encoder makes ${d_model} numbers of each word, from “${words[0]}” to “${words.at(-1)}”. It reads all at once, so that each vector comes to know its sentence: the memory.`,
    },
    {
      part: "writing",
      title: "The other half writes",
      text: `To write “${word}”, the decoder reads ${before.length ? `what it has written, up to ${quoted(before.slice(-1))},` : "a sign to begin"} and looks into the memory.`,
    },
    {
      part: "kinds",
      title: "Each half is a stack of layers",
      text: `The encoder has ${count(encoder_layers, "layer")}, the decoder ${decoder_layers}. In a layer, words first look at others, then each computes on its own.`,
    },
    {
      part: "kinds",
      title: "Where a layer looks",
      text: "Three attentions: English looks at English, Italian at the Italian so far, and, in between the halves, Italian at English. That one is called cross-attention.",
    },
    {
      part: "reading",
      title: "One cross-attention",
      text: `The colours are its weights, the mean of all heads. To write “${word}”, it looks most at ${most(looks[0]!)}.`,
    },
    {
      part: "heads",
      title: "Several heads",
      text: `It has ${num_heads} heads, with ${d_model / num_heads} features each. At “${word}” they look most at ${looks.slice(1).map(most).join(", ")}.`,
    },
    {
      part: "map",
      title: "All weights of the one that is open",
      text: `A row looks, a column is looked at. The row “${rows[row]}” sums to ${show(sum([...map]))}; its largest weight, ${show(map[argmax(map)]!)}, is at “${columnsOf(kind, axes)[argmax(map)]}”.`,
    },
    {
      part: "matrix",
      title: "Down to a single number",
      text: `Every matrix opens. ${open.name} has ${open.sheet.rows} rows and ${open.sheet.columns} columns; its largest number by size is ${show(open.sheet.data[largest]!)}.`,
    },
    {
      part: "operations",
      title: "Your turn to operate",
      text: `Take a head away, or swap keys and values: the new Italian stands beside the old. ${done.length ? `Done so far: ${done.length}.` : "Nothing is done to it yet."}`,
    },
  ];
}
