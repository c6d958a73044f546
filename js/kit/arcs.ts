/* Arcs over lines of words, from the word that looks to those looked at. They cross no word. */

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

/** Where the elements of a figure stand in it. */
export const boxesOf = (figure: HTMLElement, words: string): Box[] =>
  Array.from(figure.querySelectorAll<HTMLElement>(words), (word) => ({
    left: word.offsetLeft,
    top: word.offsetTop,
    width: word.offsetWidth,
    height: word.offsetHeight,
  }));

/** The arcs of a word with weights of at least `least`, `room` high within a line; strong ones last, on top of the others. */
export function arcsOf(
  from: number,
  weights: ArrayLike<number>,
  boxes: readonly Box[],
  room: number,
  least: number,
): Arc[] {
  const lines = [...new Set(boxes.map(({ top }) => top))];
  return Array.from(weights, (weight, to) => ({ to, weight }))
    .filter(({ weight }) => weight >= least)
    .sort((a, b) => a.weight - b.weight)
    .map((arc) => ({ ...arc, path: curve(boxes[from]!, boxes[arc.to]!, room, lines) }));
}

const SIDE = -7; // the column beside all words where arcs climb past the lines between
const TURN = 8; // how far such an arc keeps from the words, and the radius of its turns

/** A bow within a line; between lines, from the nearer edge of the one word to that of the other, past lines between. */
function curve(from: Box, to: Box, room: number, lines: readonly number[]): string {
  const [x, end] = [from.left + from.width / 2, to.left + to.width / 2];
  if (from === to) {
    const top = from.top - 26;
    return `M${x - 8} ${from.top}C${x - 14} ${top} ${x + 14} ${top} ${x + 8} ${from.top}`;
  }
  if (from.top === to.top) {
    const top = from.top - Math.min(room, 14 + Math.abs(end - x) * 0.22) / 0.75; // a cubic reaches three quarters of it
    return `M${x} ${from.top}C${x} ${top} ${end} ${top} ${end} ${to.top}`;
  }
  const up = to.top < from.top;
  const [start, stop] = up ? [from.top, to.top + to.height] : [from.top + from.height, to.top];
  if (lines.some((top) => top > Math.min(from.top, to.top) && top < Math.max(from.top, to.top))) {
    const turn = up ? -TURN : TURN;
    const [first, last] = [start + turn, stop - turn];
    return (
      `M${x} ${start}Q${x} ${first} ${x - TURN} ${first}H${SIDE + TURN}Q${SIDE} ${first} ${SIDE} ${first + turn}` +
      `V${last - turn}Q${SIDE} ${last} ${SIDE + TURN} ${last}H${end - TURN}Q${end} ${last} ${end} ${stop}`
    );
  }
  const middle = (start + stop) / 2;
  return `M${x} ${start}C${x} ${middle} ${end} ${middle} ${end} ${stop}`;
}
