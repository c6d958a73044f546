/* The plane: one query among keys, and its output among values, with two features each. */

import type { ComponentChildren, RefObject } from "preact";
import { useRef } from "preact/hooks";
import { Fitting, Lettering, Line, Picture } from "../../kit/chart.tsx";
import { Button, Choice } from "../../kit/controls.tsx";
import { RovingRow } from "../../kit/grid.tsx";
import "../../kit/kit.css";
import { range, withPlace } from "../../kit/maths.ts";
import { useGlide } from "../../kit/motion.ts";
import { Panel, TextAlternative } from "../../kit/panel.tsx";
import { isFaint, minus, named } from "../../kit/text.ts";
import { defineWidget, Heading, useIds, type ViewProps } from "../../kit/widget.tsx";
import { clustersOf, LINE, placeLabels } from "./labels.ts";
import { type Computed, compute, footOf, hull, LIMITS, type Point, type Points, type State, settle } from "./maths.ts";
import "./style.css";
import { arithmetic, describe, pair, sayOutput, sayWeight, short } from "./words.ts";

export * from "./labels.ts";
export * from "./maths.ts";
export * from "./words.ts";

type Props = ViewProps<State, Computed>;
/** Whether the query glides to where it is sent, as it does when a button sends it, and not when a hand moves it. */
type Gliding = { glides: RefObject<boolean> };

const same = (a: readonly number[], b: readonly number[]) => a.join() === b.join();

// ---- The view -----------------------------------------------------------------------------------------------------

function View(props: Props) {
  const { state, data, write } = props;
  const glides = useRef(false);
  const query = useGlide(state.query, glides);
  const drawn = { ...state, query: [...query] };
  const onItsWay = { ...props, state: drawn, data: compute(drawn) };

  return (
    <>
      <Heading>Turn the query</Heading>
      <p class="bw-note">
        Drag the arrow, a key or a value, or use the arrow keys. Press a word to hide it. {state.note}
      </p>
      <Controls {...props} glides={glides} />
      <div class="bw-pair pl-planes">
        <div>
          <p class="pl-title">
            <span class="query">Query {pair(state.query)}</span> among <span class="key">keys</span>
          </p>
          <Fitting>{(width) => <Asking {...onItsWay} {...{ glides, width, write }} said={state} />}</Fitting>
        </div>
        <div>
          <p class="pl-title">
            Output {data.open.length ? pair(data.output) : ""} among <span class="value">values</span>
          </p>
          <Fitting>{(width) => <Learning {...onItsWay} {...{ glides, width, write }} said={state} />}</Fitting>
        </div>
      </div>
      <div class="pl-below">
        <Weights {...props} />
        <Panel
          title={`${named(state.words)[state.word]}: ${sayWeight(state, data, state.word)}. ${sayOutput(state, data)}.`}
        >
          <Arithmetic {...props} />
        </Panel>
      </div>
      <TextAlternative title="All of this in words" lines={describe(state, data)} />
    </>
  );
}

/** The queries of the words, and who asks each: words with the same query ask together. */
function askers({ words, first: { queries } }: State) {
  const asked = queries.map((query, i) => ({ query, names: [words[i]!], i }));
  const groups = asked.filter(({ query, i }) => queries.findIndex((other) => same(other, query)) === i);
  for (const group of groups) {
    const names = asked.filter(({ query }) => same(query, group.query)).flatMap(({ names }) => names);
    group.names = [...new Set(names)];
  }
  const length = (query: number[]) => Math.hypot(...query);
  return groups.sort((a, b) => length(b.query) - length(a.query));
}

function Controls({ state, data, write, glides }: Props & Gliding) {
  const all = askers(state);
  const { keys, values } = state.first;

  function ask(change: Partial<State>) {
    glides.current = true;
    write(change);
  }
  return (
    <div class="bw-controls">
      <Choice
        name="asks"
        label="Who asks?"
        options={all.map(({ names, i }) => ({ value: String(i), text: names.join(", ") }))}
        value={String(all.find(({ query }) => same(query, state.query))?.i ?? "")}
        onChange={(value) => ask({ query: state.first.queries[Number(value)]! })}
      />
      <Choice
        name="divisor"
        label={`Divide scores by ${short(data.tau)}`}
        options={state.divisors.map(({ name, text, spoken }) => ({
          value: name,
          text,
          label: `divide by ${spoken}`,
        }))}
        value={state.divisor}
        onChange={(divisor) => write({ divisor })}
      />
      <Button
        name="reset"
        kind="plain"
        onClick={() => ask({ query: all[0]!.query, keys, values, masked: [], divisor: "sqrt(d_k)" })}
      >
        Reset
      </Button>
    </div>
  );
}

