/* Grids that can be used by keyboard, mouse and touch, and cells in which numbers are typed. */

import type { ComponentChildren, HTMLAttributes, JSX, TargetedInputEvent, TargetedKeyboardEvent } from "preact";
import { useRef, useState } from "preact/hooks";
import { parseNumber, showInField } from "./text.ts";

export type Kind = "query" | "key" | "value" | "";
export type Place = readonly [row: number, column: number];

/** Which cell a key leads to, from a cell of a grid; null for other keys and at the edge. */
export function nextCell(key: string, [i, j]: Place, rows: number, columns: number): Place | null {
  const next: Record<string, Place> = {
    ArrowUp: [i - 1, j],
    ArrowDown: [i + 1, j],
    ArrowLeft: [i, j - 1],
    ArrowRight: [i, j + 1],
    Home: [i, 0],
    End: [i, columns - 1],
  };
  const [r, c] = next[key] ?? [-1, -1];
  return r >= 0 && r < rows && c >= 0 && c < columns ? [r, c] : null;
}

/** Whether a key moves within the text of a field, so that it does not lead to another cell. */
function staysInField(input: HTMLInputElement, key: string): boolean {
  const [start, end, length] = [input.selectionStart, input.selectionEnd, input.value.length];
  const whole = start === 0 && end === length;
  if (key === "ArrowLeft") return !whole && end !== 0;
  if (key === "ArrowRight") return !whole && start !== length;
  return key === "Home" || key === "End";
}

/** The place of the cell that an event is about: the nearest element with `data-row` and `data-column`. */
export function placeOf(target: EventTarget | null): Place | null {
  const cell = target instanceof Element ? target.closest<HTMLElement>("[data-row][data-column]") : null;
  return cell ? [Number(cell.dataset.row), Number(cell.dataset.column)] : null;
}

interface CellsProps {
  rows: readonly ComponentChildren[];
  columns: readonly ComponentChildren[];
  /** Whose words stand at the rows and at the columns. */
  rowKind?: Kind | undefined;
  columnKind?: Kind | undefined;
  /** A cell: a `td` with `data-row` and `data-column`; what takes the focus gets the `tabIndex`. */
  cell: (i: number, j: number, tabIndex: number) => JSX.Element;
  /** One more column: its head, and what stands at the end of each row. */
  last?: { head: ComponentChildren; cell: (i: number) => JSX.Element } | undefined;
}

/** The head and the body of a table of cells; `stop` is the cell to which Tab leads. */
export function Cells({ rows, columns, rowKind, columnKind, cell, last, stop }: CellsProps & { stop?: Place }) {
  return (
    <>
      <thead>
        <tr>
          <td />
          {columns.map((head, j) => (
            <th key={j} scope="col" class={columnKind}>
              {head}
            </th>
          ))}
          {last && (
            <th scope="col" class="bw-sum">
              {last.head}
            </th>
          )}
        </tr>
      </thead>
      <tbody>
        {rows.map((head, i) => (
          <tr key={i}>
            <th scope="row" class={rowKind}>
              {head}
            </th>
            {columns.map((_, j) => cell(i, j, stop && i === stop[0] && j === stop[1] ? 0 : -1))}
            {last?.cell(i)}
          </tr>
        ))}
      </tbody>
    </>
  );
}

interface GridProps extends Omit<HTMLAttributes<HTMLTableElement>, "label" | "rows">, CellsProps {
  label: string;
  /** A cell was reached by the pointer, a finger or the keyboard. */
  onLook?: (place: Place) => void;
  /** A key led from one cell to the next. */
  onWalk?: (from: Place, to: Place, event: KeyboardEvent) => void;
}

