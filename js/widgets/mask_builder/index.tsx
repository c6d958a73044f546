/* Mask builder: allow and mask keys cell by cell; see the weights, the leaks and the rows that see nothing. */

import type { ComponentChildren, TargetedPointerEvent } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { weightStyle } from "../../kit/colour.ts";
import { Button, Menu, Padding, Slider } from "../../kit/controls.tsx";
import { Cells, FaintDot, Grid, type Place, placeOf } from "../../kit/grid.tsx";
import "../../kit/kit.css";
import { table } from "../../kit/maths.ts";
import { Folded, Panel, ReservedHeight, Scroll, TextAlternative } from "../../kit/panel.tsx";
import { count, show } from "../../kit/text.ts";
import { defineWidget, Heading, useStateFor, type ViewProps, Words } from "../../kit/widget.tsx";
import { type Audit, audit, between, cellsOf, makeMask, offered, recognise, type State, type Task } from "./maths.ts";
import "./style.css";
import { aboutCell, aboutEmptyRows, aboutSpread, describe, labels, short, type Verdict, verdict } from "./words.ts";

export * from "./maths.ts";
export * from "./words.ts";

const taskOf = (state: State): Task => state.tasks.find((one) => one.name === state.task)!;

/** A link may bring what is no state: cells that are no table, or names that there are not. */
function settle(state: State): State {
  const { cells, scores, tasks, masks, empties, task, preset, empty, window, first } = state;
  const n = cells[0]?.length ?? 0;
  const isTable = cells.length <= scores.length && cells.every((row) => row.length === n && /^[01]+$/.test(row));
  const isNamed = (all: readonly { name: string }[], name: string) => all.some((one) => one.name === name);
  const named = isNamed(tasks, task) && isNamed(empties, empty) && (preset === "hand" || isNamed(masks, preset));
  const isCount = [window, first].every((count) => Number.isInteger(count) && count >= 0 && count <= state.largest);
  if (!n || n > scores[0]!.length || !isTable || !named || !isCount)
    throw new RangeError("the mask builder has no such state");
  return state;
}

function compute(state: State) {
  const all = audit(state);
  return { all, words: labels(taskOf(state), all) };
}
type Props = ViewProps<State, ReturnType<typeof compute>>;

// ---- Changes of the state -----------------------------------------------------------------------------------------

type Changes = Partial<Pick<Audit, "m" | "n" | "padding" | "window" | "first">> & { preset?: string };

/** The window and the first text, no longer than n keys allow. */
const fitting = (window: number, first: number, n: number) => ({
  window: Math.min(window, n),
  first: Math.min(first, Math.max(1, n - 1)),
});

/** Change sizes or what a mask is made from; a mask with a name is made again, one by hand keeps its cells. */
function remake(state: State, all: Audit, changes: Changes): Partial<State> {
  const { m, n, padding, window, first } = { ...all, ...changes };
  const inside = padding.filter((position) => position < n);
  const sizes = { m, n, padding: inside, ...fitting(window, first, n) };
  const wanted = changes.preset ?? state.preset;
  const preset = wanted === "upper_left" && m === n ? "causal" : wanted; // then both corners are the same
  const mask = state.masks.find((one) => one.name === preset);
  const allowed = mask ? makeMask(mask.rule, sizes) : table(m, n, (i, j) => all.allowed[i]?.[j] ?? true);
  return { preset: mask ? preset : "hand", cells: cellsOf(allowed), padding: inside, ...fitting(window, first, n) };
}

/** The beginning of a task: no mask, and the sizes and the padding of its example. */
function beginning(state: State, name: string): Partial<State> {
  const { m, n, padding } = state.tasks.find((one) => one.name === name)!;
  const cells = cellsOf(table(m, n, () => true));
  return { task: name, preset: "none", cells, padding, ...fitting(state.window, state.first, n) };
}

