/* Move a word: what a score depends on, under each kind of position, as words move through a text. */

import { useRef } from "preact/hooks";
import { Gridlines, Lettering, Line, Picture, pathThrough, useWidth } from "../../kit/chart.tsx";
import { Choice, Menu, Slider, Toggle } from "../../kit/controls.tsx";
import "../../kit/kit.css";
import { range } from "../../kit/maths.ts";
import { Folded, Panel, ReservedHeight, TextAlternative } from "../../kit/panel.tsx";
import { Covered, useQuestions } from "../../kit/quiz.tsx";
import { minus, named, show } from "../../kit/text.ts";
import { defineWidget, Heading, type ViewProps } from "../../kit/widget.tsx";
import { type Computed, compute, moveAll, moveWord, type OfKind, type State, settle } from "./maths.ts";
import "./style.css";
import { describe, nameOf, questions, showChange, showScore, signed, stays } from "./words.ts";

export * from "./maths.ts";
export * from "./words.ts";

type Props = ViewProps<State, Computed>;

const wordsOf = (state: State) => named(state.sentence.split(" "));

// ---- The view -----------------------------------------------------------------------------------------------------

function View(props: Props) {
  return props.state.compact ? <Small {...props} /> : <Whole {...props} />;
}

/** What a chapter opens with: words to be moved, and four kinds of position. */
function Small(props: Props) {
  const { state, data } = props;
  const kinds = data.kinds.filter(({ kind }) => kind !== "learned");
  return (
    <>
      <Heading>Move a word</Heading>
      <Lanes {...props} />
      <Together {...props} />
      <Plots state={state} data={data} kinds={kinds} />
      <p class="bw-unseen" role="status">
        {sayMoved(state)} <Changes state={state} kinds={kinds} />
      </p>
    </>
  );
}

function Whole(props: Props) {
  const { state, data, write } = props;
  const { quiz, turn, covered } = useQuestions(state.predict, () => questions(state), write);
  return (
    <>
      <Heading beside={<Toggle name="predict" label="Predict first" on={state.predict} onChange={turn} />}>
        Move a word
      </Heading>
      <p class="bw-note">
        Drag a word, or walk it with the arrow keys. Then move all words together: which scores notice?
      </p>
      <Asking {...props} />
      <Lanes {...props} />
      <Together {...props} />
      {quiz}
      <Covered when={covered}>
        <Plots state={state} data={data} kinds={data.kinds} />
        <Panel title={<ReservedHeight longest={[sayMoved(state, 0)]}>{sayMoved(state)}</ReservedHeight>}>
          <Changes state={state} kinds={data.kinds} />
        </Panel>
        <TextAlternative
          title="All of this in words"
          lines={data.kinds.map((one) => describe(state, one, data.distance))}
        />
      </Covered>
      <Settings {...props} />
    </>
  );
}

/** Which scores noticed that all words have moved together: a number for each kind. */
function Changes({ state, kinds }: { state: State; kinds: OfKind[] }) {
  return (
    <span class="bw-wrap mw-changes">
      {kinds.map(({ kind, change }) => (
        <span key={kind}>
          <span class="bw-quiet">{nameOf(state, kind)}</span>{" "}
          <b
            class={state.shift === 0 ? "bw-none" : stays(change) ? "bw-good" : "bw-bad"}
            data-change={kind}
            data-value={change}
          >
            {state.shift === 0 ? "–" : showChange(change)}
          </b>{" "}
        </span>
      ))}
    </span>
  );
}

const sayMoved = (state: State, by = state.shift) =>
  by === 0
    ? `Move all words together: by how much does any of the ${state.places.length ** 2} scores change?`
    : `All words moved by ${signed(by)}. Of all ${state.places.length ** 2} scores, the largest change:`;

