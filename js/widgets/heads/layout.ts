/* Where words, weights, arcs and the numbers at their ends stand. All lengths are pixels. */

import { type Matrix, range, sum } from "../../kit/maths.ts";
import { isFaint } from "../../kit/text.ts";
import { FAVOURITE } from "./maths.ts";

const LETTER = 7.4; // width of a letter, about
const NAME = 84; // width of the names of the heads
const MEAN = 46; // width of the column of the mean
const LEAST_ARCS = 44; // width that arcs need
const LEAST_NUMBERED = 40; // and what they need if numbers stand at their ends
const ROW = { asks: 44, plain: 34, head: 34 }; // heights of the rows of words that stand below each other
/** The lift of arcs: by distance, at least, and for each further head. The figure's edge; the width of turned arcs. */
const ROOM = { lift: 96, base: 22, step: 9, edge: 8, least: 12, most: 150 };

/** Radius of the number of a head, at the end of an arc. */
export const MARK = 7;

export type Point = readonly [x: number, y: number];
/** Make the drawing's point of a place along the words and a distance away from them. */
type Turn = (along: number, away: number) => Point;

/** The widths of the words' columns, or null if the sentence does not fit into the width. */
export function columnWidths(tokens: string[], width: number, asks: boolean): number[] | null {
  const least = tokens.map((token) => Math.max(asks ? 44 : 38, Math.ceil(LETTER * token.length) + 14));
  const spare = width - NAME - sum(least);
  if (spare < 0) return null;
  const more = Math.min(Math.floor(spare / tokens.length), 60);
  return least.map((one) => one + more);
}

interface Columns {
  each: number;
  mean: boolean;
  dense?: boolean;
}

/** What fits beside words that stand below each other: numbers and their mean, numbers alone, or the colours alone. */
export function sizes(width: number, heads: number): Columns {
  const colours = { each: 21, mean: false, dense: true };
  const columns = [{ each: 46, mean: true }, { each: 36, mean: true }, { each: 36, mean: false }, colours];
  const fits = ({ each, mean }: Columns) => width - each * heads - (mean && heads > 1 ? MEAN : 0) >= LEAST_ARCS;
  return columns.find(fits) ?? colours;
}

/** The middle of each of several widths that stand side by side. */
export function middles(widths: number[]): number[] {
  let edge = 0;
  return widths.map((width) => {
    edge += width;
    return edge - width / 2;
  });
}

/** Where everything stands, in the room there is. */
export interface Layout {
  /** Words stand below each other, since side by side they do not fit. */
  turned: boolean;
  /** Weights are colours without numbers. */
  dense: boolean;
  /** Whether there is a column or row for the mean. */
  mean: boolean;
  /** The widths of the table's columns, the first one that of the names. */
  columns: number[];
  /** The height of a word's row. */
  row: number;
  /** Where the words' middles are, along the drawing. */
  at: number[];
  /** The size of the drawing. */
  picture: readonly [width: number, height: number];
}

/** Lay the sentence out: side by side if that fits, else turned. `asks` says whether the words are buttons. */
export function layOut(tokens: string[], heads: number, asks: boolean, width: number): Layout {
  const widths = columnWidths(tokens, width - ROOM.edge, asks);
  if (widths) {
    const columns = [NAME, ...widths];
    const at = middles(columns).slice(1);
    const picture = [sum(columns), arcsHeight(heads) + 2 * MARK + 8] as const;
    return { turned: false, dense: false, mean: heads > 1, columns, row: 0, at, picture };
  }
  const longest = Math.max(...tokens.map((token) => token.length)) * LETTER + 18;
  const words = Math.max(asks ? 52 : 40, Math.min(longest, 108));
  const { each, mean: room, dense = false } = sizes(width - ROOM.edge - words, heads);
  const mean = room && heads > 1;
  const columns = [words, ...range(heads).map(() => each), ...(mean ? [MEAN] : [])];
  const row = asks ? ROW.asks : ROW.plain;
  const at = tokens.map((_, j) => ROW.head + (j + 0.5) * row);
  const arcs = Math.max(ROOM.least, Math.min(ROOM.most, width - ROOM.edge - sum(columns)));
  return { turned: true, dense, mean, columns, row, at, picture: [arcs, ROW.head + tokens.length * row] };
}

const arcsHeight = (heads: number): number => ROOM.base + ROOM.lift + ROOM.step * heads;

/** The room between the ends of several arcs at one word. */
const between = (count: number, step: number): number => Math.min(2 * MARK + 2, (step - 6) / count);

const written = ([x, y]: Point): string => `${x.toFixed(1)} ${y.toFixed(1)}`;

