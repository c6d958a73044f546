/* Tables of cells that keys, a pointer and a finger reach, and cells in which numbers are typed. */

import type { ComponentChildren, HTMLAttributes, JSX, TargetedInputEvent } from "preact";
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

interface GridProps extends Omit<HTMLAttributes<HTMLTableElement>, "label" | "rows"> {
  label: string;
  rows: readonly ComponentChildren[];
  columns: readonly ComponentChildren[];
  /** Whose words stand at the rows and at the columns. */
  rowKind?: Kind;
  columnKind?: Kind;
  /** A cell: a `td` with `data-row` and `data-column`; what takes the focus gets the `tabIndex`. */
  cell: (i: number, j: number, tabIndex: number) => JSX.Element;
  /** One more column: its head, and what stands at the end of each row. */
  last?: { head: ComponentChildren; cell: (i: number) => JSX.Element };
  /** A cell was reached by the pointer, a finger or the keyboard. */
  onLook?: (place: Place) => void;
  /** A key led from one cell to the next. */
  onWalk?: (from: Place, to: Place, event: KeyboardEvent) => void;
}

/** A table whose cells are one stop of the Tab key; arrow keys, Home and End lead from cell to cell. */
export function Grid({ label, rows, columns, rowKind, columnKind, cell, last, onLook, onWalk, ...rest }: GridProps) {
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
            {columns.map((_, j) => cell(i, j, i === here[0] && j === here[1] ? 0 : -1))}
            {last?.cell(i)}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** A weight that is next to nothing: a faint dot, and the number for those who do not see it. */
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
  /** What was typed is no number (true), or that no longer matters (false). */
  onInvalid: (invalid: boolean) => void;
}

/** A field with a number: what is typed counts at once; what is no number does not, and is gone when one leaves. */
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

interface RovingRowProps {
  label: string;
  kind: string;
  /** The place of the button that Tab leads to. */
  stop: number;
  /** A key led to the button at this place. */
  onWalk?: (place: number) => void;
  children: ComponentChildren;
}

/** A row of buttons that are one stop of the Tab key; arrows, Home and End lead from one to the next. */
export function RovingRow({ label, kind, stop, onWalk, children }: RovingRowProps) {
  function walk(event: KeyboardEvent) {
    const row = event.currentTarget as HTMLElement;
    const all = [...row.querySelectorAll<HTMLElement>("button")];
    const here = all.indexOf((event.target as HTMLElement).closest("button") as HTMLElement);
    const key = { ArrowUp: "ArrowLeft", ArrowDown: "ArrowRight" }[event.key] ?? event.key;
    const next = here < 0 ? null : nextCell(key, [0, here], 1, all.length);
    if (/^(Arrow|Home$|End$)/.test(event.key)) event.preventDefault(); // the page must not scroll
    if (!next) return;
    all[next[1]]!.focus();
    onWalk?.(next[1]);
  }
  return (
    <div class={kind} role="group" aria-label={label} data-roving={stop} onKeyDown={walk}>
      {children}
    </div>
  );
}
