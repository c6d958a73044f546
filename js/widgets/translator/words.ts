/* What places, matrices and touches are called. */

import { count, show } from "../../kit/text.ts";
import { joinWords } from "./language.ts";
import { type Edge, END, type Intervention, type Kind, type Machine, type Written } from "./machine.ts";

export const KINDS: readonly { value: Kind; text: string; about: string }[] = [
  { value: "encoder", text: "encoder", about: "Each English word looks at the English words." },
  {
    value: "decoder",
    text: "decoder, itself",
    about: "Each step looks at the Italian words that are written already.",
  },
  { value: "cross", text: "cross", about: "Each step of the writing looks at the English words." },
];
const IN_WORDS: Record<Kind, string> = {
  encoder: "encoder",
  decoder: "decoder’s self-attention",
  cross: "cross-attention",
};

/** The words at the rows and at the columns of an attention's matrices. */
export interface Axes {
  source: string[];
  /** What each step writes. */
  steps: string[];
  /** What each step of the decoder has read last. */
  read: string[];
}

export const END_NAME = "(end)";

export function axesOf(words: readonly string[], padding: number, { ids }: Written, machine: Machine): Axes {
  const steps = ids.map((id) => (id === END ? END_NAME : machine.italian[id]!));
  return {
    source: [...words, ...Array<string>(padding).fill("(pad)")],
    steps,
    read: ["(begin)", ...steps.slice(0, -1)],
  };
}

export const rowsOf = (kind: Kind, axes: Axes): string[] => (kind === "encoder" ? axes.source : axes.steps);
export const columnsOf = (kind: Kind, axes: Axes): string[] => (kind === "decoder" ? axes.read : axes.source);

/** What was written, as a text. */
export const spell = (ids: readonly number[], machine: Machine): string =>
  joinWords(ids.filter((id) => id > END).map((id) => machine.italian[id]!));

/** Which words of one text are in its longest common part with another. */
export function common<T>(a: readonly T[], b: readonly T[]): boolean[] {
  const best = Array.from({ length: a.length + 1 }, () => Array<number>(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      best[i]![j] = a[i] === b[j] ? best[i + 1]![j + 1]! + 1 : Math.max(best[i + 1]![j]!, best[i]![j + 1]!);
    }
  }
  const kept = Array<boolean>(a.length).fill(false);
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    if (a[i] === b[j]) {
      kept[i] = true;
      i++;
      j++;
    } else if (best[i + 1]![j]! >= best[i]![j + 1]!) i++;
    else j++;
  }
  return kept;
}

// ---- Touches ------------------------------------------------------------------------------------------------------

/** Something that was done, in words, and the machine's state without it. */
export interface Done {
  text: string;
  without: Partial<Intervention>;
}

const where = (kind: Kind, layer: number, layers: number) =>
  `${IN_WORDS[kind]}${layers > 1 ? `, layer ${layer + 1}` : ""}`;

function sayEdge([kind, layer, head, row, column]: Edge, axes: Axes, layers: number): string {
  const place = (at: number, words: readonly string[], all: string) =>
    at < 0 ? all : words[at] === undefined ? `position ${at + 1}` : `“${words[at]}”`;
  const from = place(row, rowsOf(kind, axes), kind === "encoder" ? "no word" : "no step");
  const to = place(column, columnsOf(kind, axes), "anything");
  const looks = row < 0 ? "looks at" : "may not look at";
  return `${where(kind, layer, layers)}${head ? `, head ${head}` : ""}: ${from} ${looks} ${to}`;
}

const without = <T>(all: readonly T[], place: number): T[] => all.filter((_, i) => i !== place);

/** All that was done, one entry for each. */
export function listDone(intervention: Intervention, axes: Axes, layers: number): Done[] {
  return [
    ...intervention.closed.map((edge, i) => ({
      text: sayEdge(edge, axes, layers),
      without: { closed: without(intervention.closed, i) },
    })),
    ...intervention.heads_off.map(([kind, layer, head], i) => ({
      text: `${where(kind, layer, layers)}: head ${head} removed`,
      without: { heads_off: without(intervention.heads_off, i) },
    })),
    ...intervention.swapped.map(([kind, layer], i) => ({
      text: `${where(kind, layer, layers)}: keys and values swapped`,
      without: { swapped: without(intervention.swapped, i) },
    })),
    ...(intervention.shift
      ? [
          {
            text: `causal mask shifted by ${intervention.shift > 0 ? "one: the next word is visible" : "minus one: the last word read is hidden"}`,
            without: { shift: 0 },
          },
        ]
      : []),
    ...(intervention.padding
      ? [{ text: `${count(intervention.padding, "position")} of padding after the sentence`, without: { padding: 0 } }]
      : []),
    ...intervention.unmasked.map((kind, i) => ({
      text: `${IN_WORDS[kind]}: padding visible`,
      without: { unmasked: without(intervention.unmasked, i) },
    })),
    ...intervention.changes.map(([name, row, column, value], i) => ({
      text: `${sayWhole(name)} [${row + 1}, ${column + 1}] = ${show(value)}`,
      without: { changes: without(intervention.changes, i) },
    })),
  ];
}

