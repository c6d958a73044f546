/* The code reader: a small language model of Python that one may type to, look into, and take heads from. */

import { useLayoutEffect, useMemo, useState } from "preact/hooks";
import { type Arc, arcsOf, boxesOf } from "../../kit/arcs.ts";
import { BarTable, Picture, Ramp, useWidth } from "../../kit/chart.tsx";
import { weightColours, weightStyle } from "../../kit/colour.ts";
import { Button, Slider, Toggle } from "../../kit/controls.tsx";
import { RovingRow } from "../../kit/grid.tsx";
import "../../kit/kit.css";
import { argmax, candidates, memoizeLast, range, topK } from "../../kit/maths.ts";
import { Panel, TextAlternative } from "../../kit/panel.tsx";
import { count, minus, show } from "../../kit/text.ts";
import { Part, Tour, useTour } from "../../kit/tour.tsx";
import { defineWidget, Heading, useIds, useStateFor, type ViewProps, Words } from "../../kit/widget.tsx";
import { draw, encode, type Head, knobsTurned, likely, type Place, partsOf, read, textOf, theModel } from "./maths.ts";
import "./style.css";
import { cardsOf } from "./tour.ts";
import { harder, LEAST, nameOf, nextText, sayHead, sayHeads, sayLikeliest } from "./words.ts";

export * from "./maths.ts";
export * from "./tour.ts";
export * from "./words.ts";

interface Shown {
  text: string;
  /** The head whose weights are shown. */
  head: Head;
  /** The token that is looked at; −1 is the last. */
  token: number;
  heads_off: Head[];
}

/** How the next token is drawn. */
interface Knobs {
  temperature: number;
  /** How many tokens may be drawn. */
  most: number;
}

interface Example extends Shown {
  label: string;
}

/** What a head was found to look at, in words. */
interface Job {
  head: Head;
  job: string;
  looks_at: string;
}

export interface State extends Shown {
  jobs: Job[];
  examples: Example[];
  note: string;
  /** How the next token is drawn: at which temperature, and among how many of the likeliest tokens; 0 is among all. */
  temperature: number;
  top_k: number;
}

const encoded = memoizeLast((text: string) => encode(text, theModel()));
const readWhole = memoizeLast((ids: readonly number[]) => read(theModel(), ids));
const readWithout = memoizeLast((ids: readonly number[], off: string) =>
  read(theModel(), ids, JSON.parse(off) as Head[]),
);

function compute({ text, token, head, heads_off }: State) {
  const model = theModel();
  const all = encoded(text);
  const tooLong = all.length > model.context;
  const ids = tooLong ? all.slice(0, model.context) : all;
  const plain = readWhole(ids);
  const now = heads_off.length ? readWithout(ids, JSON.stringify(heads_off)) : plain;
  const at = token < 0 ? ids.length - 1 : Math.min(token, ids.length - 1);
  return {
    model,
    tooLong,
    plain,
    now,
    at,
    names: ids.map((id) => nameOf(id, model)),
    harder: harder(model, now, plain),
    isOff: (other: Head) => heads_off.some((one) => sayHead(one) === sayHead(other)),
    /** How much the chosen head looks from a place at those before it. */
    looks: (place: number) => now[place]!.weights[head[0] - 1]![head[1] - 1]!,
  };
}

export type Data = ReturnType<typeof compute>;
type Props = ViewProps<State, Data> & {
  /** Change what is shown, so that it can be undone. */
  act: (changes: Partial<Shown>) => void;
};

// ---- The view -----------------------------------------------------------------------------------------------------

