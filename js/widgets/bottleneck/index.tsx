/* The bottleneck: what two networks wrote, one through a single vector and one with attention, and its weights. */

import type { ComponentChildren } from "preact";
import { Fitting, Lettering, Picture, Ramp } from "../../kit/chart.tsx";
import { weightColours } from "../../kit/colour.ts";
import { Menu, Slider } from "../../kit/controls.tsx";
import "../../kit/kit.css";
import { argmax } from "../../kit/maths.ts";
import { Folded, Panel, ReservedHeight, Scroll } from "../../kit/panel.tsx";
import { count, isFaint, show } from "../../kit/text.ts";
import { defineWidget, Heading, type ViewProps, Words } from "../../kit/widget.tsx";
import * as maths from "./maths.ts";
import { type Case, columns, fontOf, letters, look, NETWORKS, type Network, type Seen, stepsOf } from "./maths.ts";
import "./style.css";
import { capital, describeStep, type Names, sumUp, weightsInWords } from "./words.ts";

export { argmax } from "../../kit/maths.ts";
export * from "./maths.ts";
export * from "./words.ts";

interface State {
  cases: Case[];
  networks: Names;
  /** The greatest length in training, if there was any. */
  trained_to: number | null;
  note: string;
  /** The small form: the length alone can be chosen, and the letters alone are shown. */
  compact: boolean;
  length: number;
  /** Counted from 1, as is the step. */
  sequence: number;
  step: number;
}

const caseOf = (state: State): Case => state.cases.find((one) => one.length === state.length) ?? state.cases.at(-1)!;
const within = (number: number, most: number) => Math.min(Math.max(number, 1), most);

function settle(state: State): State {
  const here = caseOf(state);
  const sequence = within(state.sequence, here.read.length);
  return { ...state, length: here.length, sequence, step: within(state.step, stepsOf(here)) };
}

function compute(state: State) {
  const here = caseOf(state);
  const seen = look(here, state.sequence);
  return { here, seen, said: describeStep(seen, state.step, state.networks) };
}

type Data = ReturnType<typeof compute>;
type Props = ViewProps<State, Data>;

const bothIn = (said: Data["said"]): string => `${said.plain} ${said.attentive}`;

// ---- The view -----------------------------------------------------------------------------------------------------

function View(props: Props) {
  return props.state.compact ? <Small {...props} /> : <Whole {...props} />;
}

/** What a chapter opens with: one control, three rows of letters and one sentence. */
function Small({ state, data: { here, seen }, write }: Props) {
  const sentences = state.cases.map((one) => sumUp(look(one, state.sequence), state.networks));
  return (
    <>
      <Heading>Copy a sequence: through one vector, or with attention</Heading>
      <div class="bw-controls">
        <Lengths state={state} here={here} onChoose={({ length }) => write({ length })} />
      </div>
      <Fitting>{(width) => <Rows seen={seen} names={state.networks} width={width} />}</Fitting>
      <p class="bw-said">
        <ReservedHeight longest={[sentences.reduce((most, one) => (one.length > most.length ? one : most))]}>
          {sumUp(seen, state.networks)}
        </ReservedHeight>
      </p>
    </>
  );
}

