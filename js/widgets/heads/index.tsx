/* Heads: where each head of a layer looks. */

import type { ComponentChildren, TargetedKeyboardEvent } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { Picture, Ramp, useWidth } from "../../kit/chart.tsx";
import { weightColours, weightStyle } from "../../kit/colour.ts";
import { Choice, Menu } from "../../kit/controls.tsx";
import { FaintDot, walkRow } from "../../kit/grid.tsx";
import "../../kit/kit.css";
import { type Matrix, memoizeLast, range } from "../../kit/maths.ts";
import { TextAlternative } from "../../kit/panel.tsx";
import { isFaint, show } from "../../kit/text.ts";
import { defineWidget, Heading, useIds, useStateFor, type ViewProps, Words } from "../../kit/widget.tsx";
import { drawArcs, type Layout, layOut, MARK, mapLayout } from "./layout.ts";
import { type Case, meanOfHeads, weightsOf } from "./maths.ts";
import "./style.css";
import { compareHeads, describeAll, describeBriefly, describeRow, type Labels, labelsOf } from "./words.ts";

export * from "./layout.ts";
export * from "./maths.ts";
export * from "./words.ts";

interface State {
  cases: Case[];
  /** What the two levels of cases are called. */
  choices: [models: string, sentences: string];
  model: string;
  sentence: string;
  query: number;
  /** From 1; 0 shows all heads. */
  head: number;
  note: string;
}

const ofModel = (state: State): Case[] => state.cases.filter((one) => one.model === state.model);
const ofSentence = (all: Case[], sentence: string): Case | undefined => all.find((one) => one.sentence === sentence);

/** What is shown; where the model lacks the sentence, its first one, as in Python. */
const caseOf = (state: State): Case =>
  ofSentence(ofModel(state), state.sentence) ?? ofModel(state)[0] ?? state.cases[0]!;

function settle(state: State): State {
  const { queries, heads } = caseOf(state);
  return {
    ...state,
    query: state.query < queries.length ? state.query : 0,
    head: state.head <= heads ? state.head : 0,
  };
}

const read = memoizeLast((one: Case) => {
  const weights = weightsOf(one);
  return { weights, mean: meanOfHeads(weights), labels: labelsOf(one) };
});

const shownHeads = memoizeLast((head: number, heads: number) => (head ? [head - 1] : range(heads)));

function compute(state: State) {
  const now = caseOf(state);
  return { now, ...read(now), shown: shownHeads(state.head, now.heads) };
}

type Data = ReturnType<typeof compute>;
type Props = ViewProps<State, Data>;

/** A row of the table: a head, or the mean of all. */
type Row = number | "mean";

// ---- The view -----------------------------------------------------------------------------------------------------

function View({ state, data, write }: Props) {
  const { now, weights, shown, labels } = data;
  const [pointed, point] = useStateFor<number | null>(`${now.model}\n${now.sentence}`, null); // a query, by the mouse
  const [figure, width] = useWidth<HTMLDivElement>();
  const query = pointed ?? state.query;
  const asking = { chosen: state.query, query, onPoint: point, onPick: pick };
  const buttons = now.positions !== null && now.queries.length > 1;
  const layout = width === null ? null : layOut(now.tokens, shown.length, buttons, width);

  function pick(next: number) {
    point(null);
    write({ query: next });
  }

  const told = useMemo(
    () => [...describeAll(weights, shown, labels), ...(now.answers ? [now.answers] : [])],
    [weights, shown, labels, now],
  );
  return (
    <>
      <Heading>Where the heads look</Heading>
      {state.note && (
        <p class="bw-note">
          <Words>{state.note}</Words>
        </p>
      )}
      <Controls state={state} data={data} write={write} />
      {!now.positions && (
        <Choosing label="Query">
          {now.queries.map((text, i) => (
            <Ask key={i} {...asking} i={i} text={text} />
          ))}
        </Choosing>
      )}
      <div
        ref={figure}
        class={`hds-figure ${layout?.turned ? "hds-turned" : "hds-flat"}${layout?.dense ? " hds-dense" : ""}`}
        role="group"
        aria-label="Words and weights"
        data-roving="words"
        onKeyDown={walkAsking}
      >
        {layout && <Sentence data={data} layout={layout} asking={asking} buttons={buttons} />}
      </div>
      <p class="bw-quiet hds-hint">
        {now.queries.length > 1 && `Choose ${now.positions ? "a word" : "a query"}. `}
        The arcs show where “{labels.queries[query]}” looks. The wider and stronger an arc, the more weight.
        {layout?.mean && " “mean” is the average of the heads."}
      </p>
      <Told data={data} query={query} />
      {width !== null && <Maps data={data} query={query} width={width} onPick={pick} />}
      <TextAlternative title="All weights in words" lines={told} />
    </>
  );
}