/** Allow or mask cells; a mask that then is one of the task's gets its name. */
function setCells(state: State, all: Audit, places: readonly Place[], on: boolean): Partial<State> {
  const allowed = all.allowed.map((row) => [...row]);
  for (const [i, j] of places) allowed[i]![j] = on;
  const cells = cellsOf(allowed);
  return { cells, preset: recognise(cells, offered(state, all), all) };
}

// ---- The view -----------------------------------------------------------------------------------------------------

function View(props: Props) {
  return props.state.few.length ? <Small {...props} /> : <Whole {...props} />;
}

/** The buttons of some masks, and what else stands beside them. */
function Chips({
  state,
  data: { all },
  write,
  names,
  children,
}: Props & { names: string[]; children?: ComponentChildren }) {
  return (
    <div class="bw-wrap mb-chips" role="group" aria-label="Mask">
      {names
        .flatMap((wanted) => offered(state, all).filter(({ name }) => name === wanted))
        .map(({ name, label }) => (
          <Button
            key={name}
            name={`mask-${name}`}
            data-mask={name}
            pressed={name === state.preset}
            onClick={() => write(remake(state, all, { preset: name }))}
          >
            {label}
          </Button>
        ))}
      {children}
    </div>
  );
}

/** What a chapter opens with: some masks to choose from, the weights and the judgement, which keeps its room. */
function Small({ state, data, write }: Props) {
  const judged = (preset: string) => {
    const other = { ...state, ...remake(state, data.all, { preset }) };
    const all = audit(other);
    const { kind, headline, text } = verdict(other, all, data.words);
    const most = Math.max(...all.leaked);
    const who = data.words.query[all.leaked.indexOf(most)];
    const leak = `“${who}” gives ${short(most)} of its weight to words not yet written.`;
    return <Judgement kind={kind} headline={headline} text={most > 0 ? leak : text} />;
  };
  return (
    <>
      <Heading>Who may look at whom?</Heading>
      <Chips state={state} data={data} write={write} names={state.few} />
      <div class="mb-stage mb-small" data-keys={data.all.n}>
        <WeightGrid data={data} looked={null} look={() => {}} />
        <ReservedHeight longest={state.few.map(judged)}>{judged(state.preset)}</ReservedHeight>
      </div>
    </>
  );
}

function Whole({ state, data, write }: Props) {
  const { all, words } = data;
  const subject = JSON.stringify([words.queries, words.keys]);
  const [looked, look] = useStateFor<Place | null>(subject, null);
  const task = taskOf(state);
  const startAgain = () => write({ ...beginning(state, state.task), ...state.usual, empty: state.empties[0]!.name });

  return (
    <>
      <Heading>Mask builder</Heading>
      <div class="bw-controls">
        <Menu
          name="task"
          label="What is attention to do?"
          value={state.task}
          options={state.tasks.map((one) => [one.name, one.label] as const)}
          onChange={(name) => write(beginning(state, name))}
        />
      </div>
      <p class="bw-note">
        <Words>{task.note}</Words>
      </p>
      <Chips state={state} data={data} write={write} names={task.masks}>
        <Button name="reset" kind="plain" onClick={startAgain}>
          Start again
        </Button>
      </Chips>
      <Lengths state={state} data={data} write={write} />
      <div class="mb-stage" data-keys={all.n}>
        <MaskGrid state={state} data={data} write={write} looked={looked} look={look} />
        <WeightGrid data={data} looked={looked} look={look} />
        <Judgement {...verdict(state, all, words)} />
      </div>
      <EmptyRows state={state} data={data} write={write} looked={looked} look={look} />
      <About state={state} data={data} looked={looked} />
      <TextAlternative title="Mask and weights in words" lines={describe(all, words)} />
    </>
  );
}