/** The words in their order, each with its weight. */
function Weights({ state, data, write }: Props) {
  const { weights } = data;
  const names = named(state.words);
  const id = useIds();
  return (
    <RovingRow kind="pl-weights" label="Words and their weights" stop={state.word}>
      {state.words.map((word, j) => {
        const off = state.masked.includes(j);
        return (
          <div
            key={j}
            class={j === state.word ? "pl-chosen" : ""}
            onFocusIn={() => j !== state.word && write({ word: j })}
            onPointerEnter={(event) => event.pointerType === "mouse" && j !== state.word && write({ word: j })}
          >
            <span class="pl-bar" aria-hidden="true">
              <span style={{ height: `${(100 * weights[j]!).toFixed(1)}%` }} />
            </span>
            <b data-weight={weights[j]} aria-hidden="true">
              {off ? "–" : weights[j]!.toFixed(2)}
            </b>
            <button
              type="button"
              class="bw-button bw-word"
              id={id(`mask-${j}`)}
              tabIndex={j === state.word ? 0 : -1}
              aria-pressed={off}
              aria-label={`${names[j]}: ${sayWeight(state, data, j)}`}
              onClick={() => write({ word: j, masked: withPlace(state.masked, j, !off) })}
            >
              {off ? <s>{word}</s> : word}
            </button>
          </div>
        );
      })}
    </RovingRow>
  );
}

/** How the weight of the chosen word came about. */
function Arithmetic({ state, data }: Props) {
  return (
    <span class="pl-sums">
      {arithmetic(state, data, state.word).map(({ name, power, sum }) => (
        <span key={name}>
          <i>
            {name}
            {power && <sup>{power}</sup>}
          </i>{" "}
          = {sum}
        </span>
      ))}
    </span>
  );
}

// ---- A plane ------------------------------------------------------------------------------------------------------

/** From numbers to the pixels of a drawing, and back: both axes have one scale, and the limits fit in. */
function viewOf([least, most]: readonly [number, number], width: number, height: number) {
  const middle = (least + most) / 2;
  const scale = (Math.min(width, height) - 44) / (most - least);
  return {
    width,
    height,
    at: (point: readonly number[]): Point => [
      width / 2 + (point[0]! - middle) * scale,
      height / 2 - (point[1]! - middle) * scale,
    ],
    back: ([x, y]: Point): number[] => [(x - width / 2) / scale + middle, (height / 2 - y) / scale + middle],
  };
}
type Plane = ReturnType<typeof viewOf>;

const heightFor = (width: number) => Math.round(Math.min(Math.max(0.7 * width, 190), 245));
/** The radius of a dot, whose area grows with the weight. */
const radiusOf = (weight: number) => 4 + 11 * Math.sqrt(weight);

interface AxesProps {
  plane: Plane;
  names: string[];
  ticks: number[];
  /** The ticks that have a number: few, since points need the room. */
  numbers: number[];
}

/** Grid, axes with their names, and numbers at them. */
function Axes({ plane, names, ticks, numbers }: AxesProps) {
  const { at, width, height } = plane;
  const [x0, y0] = at([0, 0]);
  return (
    <g>
      {ticks.map((tick) => (
        <g key={tick}>
          <Line from={[at([tick, 0])[0], 0]} to={[at([tick, 0])[0], height]} kind="bw-grid" />
          <Line from={[0, at([0, tick])[1]]} to={[width, at([0, tick])[1]]} kind="bw-grid" />
        </g>
      ))}
      <Line from={[0, y0]} to={[width, y0]} kind="bw-axis" />
      <Line from={[x0, 0]} to={[x0, height]} kind="bw-axis" />
      {numbers.map((tick) => (
        <g key={tick}>
          <Lettering at={[at([tick, 0])[0] + 2, y0 - 3]} anchor="start">
            {minus(String(tick))}
          </Lettering>
          <Lettering at={[x0 - 4, at([0, tick])[1] + 4]} anchor="end">
            {minus(String(tick))}
          </Lettering>
        </g>
      ))}
      <Lettering at={[width - 2, y0 + 14]} anchor="end">
        {names[0]} →
      </Lettering>
      <Lettering at={[x0 + 6, 11]} anchor="start">
        {names[1]} ↑
      </Lettering>
    </g>
  );
}

