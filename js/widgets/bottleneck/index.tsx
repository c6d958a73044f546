/* The bottleneck: what two networks wrote, one through a single vector and one with attention, and its weights. */

import type { ComponentChildren, RefObject } from "preact";
import { useRef } from "preact/hooks";
import { Fitting, Lettering, Picture, Ramp } from "../../kit/chart.tsx";
import { weightColours } from "../../kit/colour.ts";
import { Choice, Menu, Slider } from "../../kit/controls.tsx";
import "../../kit/kit.css";
import { argmax, range } from "../../kit/maths.ts";
import { Folded, Panel, ReservedHeight, Scroll } from "../../kit/panel.tsx";
import { Player } from "../../kit/player.tsx";
import { count, isFaint, show } from "../../kit/text.ts";
import { defineWidget, Heading, type ViewProps, Words } from "../../kit/widget.tsx";
import * as maths from "./maths.ts";
import {
  type Case,
  layOut,
  look,
  NETWORKS,
  type Network,
  type Seen,
  SIGN,
  type Spot,
  signs,
  stepsOf,
  tokens,
  type Unit,
} from "./maths.ts";
import "./style.css";
import { capital, describeStep, type Names, sumUp, weightsInWords, wroteInWords } from "./words.ts";

export { argmax } from "../../kit/maths.ts";
export * from "./maths.ts";
export * from "./words.ts";

interface State {
  cases: Case[];
  unit: Unit;
  networks: Names;
  /** The greatest length in training, if there was any. */
  trained_to: number | null;
  note: string;
  /** The small form: the unit and the length alone can be chosen, and no more than what was read and written is shown. */
  compact: boolean;
  length: number;
  /** Counted from 1, as is the step of writing. Before it come 0, when all is read, and below it as much less. */
  sequence: number;
  step: number;
  /** Whether what is written after the step is shown. */
  rest: boolean;
}

/** The cases whose length can be chosen: copies of letters, or sentences. */
const offered = ({ cases, unit }: State): Case[] => cases.filter((one) => one.unit === unit);

function caseOf(state: State): Case {
  const cases = offered(state);
  return cases.find((one) => one.length === state.length) ?? cases.at(-1) ?? state.cases[0]!;
}

const within = (number: number, most: number, least = 1) => Math.min(Math.max(number, least), most);

function settle(state: State): State {
  const here = caseOf(state);
  const sequence = within(state.sequence, here.read.length);
  return {
    ...state,
    unit: here.unit,
    length: here.length,
    sequence,
    step: within(state.step, stepsOf(here), -here.length),
  };
}

function compute(state: State) {
  const here = caseOf(state);
  const seen = look(here, state.sequence);
  const { rest, step, networks } = state;
  return { here, seen, said: describeStep(seen, step, networks), until: rest ? seen.wanted.length : Math.max(step, 0) };
}

type Data = ReturnType<typeof compute>;
type Props = ViewProps<State, Data>;

const bothIn = (said: Data["said"]): string => `${said.plain} ${said.attentive}`;

// ---- The view -----------------------------------------------------------------------------------------------------

function View(props: Props) {
  return props.state.compact ? <Small {...props} /> : <Whole {...props} />;
}

/** What a chapter opens with: the length, both networks at work, and one sentence. */
function Small(props: Props) {
  const { state, data, write } = props;
  const { here, seen } = data;
  const stage = useRef<HTMLDivElement>(null);
  const said = ({ step, rest }: Pick<State, "step" | "rest">, of = seen) =>
    rest || step === of.wanted.length ? sumUp(of, state.networks) : describeStep(of, step, state.networks).short;
  const sentences = state.cases
    .map((one) => look(one, 1))
    .flatMap((of) => [
      said({ step: 1, rest: true }, of),
      ...momentsOf(of).map((step) => said({ step, rest: false }, of)),
    ]);
  return (
    <>
      <Heading>One vector, or attention</Heading>
      <Networks state={state} data={data} stage={stage} />
      <p class="bw-said">
        <ReservedHeight longest={[longest(sentences)]}>{said(state)}</ReservedHeight>
      </p>
      <Moments {...props} stage={stage} />
      <div class="bw-controls">
        <Lengths state={state} here={here} onChoose={({ unit, length }) => write({ unit, length, rest: true })} />
      </div>
    </>
  );
}

/** All moments, from before the first letter or word is read until the last one is written. */
const momentsOf = ({ read, wanted }: Seen): number[] =>
  range(read.length + wanted.length + 1).map((moment) => moment - read.length);

const longest = (texts: string[]): string => texts.reduce((most, one) => (one.length > most.length ? one : most));