/** What a mask is made from: the window, the first text, the padding, and how many words there are. */
function Lengths({ state, data: { all }, write }: Props) {
  const { m, n, padding } = all;
  const task = taskOf(state);
  const change = (changes: Changes) => write(remake(state, all, changes));
  const whole = state.task !== "write" && state.task !== "translate"; // self-attention over the whole row
  const queriesFor = (keys: number) => (state.task === "translate" ? m : m === n ? keys : Math.min(m, keys));
  const takesPadding = state.task !== "pack" && state.task !== "answer";
  return (
    <>
      <div class="bw-controls mb-sliders">
        {task.masks.includes("window") && (
          <Slider
            name="window"
            label="keys in a sliding window"
            min={1}
            max={n}
            value={all.window}
            onChange={(window) => change({ window, preset: "window" })}
          />
        )}
        {!takesPadding && (
          <Slider
            name="first"
            label={state.task === "answer" ? "words of the question" : "words of the first text"}
            min={1}
            max={Math.max(1, n - 1)}
            value={all.first}
            onChange={(first) => change({ first })}
          />
        )}
      </div>
      {takesPadding && (
        <Padding
          words={task.keys.slice(0, n)}
          padding={padding}
          say={(word) => `${word} → pad`}
          onChange={(places) => change({ padding: places })}
        />
      )}
      <Folded title="More or fewer words">
        <div class="bw-controls mb-sliders">
          <Slider
            name="n"
            label={whole ? "words: queries m and keys n" : "keys n"}
            min={whole ? 2 : 1}
            max={state.largest}
            value={n}
            onChange={(keys) => change({ n: keys, m: queriesFor(keys) })}
          />
          {!whole && (
            <Slider
              name="m"
              label="queries m"
              min={1}
              max={state.task === "translate" ? state.largest : n}
              value={m}
              onChange={(queries) => change({ m: queries })}
            />
          )}
        </div>
      </Folded>
    </>
  );
}

// ---- The grids ----------------------------------------------------------------------------------------------------

interface Looking {
  looked: Place | null;
  look: (place: Place) => void;
}

const isAt = (looked: Place | null, i: number, j: number) => looked?.[0] === i && looked[1] === j;

interface BoxProps {
  name: string;
  all: Audit;
  legend: string;
  children: ComponentChildren;
}

function Box({ name, all, legend, children }: BoxProps) {
  return (
    <div class="mb-box">
      <p class="mb-title">
        <b>{name}</b>{" "}
        <span class="bw-shape">
          {all.m} × {all.n}
        </span>
      </p>
      {children}
      <p class="bw-title">{legend}</p>
    </div>
  );
}

const asColumns = (words: string[]) => words.map((word, j) => <span key={j}>{word}</span>);

/** A stroke of a pointer over the grid: what it paints, where it was last, and whether it has painted yet. */
interface Stroke {
  on: boolean;
  last: Place;
  begun: boolean;
}