function Asking({ state, write }: Props) {
  const words = wordsOf(state);
  const options = words.map((text, i) => ({ value: String(i), text }));
  const swap = (role: "query" | "key", word: number) => {
    const other = role === "query" ? "key" : "query";
    write({ [role]: word, ...(state[other] === word ? { [other]: state[role] } : {}) });
  };
  return (
    <div class="bw-controls">
      {state.sentences.length > 1 && (
        <Menu
          name="sentence"
          label="Sentence"
          value={state.sentence}
          options={state.sentences.map((one) => [one, one] as const)}
          onChange={(sentence) => {
            const { places, query, key } = settle({ ...state, sentence });
            write({ sentence, places, shift: 0, query, key });
          }}
        />
      )}
      <Choice
        name="query"
        label="asks (query)"
        options={options.map((one) => ({ ...one, label: `${one.text} asks` }))}
        value={String(state.query)}
        onChange={(word) => swap("query", Number(word))}
      />
      <Choice
        name="key"
        label="is asked (key)"
        options={options.map((one) => ({ ...one, label: `${one.text} is asked` }))}
        value={String(state.key)}
        onChange={(word) => swap("key", Number(word))}
      />
    </div>
  );
}

// ---- Words at places ----------------------------------------------------------------------------------------------

/** Pixels left and right of the first and the last place: half of the longest word. */
const sideOf = (words: readonly string[]): number =>
  Math.round(Math.max(34, 22 + 4.3 * Math.max(...words.map((word) => word.length))));

/** Each word in a lane of its own, on a ruler of places. */
function Lanes({ state, data, write }: Props) {
  const [box, width] = useWidth<HTMLDivElement>();
  const words = wordsOf(state);
  const side = sideOf(words);
  const x = (place: number) => side + ((width! - 2 * side) * place) / (state.length - 1);
  const [t, s] = [state.places[state.query]!, state.places[state.key]!];
  const role = (i: number) => (i === state.query ? "query" : i === state.key ? "key" : "");
  return (
    <div class="mw-lanes" ref={box}>
      {words.map((word, i) => (
        <Lane
          key={i}
          word={word}
          role={role(i)}
          place={state.places[i]!}
          length={state.length}
          side={side}
          width={width}
          onMove={(place) => write(moveWord(state, i, place))}
        />
      ))}
      {width !== null && (
        <Picture
          label={`Places 0 to ${state.length - 1}. ${words.map((word, i) => `${word} at ${state.places[i]}`).join(", ")}.`}
          width={width}
          height={38}
          style={{ width, height: 38 }}
        >
          <Line from={[x(0), 16]} to={[x(state.length - 1), 16]} kind="bw-axis" />
          {range(9).map((i) => {
            const place = Math.round((i * state.length) / 8) - (i === 8 ? 1 : 0);
            return (
              <g key={i}>
                <Line from={[x(place), 16]} to={[x(place), 21]} kind="bw-axis" />
                {(i % 2 === 0 || width > 480) && <Lettering at={[x(place), 34]}>{place}</Lettering>}
              </g>
            );
          })}
          <Line from={[x(t), 9]} to={[x(s), 9]} kind="mw-span" />
          {state.places.map((place, i) => (
            <Line key={i} from={[x(place), 2]} to={[x(place), 16]} kind={`mw-pin ${role(i)}`} />
          ))}
          <text
            x={Math.abs(x(t) - x(s)) > 26 ? (x(t) + x(s)) / 2 : Math.max(x(t), x(s)) + 18}
            y={6}
            text-anchor="middle"
            class="mw-apart"
          >
            {signed(data.distance)}
          </text>
        </Picture>
      )}
    </div>
  );
}

interface LaneProps {
  word: string;
  role: "query" | "key" | "";
  place: number;
  length: number;
  side: number;
  width: number | null;
  onMove: (place: number) => void;
}

const STEPS: Record<string, number> = {
  ArrowLeft: -1,
  ArrowDown: -1,
  ArrowRight: 1,
  ArrowUp: 1,
  PageDown: -8,
  PageUp: 8,
};