/** Line and number of a head: never the colour alone. */
function Swatch({ head }: { head: number }) {
  return (
    <svg class={`hds-swatch hds-${head + 1}`} width={30} height={12} aria-hidden="true">
      <line x1={1} y1={6} x2={29} y2={6} class="hds-line" />
    </svg>
  );
}

function Controls({ state, data: { now }, write }: Props) {
  const models = [...new Set(state.cases.map((one) => one.model))];
  const sentences = state.cases.filter((one) => one.model === now.model).map((one) => one.sentence);
  const [modelName, sentenceName] = state.choices;

  function pickModel(model: string) {
    const offered = ofModel({ ...state, model });
    const { sentence } = ofSentence(offered, now.sentence) ?? offered[0]!;
    write({ model, sentence, head: 0 });
  }

  return (
    <div class="bw-controls">
      {models.length > 1 && (
        <Choice
          name="model"
          label={modelName}
          options={models.map((model, place) => ({ value: String(place), text: model }))}
          value={String(models.indexOf(now.model))}
          onChange={(place) => pickModel(models[Number(place)]!)}
        />
      )}
      {sentences.length > 1 && (
        <Menu
          name="sentence"
          label={sentenceName}
          options={sentences.map((one) => [one, one] as const)}
          value={now.sentence}
          onChange={(sentence) => write({ sentence })}
        />
      )}
      {now.heads > 1 && (
        <Choice
          name="head"
          label="Show"
          options={range(now.heads + 1).map((head) => ({ value: String(head), text: <HeadName head={head} /> }))}
          value={String(state.head)}
          onChange={(head) => write({ head: Number(head) })}
        />
      )}
    </div>
  );
}

const HeadName = ({ head }: { head: number }) =>
  head ? (
    <>
      <Swatch head={head - 1} /> head {head}
    </>
  ) : (
    <>all heads</>
  );

// ---- Who looks ----------------------------------------------------------------------------------------------------

interface Asking {
  /** The query that was chosen, and the one that is shown: the mouse shows what it would choose. */
  chosen: number;
  query: number;
  onPoint: (query: number | null) => void;
  onPick: (query: number) => void;
}

/** Arrows lead from one that can ask to the next, and let it ask. */
const walkAsking = (event: TargetedKeyboardEvent<HTMLElement>) => walkRow(event)?.click();

/** Queries that are none of the words. */
function Choosing({ label, children }: { label: string; children: ComponentChildren }) {
  const id = useIds()("asking");
  return (
    <div class="bw-choice hds-asking" role="group" aria-labelledby={id} data-roving="queries" onKeyDown={walkAsking}>
      <span id={id}>{label}</span>
      <div>{children}</div>
    </div>
  );
}

/** A word or a text that can ask: pressed while it is the query. All are one stop of the Tab key. */
function Ask({ i, text, chosen, query, onPoint, onPick }: Asking & { i: number; text: string }) {
  const id = useIds();

  return (
    <button
      type="button"
      class={`hds-ask${i === query ? " hds-now" : ""}`}
      id={id(`query-${i}`)}
      aria-pressed={i === chosen}
      tabIndex={i === chosen ? 0 : -1}
      onClick={() => onPick(i)}
      onPointerEnter={(event) => event.pointerType === "mouse" && onPoint(i)}
      onPointerLeave={(event) => event.pointerType === "mouse" && onPoint(null)}
    >
      {text}
    </button>
  );
}

// ---- The sentence with its arcs and weights -----------------------------------------------------------------------

interface SentenceProps {
  data: Data;
  layout: Layout;
  asking: Asking;
  /** Whether the words are buttons. */
  buttons: boolean;
}