interface DotsProps {
  state: State;
  weights: number[];
  places: readonly Point[];
  plane: Plane;
  kind: "key" | "value";
  /** One more label that has to find its place. */
  also: { text: string; at: Point; kind: string } | null;
  /** Points along an arrow that labels should not lie on. */
  arrow?: readonly Point[];
  /** What is said of words whose vector is zero. */
  nothing?: string;
}

/** The points of the words, as large as their weights, and their names: words at one place share a label. */
function Dots({ state: { words, masked, word }, weights, places, plane, kind, also, arrow = [], nothing }: DotsProps) {
  const clusters = clustersOf(places);
  const zero = plane.at([0, 0]);
  const isZero = (j: number) => places[j]![0] === zero[0] && places[j]![1] === zero[1];
  const said = (cluster: readonly number[]) => (nothing && cluster.every(isZero) ? `: ${nothing}` : "");
  const wide = (letters: number) => 7.6 * letters + 4;
  const labelled = [
    ...clusters.map((cluster) => ({
      at: places[cluster[0]!]!,
      radius: radiusOf(Math.max(...cluster.map((j) => weights[j]!))),
      width: wide(cluster.map((j) => words[j]!).join(", ").length) + 6.5 * said(cluster).length, // not bold: narrower
    })),
    ...(also ? [{ at: also.at, radius: 8, width: wide(also.text.length) }] : []),
  ];
  const boxes = placeLabels(labelled, plane.width, plane.height, arrow);
  const last = boxes.at(-1)!;
  return (
    <g>
      {places.map(([x, y], j) => (
        <circle
          key={j}
          cx={x}
          cy={y}
          r={radiusOf(weights[j]!)}
          class={`pl-dot ${kind}${isZero(j) ? " pl-zero" : ""}${masked.includes(j) ? " pl-masked" : ""}${j === word ? " pl-chosen" : ""}`}
        />
      ))}
      {clusters.map((cluster, c) => (
        <text key={c} x={boxes[c]!.left + 2} y={boxes[c]!.top + LINE - 4} class={`pl-name ${kind}`}>
          {cluster.map((j, place) => (
            <tspan key={j} class={`${masked.includes(j) ? "pl-masked" : ""}${j === word ? " pl-chosen" : ""}`}>
              {words[j]}
              {place < cluster.length - 1 ? ", " : ""}
            </tspan>
          ))}
          {said(cluster) && <tspan class="pl-nothing">{said(cluster)}</tspan>}
        </text>
      ))}
      {also && (
        <text x={last.left + 2} y={last.top + LINE - 4} class={`pl-name ${also.kind}`}>
          {also.text}
        </text>
      )}
    </g>
  );
}

type Drawing = Props & Gliding & { width: number; said: State };

