/* Temperature and width: what the number of features and the divisor of the scores do to the softmax. */

import type { ComponentChildren } from "preact";
import { Gridlines, Lettering, Line, Picture, pathThrough, spread } from "../../kit/chart.tsx";
import { Choice, Slider, Toggle } from "../../kit/controls.tsx";
import "../../kit/kit.css";
import { argmax, type Matrix, mean, memoizeLast, range } from "../../kit/maths.ts";
import { Folded, Panel, ReservedHeight, Scroll, TextAlternative } from "../../kit/panel.tsx";
import { Covered, useQuestions } from "../../kit/quiz.tsx";
import { minus, show } from "../../kit/text.ts";
import { defineWidget, Heading, type ViewProps } from "../../kit/widget.tsx";
import * as maths from "./maths.ts";
import { type Divisor, histogram, type Measured, type Medians, measure, median, mediansOf } from "./maths.ts";
import "./style.css";
import { brief, questions, showTemperature, verdict } from "./words.ts";

export * from "./maths.ts";
export * from "./words.ts";

interface State {
  features: string;
  letters: string;
  query_count: number;
  key_count: number;
  widths: number[];
  divisors: Divisor[];
  temperatures: [least: number, largest: number];
  d_k: number;
  divisor: string;
  own: number;
  query: number;
  along: "d_k" | "temperature";
  predict: boolean;
}

/** What all states share: raw scores by width, and curves, each computed when it is first asked for. */
const laboratory = memoizeLast(
  (features: string, letters: string, widths: number[], queryCount: number, divisors: Divisor[], range_: number[]) => {
    const pool = maths.readFeatures(features, Math.max(...widths), letters);
    const once = <K, R>(make: (key: K) => R) => {
      const made = new Map<K, R>();
      return (key: K): R => {
        if (!made.has(key)) made.set(key, make(key));
        return made.get(key)!;
      };
    };
    const rawAt = once((dK: number) => maths.rawScores(pool, queryCount, dK));
    const [first, last] = range_.map(maths.positionFor) as [number, number];
    const temperatures = range(last - first + 1).map((i) => maths.temperatureAt(first + i));
    const at = (dK: number, name: string, own?: number) =>
      measure(rawAt(dK), maths.temperatureOf(divisors, name, dK, own));
    const overWidths = (name: string, own?: number) => widths.map((dK) => mediansOf(at(dK, name, own)));
    const asked = once((keyCount: number) => questions(at, keyCount));
    return {
      rawAt,
      first,
      last,
      temperatures,
      asked,
      ofDivisor: once((name: string) => overWidths(name)),
      ofOwn: memoizeLast((own: number) => overWidths("own", own)),
      ofWidth: once((dK: number) => maths.curve(temperatures.map((tau) => [rawAt(dK), tau]))),
    };
  },
);

/** A link may bring numbers and names that there are not. */
function settle(state: State): State {
  const { d_k, widths, divisor, divisors, own, temperatures, query, query_count, along } = state;
  const isNamed = divisor === "own" || divisors.some(({ name }) => name === divisor);
  const isWithin = own >= temperatures[0] && own <= temperatures[1];
  const isQuery = Number.isInteger(query) && query >= 1 && query <= query_count;
  if (!widths.includes(d_k) || !isNamed || !isWithin || !isQuery || !["d_k", "temperature"].includes(along))
    throw new RangeError("the temperature has no such state");
  return state;
}

function compute(state: State) {
  const { features, letters, widths, query_count, divisors, temperatures } = state;
  const lab = laboratory(features, letters, widths, query_count, divisors, temperatures);
  const tau = maths.temperatureOf(divisors, state.divisor, state.d_k, state.own);
  const all = measure(lab.rawAt(state.d_k), tau);
  const curveOf = (name: string) => (name === "own" ? lab.ofOwn(state.own) : lab.ofDivisor(name));
  return { lab, tau, all, now: mediansOf(all), i: state.query - 1, most: Math.log(state.key_count), curveOf };
}

type Data = ReturnType<typeof compute>;
type Props = ViewProps<State, Data>;

/** A text in which dₖ gets a real subscript. */
function Symbols({ text }: { text: string }) {
  const [before = "", after] = text.split("dₖ");
  return (
    <>
      {before}
      {after !== undefined && (
        <>
          d<sub>k</sub>
          {after}
        </>
      )}
    </>
  );
}