function Whole({ state, data, write }: Props) {
  const { here, seen, said } = data;
  const choose = (one: Case) => write({ length: one.length, step: Math.min(state.step, stepsOf(one)) });
  const everyStep = seen.wanted.map((_, i) => describeStep(seen, i + 1, state.networks)).map(bothIn);
  return (
    <>
      <Heading>Copy a sequence: through one vector, or with attention</Heading>
      <Controls state={state} data={data} write={write} onChoose={choose} />
      {state.note && (
        <p class="bw-note">
          <Words>{state.note}</Words>
        </p>
      )}
      <div class="bw-pair">
        <NetworkPanel state={state} data={data} network="plain">
          Every letter must pass through the same vector, at every step.
        </NetworkPanel>
        <NetworkPanel state={state} data={data} network="attentive">
          Every letter stays in reach. Lines are as wide as the weights of this step.
        </NetworkPanel>
      </div>
      <div class="bot-steps">
        <Slider
          name="step"
          label="Output step"
          min={1}
          max={seen.wanted.length}
          value={state.step}
          say={(step) => `${step} of ${seen.wanted.length}`}
          onChange={(step) => write({ step })}
        />
      </div>
      <Panel title={said.wanted}>
        <ReservedHeight longest={[everyStep.reduce((most, one) => (one.length > most.length ? one : most))]}>
          {bothIn(said)}
        </ReservedHeight>
      </Panel>
      <p class="bot-title">All weights of attention</p>
      <p class="bw-quiet">
        A row for each letter written, a column for each letter read. <Ramp />
      </p>
      <Fitting>
        {(width) => <Matrix seen={seen} step={state.step} width={width} onChoose={(step) => write({ step })} />}
      </Fitting>
      <Folded title="This step in words, and every length as a table">
        <ul>
          {inWords(state, data).map((line) => (
            <li key={line}>{line}</li>
          ))}
        </ul>
        <p class="bw-quiet">Share of letters right, over {here.total} sequences of each length</p>
        <Scroll>
          <Accuracies state={state} />
        </Scroll>
      </Folded>
    </>
  );
}

interface LengthsProps {
  state: State;
  here: Case;
  onChoose: (one: Case) => void;
}

function Lengths({ state: { cases, trained_to }, here, onChoose }: LengthsProps) {
  const practised = ({ length }: Case) => trained_to === null || length <= trained_to;
  const say = (one: Case) => count(one.length, "letter") + (practised(one) ? "" : ", not practised");
  return (
    <Slider
      name="length"
      label="Length"
      min={0}
      max={cases.length - 1}
      value={cases.indexOf(here)}
      say={(place) => say(cases[place]!)}
      onChange={(place) => onChoose(cases[place]!)}
    />
  );
}

function Controls({ state, data: { here }, write, onChoose }: Props & { onChoose: (one: Case) => void }) {
  return (
    <div class="bw-controls">
      <Lengths state={state} here={here} onChoose={onChoose} />
      <Menu
        name="sequence"
        label="Sequence"
        options={here.read.map((text, k) => [String(k + 1), `${k + 1}: ${letters(text).join("")}`] as const)}
        value={String(state.sequence)}
        onChange={(sequence) => write({ sequence: Number(sequence) })}
      />
    </div>
  );
}

interface PanelProps {
  state: State;
  data: Data;
  network: Network;
  children: ComponentChildren;
}

function NetworkPanel({ state, data: { seen, said }, network, children }: PanelProps) {
  const right = seen[network].count;
  return (
    <div class="bot-network-panel">
      <p class="bot-title">
        <span>{capital(state.networks[network])}</span>
        <b class="bot-score" data-network={network} data-value={right}>
          {right} of {seen.wanted.length} right
        </b>
      </p>
      <Fitting>
        {(width) => (
          <NetworkDrawing
            seen={seen}
            step={state.step}
            network={network}
            names={state.networks}
            label={said[network]}
            width={width}
          />
        )}
      </Fitting>
      <p class="bw-quiet">{children}</p>
    </div>
  );
}

// ---- A network at work --------------------------------------------------------------------------------------------

/** Heights: of the letters read and written, of a letter's box, of the vector's box and of all. */
const READ = 22;
const WRITTEN = 140;
const BOX = 26;
const NECK = { top: 82, width: 96 };
const HEIGHT = 208;

/** A curve from one point down to another. */
const thread = (x1: number, y1: number, x2: number, y2: number) =>
  `M${x1},${y1} C${x1},${(y1 + y2) / 2} ${x2},${(y1 + y2) / 2} ${x2},${y2}`;

interface DrawingProps {
  seen: Seen;
  step: number;
  network: Network;
  names: Names;
  label: string;
  width: number;
}