function MaskGrid({ state, data: { all, words }, write, looked, look }: Props & Looking) {
  const stroke = useRef<Stroke | null>(null);
  const painted = useRef(false); // then the click that is still to come has been dealt with
  useEffect(() => {
    const lift = () => {
      stroke.current = null;
      setTimeout(() => (painted.current = false)); // after the click that follows
    };
    window.addEventListener("pointerup", lift);
    window.addEventListener("pointercancel", lift);
    return () => {
      window.removeEventListener("pointerup", lift);
      window.removeEventListener("pointercancel", lift);
    };
  }, []);

  function paint(places: readonly Place[], on: boolean) {
    painted.current = true;
    write(setCells(state, all, places, on));
    look(places.at(-1)!);
  }

  function press(event: TargetedPointerEvent<HTMLTableElement>) {
    const place = placeOf(event.target);
    painted.current = false;
    if (place === null || event.button !== 0) return;
    const on = !all.allowed[place[0]]![place[1]];
    const finger = event.pointerType === "touch"; // it may want to scroll: what it does shows when it moves
    stroke.current = { on, last: place, begun: !finger };
    if (finger) return;
    event.preventDefault(); // no text is to be selected while painting
    (event.target as HTMLElement).focus({ preventScroll: true });
    paint([place], on);
  }

  function move(event: TargetedPointerEvent<HTMLTableElement>) {
    const now = stroke.current;
    if (now === null) return;
    if (event.pointerType !== "touch" && !(event.buttons & 1)) {
      stroke.current = null; // it was lifted where nobody told us
      return;
    }
    const root = event.currentTarget.getRootNode() as Document | ShadowRoot;
    const place = placeOf(root.elementFromPoint(event.clientX, event.clientY));
    if (place === null || String(place) === String(now.last)) return;
    if (!now.begun && place[1] === now.last[1]) {
      stroke.current = null; // a finger that goes up or down scrolls
      return;
    }
    const passed = between(now.last, place);
    paint(now.begun ? passed : [now.last, ...passed], now.on);
    stroke.current = { ...now, last: place, begun: true };
  }

  function cell(i: number, j: number, tabIndex: number) {
    const [on, leak, needless] = [all.allowed[i]![j]!, all.leaks[i]![j]!, all.hidden[i]![j]!];
    const kinds = [
      `mb-cell ${on ? "mb-allowed" : "mb-masked"}`,
      leak && "mb-leaks",
      all.emptyRows[i] && "mb-row-empty",
      !all.read[i] && "mb-unread",
      isAt(looked, i, j) && "mb-on",
    ];
    const said = `${on ? "allowed" : "masked"}${leak ? ", leak" : needless ? " without need" : ""}`;
    return (
      <td key={j}>
        <button
          type="button"
          class={kinds.filter(Boolean).join(" ")}
          tabIndex={tabIndex}
          data-row={i}
          data-column={j}
          aria-pressed={on}
          aria-label={`query ${words.query[i]}, key ${words.key[j]}: ${said}`}
          onClick={() => {
            if (!painted.current) write(setCells(state, all, [[i, j]], !on));
            painted.current = false;
            look([i, j]);
          }}
        >
          {leak ? "!" : on ? "" : needless ? "○" : "×"}
        </button>
      </td>
    );
  }

  const cached = all.n - all.m;
  const cache =
    state.task === "write" && cached > 0
      ? ` ${count(cached, "word is", "words are")} in the cache, and only the newest ${all.m} ${all.m === 1 ? "asks" : "ask"}.`
      : "";
  return (
    <Box
      name="Mask"
      all={all}
      legend={`Filled is allowed, × is masked, ○ is masked without need, ! is a leak. Click, or drag to paint. By keyboard: arrows, space, and shift with arrows.${cache}`}
    >
      <Scroll>
        <Grid
          label="Mask, queries in rows and keys in columns"
          class="mb-mask bw-stuck"
          rows={words.queries}
          columns={asColumns(words.keys)}
          rowKind="query"
          columnKind="key"
          cell={cell}
          onLook={look}
          onWalk={([i, j], to, event) => event.shiftKey && write(setCells(state, all, [to], all.allowed[i]![j]!))}
          onPointerDown={press}
          onPointerMove={move}
        />
      </Scroll>
    </Box>
  );
}