/** A table whose cells are one stop of the Tab key; arrow keys, Home and End lead from cell to cell. */
export function Grid(props: GridProps) {
  const { label, rows, columns, rowKind, columnKind, cell, last, onLook, onWalk, ...rest } = props;
  const table = useRef<HTMLTableElement>(null);
  const [stop, setStop] = useState<Place>([0, 0]);
  const [m, n] = [rows.length, columns.length];
  const here: Place = stop[0] < m && stop[1] < n ? stop : [0, 0];

  function focus([i, j]: Place) {
    const found = table.current?.querySelector<HTMLElement>(`[data-row="${i}"][data-column="${j}"]`);
    (found?.querySelector<HTMLElement>("input, button") ?? found)?.focus();
  }

  function reached(event: Event) {
    const place = placeOf(event.target);
    if (place === null) return;
    if (event.type === "focusin") setStop(place);
    onLook?.(place);
  }

  function walk(event: KeyboardEvent) {
    const place = placeOf(event.target);
    const input = event.target instanceof HTMLInputElement ? event.target : null;
    if (place === null || event.ctrlKey || event.metaKey || event.altKey) return;
    if (input && staysInField(input, event.key)) return;
    const key = input && event.key === "Enter" ? "ArrowDown" : event.key;
    if (!/^(Arrow|Home$|End$)/.test(key)) return;
    event.preventDefault(); // the page must not scroll
    const next = nextCell(key, place, m, n);
    if (!next) return;
    focus(next);
    onWalk?.(place, next, event);
  }

  return (
    <table
      {...rest}
      ref={table}
      role="grid"
      aria-label={label}
      onKeyDown={walk}
      onFocusIn={reached}
      onPointerOver={(event) => event.pointerType !== "touch" && reached(event)}
    >
      <Cells rows={rows} columns={columns} {...{ rowKind, columnKind, last }} cell={cell} stop={here} />
    </table>
  );
}

/** A tiny weight: a faint dot, and its number for a screen reader. */
export function FaintDot({ number }: { number: string }) {
  return (
    <>
      <span class="bw-none" aria-hidden="true">
        ·
      </span>
      <span class="bw-unseen">{number}</span>
    </>
  );
}

interface NumberFieldProps {
  label: string;
  value: number;
  tabIndex: number;
  /** The largest size that a number may have; a thousand, unless something else is said. */
  largest?: number;
  onChange: (value: number) => void;
  /** Whether what is typed is not a number. */
  onInvalid: (invalid: boolean) => void;
}

/** A field for a number. What is typed counts at once; what is not a number is dropped when the focus leaves. */
export function NumberField({ label, value, tabIndex, largest, onChange, onInvalid }: NumberFieldProps) {
  const [typed, setTyped] = useState<string | null>(null); // null: nobody types
  const text = typed ?? showInField(value);
  const invalid = typed !== null && Number.isNaN(parseNumber(typed, largest));

  function type(event: TargetedInputEvent<HTMLInputElement>) {
    const given = event.currentTarget.value;
    setTyped(given);
    const number = parseNumber(given, largest);
    onInvalid(Number.isNaN(number));
    if (!Number.isNaN(number)) onChange(number);
  }

  function leave() {
    setTyped(null);
    if (invalid) onInvalid(false);
  }

  return (
    <input
      type="text"
      inputMode="decimal"
      autocomplete="off"
      spellcheck={false}
      tabIndex={tabIndex}
      aria-label={label}
      aria-invalid={invalid || undefined}
      value={text}
      style={text.length > 4 ? { minWidth: `${text.length + 1}ch` } : undefined}
      onFocus={(event) => event.currentTarget.select()}
      onInput={type}
      onBlur={leave}
    />
  );
}

/** Lead from one button of a row to the next by arrows, Home and End; return the button that has the focus then. */
export function walkRow(event: TargetedKeyboardEvent<HTMLElement>): HTMLElement | undefined {
  const all = [...event.currentTarget.querySelectorAll<HTMLElement>("button")];
  const here = all.indexOf((event.target as HTMLElement).closest("button") as HTMLElement);
  const key = { ArrowUp: "ArrowLeft", ArrowDown: "ArrowRight" }[event.key] ?? event.key;
  if (here < 0 || !/^(Arrow|Home$|End$)/.test(key)) return undefined;
  event.preventDefault(); // the page must not scroll
  const next = all[nextCell(key, [0, here], 1, all.length)?.[1] ?? -1];
  next?.focus();
  return next;
}

interface RovingRowProps {
  label: string;
  kind: string;
  /** The place of the button that Tab leads to. */
  stop: number;
  /** Whether a button is pressed as soon as a key leads to it. */
  presses?: boolean;
  children: ComponentChildren;
}

/** A row of buttons that are one stop of the Tab key. */
export function RovingRow({ label, kind, stop, presses = false, children }: RovingRowProps) {
  return (
    <div
      class={kind}
      role="group"
      aria-label={label}
      data-roving={stop}
      onKeyDown={(event) => {
        const next = walkRow(event);
        if (presses) next?.click();
      }}
    >
      {children}
    </div>
  );
}
