/* Matrices that are windows on flat arrays, so that a transpose or a block copies nothing; and their product. */

export type Numbers = Float64Array;

export interface Matrix {
  numbers: Numbers;
  /** Where its first entry is, and how far it is to the next row and to the next column. */
  at: number;
  down: number;
  across: number;
  rows: number;
  columns: number;
}

/** The matrix whose rows stand one after the other. */
export const matrix = (numbers: Numbers, rows: number, columns: number): Matrix => ({
  numbers,
  at: 0,
  down: columns,
  across: 1,
  rows,
  columns,
});

export const transposed = ({ numbers, at, down, across, rows, columns }: Matrix): Matrix => ({
  numbers,
  at,
  down: across,
  across: down,
  rows: columns,
  columns: rows,
});

/** The part of a matrix that begins at a row and a column. */
export const block = (m: Matrix, row: number, column: number, rows: number, columns: number): Matrix => ({
  ...m,
  at: m.at + row * m.down + column * m.across,
  rows,
  columns,
});

/** C += A B, in blocks of 2 × 4 entries, whose sums fit into the processor's registers. */
export function addProduct(c: Matrix, a: Matrix, b: Matrix): void {
  for (let i = 0; i < c.rows; i += 2) {
    for (let j = 0; j < c.columns; j += 4) {
      if (i + 2 <= c.rows && j + 4 <= c.columns) addBlock(c, a, b, i, j);
      else addEdge(c, a, b, i, j);
    }
  }
}

/** A whole block, from row i and column j on. */
function addBlock(c: Matrix, a: Matrix, b: Matrix, i: number, j: number): void {
  const { numbers: x, down: next, across: step, columns } = a;
  const { numbers: y, down, across } = b;
  let p0 = 0;
  let p1 = 0;
  let p2 = 0;
  let p3 = 0;
  let q0 = 0;
  let q1 = 0;
  let q2 = 0;
  let q3 = 0;
  let s = a.at + i * next;
  let t = b.at + j * across;
  for (let k = 0; k < columns; k++) {
    const p = x[s]!;
    const q = x[s + next]!;
    const b0 = y[t]!;
    const b1 = y[t + across]!;
    const b2 = y[t + 2 * across]!;
    const b3 = y[t + 3 * across]!;
    p0 += p * b0;
    p1 += p * b1;
    p2 += p * b2;
    p3 += p * b3;
    q0 += q * b0;
    q1 += q * b1;
    q2 += q * b2;
    q3 += q * b3;
    s += step;
    t += down;
  }
  addRow(c, i, j, p0, p1, p2, p3);
  addRow(c, i + 1, j, q0, q1, q2, q3);
}

function addRow(
  { numbers, at, down, across }: Matrix,
  i: number,
  j: number,
  s0: number,
  s1: number,
  s2: number,
  s3: number,
) {
  const first = at + i * down + j * across;
  numbers[first]! += s0;
  numbers[first + across]! += s1;
  numbers[first + 2 * across]! += s2;
  numbers[first + 3 * across]! += s3;
}

/** What is left of a block at the right or at the bottom. */
function addEdge(c: Matrix, a: Matrix, b: Matrix, i: number, j: number): void {
  for (let row = i; row < Math.min(i + 2, c.rows); row++) {
    for (let column = j; column < Math.min(j + 4, c.columns); column++) {
      let total = 0;
      for (let k = 0; k < a.columns; k++) {
        total += a.numbers[a.at + row * a.down + k * a.across]! * b.numbers[b.at + k * b.down + column * b.across]!;
      }
      c.numbers[c.at + row * c.down + column * c.across]! += total;
    }
  }
}