function View({ state, data, write }: ViewProps<State, Data>) {
  const { text, head, heads_off } = state;
  const [past, remember] = useState<Partial<Shown>[]>([]);
  const [pointed, point] = useStateFor<readonly [number, number] | null>(text + sayHead(head), null);
  const knobs = { temperature: state.temperature, most: state.top_k || data.model.contents.length };
  const props: Props = {
    state,
    data,
    write,
    act(changes) {
      const names = Object.keys(changes) as (keyof Shown)[];
      remember([...past, Object.fromEntries(names.map((name) => [name, state[name]]))]);
      write(changes);
    },
  };
  const undo = () => {
    write(past.at(-1)!);
    remember(past.slice(0, -1));
  };

  const tour = useTour(() => cardsOf(state, data));
  return (
    <Tour value={tour.lit}>
      <Heading beside={tour.button}>The code model, opened</Heading>
      {state.note && (
        <p class="bw-note">
          <Words>{state.note}</Words>
        </p>
      )}
      <Part name="typing">
        <Typing {...props} />
      </Part>
      <Part name="tokens">
        <Tokens {...props} point={point} />
      </Part>
      {!tour.open && <About state={state} data={data} pointed={pointed} />}
      <div class="bw-pair">
        <Part name="next">
          <Next {...props} knobs={knobs} />
        </Part>
        <Part name="looks">
          <Looks {...props} />
        </Part>
      </div>
      <div class="bw-pair">
        <Writing {...props} knobs={knobs} />
        <WhatHeadsAdd {...props} />
      </div>
      <Part name="buttons" kind="bw-wrap cr-buttons">
        <TakeAway {...props} />
        <Button
          name="write"
          disabled={data.names.length >= data.model.context}
          onClick={() => props.act({ text: text + nextText(data.model, data.now.at(-1)!), token: -1 })}
        >
          Write its likeliest token
        </Button>
        <Button name="undo" kind="plain" disabled={past.length === 0} onClick={undo}>
          Undo
        </Button>
      </Part>
      {heads_off.length > 0 && (
        <p class="bw-quiet cr-price">
          Without {sayHeads(heads_off)}, {count(data.harder.size, "token")} of this text{" "}
          {data.harder.size === 1 ? "is" : "are"} less than half as likely as before (wavy line).
        </p>
      )}
      <div class="bw-pair cr-maps">
        <Part name="heads">
          <Heads {...props} />
        </Part>
        <Part name="map">
          <WholeMap {...props} point={point} />
        </Part>
      </div>
      <TextAlternative title={`Where head ${sayHead(head)} looks, in words`} lines={describeLooks(data)} />
      {tour.open}
    </Tour>
  );
}

// ---- The text -----------------------------------------------------------------------------------------------------

function Typing({ state, data: { names, model, tooLong }, write, act }: Props) {
  const id = useIds();
  const most = model.context - 1;

  return (
    <div>
      <div class="bw-wrap bw-chips" role="group" aria-label="Examples">
        {state.examples.map(({ label, ...example }) => (
          <Button key={label} name={`example-${label.replaceAll(" ", "-")}`} onClick={() => act(example)}>
            {label}
          </Button>
        ))}
      </div>
      <label class="bw-label" for={id("text")}>
        Type Python, or English
      </label>
      <textarea
        class="bw-entry"
        id={id("text")}
        rows={Math.min(Math.max(state.text.split("\n").length, 3), 10)}
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        aria-describedby={id("said")}
        aria-invalid={tooLong || undefined}
        value={state.text}
        onInput={(event) => write({ text: event.currentTarget.value, token: -1 })}
      />
      <p id={id("said")} class={tooLong ? "bw-trouble" : "bw-quiet"} role="status">
        {tooLong
          ? `The model reads at most ${most} tokens, and this text has more. It reads the first ${most}; your text stays as it is.`
          : `${names.length - 1} of at most ${most} tokens`}
      </p>
    </div>
  );
}

type Pointing = { point: (place: readonly [number, number] | null) => void };

const ROOM = 28; // the height of an arc; the style sheet leaves some more above each line

/** The text as tokens, each in the colour of the weight with which the chosen head looks at it from the chosen one. */
function Tokens({ state, data, write, point }: Props & Pointing) {
  const { names, at, looks } = data;
  const weights = looks(at);
  const name = sayHead(state.head);
  const [figure, width] = useWidth<HTMLDivElement>();
  const [arcs, draw] = useState<readonly Arc[]>([]);
  useLayoutEffect(() => {
    draw(arcsOf(at, weights, boxesOf(figure.current!, "[data-token]"), ROOM, LEAST));
  }, [data.now, weights, width]);
  return (
    <div ref={figure} class="cr-text">
      <p class="cr-title">
        <b>What it reads: tokens</b>{" "}
        <span class="bw-quiet">
          The stronger the colour (<Ramp />) and the arc, the more head {name} looks there from the chosen token. Choose
          another with a tap or the arrow keys.
        </span>
      </p>
      <RovingRow label="Tokens" kind="cr-tokens" stop={at} presses>
        {names.map((token, i) => {
          const weight = weights[i];
          const said = weight === undefined ? "not read yet" : `head ${name} looks here with ${show(weight)}`;
          const worse = data.harder.has(i);
          const button = (
            <button
              key={i}
              type="button"
              class={["cr-token", weight === undefined && "cr-later", worse && "cr-harder"].filter(Boolean).join(" ")}
              style={weight === undefined ? undefined : weightStyle(weight)}
              tabIndex={i === at ? 0 : -1}
              aria-pressed={i === at}
              aria-label={`${token}, token ${i}: ${said}${worse ? ", harder than with all heads" : ""}`}
              data-token={i}
              data-weight={weight}
              onClick={() => write({ token: i })}
              onPointerMove={() => point(weight === undefined ? null : [at, i])}
              onPointerLeave={() => point(null)}
            >
              {token}
            </button>
          );
          return token.startsWith("⏎") ? [<br key={`line ${i}`} />, button] : button;
        })}
      </RovingRow>
      <svg class="cr-arcs" aria-hidden="true">
        {arcs.map(({ to, weight, path }) => (
          <path key={to} d={path} style={{ strokeWidth: 1 + 6 * weight, strokeOpacity: 0.3 + 0.6 * weight }} />
        ))}
      </svg>
    </div>
  );
}