/** The class that gives a divisor its colour and its dashes: its place among the divisors. */
function kindOf(divisors: Divisor[], name: string): string {
  const place = divisors.findIndex((divisor) => divisor.name === name);
  return `tw-is-${place < 0 ? "own" : place}`;
}
const writtenAs = (divisors: Divisor[], name: string) => divisors.find((one) => one.name === name)?.text ?? "τ";

// ---- The view -----------------------------------------------------------------------------------------------------

function View({ state, data, write }: Props) {
  const { quiz, turn, covered } = useQuestions(state.predict, () => data.lab.asked(state.key_count), write);

  return (
    <div class={kindOf(state.divisors, state.divisor)}>
      <Heading beside={<Toggle name="predict" label="Predict first" on={state.predict} onChange={turn} />}>
        <Symbols text="Temperature and dₖ" />
      </Heading>
      <p class="bw-note">
        <Symbols text="Move dₖ to the right and watch the bars. " />
        One query may waver; the count below covers all {state.query_count}.{" "}
        <Symbols text="Then divide by √dₖ, and move it again." />
      </p>
      <Controls state={state} data={data} write={write} />
      {quiz}
      <div class="tw-pair tw-first">
        <Hill state={state} data={data} />
        <Bars state={state} data={data} write={write} />
      </div>
      <Counts state={state} data={data} />
      <Covered when={covered}>
        <Folded title="Entropy and the Jacobian, for chapter 3a">
          <Curves state={state} data={data} write={write} />
        </Folded>
        <TextAlternative title="All of this in words" lines={inWords(state, data)} />
      </Covered>
    </div>
  );
}

function Controls({ state, data: { lab, tau }, write }: Props) {
  const { divisors, widths } = state;
  const ruled = divisors.find((one) => one.name === state.divisor && one.power !== 0);
  return (
    <div class="bw-controls">
      <Slider
        name="width"
        label={<Symbols text="features dₖ" />}
        min={0}
        max={widths.length - 1}
        value={Math.max(0, widths.indexOf(state.d_k))}
        say={(place) => String(widths[place])}
        onChange={(place) => write({ d_k: widths[place]! })}
      />
      <Choice
        name="divisor"
        label="divide the scores by"
        value={state.divisor}
        options={divisors.map(({ name, text, spoken }) => ({
          value: name,
          text: <Symbols text={text} />,
          label: `divide by ${spoken}`,
        }))}
        onChange={(divisor) => write({ divisor })}
      />
      <Slider
        name="tau"
        label="temperature τ"
        min={lab.first}
        max={lab.last}
        value={Math.round(Math.min(Math.max(maths.positionFor(tau), lab.first), lab.last))}
        say={() => showTemperature(tau) + (ruled ? ` = ${ruled.text}` : "")}
        onChange={(position) => write({ divisor: "own", own: maths.temperatureAt(position) })}
      />
    </div>
  );
}

interface FigureProps {
  title: ComponentChildren;
  caption: ComponentChildren;
  /** The caption with the most letters. */
  longest: ComponentChildren;
  children: ComponentChildren;
  control?: ComponentChildren;
}

function Figure({ title, caption, longest: most, children, control }: FigureProps) {
  return (
    <div class="tw-figure">
      <p class="tw-title">{title}</p>
      {children}
      <ReservedHeight kind="bw-quiet tw-caption" longest={[<p key="most">{most}</p>]}>
        <p>{caption}</p>
      </ReservedHeight>
      {control}
    </div>
  );
}

const HALF = 49; // of the picture's scores