/** An arc from one place on a line to another. */
export function arc(from: number, to: number, lift: number, turn: Turn): string {
  const loops = from === to;
  const start = loops ? to - 18 : from;
  const bow = lift / 0.75; // a cubic curve reaches three quarters of the way to its two guides
  const widen = loops ? 8 : 0;
  const [begin, ...rest] = [turn(start, 0), turn(start - widen, bow), turn(to + widen, bow), turn(to, 0)];
  return `M${written(begin!)} C${rest.map(written).join(", ")}`;
}

/** A curve from a query that stands apart to a key. */
export function line([x, y]: Point, [toX, toY]: Point, turned: boolean): string {
  const guides: Point[] = turned
    ? [
        [(x + toX) / 2, y],
        [(x + toX) / 2, toY],
      ]
    : [
        [x, (y + toY) / 2],
        [toX, (y + toY) / 2],
      ];
  return `M${written([x, y])} C${[...guides, [toX, toY] as const].map(written).join(", ")}`;
}

export interface Arc {
  head: number;
  key: number;
  weight: number;
  path: string;
}
export interface Mark {
  head: number;
  key: number;
  at: Point;
}
export interface Arcs {
  /** The weak ones first, so that strong ones are not covered. */
  arcs: Arc[];
  marks: Mark[];
  /** Where a query stands that is none of the words. */
  origin: Point | null;
}

/** The arcs of the heads that are shown, for one query. What a word gets the most of ends at it side by side, with the
    numbers of the heads if there is room for all of them; weak arcs end in its middle. `own` is the query's place in the
    sentence, if it has one. */
export function drawArcs(weights: Matrix[], shown: number[], query: number, own: number | null, layout: Layout): Arcs {
  const { turned, at, picture } = layout;
  const [width, height] = picture;
  const step = turned ? layout.row : Math.min(...layout.columns.slice(1));
  const strong = at.map((_, j) => shown.filter((h) => shown.length > 1 && weights[h]![query]![j]! >= FAVOURITE));
  const room = !turned || width >= LEAST_NUMBERED;
  const numbered = room && strong.every((heads) => between(heads.length, step) >= MARK + 2);
  const end = numbered && strong.some((heads) => heads.length) ? 2 * MARK + 4 : 3; // arcs end before their numbers
  const from = own === null ? null : at[own]!;
  const lift = arcsHeight(shown.length);
  const turn: Turn = turned
    ? (along, away) => [width - end - (away * (width - end - 8)) / lift, along]
    : (along, away) => [along, height - end - away];
  const centre = (at[0]! + at.at(-1)!) / 2;
  const origin: Point | null = from !== null ? null : turned ? [8, centre] : [centre, 10];
  const longest = Math.max(1, ...at.map((place) => Math.abs(place - (from ?? place))));
  const arcs: Arc[] = [];
  const marks: Mark[] = [];
  for (const [place, head] of shown.entries()) {
    for (const [key, middle] of at.entries()) {
      const weight = weights[head]![query]![key]!;
      if (isFaint(weight)) continue;
      const heads = strong[key]!;
      const among = heads.indexOf(head);
      const to = middle + (among < 0 ? 0 : (among - (heads.length - 1) / 2) * between(heads.length, step));
      const up = ROOM.base + (ROOM.lift * Math.abs(middle - (from ?? 0))) / longest + ROOM.step * place;
      const path = origin ? line(origin, turn(to, 0), turned) : arc(key === own ? to : from!, to, up, turn);
      arcs.push({ head, key, weight, path });
      if (numbered && among >= 0)
        marks.push({ head, key, at: turned ? [width - MARK - 2, to] : [to, height - MARK - 2] });
    }
  }
  return { arcs: arcs.sort((a, b) => a.weight - b.weight), marks, origin };
}

const MAP = { letter: 6.6, edge: 9, most: 96, least: 10, largest: 26, readable: 13, gap: 20 };

/** The room for names at the left and at the top of a map, and the size of its squares. */
export function mapLayout(queries: string[], keys: string[], maps: number, width: number) {
  const longest = (texts: string[]) =>
    Math.min(Math.max(...texts.map((text) => text.length)) * MAP.letter + MAP.edge, MAP.most);
  const [left, top] = [longest(queries), longest(keys)];
  const fitting = (beside: number) => Math.floor((width / beside - left - MAP.gap) / keys.length);
  const best = [maps, 4, 3, 2, 1].map(fitting).find((one) => one >= MAP.readable) ?? fitting(1);
  return { left, top, size: Math.max(MAP.least, Math.min(MAP.largest, best)) };
}
