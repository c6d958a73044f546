/* Arcs over a sentence, from the word that looks to those looked at, wherever the words stand. */

const LEAST = 0.02; // a weight below this has no arc
/** The height of arcs over a line of words, in a figure of some width: over the first line there is more room. */
export const roomAbove = (first: boolean, width: number, small: boolean): number =>
  first ? Math.min(small ? 60 : 78, (small ? 24 : 34) + width * 0.06) : small ? 26 : 40;

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

export interface Arc {
  to: number;
  weight: number;
  path: string;
}

/** The arcs of a word, given how much it looks at each and where each stands; strong ones last, on top of the others. */
export function arcsOf(from: number, weights: readonly number[], boxes: readonly Box[], room: number): Arc[] {
  const looks = boxes[from]!;
  const arcs = weights.flatMap((weight, to) =>
    weight >= LEAST ? [{ to, weight, path: curve(looks, boxes[to]!, room) }] : [],
  );
  return arcs.sort((a, b) => a.weight - b.weight);
}

const written = (points: readonly (readonly [number, number])[]): string => {
  const [first, ...rest] = points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`);
  return `M${first}C${rest.join(" ")}`;
};

/** A bow within a line; between lines, from the nearer edge of the one word to that of the other. */
function curve(from: Box, to: Box, room: number): string {
  const [x, end] = [from.left + from.width / 2, to.left + to.width / 2];
  if (from === to) {
    return written([
      [x - 8, from.top],
      [x - 14, from.top - 26],
      [x + 14, from.top - 26],
      [x + 8, from.top],
    ]);
  }
  if (from.top === to.top) {
    const bow = Math.min(room, 14 + Math.abs(end - x) * 0.22) / 0.75; // a cubic reaches three quarters of its guides
    return written([
      [x, from.top],
      [x, from.top - bow],
      [end, to.top - bow],
      [end, to.top],
    ]);
  }
  const up = to.top < from.top;
  const [start, stop] = up ? [from.top, to.top + to.height] : [from.top + from.height, to.top];
  const bend = (stop - start) / 2;
  return written([
    [x, start],
    [x, start + bend],
    [end, stop - bend],
    [end, stop],
  ]);
}