function Hill({ state, data: { all, tau, i } }: Omit<Props, "write">) {
  const predicted = Math.sqrt(state.d_k) / tau;
  const measured = maths.deviation(all.scores.flat());
  const { shares, normal, outside } = histogram(all.scores, predicted, HALF);
  const caption = (a: number, b: number, few: boolean, left: number) => (
    <>
      Standard deviation:{" "}
      <b data-number="predicted" data-value={a}>
        {show(a)}
      </b>{" "}
      predicted (outline),{" "}
      <b data-number="measured" data-value={b}>
        {show(b)}
      </b>{" "}
      measured. Marks below the line: this query.
      {few && " So few features form no bell curve yet."}
      {left > 0 && ` Outside the picture: ${left} of ${state.query_count * state.key_count}.`}
    </>
  );
  const [left, right, floor, ceiling] = [8, 312, 118, 6];
  const highest = Math.max(...shares, ...normal);
  const step = (right - left) / shares.length;
  const x = (score: number) => left + ((right - left) * (score + HALF)) / (2 * HALF);
  const y = (share: number) => floor - ((floor - ceiling) * share) / highest;
  const outline = normal.map(
    (share, b) => `${b ? "L" : "M"}${(left + (b + 0.5) * step).toFixed(1)} ${y(share).toFixed(2)}`,
  );
  return (
    <Figure
      title="Scores of all queries, divided by τ"
      caption={caption(predicted, measured, state.d_k < 8, outside)}
      longest={caption(88.888, 88.888, true, 888)}
    >
      <Picture
        label={`Histogram of ${state.query_count * state.key_count} scores, standard deviation ${show(measured)}, and a bell curve of ${show(predicted)}`}
        width={320}
        height={152}
      >
        {shares.map((share, b) => (
          <rect
            key={b}
            x={left + b * step + 0.4}
            y={y(share)}
            width={step - 0.8}
            height={floor - y(share)}
            class="tw-fill"
            data-share={share}
          />
        ))}
        <path d={outline.join("")} class="tw-normal" />
        <Line from={[left, floor]} to={[right, floor]} kind="bw-axis" />
        {all.scores[i]!.filter((score) => Math.abs(score) <= HALF).map((score, j) => (
          <Line key={j} from={[x(score), floor + 2]} to={[x(score), floor + 11]} kind="tw-rug" />
        ))}
        {[-40, -20, 0, 20, 40].map((tick) => (
          <Lettering key={tick} at={[x(tick), floor + 28]}>
            {minus(String(tick))}
          </Lettering>
        ))}
      </Picture>
    </Figure>
  );
}

function Bars({ state, data: { all, i }, write }: Props) {
  const row = all.weights[i]!;
  const best = argmax(row);
  const [left, right, floor, ceiling] = [30, 316, 128, 12];
  const step = (right - left) / row.length;
  const y = (weight: number) => floor - (floor - ceiling) * weight;
  const caption = (
    <>
      <span class="key">keys</span> 1 to {state.key_count}. Dashed: all weights alike, 1/{state.key_count}.
    </>
  );
  return (
    <Figure
      title={
        <>
          Softmax: the weights of one <span class="query">query</span>
        </>
      }
      caption={caption}
      longest={caption}
      control={
        <Slider
          name="query"
          label={<span class="query">query</span>}
          min={1}
          max={state.query_count}
          value={state.query}
          say={(query) => `${query} of ${state.query_count}`}
          onChange={(query) => write({ query })}
        />
      }
    >
      <Picture
        label={`Bars of ${row.length} weights of query ${state.query}; the largest is ${brief(row[best]!)}, at key ${best + 1}`}
        width={320}
        height={152}
      >
        <Gridlines at={[0, 0.5, 1]} y={y} left={left} right={right} />
        {row.map((weight, j) => (
          <rect
            key={j}
            x={left + j * step + 1.5}
            y={y(weight)}
            width={step - 3}
            height={floor - y(weight)}
            class="tw-fill"
            data-weight={weight}
          />
        ))}
        <Line from={[left, y(1 / row.length)]} to={[right, y(1 / row.length)]} kind="tw-even" />
        <Lettering at={[left + (best + 0.5) * step, Math.max(y(row[best]!) - 3, 9)]} kind="tw-best">
          {row[best]!.toFixed(2)}
        </Lettering>
        {row.map((_, j) => (
          <Lettering key={j} at={[left + (j + 0.5) * step, floor + 17]} kind="bw-tick key">
            {j + 1}
          </Lettering>
        ))}
      </Picture>
    </Figure>
  );
}

/** What the chosen query is like, and how many of all are settled. */
function Counts({ state, data: { all, i, most } }: Omit<Props, "write">) {
  const saturated = all.largest.filter((weight) => weight >= 0.9).length;
  const title = (query: number, said: string) => `Weights of query ${query}: ${said}.`;
  const counts = (settled: number) => (
    <>
      <b data-number="saturated" data-value={settled}>
        {settled} of {state.query_count}
      </b>{" "}
      queries give one key 0.9 or more.
    </>
  );
  return (
    <Panel
      title={
        <ReservedHeight longest={[title(state.query_count, verdict(1, 0))]}>
          {title(state.query, verdict(all.largest[i]!, all.entropy[i]! / most))}
        </ReservedHeight>
      }
    >
      <ReservedHeight longest={[counts(state.query_count)]}>{counts(saturated)}</ReservedHeight>
    </Panel>
  );
}

