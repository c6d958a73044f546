/* Arithmetic on plain arrays. */

export type Matrix = number[][];

export const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);
export const mean = (numbers: readonly number[]): number => sum(numbers) / numbers.length;

/** The numbers from 0 to n − 1. */
export const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i);

/** A table of m rows and n columns, from a function of row and column. */
export const table = <T>(m: number, n: number, cell: (i: number, j: number) => T): T[][] =>
  range(m).map((i) => range(n).map((j) => cell(i, j)));

export function transpose(a: Matrix): Matrix {
  return a[0]!.map((_, j) => a.map((row) => row[j]!));
}

export function matmul(a: Matrix, b: Matrix): Matrix {
  return a.map((row) => b[0]!.map((_, j) => row.reduce((total, value, l) => total + value * b[l]![j]!, 0)));
}

/** Which keys are allowed for each query: the causal mask (lower right, as in the package) and the padding mask. */
export function allowedKeys(m: number, n: number, causal: boolean, padding: readonly number[]): boolean[][] {
  return table(m, n, (i, j) => !(causal && j > i + n - m) && !padding.includes(j));
}

/** Softmax along each row. A row in which every score is minus infinity gets zeros. */
export function softmaxRows(scores: Matrix): Matrix {
  return scores.map((row) => {
    const largest = Math.max(...row);
    if (largest === -Infinity) return row.map(() => 0);
    const exponentials = row.map((score) => Math.exp(score - largest));
    const total = sum(exponentials);
    return exponentials.map((e) => e / total);
  });
}

/** The index of the largest number. */
export function argmax(row: ArrayLike<number>): number {
  let found = 0;
  for (let i = 1; i < row.length; i++) if (row[i]! > row[found]!) found = i;
  return found;
}

/** The indices of the k largest numbers, the largest first. */
export const topK = (row: Float64Array, most: number): number[] =>
  [...row.keys()].sort((a, b) => row[b]! - row[a]!).slice(0, most);

/** The candidates worth showing: the likeliest now, and the two that were the likeliest before. */
export function candidates(now: Float64Array, before: Float64Array, most = 5): number[] {
  const first = topK(now, most);
  const lost = topK(before, 2).filter((id) => !first.includes(id));
  return [...first.slice(0, most - lost.length), ...lost];
}

/** A sorted list of positions with one added or removed. */
export const withPlace = (places: readonly number[], place: number, on: boolean): number[] =>
  [...places.filter((other) => other !== place), ...(on ? [place] : [])].sort((a, b) => a - b);

/** The numbers that `encode_floats` in Python wrote: "f32:" and little-endian float32 in base64. */
export function decodeFloats(text: string): number[] {
  const bytes = Uint8Array.from(atob(text.replace("f32:", "")), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return range(bytes.length / 4).map((i) => view.getFloat32(4 * i, true));
}

/** Cache the last result of a function, for as long as its arguments stay the same. */
export function memoizeLast<A extends readonly unknown[], R>(compute: (...asked: A) => R): (...asked: A) => R {
  let last: { asked: A; result: R } | null = null;
  return (...asked) => {
    if (!last?.asked.every((one, i) => one === asked[i])) last = { asked, result: compute(...asked) };
    return last.result;
  };
}