function Sentence({ data, layout, asking, buttons }: SentenceProps) {
  const { now, weights, mean, shown } = data;
  const { query } = asking;
  const table = useRef<HTMLTableElement>(null);
  const rows: Row[] = layout.mean ? [...shown, "mean"] : shown;
  const { columns, turned } = layout;
  const all = columns.reduce((a, b) => a + b, 0);
  const fixed = { width: `${all}px`, tableLayout: "fixed" } as const; // whatever a page says of tables: arcs end at words
  const asks = (j: number) => (buttons ? (now.positions?.indexOf(j) ?? -1) : -1);

  // Words that turn are drawn anew: the one that had the focus gets it back.
  const root = table.current?.getRootNode() as Document | ShadowRoot | undefined;
  const held = table.current?.contains(root?.activeElement ?? null) ? root!.activeElement : null;
  useLayoutEffect(() => {
    if (held && !held.isConnected) table.current?.querySelector<HTMLElement>("[tabindex='0']")?.focus();
  });

  const word = (j: number) => (
    <th
      key={j}
      scope={turned ? "row" : "col"}
      class={`key${now.positions?.[query] === j ? " hds-self" : ""}`}
      style={turned ? undefined : { width: `${columns[j + 1]}px` }}
      data-key={j}
    >
      {asks(j) >= 0 ? <Ask {...asking} i={asks(j)} text={now.tokens[j]!} /> : <span>{now.tokens[j]}</span>}
    </th>
  );
  const cell = (head: Row, j: number) => (
    <Weight key={turned ? head : j} head={head} at={j} value={(head === "mean" ? mean : weights[head]!)[query]![j]!} />
  );
  return (
    <>
      <ArcsPicture data={data} layout={layout} query={query} />
      <table key={String(turned)} ref={table} aria-label="Weights of the query that is chosen" style={fixed}>
        <thead>
          <tr>
            <td style={{ width: `${columns[0]}px` }} />
            {turned
              ? rows.map((head, c) => (
                  <th key={head} scope="col" style={{ width: `${columns[c + 1]}px` }}>
                    <ColumnName head={head} />
                  </th>
                ))
              : now.tokens.map((_, j) => word(j))}
          </tr>
        </thead>
        <tbody>
          {turned
            ? now.tokens.map((_, j) => (
                <tr key={j} style={{ height: `${layout.row}px` }}>
                  {word(j)}
                  {rows.map((head) => cell(head, j))}
                </tr>
              ))
            : rows.map((head) => (
                <tr key={head}>
                  <th scope="row">{head === "mean" ? "mean" : <HeadName head={head + 1} />}</th>
                  {now.tokens.map((_, j) => cell(head, j))}
                </tr>
              ))}
        </tbody>
      </table>
    </>
  );
}

const ColumnName = ({ head }: { head: Row }) =>
  head === "mean" ? (
    <>mean</>
  ) : (
    <>
      <span class="bw-unseen">head </span>
      {head + 1}
    </>
  );

/** A weight of the table. One that two digits would show as nothing is a faint dot. */
const Weight = ({ head, at, value }: { head: Row; at: number; value: number }) => (
  <td
    class="hds-cell"
    style={weightStyle(value)}
    data-head={head === "mean" ? head : head + 1}
    data-key={at}
    data-value={value}
  >
    {isFaint(value) ? <FaintDot number={show(value)} /> : <span>{value.toFixed(2)}</span>}
  </td>
);

function ArcsPicture({ data, layout, query }: { data: Data; layout: Layout; query: number }) {
  const { now, weights, shown, labels } = data;
  const { turned, picture } = layout;
  const { arcs, marks, origin } = drawArcs(weights, shown, query, now.positions?.[query] ?? null, layout);
  const said = shown.map(
    (h) => `head ${h + 1}: ${describeRow(weights[h]![query]!, labels.queries[query]!, labels.keys)}`,
  );
  const [width, height] = picture;
  return (
    <Picture
      label={`Arcs. ${said.join(". ")}.`}
      class="hds-arcs"
      width={width}
      height={height}
      style={{ width, height }}
    >
      {arcs.map(({ head, key, weight, path }) => (
        <path
          key={`${head} ${key}`}
          d={path}
          class={`hds-line hds-${head + 1}`}
          style={{ strokeWidth: (1 + 8 * weight).toFixed(2), opacity: (0.25 + 0.75 * weight).toFixed(2) }}
          data-head={head + 1}
          data-key={key}
          data-value={weight}
        />
      ))}
      {origin && <circle cx={origin[0]} cy={origin[1]} r={7} class="hds-origin" />}
      {origin && !turned && (
        <text x={origin[0] + 12} y={origin[1] + 4} class="hds-from query">
          {labels.queries[query]}
        </text>
      )}
      {marks.map(({ head, key, at: [x, y] }) => (
        <g key={`${head} ${key}`} class={`hds-mark hds-${head + 1}`} data-mark={head + 1} data-key={key}>
          <circle cx={x} cy={y} r={MARK} />
          <text x={x} y={y + 3.9}>
            {head + 1}
          </text>
        </g>
      ))}
    </Picture>
  );
}