/** A word that is dragged along its lane, or walked with the arrow keys. */
function Lane({ word, role, place, length, side, width, onMove }: LaneProps) {
  const held = useRef<number | null>(null); // where in the word it is held, in pixels
  const lane = useRef<HTMLDivElement>(null);
  const step = width === null ? 1 : (width - 2 * side) / (length - 1);
  const pixelsOf = (event: MouseEvent) => {
    const box = lane.current!.getBoundingClientRect(); // of another size than the lane's own pixels on a slide
    return ((event.clientX - box.left) * lane.current!.offsetWidth) / box.width - side;
  };
  const said = role === "" ? "" : role === "query" ? ", asks" : ", is asked";

  function walk(event: KeyboardEvent) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const ends: Record<string, number> = { Home: 0, End: length - 1 };
    const to = ends[event.key] ?? (event.key in STEPS ? place + STEPS[event.key]! : null);
    if (to === null) return;
    event.preventDefault(); // the page must not scroll
    onMove(to);
  }

  return (
    <div class="mw-lane" ref={lane} style={{ backgroundSize: `calc(100% - ${2 * side}px) 1px` }}>
      <div
        class={`mw-word ${role}`}
        role="slider"
        tabIndex={0}
        aria-label={`place of ${word}${said}`}
        aria-valuemin={0}
        aria-valuemax={length - 1}
        aria-valuenow={place}
        style={{ left: `${side + step * place}px` }}
        onKeyDown={walk}
        onPointerDown={(event) => {
          if (event.button !== 0) return;
          event.currentTarget.setPointerCapture(event.pointerId);
          held.current = pixelsOf(event) - step * place;
        }}
        onPointerMove={(event) => {
          if (held.current !== null) onMove((pixelsOf(event) - held.current) / step);
        }}
        onPointerUp={() => {
          held.current = null;
        }}
        onPointerCancel={() => {
          held.current = null;
        }}
      >
        {word} <span>{place}</span>
      </div>
    </div>
  );
}

/** One slider for all words. */
function Together({ state, write }: Props) {
  const [least, most] = [Math.min(...state.places), Math.max(...state.places)];
  const begun = least - state.shift;
  return (
    <Slider
      name="together"
      label="move all words together"
      min={0}
      max={state.length - 1 - (most - least)}
      value={least}
      say={(first) => `by ${signed(first - begun)}`}
      onChange={(first) => write(moveAll(state, first))}
    />
  );
}

// ---- Scores by distance -------------------------------------------------------------------------------------------

interface PlotsProps {
  state: State;
  data: Computed;
  kinds: OfKind[];
}

function Plots({ state, data, kinds }: PlotsProps) {
  const [box, width] = useWidth<HTMLDivElement>();
  const columns = width === null ? 1 : width < 460 ? 2 : state.compact ? kinds.length : 3;
  const gap = columns === 2 ? 8 : 14;
  const each = Math.max(Math.floor(((width ?? 0) - gap * (columns - 1)) / columns), 60);
  return (
    <div
      ref={box}
      class="mw-plots"
      style={{ gridTemplateColumns: `repeat(${columns}, ${each}px)`, columnGap: `${gap}px` }}
    >
      {width !== null &&
        kinds.map((one) => <Plot key={one.kind} state={state} one={one} distance={data.distance} width={each} />)}
      <Legend whole={state.compact} />
    </div>
  );
}

function Legend({ whole }: { whole: boolean }) {
  return (
    <p class={`bw-quiet${whole ? " mw-whole" : ""}`}>
      Across: distance, place of the key less place of the query. <Swatch kind="mw-curve" /> score with the key at every
      place. <Swatch kind="mw-then" /> the same before all moved. <Swatch kind="mw-band" /> where it lies as both move
      through the text.
    </p>
  );
}

const Swatch = ({ kind }: { kind: string }) => (
  <svg class="mw-swatch" width={22} height={10} aria-hidden="true">
    {kind === "mw-band" ? (
      <rect x={0} y={0} width={22} height={10} class={kind} />
    ) : (
      <line x1={1} y1={5} x2={21} y2={5} class={kind} />
    )}
  </svg>
);

/** A few round numbers within two ends. */
function ticksIn(least: number, most: number): number[] {
  const rough = (most - least) / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough)!;
  const first = Math.ceil(least / step);
  return range(Math.floor(most / step) - first + 1).map((i) => (first + i) * step);
}

interface PlotProps {
  state: State;
  one: OfKind;
  distance: number;
  width: number;
}