// ---- Curves and numbers -------------------------------------------------------------------------------------------

function Curves({ state, data, write }: Props) {
  const { all, now, i, most } = data;
  const dead = all.norm.filter((norm) => norm < 0.01).length;
  return (
    <div>
      <p class="tw-dead">
        <b data-number="dead" data-value={dead}>
          {dead} of {state.query_count}
        </b>{" "}
        queries have a norm ‖J‖ below 0.01: they hardly respond.
      </p>
      <div class="bw-wrap tw-views">
        <span>Where we are, for the typical (median) query</span>
        <Choice
          name="along"
          label="Curves"
          hidden
          value={state.along}
          options={[
            { value: "d_k", text: <Symbols text="along dₖ" />, label: "curves along d k" },
            { value: "temperature", text: "along τ", label: "curves along the temperature" },
          ]}
          onChange={(along) => write({ along })}
        />
      </div>
      <div class="tw-pair">
        <Figure
          title="Entropy, as a share of its largest value"
          caption={aboutCurve(state)}
          longest={aboutCurve({ ...state, along: "d_k" })}
        >
          {/* The entropies of a curve are in nats, like those of the package; the picture's scale ends at ln n. */}
          <Curve
            state={state}
            data={data}
            what="entropy"
            name="Entropy as a share of its largest value"
            scale={most}
            ticks={[0, most / 2, most]}
            say={(tick) => String(tick / most)}
            here={now.entropy}
            mine={all.entropy[i]!}
          />
        </Figure>
        <Figure
          title="Norm of the Jacobian ‖J‖"
          caption={aboutCurve(state)}
          longest={aboutCurve({ ...state, along: "d_k" })}
        >
          <Curve
            state={state}
            data={data}
            what="norm"
            name="Norm of the Jacobian"
            scale={0.5}
            ticks={[0, 0.25, 0.5]}
            say={String}
            here={now.norm}
            mine={all.norm[i]!}
          />
        </Figure>
      </div>
      <Scroll>
        <Numbers state={state} all={all} i={i} most={most} />
      </Scroll>
    </div>
  );
}

function aboutCurve({ along, d_k }: State) {
  return (
    <>
      {along === "d_k" ? (
        <Symbols text="dₖ to the right; one line for each divisor. " />
      ) : (
        <Symbols text={`τ to the right, at dₖ = ${d_k}. `} />
      )}
      Dot: median now. Ring: this query.
    </>
  );
}

interface CurveProps {
  state: State;
  data: Data;
  what: keyof Medians;
  name: string;
  scale: number;
  ticks: number[];
  say: (tick: number) => string;
  here: number;
  mine: number;
}

