/* Scores, weights, entropy and the Jacobian of a softmax, at every width and temperature. */

import { type Matrix, mean, range, softmaxRows, sum } from "../../kit/maths.ts";

/** Something that scores can be divided by: a power of d_k, and how it is written and said. */
export interface Divisor {
  name: string;
  power: number;
  text: string;
  spoken: string;
}

/** The features of queries and keys, one a row; `letters` says which letter stands for which number. */
export function readFeatures(text: string, width: number, letters: string): Matrix {
  const middle = (letters.length - 1) / 2;
  const features = Array.from(text, (letter) => (letters.indexOf(letter) - middle) / 8);
  return range(features.length / width).map((i) => features.slice(i * width, (i + 1) * width));
}

/** The dot product of every query with every key, over the first d_k features. */
export function rawScores(features: Matrix, queryCount: number, dK: number): Matrix {
  const dot = (a: number[], b: number[]) => {
    let total = 0;
    for (let c = 0; c < dK; c++) total += a[c]! * b[c]!;
    return total;
  };
  const keys = features.slice(queryCount);
  return features.slice(0, queryCount).map((query) => keys.map((key) => dot(query, key)));
}

/** What the scores are divided by: a power of d_k, or a number of one's own that belongs to none of the divisors. */
export function temperatureOf(divisors: Divisor[], name: string, dK: number, own = 1): number {
  const divisor = divisors.find((one) => one.name === name);
  return divisor ? dK ** divisor.power : own;
}

/** The value in the middle; the lower one of two, as in torch. */
export const median = (numbers: number[]): number => [...numbers].sort((a, b) => a - b)[(numbers.length - 1) >> 1]!;

/** The standard deviation, with n − 1 below the sum, as in torch. */
export function deviation(numbers: number[]): number {
  const centre = mean(numbers);
  return Math.sqrt(sum(numbers.map((x) => (x - centre) ** 2)) / (numbers.length - 1));
}

/** How spread out weights are, in nats; 0 ln 0 is 0. */
export const entropyOf = (weights: number[]): number => -sum(weights.map((a) => (a > 0 ? a * Math.log(a) : 0))) || 0;

/** The norm of the softmax's Jacobian, diag(a) − a aᵀ: its largest eigenvalue.

    An eigenvalue is 0 or makes Σ a_j / (a_j − λ) zero. The largest lies between the two largest weights, and between
    the bounds of Theorem 4 of chapter 3, n/(n−1) M (1−M) and 2 M (1−M). In between the sum rises, so halving finds
    it. */
export function jacobianNorm(weights: number[]): number {
  const largest = Math.max(...weights);
  const place = weights.indexOf(largest);
  const others = weights.filter((_, j) => j !== place);
  const rest = sum(others); // 1 − M, without the rounding
  let low = Math.max(...others, (largest * rest * weights.length) / others.length);
  let high = Math.min(largest, 2 * largest * rest);
  for (let step = 0; step < 60 && low < high; step++) {
    const middle = (low + high) / 2;
    let total = 0; // half the time of opening the widget is spent in this loop: it makes no arrays
    for (const a of weights) total += a / (a - middle);
    if (total < 0) low = middle;
    else high = middle;
  }
  return high;
}

export interface Measured {
  scores: Matrix;
  weights: Matrix;
  largest: number[];
  entropy: number[];
  norm: number[];
}
export interface Medians {
  largest: number;
  entropy: number;
  norm: number;
}

/** Scores after the division, weights, and three numbers for each query. */
export function measure(raw: Matrix, temperature: number): Measured {
  const scores = raw.map((row) => row.map((score) => score / temperature));
  const weights = softmaxRows(scores);
  const largest = weights.map((row) => Math.max(...row));
  return { scores, weights, largest, entropy: weights.map(entropyOf), norm: weights.map(jacobianNorm) };
}

export const mediansOf = ({ largest, entropy, norm }: Measured): Medians => ({
  largest: median(largest),
  entropy: median(entropy),
  norm: median(norm),
});

/** The share of a normal quantity of deviation 1 below x (Abramowitz and Stegun, 7.1.26: right to 1e-7). */
export function normalBelow(x: number): number {
  const t = 1 / (1 + (0.3275911 * Math.abs(x)) / Math.SQRT2);
  const coefficients = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592];
  const series = coefficients.reduce((part, c) => part * t + c, 0);
  const tail = (series * t * Math.exp((-x * x) / 2)) / 2;
  return x < 0 ? tail : 1 - tail;
}

const BINS = 49;

/** The share of the scores in each bin from −half to half, and the share of a normal curve of the predicted deviation. */
export function histogram(scores: Matrix, predicted: number, half: number) {
  const all = scores.flat();
  const width = (2 * half) / BINS;
  const counts = Array<number>(BINS).fill(0);
  let outside = 0;
  for (const score of all) {
    const bin = Math.floor((score + half) / width);
    if (bin >= 0 && bin < BINS) counts[bin]! += 1;
    else if (score === half)
      counts[BINS - 1]! += 1; // the last bin holds its upper edge, as in torch
    else outside += 1;
  }
  const below = range(BINS + 1).map((i) => normalBelow((i * width - half) / predicted));
  return {
    width,
    shares: counts.map((c) => c / all.length),
    normal: counts.map((_, i) => below[i + 1]! - below[i]!),
    outside,
  };
}

/** Medians over the queries, for each matrix of raw scores and its temperature. */
export const curve = (points: [raw: Matrix, temperature: number][]): Medians[] =>
  points.map(([raw, temperature]) => mediansOf(measure(raw, temperature)));

/** The temperatures of the slider, four to an octave. */
export const temperatureAt = (position: number): number => 2 ** (position / 4);
export const positionFor = (temperature: number): number => 4 * Math.log2(temperature);