function Plot({ state, one, distance, width }: PlotProps) {
  // The scale stays the same while words move.
  const all = one.band.flatMap((between) => between ?? []);
  const [least, most] = [Math.min(0, ...all), Math.max(0.5, ...all)];
  const n = state.length;
  const [left, right, ceiling, floor] = [27, width - 4, 6, 84];
  const x = (d: number) => left + ((right - left) * (d + n - 1)) / (2 * (n - 1));
  const y = (score: number) => floor - ((floor - ceiling) * (score - least)) / (most - least || 1);
  const t = state.places[state.query]!;
  const gone = one.score === null || one.before === null ? 0 : Math.abs(one.score - one.before);
  const line = (curve: readonly (number | null)[], from: number) =>
    pathThrough(curve.flatMap((score, s) => (score === null ? [] : [[x(s - from), y(score)] as const])));
  const inBand = one.band.flatMap((between, i) => (between ? [[x(i - n + 1), ...between] as const] : []));
  const outline = [
    ...inBand.map(([at, low]) => [at, y(low)] as const),
    ...[...inBand].reverse().map(([at, , high]) => [at, y(high)] as const),
  ];
  return (
    <div class="mw-plot" data-kind={one.kind}>
      <p class="mw-title">
        {nameOf(state, one.kind)} <b>{showScore(one.score)}</b>
      </p>
      <Picture label={describe(state, one, distance)} width={width} height={104} style={{ width, height: 104 }}>
        <Gridlines
          at={ticksIn(least, most)}
          y={y}
          left={left}
          right={right}
          say={(tick) => minus(String(Number(tick.toPrecision(3))))}
        />
        <path d={`${pathThrough(outline)}Z`} class="mw-band" data-width={one.width} />
        <Line from={[x(0), ceiling]} to={[x(0), floor]} kind="mw-here" />
        {state.shift !== 0 && <path d={line(one.curveBefore, t - state.shift)} class="mw-then" />}
        <path d={line(one.curve, t)} class="mw-curve" />
        {state.shift !== 0 && one.before !== null && (
          <circle cx={x(distance)} cy={y(one.before)} r={5} class="mw-ring" />
        )}
        {one.score !== null && (
          <circle
            cx={x(distance)}
            cy={y(one.score)}
            r={4.5}
            class="mw-dot"
            data-score={one.kind}
            data-value={one.score}
          />
        )}
        {[1 - n, 0, n - 1].map((d, i) => (
          <Lettering key={d} at={[x(d), floor + 16]} anchor={(["start", "middle", "end"] as const)[i]!}>
            {signed(d)}
          </Lettering>
        ))}
      </Picture>
      <p class={one.score !== null && stays(gone) ? "bw-good" : "bw-bad"}>
        {state.shift === 0 ? "\u00a0" : one.score !== null && stays(gone) ? "stays" : `was ${showScore(one.before)}`}
      </p>
    </div>
  );
}

// ---- What positions are made of -----------------------------------------------------------------------------------

function Settings({ state, write }: Props) {
  const at = (all: number[], value: number) => Math.max(0, all.indexOf(value));
  return (
    <Folded title="Loudness of the words, base, pairing, slope and more">
      <div class="bw-controls mw-settings">
        <Slider
          name="content"
          label="loudness of words"
          min={0}
          max={state.contents.length - 1}
          value={at(state.contents, state.content)}
          say={(place) => `× ${show(state.contents[place]!)}`}
          onChange={(place) => write({ content: state.contents[place]! })}
        />
        <Slider
          name="width"
          label="features of a word"
          min={0}
          max={state.widths.length - 1}
          value={at(state.widths, state.d_k)}
          say={(place) => String(state.widths[place])}
          onChange={(place) => write({ d_k: state.widths[place]! })}
        />
        <Slider
          name="base"
          label="base (sinusoidal, rotary)"
          min={0}
          max={state.bases.length - 1}
          value={at(state.bases, state.base)}
          say={(place) => state.bases[place]!.toLocaleString("en")}
          onChange={(place) => write({ base: state.bases[place]! })}
        />
        <Slider
          name="slope"
          label="slope (ALiBi)"
          min={1}
          max={state.slopes.length}
          value={state.head}
          say={(head) => `1/${1 / state.slopes[head - 1]!}`}
          onChange={(head) => write({ head })}
        />
        <Choice
          name="pairing"
          label="pairs (rotary)"
          value={state.pairing}
          options={[
            { value: "halves", text: "halves" },
            { value: "interleaved", text: "interleaved" },
          ]}
          onChange={(pairing) => write({ pairing })}
        />
        <Choice
          name="length"
          label="places"
          value={String(state.length)}
          options={state.lengths.map((length) => ({ value: String(length), text: String(length) }))}
          onChange={(text) => {
            const { places, shift } = settle({ ...state, length: Number(text) });
            write({ length: Number(text), places, shift });
          }}
        />
      </div>
    </Folded>
  );
}

export default defineWidget<State, Computed>({
  name: "move_a_word",
  label: "Move a word, interactive",
  settle,
  compute,
  View,
});