/** Reading, then writing, as it goes on in time. */
function Moments({ state, data: { here, seen }, write, stage }: Props & { stage: RefObject<HTMLDivElement | null> }) {
  const say = (step: number) =>
    step > 0
      ? `${state.rest ? here.unit : "writes"} ${step} of ${seen.wanted.length}`
      : `reads ${step + here.length} of ${here.length}`;
  return (
    <Player
      name="step"
      label="Time"
      first={-here.length}
      last={seen.wanted.length}
      at={state.step}
      whole={state.rest}
      say={say}
      onMove={(step) => write({ step, rest: step === seen.wanted.length })}
      stage={stage}
    />
  );
}

function Networks({ state, data, stage }: Pick<Props, "state" | "data"> & { stage: RefObject<HTMLDivElement | null> }) {
  return (
    <div class={`bw-pair${state.compact ? " bot-small" : ""}`} ref={stage}>
      <NetworkPanel state={state} data={data} network="plain">
        Every {data.here.unit} must pass through the same vector, at every step.
      </NetworkPanel>
      <NetworkPanel state={state} data={data} network="attentive">
        Every {data.here.unit} stays in reach. Lines are as wide as the weights of this step.
      </NetworkPanel>
    </div>
  );
}

function Whole({ state, data, write }: Props) {
  const { here, seen, said } = data;
  const stage = useRef<HTMLDivElement>(null);
  const choose = (one: Case) => write({ unit: one.unit, length: one.length, step: Math.min(state.step, stepsOf(one)) });
  const everyStep = momentsOf(seen).map((step) => bothIn(describeStep(seen, step, state.networks)));
  return (
    <>
      <Heading>One vector, or attention</Heading>
      <Controls state={state} data={data} write={write} onChoose={choose} />
      {state.note && (
        <p class="bw-note">
          <Words>{state.note}</Words>
        </p>
      )}
      <Networks state={state} data={data} stage={stage} />
      <Moments state={state} data={data} write={write} stage={stage} />
      <Panel title={said.wanted}>
        <ReservedHeight longest={[longest(everyStep)]}>{bothIn(said)}</ReservedHeight>
      </Panel>
      <p class="bot-title">All weights of attention</p>
      <p class="bw-quiet">
        A row for each {here.unit} written, a column for each {here.unit} read. <Ramp />
      </p>
      <Fitting>
        {(width) => (
          <Matrix seen={seen} step={state.step} until={data.until} width={width} onChoose={(step) => write({ step })} />
        )}
      </Fitting>
      <Folded title="Every length as a table, and this step in words">
        <p class="bw-quiet">
          Share of {here.unit}s right, over {count(here.total, "sequence")} of each length
        </p>
        <Scroll>
          <Accuracies state={state} />
        </Scroll>
        <ul>
          {inWords(state, data).map((line) => (
            <li key={line}>{line}</li>
          ))}
        </ul>
      </Folded>
    </>
  );
}

interface LengthsProps {
  state: State;
  here: Case;
  onChoose: (one: Case) => void;
}

/** Letters or sentences, if there are both, and how long. */
function Lengths({ state, here, onChoose }: LengthsProps) {
  const cases = offered(state);
  const practised = ({ unit, length }: Case) => unit === "word" || length <= (state.trained_to ?? length);
  const begin = (unit: Unit) => state.cases.filter((one) => one.unit === unit && practised(one)).at(-1);
  const say = (one: Case) => count(one.length, one.unit) + (practised(one) ? "" : ", not practised");
  return (
    <>
      {begin("word") && (
        <Choice
          name="unit"
          label="What is read"
          hidden
          options={[
            { value: "word", text: "A sentence" },
            { value: "letter", text: "Letters" },
          ]}
          value={here.unit}
          onChange={(unit) => onChoose(begin(unit)!)}
        />
      )}
      <Slider
        name="length"
        label="Length"
        min={0}
        max={cases.length - 1}
        value={cases.indexOf(here)}
        say={(place) => say(cases[place]!)}
        onChange={(place) => onChoose(cases[place]!)}
      />
    </>
  );
}

function Controls({ state, data: { here }, write, onChoose }: Props & { onChoose: (one: Case) => void }) {
  return (
    <div class="bw-controls">
      <Lengths state={state} here={here} onChoose={onChoose} />
      {here.unit === "letter" && (
        <Menu
          name="sequence"
          label="Sequence"
          options={here.read.map((text, k) => [String(k + 1), `${k + 1}: ${tokens(text).join("")}`] as const)}
          value={String(state.sequence)}
          onChange={(sequence) => write({ sequence: Number(sequence) })}
        />
      )}
    </div>
  );
}