/** The letters read above, those written below, and between them what the network has to go by at this step. */
function NetworkDrawing({ seen, step, network, names, label, width }: DrawingProps) {
  const { read, weights } = seen;
  const { wrote, right } = seen[network];
  const [source, target] = [columns(read.length, width), columns(wrote.length, width)];
  const i = step - 1;
  const row = network === "plain" ? null : weights[i]!;
  const goal = target.centre(i);
  return (
    <Picture label={label} width={width} height={HEIGHT} class="bot-network">
      <text x={4} y={14} class="bot-side">
        read
      </text>
      <text x={4} y={HEIGHT - 6} class="bot-side">
        written
      </text>
      {row ? (
        <Flows row={row} from={source.centre} goal={goal} width={width} />
      ) : (
        <Bottle read={read} from={source.centre} goal={goal} neck={width / 2} name={names.plain} />
      )}
      {read.map((letter, j) => (
        <Letter
          key={j}
          letter={letter}
          at={[source.centre(j), READ]}
          size={source.size}
          {...(row ? { weight: row[j]! } : {})}
          kind="bot-read"
          data-read={j}
        />
      ))}
      {wrote.map((letter, l) => {
        const kind = `${right[l] ? "bot-right" : "bot-wrong"}${l === i ? " bot-now" : ""}`;
        const at = [target.centre(l), WRITTEN] as const;
        return <Marked key={l} letter={letter} at={at} size={target.size} kind={kind} data-written={l} />;
      })}
    </Picture>
  );
}

/** What was read, and below it what both networks wrote, letter under letter. */
function Rows({ seen, names, width }: { seen: Seen; names: Names; width: number }) {
  const { size, centre } = columns(seen.read.length, width);
  const tops = NETWORKS.map((_, l) => 66 + 66 * l);
  return (
    <Picture label={`Read: ${seen.read.join(" ")}. ${sumUp(seen, names)}`} width={width} height={196}>
      <text x={2} y={14} class="bot-side">
        read
      </text>
      {seen.read.map((letter, j) => (
        <Letter key={j} letter={letter} at={[centre(j), 20]} size={size} kind="bot-read" />
      ))}
      {NETWORKS.map((network, l) => (
        <g key={network}>
          <text x={2} y={tops[l]! + 2} class="bot-side">
            {names[network]} wrote
          </text>
          {seen[network].wrote.map((letter, i) => {
            const kind = seen[network].right[i] ? "bot-right" : "bot-wrong";
            return <Marked key={i} letter={letter} at={[centre(i), tops[l]! + 8]} size={size} kind={kind} />;
          })}
        </g>
      ))}
    </Picture>
  );
}

/** A line for each weight, and the largest as a number. */
interface FlowsProps {
  row: number[];
  from: (j: number) => number;
  goal: number;
  width: number;
}

function Flows({ row, from, goal, width }: FlowsProps) {
  const best = argmax(row);
  return (
    <>
      {row.map(
        (weight, j) =>
          !isFaint(weight) && (
            <path
              key={j}
              d={thread(from(j), READ + BOX, goal, WRITTEN)}
              class="bot-flow"
              stroke-width={(0.8 + 8 * weight).toFixed(2)}
            />
          ),
      )}
      <Lettering at={[Math.min(Math.max(from(best), 16), width - 16), READ + BOX + 18]} kind="bot-weight">
        {show(row[best]!)}
      </Lettering>
    </>
  );
}

interface BottleProps {
  read: string[];
  from: (j: number) => number;
  goal: number;
  neck: number;
  name: string;
}

/** All letters into one vector, and out of it. */
function Bottle({ read, from, goal, neck, name }: BottleProps) {
  return (
    <>
      {read.map((_, j) => (
        <path key={j} d={thread(from(j), READ + BOX, neck, NECK.top + 2)} class="bot-in" />
      ))}
      <path d={thread(neck, NECK.top + BOX, goal, WRITTEN)} class="bot-flow" stroke-width={5} />
      <rect x={neck - NECK.width / 2} y={NECK.top} width={NECK.width} height={BOX} rx={13} class="bot-neck" />
      <text x={neck} y={NECK.top + 17.5} font-size={14} class="bot-letter">
        {name}
      </text>
    </>
  );
}