/** The query as an arrow, the keys as arrows with a dot, and how far the chosen key reaches along the query. */
function Asking({ state, data, said, width, write, glides }: Drawing) {
  const plane = viewOf(LIMITS.keys, width, heightFor(width));
  const { query, keys, words, wanted, word } = state;
  const [origin, tip] = [plane.at([0, 0]), plane.at(query)];
  const foot = footOf(keys[word]!, query);
  const long = Math.hypot(tip[0] - origin[0], tip[1] - origin[1]);
  const along: Point = [(tip[0] - origin[0]) / (long || 1), (tip[1] - origin[1]) / (long || 1)];
  const beyond: Point = [tip[0] + 14 * along[0], tip[1] + 14 * along[1]]; // so that its name is not on the arrow
  const told = keys.map((key, j) => `${words[j]} ${pair(key)}`).join(", ");
  return (
    <Stage
      plane={plane}
      label={`The query ${pair(said.query)} and the keys ${told}`}
      handles={<Handles {...{ state: said, write, glides, plane }} kind="keys" />}
    >
      <Axes plane={plane} names={wanted} ticks={[-1, 1, 2, 3, 4]} numbers={[2, 4]} />
      {keys.map((key, j) => (
        <Line key={j} from={origin} to={plane.at(key)} kind="pl-key" />
      ))}
      {foot && !state.masked.includes(word) && (
        <>
          <Line from={plane.at(keys[word]!)} to={plane.at(foot)} kind="pl-drop" />
          <Line from={origin} to={plane.at(foot)} kind="pl-reach" />
        </>
      )}
      <Dots
        state={state}
        weights={data.weights}
        places={keys.map(plane.at)}
        plane={plane}
        kind="key"
        nothing="no offer"
        also={{ text: "query", at: beyond, kind: "query" }}
        arrow={range(11).map(
          (i): Point => [origin[0] + (i / 10) * (tip[0] - origin[0]), origin[1] + (i / 10) * (tip[1] - origin[1])],
        )}
      />
      <Line from={origin} to={tip} kind="pl-query" />
      {long > 1 ? <Head at={tip} along={along} /> : null}
      <circle cx={tip[0]} cy={tip[1]} r={long > 1 ? 0 : 5} class="pl-head" />
    </Stage>
  );
}

/** The head of an arrow. */
function Head({ at: [x, y], along: [a, b] }: { at: Point; along: Point }) {
  const corner = (back: number, side: number) => `${x - back * a - side * b},${y - back * b + side * a}`;
  return <polygon points={`${x + 2 * a},${y + 2 * b} ${corner(13, 7)} ${corner(13, -7)}`} class="pl-head" />;
}

/** The values within their hull, each pulling at the output as strongly as its weight. */
function Learning({ state, data, said, width, write, glides }: Drawing) {
  const plane = viewOf(LIMITS.values, width, heightFor(width));
  const { values, words, learned } = state;
  const { weights, output, open } = data;
  const out = plane.at(output);
  const told = values.map((value, j) => `${words[j]} ${pair(value)}`).join(", ");
  const corners = hull(open.map((j) => values[j]!)).map(plane.at);
  return (
    <Stage
      plane={plane}
      label={`The values ${told}. ${sayOutput(said, compute(said))}.`}
      handles={<Handles {...{ state: said, write, glides, plane }} kind="values" />}
    >
      <Axes plane={plane} names={learned} ticks={[0.5, 1]} numbers={[0.5]} />
      <polygon points={corners.map((corner) => corner.join()).join(" ")} class="pl-hull" />
      {open.map((j) => (
        <line
          key={j}
          x1={plane.at(values[j]!)[0]}
          y1={plane.at(values[j]!)[1]}
          x2={out[0]}
          y2={out[1]}
          class="pl-pull"
          stroke-width={isFaint(weights[j]!) ? 0 : 1 + 7 * weights[j]!}
        />
      ))}
      <Dots
        state={state}
        weights={weights}
        places={values.map(plane.at)}
        plane={plane}
        kind="value"
        also={open.length ? { text: "output", at: out, kind: "pl-out" } : null}
      />
      {open.length > 0 && (
        <rect
          x={out[0] - 6}
          y={out[1] - 6}
          width={12}
          height={12}
          transform={`rotate(45 ${out.join(" ")})`}
          class="pl-output"
        />
      )}
    </Stage>
  );
}

interface StageProps {
  plane: Plane;
  label: string;
  handles: ComponentChildren;
  children: ComponentChildren;
}

/** A drawing, and what can be taken hold of above it. */
function Stage({ plane: { width, height }, label, handles, children }: StageProps) {
  return (
    <div class="pl-stage" style={{ height }}>
      <Picture label={label} width={width} height={height}>
        {children}
      </Picture>
      {handles}
    </div>
  );
}

// ---- Hands --------------------------------------------------------------------------------------------------------