interface PanelProps {
  state: State;
  data: Data;
  network: Network;
  children: ComponentChildren;
}

function NetworkPanel({ state, data, network, children }: PanelProps) {
  const { seen, said } = data;
  const right = seen[network].right.slice(0, data.until).filter(Boolean).length;
  return (
    <div class="bot-network-panel">
      <p class="bot-title">
        <span>{capital(state.networks[network])}</span>
        <b class="bot-score" data-network={network} data-value={right}>
          {data.until ? `${right} of ${data.until} right` : "reads"}
        </b>
      </p>
      <Fitting>
        {(width) => (
          <NetworkDrawing
            seen={seen}
            step={state.step}
            until={data.until}
            network={network}
            names={state.networks}
            label={(state.rest ? [wroteInWords(state.networks[network], seen[network])] : [])
              .concat(said[network])
              .join(" ")}
            width={width}
            height={Math.max(...state.cases.map((one) => heightOf(look(one, 1), width)))}
          />
        )}
      </Fitting>
      {!state.compact && <p class="bw-quiet">{children}</p>}
    </div>
  );
}

// ---- A network at work --------------------------------------------------------------------------------------------

/** Heights: of the first row read, of a box, from one row read or written to the next, of all between read and written. */
const READ = 22;
const BOX = 26;
const LINE = { read: BOX + 9, written: BOX + 24 };
const BETWEEN = 56;
const NECK = 96; // its width
const LANE = 4; // from the edge to the middle of the lane in which lines pass the rows
const GAP = LINE.read - BOX; // above a row, free of letters

/** Where letters or words stand, with a lane on each side. */
function place(texts: string[], unit: Unit, width: number, below?: string[]) {
  const { spots, ...rest } = layOut(texts, unit, width - 3 * LANE, below);
  return { ...rest, spots: spots.map((spot) => ({ ...spot, x: spot.x + 1.5 * LANE })) };
}

type Point = readonly [x: number, y: number];

/** A line down through some points. */
const thread = (points: Point[]): string =>
  points
    .map(([x, y], k) => {
      const [before, above] = points[k - 1] ?? [x, y];
      return k ? `C${before},${(above + y) / 2} ${x},${(above + y) / 2} ${x},${y}` : `M${x},${y}`;
    })
    .join(" ");

interface DrawingProps {
  seen: Seen;
  step: number;
  /** How many of those written are shown. */
  until: number;
  network: Network;
  names: Names;
  label: string;
  width: number;
  height: number;
}

/** The height that a sequence needs: both networks' drawings are as high. */
function heightOf({ unit, read, plain, attentive }: Seen, width: number): number {
  const rows = (texts: string[], below?: string[]) => place(texts, unit, width, below).rows;
  const written = Math.max(...[plain, attentive].map((one) => rows(one.wrote, signs(one))));
  return READ + (rows(read) - 1) * LINE.read + BOX + BETWEEN + written * LINE.written + 8;
}

/** What is read above, what is written below, and between them what the network has to go by at this step. */
function NetworkDrawing({ seen, step, until, network, names, label, width, height }: DrawingProps) {
  const { read, weights, unit } = seen;
  const { wrote, right } = seen[network];
  const below = signs(seen[network]);
  const source = place(read, unit, width);
  const target = place(wrote, unit, width, below);
  const end = READ + (source.rows - 1) * LINE.read + BOX; // of what is read
  const written = end + BETWEEN + height - heightOf(seen, width);
  const readAt = ({ x, row }: Spot): Point => [x, READ + row * LINE.read];
  const writtenAt = ({ x, row }: Spot): Point => [x, written + row * LINE.written];
  const lane = (x: number) => (x < width / 2 ? LANE : width - LANE);
  const from = source.spots.map((spot): Point[] => {
    const [x, y] = readAt(spot);
    const last = spot.row === source.rows - 1;
    return [
      [x, y + BOX],
      ...(last
        ? []
        : ([
            [lane(x), y + LINE.read],
            [lane(x), end],
          ] satisfies Point[])),
    ];
  });
  function wayTo(spot: Spot): Point[] {
    const [x, y] = writtenAt(spot);
    return [
      ...(spot.row
        ? ([
            [lane(x), written],
            [lane(x), y - GAP],
          ] satisfies Point[])
        : []),
      [x, y],
    ];
  }
  const i = step - 1;
  const row = network === "plain" ? null : weights[i];
  const goal = step > 0 ? wayTo(target.spots[i]!) : null;
  const taken = step > 0 ? read.length : read.length + step; // read so far
  return (
    <Picture label={label} width={width} height={height} class="bot-network">
      {row && goal && <Flows {...{ row, from, goal, width }} />}
      {network === "plain" && (
        <Bottle {...{ taken, from, goal }} at={[width / 2, (end + written - BOX) / 2]} name={names.plain} />
      )}
      <text x={4} y={14} class="bot-side">
        read
      </text>
      <text x={4} y={height - 3} class="bot-side">
        written
      </text>
      {read.map((letter, j) => (
        <Letter
          key={j}
          letter={letter}
          at={readAt(source.spots[j]!)}
          box={source.spots[j]!.box}
          font={source.font}
          {...(row ? { weight: row[j]! } : {})}
          kind={`bot-read${j < taken ? (network === "plain" ? "" : " bot-kept") : " bot-later"}${step <= 0 && j === taken - 1 ? " bot-now" : ""}`}
          data-read={j}
        />
      ))}
      {target.spots.slice(until).map((spot, l) => (
        <rect
          key={l}
          x={spot.x - spot.box / 2}
          y={writtenAt(spot)[1]}
          width={spot.box}
          height={BOX}
          rx={4}
          class="bot-open"
        />
      ))}
      {wrote.slice(0, until).map((letter, l) => (
        <Marked
          key={l}
          letter={letter}
          at={writtenAt(target.spots[l]!)}
          box={target.spots[l]!.box}
          font={target.font}
          kind={`${right[l] ? "bot-right" : "bot-wrong"}${l === i ? " bot-now" : ""}`}
          sign={below[l]!}
          data-written={l}
        />
      ))}
    </Picture>
  );
}