/** Where the query looks, head by head. A screen reader hears the short form. */
function Told({ data: { now, weights, shown, labels }, query }: { data: Data; query: number }) {
  const name = labels.queries[query]!;
  const shortly = shown.map((h) => `Head ${h + 1}: ${describeBriefly(weights[h]![query]!, labels.keys)}`).join(". ");
  return (
    <>
      <div class="bw-panel hds-panel">
        {shown.map((h) => (
          <p key={h}>
            <Swatch head={h} />
            <b> head {h + 1} </b>
            {describeRow(weights[h]![query]!, name, labels.keys)}
          </p>
        ))}
        {shown.length > 1 && <p class="bw-quiet hds-compared">{compareHeads(weights, query)}.</p>}
        {now.answers && <p class="hds-answers">{now.answers}</p>}
      </div>
      <p class="bw-unseen hds-said" role="status">
        Query “{name}”. {shortly}.{now.answers && ` ${now.answers}`}
      </p>
    </>
  );
}

// ---- Small maps, one for each head --------------------------------------------------------------------------------

interface MapsProps {
  data: Data;
  query: number;
  width: number;
  onPick: (query: number) => void;
}

function Maps({ data: { now, weights, shown, labels }, query, width, onPick }: MapsProps) {
  if (now.queries.length < 2) return null;
  const { left, top, size } = mapLayout(labels.queries, labels.keys, shown.length, width);
  const [m, n] = [now.queries.length, now.tokens.length];
  const [w, h] = [left + n * size + 2, top + m * size + 2];

  function picked(event: Event) {
    const square = event.target instanceof Element ? event.target.closest<SVGElement>("[data-query]") : null;
    if (square) onPick(Number(square.dataset.query));
  }

  return (
    <div class="hds-maps">
      <p class="bw-quiet">
        Each row is a query, each column a key. <Ramp />
      </p>
      <div class="hds-row">
        {shown.map((head) => (
          <figure key={head}>
            <figcaption>
              <HeadName head={head + 1} />
            </figcaption>
            <Picture
              label={`Map of head ${head + 1}, ${m} queries by ${n} keys; in words below`}
              width={w}
              height={h}
              style={{ width: w, height: h }}
              onClick={picked}
            >
              <MapOfHead head={head} weights={weights[head]!} labels={labels} left={left} top={top} size={size} />
              <rect x={left - 1} y={top + query * size - 1} width={n * size + 1} height={size + 1} class="hds-frame" />
            </Picture>
          </figure>
        ))}
      </div>
    </div>
  );
}

interface MapProps {
  head: number;
  weights: Matrix;
  labels: Labels;
  left: number;
  top: number;
  size: number;
}

/** Squares and names: they do not change with the query, so they are made once. */
function MapOfHead({ head, weights, labels, left, top, size }: MapProps) {
  return useMemo(
    () => (
      <g>
        {weights.map((row, i) =>
          row.map((weight, j) => (
            <rect
              key={`${i} ${j}`}
              x={left + j * size}
              y={top + i * size}
              width={size - 1}
              height={size - 1}
              style={{ fill: weightColours(weight).ground }}
              data-head={head + 1}
              data-query={i}
              data-key={j}
              data-value={weight}
            >
              <title>{`${labels.queries[i]} → ${labels.keys[j]}: ${weight.toFixed(3)}`}</title>
            </rect>
          )),
        )}
        {labels.queries.map((text, i) => (
          <text key={i} x={left - 4} y={top + (i + 0.5) * size + 4} class="query" text-anchor="end">
            {text}
          </text>
        ))}
        {labels.keys.map((text, j) => (
          <text key={j} class="key" transform={`translate(${left + (j + 0.5) * size + 4} ${top - 4}) rotate(-90)`}>
            {text}
          </text>
        ))}
      </g>
    ),
    [head, weights, labels, left, top, size],
  );
}

export default defineWidget<State, Data>({
  name: "heads",
  label: "Heads, interactive",
  settle,
  linked: ["model", "sentence", "query", "head"],
  compute,
  View,
});