// ---- What comes next ----------------------------------------------------------------------------------------------

const sayPlace = ({ names, at }: Data) => (at ? `after “${names[at]}”` : "at the start");

function Next({ state, data, knobs }: Props & { knobs: Knobs }) {
  const { model, now, plain, at } = data;
  const [likelyNow, before] = [likely(model, now[at]!), likely(model, plain[at]!)];
  const drawn = knobsTurned(model, likelyNow, knobs.temperature, knobs.most);
  const columns: [string, Float64Array][] =
    now === plain
      ? [["probability", before]]
      : [
          ["all heads", before],
          [`without ${sayHeads(state.heads_off).replace(/^heads? /, "")}`, likelyNow],
        ];
  if (knobs.temperature !== 1 || knobs.most < model.contents.length) columns.push(["as drawn", drawn]);
  return (
    <div>
      <p class="cr-title">
        <b>What comes next, {sayPlace(data)}</b>
      </p>
      <BarTable
        label={`Likeliest next tokens ${sayPlace(data)}`}
        heads={columns.map(([head]) => head)}
        rows={candidates(likelyNow, before).map((id) => ({
          id,
          head: <code>{nameOf(id, model)}</code>,
          values: columns.map(([, numbers]) => numbers[id]!),
        }))}
      />
    </div>
  );
}

const MOST = [1, 2, 3, 5, 10, 20, 50, 100, 200, 500]; // of top-k; after them come all tokens

/** Two knobs, and a button that draws the next token of the text. */
function Writing({ state, data: { model, now, names }, act, write, knobs }: Props & { knobs: Knobs }) {
  const steps = [...MOST, model.contents.length];
  function drawOne() {
    const odds = knobsTurned(model, likely(model, now.at(-1)!), knobs.temperature, knobs.most);
    act({ text: state.text + textOf(draw(odds, Math.random()), model)!, token: -1 });
  }
  return (
    <div>
      <p class="cr-title">
        <b>Let it write</b> <span class="bw-quiet">Draw a token, and put it at the end of the text.</span>
      </p>
      <Slider
        name="temperature"
        label="Temperature"
        min={1}
        max={20}
        value={Math.round(10 * knobs.temperature)}
        say={(position) => (position / 10).toFixed(1)}
        onChange={(position) => write({ temperature: position / 10 })}
      />
      <Slider
        name="top-k"
        label="Top-k"
        min={0}
        max={steps.length - 1}
        value={steps.indexOf(knobs.most)}
        say={(position) => (position === MOST.length ? "all tokens" : String(steps[position]))}
        onChange={(position) => write({ top_k: MOST[position] ?? 0 })}
      />
      <Button name="draw" disabled={names.length >= model.context} onClick={drawOne}>
        Draw a token
      </Button>
    </div>
  );
}