interface FlowsProps {
  row: number[];
  from: Point[][];
  goal: Point[];
  width: number;
}

/** A line for each weight, and the largest as a number. */
function Flows({ row, from, goal, width }: FlowsProps) {
  const best = argmax(row);
  const [x, y] = [0, 1].map((axis) => (from[best]!.at(-1)![axis]! + goal[0]![axis]!) / 2) as [number, number]; // half-way
  return (
    <>
      {row.map(
        (weight, j) =>
          !isFaint(weight) && (
            <path
              key={j}
              d={thread([...from[j]!, ...goal])}
              class="bot-flow"
              stroke-width={(0.8 + 6 * weight).toFixed(2)}
            />
          ),
      )}
      <Lettering at={[within(x, width - 18, 18), y + 4]} kind="bot-weight">
        {show(row[best]!)}
      </Lettering>
    </>
  );
}

interface BottleProps {
  /** How many have been read. */
  taken: number;
  from: Point[][];
  /** Where it writes, if it does. */
  goal: Point[] | null;
  /** The middle of the vector's upper edge. */
  at: Point;
  name: string;
}

/** All that is read into one vector, one after the other, and out of it. */
function Bottle({ taken, from, goal, at: [x, top], name }: BottleProps) {
  const box = { x: x - NECK / 2, y: top, height: BOX, rx: 13 };
  return (
    <>
      {from.map((way, j) => {
        const now = !goal && j === taken - 1;
        return (
          <path
            key={j}
            d={thread([...way, [x, top + 2]])}
            class={`bot-in${j < taken ? "" : " bot-later"}${now ? " bot-going" : ""}`}
          />
        );
      })}
      {goal && <path d={thread([[x, top + BOX], ...goal])} class="bot-flow" stroke-width={5} />}
      <rect {...box} width={NECK} class="bot-neck" />
      <rect {...box} width={(NECK * taken) / from.length} class="bot-full" />
      <text x={x} y={top + 17.5} font-size={14} class="bot-letter">
        {name}
      </text>
    </>
  );
}

interface LetterProps {
  letter: string;
  /** The middle of its upper edge. */
  at: Point;
  /** The width of its box, and the size of its type. */
  box: number;
  font: number;
  kind: string;
  weight?: number;
  [data: `data-${string}`]: string | number;
}

/** A letter or a word in its box, which has the colour of its weight. */
function Letter({ letter, at: [x, y], box, font, kind, weight, ...data }: LetterProps) {
  const colours = weight === undefined ? null : weightColours(weight);
  return (
    <>
      <rect
        x={x - box / 2}
        y={y}
        width={box}
        height={BOX}
        rx={Math.min(4, box / 3)}
        class={kind}
        style={colours ? { fill: colours.ground } : undefined}
        {...data}
        data-value={weight}
      />
      <text
        x={x}
        y={y + BOX / 2 + 0.35 * font}
        font-size={font}
        class="bot-letter"
        style={colours ? { fill: colours.ink } : undefined}
      >
        {letter}
      </text>
    </>
  );
}