type HandlesProps = Pick<Props, "state" | "write"> & Gliding & { plane: Plane; kind: Points };

/** Everything in a plane that can be moved. Tab leads to the query and to the chosen word; a press chooses another. */
function Handles({ state, write, glides, plane, kind }: HandlesProps) {
  const names = named(state.words);
  const features = kind === "keys" ? state.wanted : state.learned;
  const common = { plane, features, limits: LIMITS[kind], step: kind === "keys" ? 0.25 : 0.05 };
  const moved = (change: Partial<State>) => {
    glides.current = false;
    write(change);
  };
  return (
    <>
      {range(names.length).map((j) => (
        <Handle
          key={j}
          {...common}
          label={`${kind === "keys" ? "key" : "value"} of ${names[j]}`}
          point={state[kind][j]!}
          chosen={j === state.word}
          onHold={() => j !== state.word && write({ word: j })}
          onMove={(to) => moved({ [kind]: state[kind].map((old, i) => (i === j ? to : old)) })}
        />
      ))}
      {kind === "keys" && (
        <Handle {...common} label="query" point={state.query} chosen onMove={(query) => moved({ query })} />
      )}
    </>
  );
}

interface HandleProps {
  label: string;
  point: number[];
  features: string[];
  limits: readonly [number, number];
  /** How far an arrow key moves it. */
  step: number;
  plane: Plane;
  /** Whether Tab leads here, and it lies above others at the same place. */
  chosen: boolean;
  onHold?: () => void;
  onMove: (to: number[]) => void;
}

const WAYS: Record<string, Point> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1] };

const ENDS = ["pointerup", "pointercancel"] as const;

/** A point that is dragged, or walked with the arrow keys. */
function Handle({ label, point, features, limits, step, plane, chosen, onHold, onMove }: HandleProps) {
  const [least, most] = limits;
  const latest = useRef(onMove);
  latest.current = onMove;
  const [x, y] = plane.at(point);
  const within = (to: number[]) => to.map((number) => Math.min(Math.max(number, least), most));

  /** Follow a pointer, wherever it goes, until it lets go. */
  function hold(event: PointerEvent & { currentTarget: HTMLElement }) {
    if (event.button !== 0) return;
    const stage = event.currentTarget.parentElement!;
    const pixelsOf = ({ clientX, clientY }: PointerEvent): Point => {
      const box = stage.getBoundingClientRect(); // of another size than its own pixels on a slide
      const scale = stage.offsetWidth / box.width;
      return [(clientX - box.left) * scale, (clientY - box.top) * scale];
    };
    const [px, py] = pixelsOf(event);
    const follow = (moved: PointerEvent) => {
      if (moved.pointerId !== event.pointerId) return;
      const [toX, toY] = pixelsOf(moved);
      latest.current(within(plane.back([toX - px + x, toY - py + y])));
    };
    const letGo = ({ pointerId }: PointerEvent) => {
      if (pointerId !== event.pointerId) return;
      removeEventListener("pointermove", follow);
      for (const end of ENDS) removeEventListener(end, letGo);
    };
    addEventListener("pointermove", follow);
    for (const end of ENDS) addEventListener(end, letGo);
    onHold?.();
  }
  function walk(event: KeyboardEvent) {
    const way = WAYS[event.key];
    if (!way || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault(); // the page must not scroll
    onMove(within(point.map((number, c) => number + way[c]! * step)));
  }
  return (
    <div
      class={`pl-handle${chosen ? " pl-chosen" : ""}`}
      role="slider"
      tabIndex={chosen ? 0 : -1}
      aria-label={label}
      aria-valuemin={least}
      aria-valuemax={most}
      aria-valuenow={point[0]}
      aria-valuetext={features.map((name, c) => `${name} ${short(point[c]!)}`).join(", ")}
      style={{ left: `${x}px`, top: `${y}px` }}
      onKeyDown={walk}
      onFocus={onHold}
      onPointerDown={hold}
    />
  );
}

export default defineWidget<State, Computed>({
  name: "plane",
  label: "Attention in a plane, interactive",
  settle,
  linked: ["query", "keys", "values", "divisor", "masked", "word"],
  compute,
  View,
});
