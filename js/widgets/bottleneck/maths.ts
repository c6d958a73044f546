/* What the networks returned: letters or words, and weights. Nothing is computed anew here but counts. */

import { type Matrix, sum } from "../../kit/maths.ts";

/** The two networks: one that sees a single vector, and one with attention. */
export type Network = "plain" | "attentive";
export const NETWORKS: Network[] = ["plain", "attentive"];

export type Unit = "letter" | "word";

/** The sequences of one length, as Python describes them: letters, or words, with spaces between. */
export interface Case extends Record<Network | "read" | "wanted", string[]> {
  unit: Unit;
  length: number;
  /** How many sequences the accuracy is of. */
  total: number;
  /** The share of right letters or words, of each network. */
  accuracy: [plain: number, attentive: number];
  /** A matrix for each sequence, in thousandths. */
  weights: Matrix[];
  /** The English of the words of a translation. */
  glosses?: Record<string, string>;
}

/** What a network wrote, the English of each word, which letters or words are right, and how many. */
export interface Wrote {
  wrote: string[];
  glosses: string[];
  right: boolean[];
  count: number;
}

/** One sequence: what was read and wanted, what both networks wrote, and the weights, a row for each step. */
export interface Seen extends Record<Network, Wrote> {
  unit: Unit;
  read: string[];
  wanted: string[];
  weights: Matrix;
}

export const tokens = (text: string): string[] => text.split(" ");

/** How many letters or words are to be written. */
export const stepsOf = (one: Case): number => tokens(one.wanted[0]!).length;

function mark(wanted: string[], wrote: string[], english: Record<string, string> = {}): Wrote {
  const right = wanted.map((letter, i) => letter === wrote[i]);
  return { wrote, glosses: wrote.map((word) => english[word] ?? ""), right, count: right.filter(Boolean).length };
}

/** What is said below a letter or a word that was written: its English, if there is any, and whether it is right. */
export const signs = ({ right, glosses }: Wrote): string[] =>
  glosses.map((gloss, i) => (right[i] ? gloss || "✓" : `✕ ${gloss}`.trim()));

/** A sequence of a length, counted from 1. */
export function look(one: Case, sequence: number): Seen {
  const of = (key: Network | "read" | "wanted") => tokens(one[key][sequence - 1]!);
  const wanted = of("wanted");
  const weights = one.weights[sequence - 1]!.map((row) => row.map((thousandths) => thousandths / 1000));
  const [plain, attentive] = [of("plain"), of("attentive")].map((wrote) => mark(wanted, wrote, one.glosses)) as [
    Wrote,
    Wrote,
  ];
  return { unit: one.unit, read: of("read"), wanted, plain, attentive, weights };
}

const MOST = 34; // pixels a letter takes at most
const [NARROW, FEW] = [200, 6]; // in a drawing of fewer pixels, so many letters stand in a row
const LEGIBLE = 11;

/** Where one stands: its middle, its row, and the pixels of its box. */
export interface Spot {
  x: number;
  row: number;
  box: number;
}

/** The size of the signs below what is written. */
export const SIGN = 11;

/**
 * Where letters stand in a drawing of some pixels, in a row where it is not narrow, or words, in as few rows as hold them;
 * no narrower than what is said below them.
 */
export function layOut(texts: string[], unit: Unit, width: number, below: string[] = []) {
  const size = Math.min(MOST, (width - 4) / Math.min(texts.length, width < NARROW ? FEW : Number.POSITIVE_INFINITY));
  const font = unit === "letter" ? fontOf(size, 16) : Math.min(Math.max(width / 24, LEGIBLE), 13);
  const widthOf = (text: string, j: number) =>
    Math.max(0.59 * font * (text.length + 1.55), 0.6 * SIGN * (below[j]?.length ?? 0) + 8);
  const slots = texts.map((text, j) => (unit === "letter" ? size : widthOf(text, j)));
  const fewest = wrap(slots, width).length;
  let limit = width;
  while (limit > 4 && wrap(slots, limit - 4).length === fewest) limit -= 4; // rows about as wide as each other
  const rows = wrap(slots, limit);
  const spots = rows.flatMap((places, row) => {
    let right = (width - sum(places.map((j) => slots[j]!))) / 2;
    return places.map((j): Spot => {
      right += slots[j]!;
      return { x: right - slots[j]! / 2, row, box: unit === "letter" ? Math.min(size - 2, 26) : slots[j]! - 4 };
    });
  });
  return { spots, rows: rows.length, font };
}

/** The places of what stands in each row, if a row takes no more than some pixels. */
function wrap(slots: number[], limit: number): number[][] {
  const rows: number[][] = [];
  let left = 0;
  slots.forEach((slot, j) => {
    if (slot > left || !rows.length) {
      rows.push([]);
      left = limit;
    }
    rows.at(-1)!.push(j);
    left -= slot;
  });
  return rows;
}

/** The size of letters that stand so far apart: at least what can be read, as long as none covers another. */
export const fontOf = (apart: number, most: number): number =>
  Math.min(most, Math.max(0.86 * apart, Math.min(LEGIBLE, 1.25 * apart)));

/** The squares of a matrix of m rows and n columns in a drawing of some pixels. */
export function squares(m: number, n: number, width: number, left = 24, top = 22) {
  const size = Math.min(MOST, (width - left - 4) / n, Math.max(204 / m, 12));
  const from = left + (width - left - n * size) / 2;
  return { size, from, top, font: fontOf(size, 14), height: Math.max(226, top + m * size + 6) };
}