function WeightGrid({ data: { all, words }, looked, look }: Pick<Props, "data"> & Looking) {
  const leaking = all.leaks.flat().includes(true);
  const cell = (i: number, j: number) => {
    const weight = all.weights[i]![j]!;
    const lost = Number.isNaN(weight);
    const none = weight === 0 && !all.allowed[i]![j];
    const faint = !lost && !none && weight < 0.005;
    const kinds = [
      "bw-cell",
      lost && "mb-nan",
      none && "bw-masked",
      faint && "bw-none",
      all.leaks[i]![j] && "mb-leaks",
      isAt(looked, i, j) && "mb-on",
    ];
    return (
      <td
        key={j}
        class={kinds.filter(Boolean).join(" ")}
        data-matrix="weights"
        data-row={i}
        data-column={j}
        data-value={weight}
        style={lost || none || faint ? undefined : weightStyle(weight)}
      >
        {lost ? "NaN" : faint ? <FaintDot number={show(weight)} /> : short(weight)}
      </td>
    );
  };
  const leaked = (i: number) => (
    <td class="bw-sum" data-leaked={all.leaked[i]}>
      {all.leaked[i] ? short(all.leaked[i]) : ""}
    </td>
  );
  return (
    <Box name="Weights" all={all} legend="Each row is the softmax over the keys that it may see.">
      <Scroll label="Weights">
        <table
          class="bw-stuck"
          aria-label="Weights, queries in rows and keys in columns"
          onPointerOver={(event) => {
            const place = event.pointerType === "touch" ? null : placeOf(event.target);
            if (place) look(place);
          }}
        >
          <Cells
            rows={words.queries}
            columns={asColumns(words.keys)}
            rowKind="query"
            columnKind="key"
            cell={cell}
            last={{ head: leaking ? "leaked" : "", cell: leaked }}
          />
        </table>
      </Scroll>
    </Box>
  );
}

// ---- What is said -------------------------------------------------------------------------------------------------

const SIGNS = { leak: "✗", empty: "∅", blind: "○", fits: "✓", nothing: "–" };

function Judgement({ kind, headline, text }: Verdict) {
  return (
    <div class={`mb-verdict mb-${kind}`}>
      <span class="mb-sign" aria-hidden="true">
        {SIGNS[kind]}
      </span>
      <p>
        <b>{headline}</b>. {text}
      </p>
    </div>
  );
}

function EmptyRows({ state, data: { all, words }, write, looked, look }: Props & Looking) {
  const i = looked?.[0] ?? Math.floor(all.m / 2); // the row in mind
  const reached = all.spread.weights.includes(true) ? aboutSpread(all) : [];

  /** Mask every cell of a row, or allow those again that the task allows. */
  function turnRow() {
    const row = (j: number) => all.emptyRows[i]! && all.why[i]![j] === null;
    const cells = cellsOf(table(all.m, all.n, (r, j) => (r === i ? row(j) : all.allowed[r]![j]!)));
    write({ cells, preset: recognise(cells, offered(state, all), all) });
    look([i, looked?.[1] ?? 0]);
  }

  return (
    <div class="mb-empty">
      <div class="bw-controls">
        <Menu
          name="empty"
          label="A row with every key masked gets"
          value={state.empty}
          options={state.empties.map((one) => [one.name, one.label] as const)}
          onChange={(empty) => write({ empty })}
        />
        <Button name="row" data-follows-eye="" onClick={turnRow}>
          {all.emptyRows[i] ? "Unmask" : "Mask"} the row of “{words.query[i]}”
        </Button>
      </div>
      <p class="bw-text">{aboutEmptyRows(state, all)}</p>
      {reached.length > 0 && (
        <ul class="bw-wrap mb-spread">
          {reached.map(({ name, lost, text }) => (
            <li key={name} data-spread={name} data-count={lost.filter(Boolean).length}>
              <span class="mb-dots" aria-hidden="true">
                {lost.map((is, dot) => (
                  <span key={dot} class={is ? "mb-lost" : ""} />
                ))}
              </span>
              <b>{name}</b> {text}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function About({ state, data, looked }: Pick<Props, "state" | "data"> & { looked: Place | null }) {
  if (looked === null) {
    return (
      <Panel title="Who may look at whom?">
        Click a cell to mask it or to allow it. Each row is a query, each column a key.
      </Panel>
    );
  }
  const { title, text } = aboutCell(...(looked as [number, number]), state, data.all, data.words);
  return <Panel title={title}>{text}</Panel>;
}

export default defineWidget({
  name: "mask_builder",
  label: "Mask builder, interactive",
  settle,
  linked: ["task", "preset", "cells", "padding", "window", "first", "empty"],
  compute,
  View,
});