/** A curve of medians, where we are on it (dot), and this query (ring). */
function Curve({ state, data, what, name, scale, ticks, say, here, mine }: CurveProps) {
  const { lab, tau, curveOf } = data;
  const { divisors } = state;
  const overWidth = state.along === "d_k";
  const [left, right, floor, ceiling] = [34, 274, 116, 16];
  const y = (value: number) => floor - ((floor - ceiling) * value) / scale;
  const places = overWidth ? state.widths : lab.temperatures;
  const [first, last] = [Math.log2(places[0]!), Math.log2(places.at(-1)!)];
  const x = (value: number) => left + ((right - left) * (Math.log2(value) - first)) / (last - first);
  const path = (points: Medians[]) => pathThrough(points.map((point, i) => [x(places[i]!), y(point[what])] as const));
  const names = [...divisors.map((one) => one.name), ...(state.divisor === "own" ? ["own"] : [])];
  const lines = overWidth
    ? names.map((one) => ({ kind: kindOf(divisors, one), now: one === state.divisor, points: curveOf(one), one }))
    : [{ kind: kindOf(divisors, state.divisor), now: true, points: lab.ofWidth(state.d_k), one: "" }];
  const labels = overWidth
    ? spread(
        lines.map(({ one, points }) => [one, y(points.at(-1)![what])] as const),
        floor,
      )
    : [];
  const clamped = Math.min(Math.max(tau, places[0]!), places.at(-1)!);
  const at = x(overWidth ? state.d_k : clamped);
  const marks = overWidth
    ? []
    : divisors.map((one) => ({ one, at: x(maths.temperatureOf(divisors, one.name, state.d_k)) }));
  const apart = marks.filter((mark, k) => marks.slice(k + 1).every((other) => other.at - mark.at >= 20));
  const below = overWidth ? [1, 4, 16, 64, 256] : [1, 4, 16, 64, 256, 1024];
  return (
    <Picture
      label={`${name}, median over the queries, along ${overWidth ? "d k" : "the temperature"}; now ${brief(here)}`}
      width={320}
      height={146}
    >
      <Gridlines at={ticks} y={y} left={left} right={right} say={say} />
      {marks.map((mark) => (
        <Line
          key={mark.one.name}
          from={[mark.at, ceiling]}
          to={[mark.at, floor]}
          kind={`tw-mark ${kindOf(divisors, mark.one.name)}`}
        />
      ))}
      {apart.map((mark) => (
        <Lettering key={mark.one.name} at={[mark.at, 11]}>
          {mark.one.text}
        </Lettering>
      ))}
      {lines.map(({ kind, now, points, one }) => (
        <path
          key={one}
          d={path(points)}
          class={`tw-line ${overWidth ? "tw-dashed " : ""}${kind}${now ? " tw-now" : ""}`}
        />
      ))}
      {labels.map(([one, height]) => (
        <Lettering key={one} at={[right + 4, height + 4]} anchor="start" kind={`tw-label ${kindOf(divisors, one)}`}>
          ÷ {writtenAs(divisors, one)}
        </Lettering>
      ))}
      <circle cx={at} cy={y(Math.min(mine, scale))} r={4} class="tw-mine" />
      <circle cx={at} cy={y(here)} r={5} class="tw-here" data-value={here} />
      {below.map((tick) => (
        <Lettering key={tick} at={[x(tick), floor + 17]}>
          {tick}
        </Lettering>
      ))}
    </Picture>
  );
}

function Numbers({ state, all, i, most }: { state: State; all: Measured; i: number; most: number }) {
  const rows: [label: string, name: string, values: number[]][] = [
    ["largest weight", "largest", all.largest],
    [`entropy H, nats, at most ln ${state.key_count} = ${most.toFixed(3)}`, "entropy", all.entropy],
    [`entropy as a share of ln ${state.key_count}`, "share", all.entropy.map((h) => h / most)],
    ["norm of the Jacobian ‖J‖, at most ½", "norm", all.norm],
  ];
  return (
    <table class="tw-table">
      <thead>
        <tr>
          <td />
          {["this query", "median", "mean"].map((head) => (
            <th key={head} scope="col">
              {head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(([label, name, values]) => (
          <tr key={name}>
            <th scope="row">{label}</th>
            {Object.entries({ query: values[i]!, median: median(values), mean: mean(values) }).map(([of, value]) => (
              <td key={of} data-number={name} data-of={of} data-value={value}>
                {brief(value)}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function inWords(state: State, { lab, tau, all, i, most, curveOf }: Data): string[] {
  const raw: Matrix = lab.rawAt(state.d_k);
  const overWidth = state.along === "d_k";
  const curve = overWidth ? curveOf(state.divisor) : lab.ofWidth(state.d_k);
  const places = overWidth ? state.widths : lab.temperatures;
  const shown = overWidth ? places : places.filter((_, p) => p % 8 === 0);
  return [
    ...all.weights[i]!.map(
      (weight, j) =>
        `key ${j + 1}: score ${show(raw[i]![j]!)}, divided by ${showTemperature(tau)}: ${show(all.scores[i]![j]!)}, weight ${brief(weight)}`,
    ),
    ...shown.map((place) => {
      const { entropy, norm } = curve[places.indexOf(place)]!;
      const where = overWidth
        ? `d_k = ${place}, divided by ${writtenAs(state.divisors, state.divisor)}`
        : `τ = ${showTemperature(place)}, d_k = ${state.d_k}`;
      return `${where}: median entropy ${brief(entropy)} (share ${brief(entropy / most)}), median norm ${brief(norm)}`;
    }),
  ];
}

export default defineWidget<State, Data>({
  name: "temperature",
  label: "Temperature and width, interactive",
  settle,
  linked: ["d_k", "divisor", "own", "query", "along"],
  compute,
  View,
});