interface LetterProps {
  letter: string;
  at: readonly [x: number, top: number];
  size: number;
  kind: string;
  weight?: number;
  [data: `data-${string}`]: string | number;
}

/** A letter in its box, which has the colour of its weight. */
function Letter({ letter, at: [x, y], size, kind, weight, ...data }: LetterProps) {
  const side = Math.min(size - 2, BOX);
  const colours = weight === undefined ? null : weightColours(weight);
  const font = fontOf(size, 16);
  return (
    <>
      <rect
        x={x - side / 2}
        y={y}
        width={side}
        height={BOX}
        rx={Math.min(4, side / 3)}
        class={kind}
        style={colours ? { fill: colours.ground } : undefined}
        data-value={weight}
        {...data}
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

/** A letter that was written, and below it whether it is right. */
function Marked({ kind, at: [x, y], ...rest }: Omit<LetterProps, "weight">) {
  const right = kind.startsWith("bot-right");
  return (
    <>
      <Letter {...rest} kind={kind} at={[x, y]} data-right={String(right)} />
      <text x={x} y={y + BOX + 16} class={`bot-sign ${kind}`}>
        {right ? "✓" : "✕"}
      </text>
    </>
  );
}

// ---- Accuracy by length -------------------------------------------------------------------------------------------

function Accuracies({ state: { cases, networks } }: { state: State }) {
  return (
    <table aria-label="Share of letters right, by length">
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
        {cases.map((one) => (
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
  width: number;
  onChoose: (step: number) => void;
}

/** The whole matrix: a row for each letter written, a column for each letter read. */
function Matrix({ seen: { read, weights, attentive }, step, width, onChoose }: MatrixProps) {
  const [m, n] = [weights.length, read.length];
  const { size, from, top, font, height } = maths.squares(m, n, width);
  const row = weights[step - 1]!;
  const j = argmax(row);
  const label =
    `Weights of attention: ${m} rows, the letters written, and ${n} columns, the letters read. Row ${step}, ` +
    `${attentive.wrote[step - 1]}, is marked; its largest weight is ${show(row[j]!)}, in column ${j + 1}.`;

  function picked(event: Event) {
    const line = event.target instanceof Element ? event.target.closest<SVGElement>("[data-step]") : null;
    if (line) onChoose(Number(line.dataset.step));
  }

  return (
    <Picture label={label} width={width} height={height} class="bot-matrix" onClick={picked}>
      {read.map((letter, l) => (
        <text key={l} x={from + (l + 0.5) * size} y={top - 6} font-size={font} class="bot-letter key">
          {letter}
        </text>
      ))}
      {weights.map((line, i) => (
        <g key={i} class="bot-row" data-step={i + 1}>
          <text x={from - 9} y={top + (i + 0.5) * size + font * 0.35} font-size={font} class="bot-letter query">
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
      <rect
        x={from - 1}
        y={top + (step - 1) * size - 1}
        width={n * size + 2}
        height={size + 2}
        rx={2}
        class="bot-here"
      />
    </Picture>
  );
}

function inWords({ networks, step }: State, { seen, said }: Data): string[] {
  const texts: [title: string, text: string[]][] = [
    ["Read", seen.read],
    ["To be written", seen.wanted],
    ...NETWORKS.map((network): [string, string[]] => [`${capital(networks[network])} wrote`, seen[network].wrote]),
  ];
  return [
    ...texts.map(([title, text]) => `${title}: ${text.join(" ")}`),
    said.wanted,
    said.plain,
    said.attentive,
    weightsInWords(seen, step),
  ];
}

export default defineWidget<State, Data>({
  name: "bottleneck",
  label: "The bottleneck, interactive",
  settle,
  compute,
  View,
});