/** What the token's own vector and each head add to the logit of the token that follows, or of the likeliest. */
function WhatHeadsAdd({ state, data }: Props) {
  const { model, now, at, names } = data;
  const isLast = at === now.length - 1;
  const id = isLast ? argmax(likely(model, now[at]!)) : now[at + 1]!.id;
  const parts = partsOf(model, now.slice(0, at + 1), id, state.heads_off);
  const rows: [string, number][] = [
    [`“${names[at]}”`, parts.own],
    ...parts.heads.flatMap((heads, l) => heads.map((part, h): [string, number] => [sayHead([l + 1, h + 1]), part])),
  ];
  const most = Math.max(...rows.map(([, part]) => Math.abs(part)));
  return (
    <div>
      <p class="cr-title">
        <b>What each head adds to “{nameOf(id, model)}”</b>{" "}
        <span class="bw-quiet">{isLast ? "the likeliest next token" : "the next token of this text"}</span>
      </p>
      <table class="bw-bars cr-parts" aria-label={`Parts of the logit of “${nameOf(id, model)}” ${sayPlace(data)}`}>
        <tbody>
          {rows.map(([name, part]) => (
            <tr key={name}>
              <th scope="row">
                <code>{name}</code>
              </th>
              <td class={`bw-bar${part < 0 ? "" : " bw-now"}`} data-adds={part}>
                <span
                  style={{
                    left: `${50 + (50 * Math.min(part, 0)) / most}%`,
                    width: `${(50 * Math.abs(part)) / most}%`,
                  }}
                  aria-hidden="true"
                />
                <b>{minus(part.toFixed(2))}</b>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="bw-quiet">
        With {minus(parts.bias.toFixed(2))} from the last norm they sum to its logit. What a head of layer 1 writes for
        layer 2 to read is not counted.
      </p>
    </div>
  );
}

/** A token with those around it. */
function InContext({ names, at }: { names: readonly string[]; at: number }) {
  const around = (from: number, to: number) => names.slice(Math.max(from, 0), to).join("");
  return (
    <code>
      <span class="cr-around">{around(at - 4, at)}</span>
      <b>{names[at]}</b>
      <span class="cr-around">{around(at + 1, at + 3)}</span>
    </code>
  );
}

function Looks({ state, data }: Props) {
  const { at, names, looks } = data;
  const weights = looks(at);
  const job = jobsOf(state, state.head);
  return (
    <div>
      <p class="cr-title">
        <b>Where head {sayHead(state.head)} looks</b>
      </p>
      <BarTable
        label={`Where head ${sayHead(state.head)} looks ${sayPlace(data)}`}
        kind="cr-looks"
        heads={["weight"]}
        rows={topK(weights, 3).map((place) => ({
          id: place,
          head: <InContext names={names} at={place} />,
          values: [weights[place]!],
        }))}
      />
      <p class="bw-quiet">
        {job.length
          ? `What this head looks at, by the chapter’s tests: ${job.map((one) => one.looks_at).join("; ")}.`
          : "By the chapter’s tests this head has none of the jobs."}
      </p>
    </div>
  );
}

const jobsOf = ({ jobs }: State, head: Head): Job[] => jobs.filter((job) => sayHead(job.head) === sayHead(head));

function switched({ heads_off }: State, head: Head): Partial<Shown> {
  const others = heads_off.filter((one) => sayHead(one) !== sayHead(head));
  if (others.length < heads_off.length) return { heads_off: others };
  return { heads_off: [...others, head].sort((a, b) => a[0] - b[0] || a[1] - b[1]) };
}

/** The button for the head in sight: take it away, and put it back. */
function TakeAway({ state, data, act }: Props) {
  const off = data.isOff(state.head);
  const copies = jobsOf(state, state.head).some(({ job }) => job === "copy");
  return (
    <Button name="take-away" kind="main" onClick={() => act(switched(state, state.head))}>
      {off ? "Put head" : "Take away head"} {sayHead(state.head)}
      {off ? " back" : copies ? ", which copies" : ""}
    </Button>
  );
}

// ---- Heads --------------------------------------------------------------------------------------------------------

const LEVELS = 16;
const SMALL = 64; // rows of a small map: each stands for several tokens where there are more

/** A head's weights as squares, one path a level of colour: [level, path]. A square of several weights has the largest. */
function squaresOf(places: readonly Place[], [layer, head]: Head, size: number): [number, string][] {
  const paths = new Map<number, string>();
  const n = places.length;
  const block = n / size;
  for (let i = 0; i < size; i++) {
    const levels = new Uint8Array(size);
    for (let row = Math.floor(i * block); row < Math.min((i + 1) * block, n); row++) {
      places[row]!.weights[layer - 1]![head - 1]!.forEach((weight, column) => {
        const at = Math.floor(column / block);
        levels[at] = Math.max(levels[at]!, Math.round(weight * LEVELS));
      });
    }
    for (let j = 0; j <= i; ) {
      const level = levels[j]!;
      let end = j + 1;
      while (end <= i && levels[end] === level) end++;
      if (level) paths.set(level, `${paths.get(level) ?? ""}M${j} ${i}h${end - j}v1H${j}z`);
      j = end;
    }
  }
  return [...paths].sort(([a], [b]) => a - b);
}

/** All weights of a head: a row for each token that looks, a column for each that is looked at. */
function Squares({ places, head: [layer, head], size }: { places: readonly Place[]; head: Head; size: number }) {
  const paths = useMemo(() => squaresOf(places, [layer, head], size), [places, layer, head, size]);
  const stairs = range(size).map((i) => `H${i + 1}v1`);
  return (
    <g class="cr-squares">
      <path d={`M0 0${stairs.join("")}H0z`} style={{ fill: weightColours(0).ground }} />
      {paths.map(([level, path]) => (
        <path key={level} d={path} style={{ fill: weightColours(level / LEVELS).ground }} />
      ))}
    </g>
  );
}

function Heads(props: Props) {
  const { state, data, write, act } = props;
  const { model, now } = data;
  const size = Math.min(now.length, SMALL);
  return (
    <div>
      <p class="cr-title">
        <b>The eight heads</b> <span class="bw-quiet">Choose one, or switch some off.</span>
      </p>
      {model.layers.map((_, l) => (
        <div key={l} class="cr-layer" role="group" aria-label={`Layer ${l + 1}`}>
          {range(model.heads).map((h) => {
            const head: Head = [l + 1, h + 1];
            const name = sayHead(head);
            const off = data.isOff(head);
            return (
              <div key={h} class={off ? "cr-head cr-off" : "cr-head"}>
                <Button
                  name={`head-${l + 1}-${h + 1}`}
                  pressed={name === sayHead(state.head)}
                  label={`Look at head ${name}`}
                  onClick={() => write({ head })}
                >
                  <svg viewBox={`0 0 ${size} ${size}`} class="cr-mini" aria-hidden="true">
                    <Squares places={now} head={head} size={size} />
                  </svg>
                </Button>
                <Toggle
                  name={`on-${l + 1}-${h + 1}`}
                  label={name}
                  on={!off}
                  onChange={() => act(switched(state, head))}
                />
              </div>
            );
          })}
        </div>
      ))}
    </div>
  );
}

function WholeMap({ state, data, write, point }: Props & Pointing) {
  const { now, at } = data;
  const n = now.length;
  const name = sayHead(state.head);

  function placeOf(event: MouseEvent): readonly [number, number] | null {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * n);
    const column = Math.floor(((event.clientX - box.left) / box.width) * n);
    return column >= 0 && column <= row && row < n ? [row, column] : null;
  }

  return (
    <div>
      <p class="cr-title">
        <b>Head {name} over the whole text</b>{" "}
        <span class="bw-quiet">A row looks, a column is looked at. Tap a row to choose its token.</span>
      </p>
      <Picture
        class="cr-map"
        label={`Weights of head ${name}, ${n} by ${n} tokens`}
        width={n}
        height={n}
        onPointerMove={(event) => point(placeOf(event))}
        onPointerLeave={() => point(null)}
        onClick={(event) => {
          const place = placeOf(event);
          if (place) write({ token: place[0] });
        }}
      >
        <Squares places={now} head={state.head} size={n} />
        <rect class="cr-row" x={0} y={at} width={at + 1} height={1} />
      </Picture>
    </div>
  );
}

// ---- What is said -------------------------------------------------------------------------------------------------

type AboutProps = Pick<Props, "state" | "data"> & { pointed: readonly [number, number] | null };

function About({ state, data, pointed }: AboutProps) {
  const { model, names, now, plain, at, looks } = data;
  const name = sayHead(state.head);
  const result =
    now === plain
      ? `Next: ${sayLikeliest(model, now[at]!)}`
      : `Next, without ${sayHeads(state.heads_off)}: ${sayLikeliest(model, now[at]!)}; with all heads: ${sayLikeliest(model, plain[at]!)}`;
  const isIn = pointed && pointed[0] < names.length && pointed[1] <= pointed[0];
  const [row, column] = isIn ? pointed : [at, at && argmax(looks(at).subarray(1)) + 1];
  const [weights, start] = [looks(row), names[0]];
  const more =
    weights[0]! > weights[column]! ? `; ${start}, which only begins the text, gets ${show(weights[0]!)}` : "";
  return (
    <Panel
      title={`From “${names[row]}” (token ${row}), head ${name} looks at “${names[column]}” (token ${column}) with ${show(weights[column]!)}${more}.`}
    >
      {result}
    </Panel>
  );
}

const describeLooks = ({ names, looks }: Data): string[] =>
  names.map((token, i) => {
    const place = argmax(looks(i));
    return `“${token}”, token ${i}, looks most at “${names[place]}”, token ${place}: ${show(looks(i)[place]!)}.`;
  });

export default defineWidget<State, Data>({
  name: "code_reader",
  label: "Code model, interactive",
  compute,
  View,
});