/** A letter or a word that was written, and below it whether it is right, and its English. */
function Marked({ kind, sign, at: [x, y], ...rest }: Omit<LetterProps, "weight"> & { sign: string }) {
  const right = kind.startsWith("bot-right");
  return (
    <>
      <Letter {...rest} kind={kind} at={[x, y]} data-right={String(right)} />
      <text x={x} y={y + BOX + 13} font-size={SIGN} class={`bot-sign ${kind}`}>
        {sign}
      </text>
    </>
  );
}

// ---- Accuracy by length -------------------------------------------------------------------------------------------

function Accuracies({ state }: { state: State }) {
  const { networks } = state;
  return (
    <table aria-label="Share right, by length">
      <thead>
        <tr>
          {["length", ...NETWORKS.map((network) => networks[network])].map((name) => (
            <th key={name} scope="col">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {offered(state).map((one) => (
          <tr key={one.length}>
            <th scope="row">{one.length}</th>
            {one.accuracy.map((share, network) => (
              <td key={network}>{show(share)}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

// ---- All weights --------------------------------------------------------------------------------------------------

interface MatrixProps {
  seen: Seen;
  step: number;
  until: number;
  width: number;
  onChoose: (step: number) => void;
}

/** The whole matrix: a row for each letter or word written, a column for each that was read. */
function Matrix({ seen: { unit, read, weights, attentive }, step, until, width, onChoose }: MatrixProps) {
  const [m, n] = [weights.length, read.length];
  const longest = (texts: string[]) => 7.7 * Math.max(...texts.map((text) => text.length)) + 16;
  const margins = unit === "letter" ? [] : [longest(attentive.wrote), longest(read)];
  const { size, from, top, font, height } = maths.squares(m, n, width, ...margins);
  const above = (x: number) =>
    unit === "letter"
      ? { x, y: top - 6 }
      : { transform: `translate(${x + 5} ${top - 6}) rotate(-90)`, "text-anchor": "start" as const };
  const row = weights[step - 1];
  const label =
    `Weights of attention: ${m} rows, the ${unit}s written, and ${n} columns, the ${unit}s read. ` +
    (row
      ? `Row ${step}, ${attentive.wrote[step - 1]}, is marked; its largest weight is ${show(Math.max(...row))}, in column ${argmax(row) + 1}.`
      : "None is written yet.");

  function picked(event: Event) {
    const line = event.target instanceof Element ? event.target.closest<SVGElement>("[data-step]") : null;
    if (line) onChoose(Number(line.dataset.step));
  }

  return (
    <Picture label={label} width={width} height={height} class="bot-matrix" onClick={picked}>
      {read.map((letter, l) => (
        <text key={l} {...above(from + (l + 0.5) * size)} font-size={font} class="bot-letter key">
          {letter}
        </text>
      ))}
      {weights.map((line, i) => (
        <g key={i} class={`bot-row${i < until ? "" : " bot-later"}`} data-step={i + 1}>
          <text
            x={from - 5}
            y={top + (i + 0.5) * size + font * 0.35}
            font-size={font}
            text-anchor="end"
            class="bot-letter query"
          >
            {attentive.wrote[i]}
          </text>
          {line.map((weight, l) => (
            <rect
              key={l}
              x={from + l * size}
              y={top + i * size}
              width={size}
              height={size}
              style={{ fill: weightColours(weight).ground }}
              data-row={i}
              data-column={l}
              data-value={weight}
            />
          ))}
        </g>
      ))}
      <rect x={from} y={top} width={n * size} height={m * size} class="bot-frame" />
      {row && (
        <rect
          x={from - 1}
          y={top + (step - 1) * size - 1}
          width={n * size + 2}
          height={size + 2}
          rx={2}
          class="bot-here"
        />
      )}
    </Picture>
  );
}

function inWords({ networks, step }: State, { seen, said, until }: Data): string[] {
  const texts: [title: string, text: string[]][] = [
    ["Read", seen.read],
    ["To be written", seen.wanted],
    ...NETWORKS.map((network): [string, string[]] => [
      `${capital(networks[network])} wrote`,
      until ? seen[network].wrote.slice(0, until) : ["nothing yet"],
    ]),
  ];
  return [
    ...texts.map(([title, text]) => `${title}: ${text.join(" ")}`),
    said.wanted,
    said.plain,
    said.attentive,
    ...(step > 0 ? [weightsInWords(seen, step)] : []),
  ];
}

export default defineWidget<State, Data>({
  name: "bottleneck",
  label: "The bottleneck, interactive",
  settle,
  compute,
  View,
});
