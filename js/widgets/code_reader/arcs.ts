/* Arcs from a token that looks to one that is looked at: which are drawn, and along which curves. */

import { argmax, range } from "../../kit/maths.ts";

export interface Arc {
  from: number;
  to: number;
  weight: number;
}

const LEAST = 0.05; // a weight below this has no arc

/** The arcs from a token, given how much it looks at each. */
export const arcsFrom = (from: number, weights: Float64Array): Arc[] =>
  Array.from(weights, (weight, to) => ({ from, to, weight })).filter(({ weight }) => weight >= LEAST);

/** From each token the arc to the one that it looks at most; none to token 0, where heads look that find nothing. */
export const strongestArcs = (tokens: number, looks: (place: number) => Float64Array): Arc[] =>
  range(tokens)
    .map((from) => ({ from, to: argmax(looks(from)) }))
    .map((arc) => ({ ...arc, weight: looks(arc.from)[arc.to]! }))
    .filter(({ to, weight }) => to > 0 && weight >= LEAST);

/** A curve between two elements: a bow above a line; else from the upper edge of the one to the lower edge of the other. */
export function curveBetween(from: HTMLElement, to: HTMLElement): string {
  const [x, y] = [from.offsetLeft + from.offsetWidth / 2, from.offsetTop];
  const [left, top] = [to.offsetLeft + to.offsetWidth / 2, to.offsetTop];
  if (from === to) return `M${x + 7} ${y}C${x + 7} ${y - 9} ${x - 7} ${y - 9} ${x - 7} ${y}`;
  if (y === top) {
    const rise = Math.min(6 + (x - left) / 20, 12);
    return `M${x} ${y}C${x - (x - left) / 4} ${y - rise} ${left + (x - left) / 4} ${y - rise} ${left} ${y}`;
  }
  const bottom = top + to.offsetHeight;
  const bend = Math.max(9, (y - bottom) / 2);
  return `M${x} ${y}C${x} ${y - bend} ${left} ${bottom + bend} ${left} ${bottom}`;
}
