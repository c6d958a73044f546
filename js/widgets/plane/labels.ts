/* Names beside points in a drawing, so that none covers another. All numbers are pixels. */

import { range } from "../../kit/maths.ts";
import type { Point } from "./maths.ts";

/** Points that lie as good as on top of each other, and so share a label. */
export function clustersOf(points: readonly Point[], apart = 12): number[][] {
  const clusters: number[][] = [];
  for (const i of range(points.length)) {
    const near = clusters.find(([first]) => Math.hypot(...diff(points[first!]!, points[i]!)) <= apart);
    if (near) near.push(i);
    else clusters.push([i]);
  }
  return clusters;
}

const diff = (a: Point, b: Point): [number, number] => [a[0] - b[0], a[1] - b[1]];

/** A point that has a label, and what the label takes: a box of some width. */
export interface Labelled {
  at: Point;
  radius: number;
  width: number;
}

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

export const LINE = 17; // the height of a label

const common = (a: Box, b: Box): number =>
  Math.max(0, Math.min(a.left + a.width, b.left + b.width) - Math.max(a.left, b.left)) *
  Math.max(0, Math.min(a.top + a.height, b.top + b.height) - Math.max(a.top, b.top));

// From a point to its label, as shares of a circle's radius: below first, then above, then beside
const WAYS: readonly Point[] = [
  [-0.7, 0.7],
  [0.7, 0.7],
  [0.7, -0.7],
  [-0.7, -0.7],
  [0, 1],
  [0, -1],
  [1, 0],
  [-1, 0],
];

/** A box for each label, the widest placed first: where it covers least of points, other labels and an arrow, within the
    drawing. */
export function placeLabels(
  all: readonly Labelled[],
  width: number,
  height: number,
  arrow: readonly Point[] = [],
): Box[] {
  const dots = [...all, ...arrow.map((at) => ({ at, radius: 6 }))].map(({ at, radius }): Box => {
    const side = 1.6 * radius;
    return { left: at[0] - side / 2, top: at[1] - side / 2, width: side, height: side };
  });
  const placed: Box[] = [];
  const order = range(all.length).sort((a, b) => all[b]!.width - all[a]!.width);
  for (const i of order) {
    const { at, radius, width: wide } = all[i]!;
    const boxes = [4, 16, 30].flatMap((beyond) =>
      WAYS.map(([x, y]): Box => {
        const [cx, cy] = [at[0] + x * (radius + beyond), at[1] + y * (radius + beyond)];
        const left = x > 0.1 ? cx : x < -0.1 ? cx - wide : cx - wide / 2;
        const top = y > 0.1 ? cy : y < -0.1 ? cy - LINE : cy - LINE / 2;
        const within = (from: number, most: number) => Math.min(Math.max(from, 0), most);
        return { left: within(left, width - wide), top: within(top, height - LINE), width: wide, height: LINE };
      }),
    );
    const others = [...placed.filter(Boolean), ...dots];
    const costs = boxes.map((box) => others.reduce((cost, other) => cost + common(box, other), 0));
    placed[i] = boxes[costs.indexOf(Math.min(...costs))]!;
  }
  return placed;
}
