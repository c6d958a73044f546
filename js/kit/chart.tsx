/* Drawings: pictures with a text alternative, and the pieces of charts. */

import type { ComponentChildren, RefObject, SVGAttributes } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { RAMP } from "./colour.ts";
import { show } from "./text.ts";

interface PictureProps extends Omit<SVGAttributes<SVGSVGElement>, "label"> {
  /** What the picture shows, in a sentence. */
  label: string;
  width: number;
  height: number;
  children: ComponentChildren;
}

/** A drawing of a given size in its own units, which the page scales. */
export function Picture({ label, width, height, children, ...rest }: PictureProps) {
  return (
    <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label} {...rest}>
      {children}
    </svg>
  );
}

/** A straight line. */
export function Line({
  from,
  to,
  kind,
}: {
  from: readonly [number, number];
  to: readonly [number, number];
  kind: string;
}) {
  return <line x1={from[0]} y1={from[1]} x2={to[0]} y2={to[1]} class={kind} />;
}

interface LetteringProps {
  at: readonly [number, number];
  anchor?: "start" | "middle" | "end";
  kind?: string;
  children: ComponentChildren;
}

/** A text in a drawing. */
export function Lettering({ at, anchor = "middle", kind = "bw-tick", children }: LetteringProps) {
  return (
    <text x={at[0]} y={at[1]} text-anchor={anchor} class={kind}>
      {children}
    </text>
  );
}

interface GridlinesProps {
  at: readonly number[];
  y: (value: number) => number;
  left: number;
  right: number;
  say?: (value: number) => string;
}

/** Lines across a picture at some values, each with its number at the left. */
export function Gridlines({ at, y, left, right, say = String }: GridlinesProps) {
  return at.map((value) => (
    <g key={value}>
      <Line from={[left, y(value)]} to={[right, y(value)]} kind="bw-grid" />
      <Lettering at={[left - 5, y(value) + 4]} anchor="end">
        {say(value)}
      </Lettering>
    </g>
  ));
}

/** The path through several points. */
export const pathThrough = (points: readonly (readonly [number, number])[]): string =>
  points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(2)}`).join("");

/** Move the labels at the ends of lines apart, so that none covers another or lies below the floor. */
export function spread<T>(labels: readonly (readonly [T, number])[], floor: number, apart = 12): [T, number][] {
  const sorted = labels.map(([label, y]): [T, number] => [label, y]).sort((a, b) => a[1] - b[1]);
  for (let i = 1; i < sorted.length; i++) sorted[i]![1] = Math.max(sorted[i]![1], sorted[i - 1]![1] + apart);
  let limit = floor;
  for (const label of sorted.reverse()) {
    label[1] = Math.min(label[1], limit);
    limit = label[1] - apart;
  }
  return sorted.reverse();
}

/** The current width of an element in pixels: for drawings whose letters keep their size. */
export function useWidth<T extends HTMLElement>(): [RefObject<T | null>, number | null] {
  const element = useRef<T>(null);
  const [width, setWidth] = useState<number | null>(null); // null until it is on the page
  useLayoutEffect(() => {
    const measure = () => setWidth(element.current!.clientWidth);
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(element.current!);
    return () => watch.disconnect();
  }, []);
  return [element, width];
}

/** A drawing that is as wide as its place, in pixels: its letters do not shrink with it. */
export function Fitting({ kind, children }: { kind?: string; children: (width: number) => ComponentChildren }) {
  const [place, width] = useWidth<HTMLDivElement>();
  return (
    <div ref={place} class={kind}>
      {width ? children(width) : null}
    </div>
  );
}

/** The colours of weights from 0 to 1, for a legend. */
export function Ramp() {
  return (
    <span class="bw-scale">
      0 <span class="bw-ramp" style={{ background: RAMP }} aria-hidden="true" /> 1
    </span>
  );
}

interface BarTableProps {
  label: string;
  kind?: string;
  heads: readonly ComponentChildren[];
  rows: readonly { id: number; head: ComponentChildren; values: readonly number[] }[];
}

/** Probabilities as bars and as numbers; those of the last column are in colour. */
export function BarTable({ label, kind = "", heads, rows }: BarTableProps) {
  return (
    <table class={`bw-bars ${kind}`} aria-label={label}>
      <thead>
        <tr>
          <td />
          {heads.map((head, c) => (
            <th key={c} scope="col">
              {head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(({ id, head, values }) => (
          <tr key={id} data-candidate={id}>
            <th scope="row">{head}</th>
            {values.map((value, c) => (
              <td key={c} class={`bw-bar${c === values.length - 1 ? " bw-now" : ""}`} data-value={value}>
                <span style={{ width: `${(100 * value).toFixed(1)}%` }} aria-hidden="true" />
                <b>{value > 0 && value < 0.0005 ? "< 0.001" : show(value)}</b>
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