// ---- Matrices -----------------------------------------------------------------------------------------------------

/** The part of the machine that a matrix or a parameter belongs to. */
export function partOf(name: string): string {
  if (/^source/.test(name)) return "source";
  if (/^target/.test(name)) return "target";
  if (/^encoder_norm/.test(name)) return "memory";
  const found = /^(encoder|decoder)\.(\d+)\.(?:after_)?(attention|cross|feed_forward)/.exec(name);
  return found ? `${found[1]}.${found[2]}.${found[3]}` : "out";
}

export function sayPart(part: string): string {
  const [side, layer, what] = part.split(".");
  const named = {
    source: "English words go in",
    target: "Italian words go in",
    memory: "what the encoder hands over",
    out: "the next word",
  }[part];
  if (named) return named;
  const kind = what === "feed_forward" ? "feed-forward" : what === "cross" ? "cross-attention" : "self-attention";
  return `${side}${layer === "0" ? "" : ` (layer ${Number(layer) + 1})`}: ${kind}`;
}

const LETTERS: Record<string, string> = {
  q: "queries q",
  k: "keys k",
  v: "values v",
  scores: "scores qᵀk / √d_head",
  weights: "weights",
  heads: "output",
};
const ENDS: readonly (readonly [RegExp, string])[] = [
  [/\.words$/, "vectors of the words, times √d_model"],
  [/\.positions$/, "vectors of the positions"],
  [/\.embedded$/, "their sum, which goes in"],
  [/_embedding\.weight$/, "table E (parameters)"],
  [/w_([qkvo12])\.weight$/, "matrix W$ (parameters, as PyTorch keeps it)"],
  [/w_([qkvo12])\.bias$/, "bias b$ (parameters)"],
  [/readout\.weight$/, "read-out matrix (parameters)"],
  [/readout\.bias$/, "read-out bias (parameters)"],
  [/norm\.weight$/, "gain of the norm (parameters)"],
  [/norm\.bias$/, "bias of the norm (parameters)"],
  [/^encoder_norm$/, "states, from which keys and values are made"],
  [/^decoder_norm$/, "states, normalised"],
  [/norm$/, "what goes in, normalised"],
  [/feed_forward\.before$/, "before the ReLU"],
  [/feed_forward\.hidden$/, "after the ReLU"],
  [/output$/, "output of the step"],
  [/after_\w+$/, "path with the step added"],
  [/^logits$/, "logits"],
  [/^probabilities$/, "probabilities"],
];

/** What a matrix is called within its part. */
export function sayMatrix(name: string): string {
  const head = /\.(q|k|v|scores|weights|heads)\.(\d+)$/.exec(name);
  if (head) return `${LETTERS[head[1]!]}, head ${head[2]}`;
  for (const [pattern, text] of ENDS) {
    const found = pattern.exec(name);
    if (found) return text.replace("$", (found[1] ?? "").toUpperCase());
  }
  return name;
}

export const sayWhole = (name: string): string => `${sayPart(partOf(name))}: ${sayMatrix(name)}`;

/** What stands at the rows and at the columns of a matrix. */
export function labelsOf(
  name: string,
  rows: number,
  columns: number,
  axes: Axes,
  machine: Machine,
): [string[], string[]] {
  const numbers = (n: number) => Array.from({ length: n }, (_, i) => String(i + 1));
  const isParameter = /\.(weight|bias)$/.test(name);
  if (isParameter) {
    const words = {
      "source_embedding.weight": machine.english,
      "target_embedding.weight": machine.italian,
      "readout.weight": machine.italian,
    }[name];
    const along = name === "readout.bias" ? [...machine.italian] : numbers(columns);
    return [words ? [...words] : numbers(rows), along];
  }
  const reads = /^(source|encoder)|cross_attention\.[kv]\./.test(name);
  const down = reads ? axes.source : /^target|^decoder\.\d+\.attention\.[kv]\./.test(name) ? axes.read : axes.steps;
  if (/^(logits|probabilities)$/.test(name)) return [down, [...machine.italian]];
  if (!/\.(scores|weights)\.\d+$/.test(name)) return [down, numbers(columns)];
  return [down, /^decoder\.\d+\.attention/.test(name) ? axes.read : axes.source];
}
