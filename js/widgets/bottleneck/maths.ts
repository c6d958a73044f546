/* What the networks returned: their letters and weights. Nothing is computed anew here but counts. */

import { decodeFloats, type Matrix, table } from "../../kit/maths.ts";

/** The two networks: one that sees a single vector, and one with attention. */
export type Network = "plain" | "attentive";
export const NETWORKS: Network[] = ["plain", "attentive"];

/** The sequences of one length, as Python describes them: letters with spaces between. */
export interface Case extends Record<Network | "read" | "wanted", string[]> {
  length: number;
  /** How many sequences the accuracy is of. */
  total: number;
  /** The share of right letters, of each network. */
  accuracy: [plain: number, attentive: number];
  returned_weights: string;
}

/** What a network wrote, which letters are right, and how many. */
export interface Wrote {
  wrote: string[];
  right: boolean[];
  count: number;
}

/** One sequence: what was read and wanted, what both networks wrote, and the weights, a row for each step. */
export interface Seen extends Record<Network, Wrote> {
  read: string[];
  wanted: string[];
  weights: Matrix;
}

export const letters = (text: string): string[] => text.split(" ");

/** How many letters are to be written. */
export const stepsOf = (one: Case): number => letters(one.wanted[0]!).length;

function mark(wanted: string[], wrote: string[]): Wrote {
  const right = wanted.map((letter, i) => letter === wrote[i]);
  return { wrote, right, count: right.filter(Boolean).length };
}

/** A sequence of a length, counted from 1. */
export function look(one: Case, sequence: number): Seen {
  const of = (key: Network | "read" | "wanted") => letters(one[key][sequence - 1]!);
  const [read, wanted] = [of("read"), of("wanted")];
  const [m, n] = [wanted.length, read.length];
  const numbers = decodeFloats(one.returned_weights);
  const weights = table(m, n, (i, j) => numbers[((sequence - 1) * m + i) * n + j]!);
  return { read, wanted, plain: mark(wanted, of("plain")), attentive: mark(wanted, of("attentive")), weights };
}

const MOST = 34; // pixels a letter takes at most
const LEGIBLE = 11;

/** Where the letters of a row stand in a drawing of some pixels. */
export function columns(n: number, width: number) {
  const size = Math.min(MOST, (width - 4) / n);
  const left = (width - n * size) / 2;
  return { size, centre: (j: number) => left + (j + 0.5) * size };
}

/** The size of letters that stand so far apart: at least what can be read, as long as none covers another. */
export const fontOf = (apart: number, most: number): number =>
  Math.min(most, Math.max(0.86 * apart, Math.min(LEGIBLE, 1.25 * apart)));

/** The squares of a matrix of m rows and n columns in a drawing of some pixels. */
export function squares(m: number, n: number, width: number) {
  const [left, top] = [24, 22];
  const size = Math.min(MOST, (width - left - 4) / n, Math.max(204 / m, 12));
  const from = left + (width - left - n * size) / 2;
  return { size, from, top, font: fontOf(size, 14), height: Math.max(226, top + m * size + 6) };
}
