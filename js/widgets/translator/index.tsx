/* The translator: a trained machine that one may type into, look into, and operate on. */

import { useMemo } from "preact/hooks";
import { BarTable } from "../../kit/chart.tsx";
import { weightColours, weightStyle } from "../../kit/colour.ts";
import { Boxes, Button, Choice, Menu, Slider, Toggle } from "../../kit/controls.tsx";
import { FaintDot, Grid, NumberField, type Place, RovingRow } from "../../kit/grid.tsx";
import "../../kit/kit.css";
import { argmax, candidates, memoizeLast, range } from "../../kit/maths.ts";
import { Folded, NoNumber, Panel, Scroll, TextAlternative } from "../../kit/panel.tsx";
import { Player } from "../../kit/player.tsx";
import { count, isFaint, named, quoted, show } from "../../kit/text.ts";
import { Part, Tour, useTour } from "../../kit/tour.tsx";
import { defineWidget, Heading, useIds, useStateFor, type ViewProps, Words } from "../../kit/widget.tsx";
import { idsOf, parse, replaceWord, troubleIn, wordsOf } from "./language.ts";
import {
  BEGIN,
  type Change,
  decode,
  type Edge,
  END,
  encode,
  type Intervention,
  type Kind,
  type Machine,
  MOST_WRITTEN,
  machineOf,
  NOTHING,
  rowOf,
  type Sheet,
  weightsOf,
  write as writeOn,
} from "./machine.ts";
import "./style.css";
import { cardsOf } from "./tour.ts";
import {
  axesOf,
  columnsOf,
  common,
  END_NAME,
  KINDS,
  labelsOf,
  listDone,
  partOf,
  rowsOf,
  sayMatrix,
  sayPart,
  sayWhole,
  spell,
} from "./words.ts";

export * from "./language.ts";
export * from "./machine.ts";
export * from "./tour.ts";
export * from "./words.ts";

interface Example extends Intervention {
  label: string;
  sentence: string;
  step: number;
  attention: Kind;
  head: number;
}

export interface State extends Intervention {
  /** What stands in the field, and the last text in it that the machine could read. */
  text: string;
  sentence: string;
  /** The word that is looked at, counted from 1, and whether those after it are shown. */
  step: number;
  rest: boolean;
  attention: Kind;
  layer: number;
  /** From 1; 0 is the mean of all. */
  head: number;
  matrix: string;
  /** The first row and column of the matrix that are shown. */
  corner: [number, number];
  examples: Example[];
  compact: boolean;
  note: string;
  machine: string;
}

const STORY = "the transformer architecture was introduced in 2017";

function settle(state: State): State {
  const machine = machineOf(state.machine);
  return troubleIn(state.sentence, machine) ? { ...state, sentence: STORY } : state;
}

const layersOf = (machine: Machine, kind: Kind) =>
  kind === "encoder" ? machine.sizes.encoder_layers : machine.sizes.decoder_layers;

const untouched = memoizeLast((machine: Machine, sentence: string) => {
  const encoded = encode(machine, idsOf(sentence, machine));
  return { encoded, written: writeOn(encoded) };
});

function interventionOf({ closed, heads_off, swapped, shift, padding, unmasked, changes }: Intervention): Intervention {
  return { closed, heads_off, swapped, shift, padding, unmasked, changes };
}

const isChanged = (intervention: Intervention): boolean => JSON.stringify(intervention) !== JSON.stringify(NOTHING);

/** What comes after a number of words: the row of probabilities of the next one. */
const likely = (trace: Map<string, Sheet>, step: number) => rowOf(trace.get("probabilities")!, step - 1);

function compute(state: State) {
  const machine = machineOf(state.machine);
  const words = wordsOf(state.sentence);
  const plain = untouched(machine, state.sentence);
  const intervention = interventionOf(state);
  const isIntervened = isChanged(intervention);
  const encoded = isIntervened ? encode(machine, idsOf(state.sentence, machine), intervention) : plain.encoded;
  const written = isIntervened ? writeOn(encoded) : plain.written;
  const steps = written.ids.length;
  const step = Math.min(Math.max(state.step, 1), steps);
  const shown = state.rest ? steps : step;
  const readUntil = (last: number) => [BEGIN, ...written.ids.slice(0, last - 1)];
  const trace = decode(encoded, readUntil(shown));
  const now = shown === step ? trace : decode(encoded, readUntil(step));
  const beside = decode(plain.encoded, readUntil(shown));
  const axes = axesOf(words, state.padding, written, machine);
  const layer = Math.min(state.layer, layersOf(machine, state.attention) - 1);
  const parsed = parse(words, machine.grammar);
  return {
    machine,
    words,
    parsed,
    plain: plain.written,
    encoded,
    written,
    isIntervened,
    step,
    shown,
    trace,
    beside,
    now: likely(now, step),
    before: likely(shown === step ? beside : decode(plain.encoded, readUntil(step)), step),
    axes: { ...axes, steps: axes.steps.slice(0, shown), read: axes.read.slice(0, shown) },
    every: axes,
    layer,
    done: listDone(intervention, axes, Math.max(machine.sizes.encoder_layers, machine.sizes.decoder_layers)),
  };
}

export type Data = ReturnType<typeof compute>;
type Props = ViewProps<State, Data>;

// ---- What a reader does -------------------------------------------------------------------------------------------

/** Whether an edge closes a place for one head, or, for head 0, for all of them. */
const closes = ([kind, layer, head, row, column]: Edge, [k, l, h, r, c]: Edge): boolean =>
  kind === k && layer === l && (head === 0 || head === h) && (row < 0 || row === r) && (column < 0 || column === c);

const inAllHeads = ([kind, layer, , row, column]: Edge): Edge => [kind, layer, 0, row, column];

/** Close an edge; where it is closed, open it, with all that was closed by the same press. */
function turn(state: State, edge: Edge): Partial<State> {
  const open = state.closed.filter((one) => !closes(one, edge));
  if (open.length < state.closed.length) return { closed: open };
  // Closed in all heads says more than closed in some
  const kept = edge[2] ? state.closed : state.closed.filter((one) => !closes(edge, one));
  return { closed: [...kept, edge] };
}

const wordEdges = (machine: Machine, column: number): Edge[] =>
  range(machine.sizes.decoder_layers).map((layer) => ["cross", layer, 0, -1, column]);

const sameEdge = (a: Edge, b: Edge) => a.join() === b.join();
const isHidden = (state: State, machine: Machine, column: number): boolean =>
  wordEdges(machine, column).every((edge) => state.closed.some((one) => sameEdge(one, edge)));

/** Let no step look at a word any more, or let them again. */
function hide(state: State, machine: Machine, column: number): Partial<State> {
  const edges = wordEdges(machine, column);
  const others = state.closed.filter((one) => !edges.some((edge) => sameEdge(one, edge)));
  return { closed: isHidden(state, machine, column) ? others : [...others, ...edges] };
}

function toggled<T>(all: readonly T[], one: T): T[] {
  const others = all.filter((each) => String(each) !== String(one));
  return others.length < all.length ? others : [...others, one];
}

// ---- The view -----------------------------------------------------------------------------------------------------

function View(props: Props) {
  return props.state.compact ? <Small {...props} /> : <Whole {...props} />;
}

/** The parts of the tour that the small form has, and what stands for another one there. */
const SMALL: Record<string, string> = { typing: "typing", reading: "reading", writing: "writing", heads: "reading" };

function Small(props: Props) {
  const { state, data, write } = props;
  const tour = useTour(() =>
    cardsOf(state, data, openMatrix(state, data)).flatMap((card) => {
      const part = SMALL[card.part];
      return part ? [{ ...card, part }] : [];
    }),
  );
  return (
    <Tour value={tour.lit}>
      <Heading beside={tour.button}>A trained Transformer, here in the page</Heading>
      {state.note && (
        <p class="bw-note">
          <Words>{state.note}</Words>
        </p>
      )}
      <Part name="typing">
        <Typing {...props} />
      </Part>
      <Part name="reading">
        <Reading {...props} />
      </Part>
      <Part name="writing">
        <Writing {...props} />
      </Part>
      <Offered {...props} />
      <p class="bw-unseen" role="status">
        {sumUp(data)}
      </p>
      {data.done.length > 0 && <DoneList done={data.done} write={write} />}
      {tour.open}
    </Tour>
  );
}

function Whole(props: Props) {
  const { state, data } = props;
  const [looked, look] = useStateFor<Looked | null>(state.sentence + state.attention + state.matrix, null);
  const [invalid, setInvalid] = useStateFor(state.matrix, false);
  const tour = useTour(() => cardsOf(state, data, openMatrix(state, data)));
  return (
    <Tour value={tour.lit}>
      <Heading beside={tour.button}>Inside the translator</Heading>
      {state.note && (
        <p class="bw-note">
          <Words>{state.note}</Words>
        </p>
      )}
      <Part name="typing">
        <Typing {...props} />
        <Offered {...props} />
      </Part>
      <Part name="reading">
        <Reading {...props} />
      </Part>
      <Part name="writing">
        <Writing {...props} />
      </Part>
      <Part name="candidates">
        <Candidates data={data} />
      </Part>
      <Attention {...props} look={look} />
      <Part name="operations">
        <Operations {...props} />
        <DoneList done={data.done} write={props.write} />
      </Part>
      <Part name="matrix">
        <Matrix {...props} look={look} onInvalid={setInvalid} />
      </Part>
      <TextAlternative title="Every step in words" lines={describeSteps(state, data)} />
      {tour.open ?? <About state={state} data={data} looked={looked} invalid={invalid} />}
    </Tour>
  );
}

/** What the isIntervened machine writes, against the untouched one, in a sentence. */
function sumUp({ plain, written, machine, isIntervened }: Data): string {
  const [before, now] = [spell(plain.ids, machine), spell(written.ids, machine)];
  if (!isIntervened) return "";
  return before === now ? "It still writes the same." : `Now it writes “${now || "nothing"}”.`;
}

// ---- The sentence -------------------------------------------------------------------------------------------------

function Typing({ state, data: { machine, parsed }, write }: Props) {
  const id = useIds();
  const trouble = troubleIn(state.text, machine);
  const said = (text: string): Partial<State> =>
    troubleIn(text, machine) ? { text } : { text, sentence: text, rest: true };

  return (
    <div>
      <label class="bw-label" for={id("text")}>
        Type an English sentence in words that it knows
      </label>
      <input
        type="text"
        id={id("text")}
        class="bw-entry tr-text"
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        maxLength={400}
        aria-describedby={id("said")}
        aria-invalid={trouble !== null || undefined}
        value={state.text}
        onInput={(event) => write(said(event.currentTarget.value))}
      />
      <div id={id("said")} class={`tr-said${trouble ? " bw-trouble" : ""}`} role="status">
        {trouble === null && <p>{aboutSentence(parsed)}</p>}
        {trouble?.kind === "empty" && <p>Type some words. Until then the last sentence stays.</p>}
        {trouble?.kind === "long" && (
          <p>
            These are {trouble.words} words. It never saw more than 20, and here it reads 40 at most. Until then the
            last sentence stays.
          </p>
        )}
        {trouble?.kind === "unknown" && (
          <>
            {trouble.words.slice(0, 3).map(({ word, near }) => (
              <p key={word}>
                It does not know <b>“{word}”</b>.{" "}
                {near.length ? (
                  <span class="bw-wrap tr-near">
                    {/^\d+$/.test(word) ? "Years near it: " : "Do you mean "}
                    {near.map((other) => (
                      <Button key={other} onClick={() => write(said(replaceWord(state.text, word, other)))}>
                        {other}
                      </Button>
                    ))}
                  </span>
                ) : (
                  "It knows nothing like it."
                )}
              </p>
            ))}
            {trouble.words.length > 3 && (
              <p>
                Nor {quoted(trouble.words.slice(3, 9).map(({ word }) => word))}
                {trouble.words.length > 9 ? " and more" : ""}.
              </p>
            )}
            <p>Until then the last sentence stays: “{state.sentence}”.</p>
          </>
        )}
      </div>
    </div>
  );
}

/** Sentences to begin with, and all words. */
function Offered({ state, data: { machine }, write }: Props) {
  function take({ label: _, ...example }: Example) {
    write({ ...example, text: example.sentence, rest: true });
  }

  return (
    <div>
      <div class="bw-wrap bw-chips" role="group" aria-label="Examples">
        {state.examples.map((example) => (
          <Button
            key={example.label}
            name={`example-${example.label.replaceAll(" ", "-")}`}
            onClick={() => take(example)}
          >
            {example.label}
          </Button>
        ))}
      </div>
      <Folded title={`All ${machine.english.length - 1} words that it knows`}>
        <p class="tr-known">
          {machine.english
            .slice(1)
            .filter((word) => !/^\d/.test(word))
            .join(" · ")}
        </p>
        <p class="tr-known">Years: 2008 to 2023 with “was”, 2027 to 2042 with “will be”.</p>
      </Folded>
    </div>
  );
}

function aboutSentence(parsed: Data["parsed"]): string {
  if (!parsed) {
    return "It knows these words, but its grammar makes no such sentence: it never saw one like it, and what it writes is a guess.";
  }
  const made = parsed.answer ? "An answer: the question is read, but not translated." : "A sentence of its grammar.";
  return parsed.heldOut ? `${made} In training “${parsed.noun}” was never “${parsed.verb}”.` : made;
}

/** What it reads: each word in the colour of the weight with which the chosen step looks at it. */
function Reading({ state, data: { machine, words, trace, step, layer, every }, write }: Props) {
  const kind = state.attention === "cross" ? layer : 0;
  const weights = rowOf(weightsOf(trace, ["cross", kind], 0, machine.sizes.num_heads), step - 1);
  return (
    <div>
      <p class="tr-title">
        <b>It reads</b>{" "}
        <span class="bw-quiet">
          the stronger the colour, the more it looks there when it writes “{every.steps[step - 1]}”. Tap a word to hide
          it.
        </span>
      </p>
      <RovingRow kind="bw-wrap tr-words" label="English words" stop={0}>
        {words.map((word, j) => {
          const hidden = isHidden(state, machine, j);
          return (
            <button
              key={j}
              type="button"
              class={`tr-word tr-read${hidden ? " tr-hidden" : ""}`}
              style={hidden ? undefined : weightStyle(weights[j]!)}
              tabIndex={j ? -1 : 0}
              aria-pressed={hidden}
              aria-label={`${word}: ${hidden ? "hidden" : `weight ${show(weights[j]!)}`}`}
              data-read={j}
              data-value={weights[j]}
              onClick={() => write(hide(state, machine, j))}
            >
              <span>{word}</span>
              <small>{hidden ? "✕" : weights[j]!.toFixed(2)}</small>
            </button>
          );
        })}
      </RovingRow>
    </div>
  );
}

/** What the untouched machine writes, and what this one writes, word by word. */
function Writing({ state, data, write }: Props) {
  const { plain, written, machine, step, every, isIntervened, parsed } = data;
  const steps = written.ids.length;
  const [inBoth, kept] = [common(written.ids, plain.ids), common(plain.ids, written.ids)];
  const right = parsed?.italian.join(" ");
  const verdict = (ids: readonly number[]) => {
    if (!right) return null;
    const isRight =
      ids
        .filter((id) => id > END)
        .map((id) => machine.italian[id])
        .join(" ") === right;
    return <b class={isRight ? "bw-good" : "bw-bad"}>{isRight ? " ✓ right" : " ✗ wrong"}</b>;
  };

  return (
    <div>
      <p class="tr-title">
        <b>Unchanged, it writes</b> {verdict(plain.ids)}
      </p>
      <p class="tr-plain" data-untouched={spell(plain.ids, machine)}>
        {plain.ids.map((id, i) => (
          <span key={i} class={kept[i] ? "" : "tr-lost"}>
            {id === END ? "" : machine.italian[id]}
            {id === END || machine.italian[id]!.endsWith("'") ? "" : " "}
          </span>
        ))}
      </p>
      <p class="tr-title">
        <b>{isIntervened ? "Changed, it writes" : "Word by word"}</b> {isIntervened && verdict(written.ids)}{" "}
        {!isIntervened && <span class="bw-quiet">tap a word to see how it came about</span>}
      </p>
      <RovingRow
        kind="bw-wrap tr-words"
        label={isIntervened ? "Italian words of the changed machine" : "Italian words"}
        stop={step}
      >
        {written.ids.map((id, i) => {
          const later = !state.rest && i >= step;
          const kinds = [
            "tr-word tr-step",
            inBoth[i] ? "" : "tr-new",
            later ? "tr-later" : "",
            id === END ? "tr-end" : "",
          ];
          const said = later ? `word ${i + 1}, not written yet` : `${every.steps[i]}${inBoth[i] ? "" : ", differs"}`;
          return (
            <button
              key={i}
              type="button"
              class={kinds.join(" ")}
              tabIndex={i === step - 1 ? 0 : -1}
              aria-pressed={i === step - 1}
              aria-label={said}
              data-written={i}
              onClick={() => write({ step: i + 1 })}
            >
              <span>{every.steps[i]}</span>
            </button>
          );
        })}
      </RovingRow>
      {steps >= MOST_WRITTEN && written.ids.at(-1) !== END && (
        <p class="bw-quiet">It comes to no end, and is stopped after {MOST_WRITTEN} words.</p>
      )}
      <div class="tr-player">
        <Player
          name="moment"
          label="Word"
          first={1}
          last={steps}
          at={step}
          whole={state.rest}
          say={(at) => `${at} of ${steps}`}
          onMove={(at) => write({ step: at, rest: at === steps })}
        />
        <Button name="undo" kind="plain" disabled={!isIntervened} onClick={() => write({ ...NOTHING })}>
          Undo everything
        </Button>
      </div>
    </div>
  );
}

// ---- The next word ------------------------------------------------------------------------------------------------

function Candidates({ data }: { data: Data }) {
  const { machine, now, before, step, every } = data;
  const prefix = every.steps.slice(0, step - 1);
  return (
    <div class="tr-candidates">
      <p class="tr-title">
        <b>Word {step}</b>{" "}
        <span class="bw-quiet">
          {prefix.length ? `after “${prefix.slice(-3).join(" ")}”: ` : ""}how likely each word is to come next. The
          unchanged machine has read the same words.
        </span>
      </p>
      <BarTable
        label={`Likeliest words at step ${step}`}
        heads={["unchanged", "changed"]}
        rows={candidates(now, before).map((id) => ({
          id,
          head: id === END ? END_NAME : machine.italian[id],
          values: [before[id]!, now[id]!],
        }))}
      />
    </div>
  );
}

// ---- Attention ----------------------------------------------------------------------------------------------------

/** What one points at: a weight, or a number of the open matrix. */
type Looked = { what: "weight"; at: Place } | { what: "number"; at: Place };
interface Looking {
  look: (looked: Looked) => void;
}

function Attention({ state, data, write, look }: Props & Looking) {
  const { machine, axes, trace, layer, step, shown } = data;
  const kind = state.attention;
  const heads = machine.sizes.num_heads;
  const [rows, columns] = [rowsOf(kind, axes), columnsOf(kind, axes)];
  const layers = layersOf(machine, kind);
  const sheet = weightsOf(trace, [kind, layer], Math.min(state.head, heads), heads);
  const off = (head: number) => state.heads_off.some(([k, l, h]) => k === kind && l === layer && h === head);
  const minis = useMemo(
    () => range(heads + 1).map((head) => <Mini key={head} sheet={weightsOf(trace, [kind, layer], head, heads)} />),
    [trace, kind, layer, heads],
  );

  function cell(i: number, j: number, tabIndex: number) {
    const value = sheet.data[i * sheet.columns + j]!;
    const edge: Edge = [kind, layer, state.head, i, j];
    const closed = state.closed.some((one) => closes(one, edge));
    const partly = !closed && state.head === 0 && state.closed.some((one) => closes(inAllHeads(one), edge));
    const masked = kind === "decoder" ? j > i + state.shift : j >= data.words.length && !state.unmasked.includes(kind);
    const kinds = ["tr-cell", closed && "tr-closed", partly && "tr-partly", masked && "tr-masked"];
    const said = masked
      ? "hidden by the mask"
      : closed
        ? "masked by you"
        : `weight ${show(value)}${partly ? ", masked in some heads" : ""}`;
    return (
      <td key={j} class={i === step - 1 && kind !== "encoder" ? "tr-now-row" : ""}>
        <button
          type="button"
          class={kinds.filter(Boolean).join(" ")}
          style={closed || masked ? undefined : weightStyle(value)}
          tabIndex={tabIndex}
          data-row={i}
          data-column={j}
          data-value={value}
          aria-pressed={closed}
          aria-disabled={masked || undefined}
          aria-label={`${rows[i]}, ${columns[j]}: ${said}`}
          onClick={() => !masked && write(turn(state, edge))}
        >
          {closed ? "✕" : masked ? "" : isFaint(value) ? <FaintDot number={show(value)} /> : value.toFixed(2)}
        </button>
      </td>
    );
  }

  return (
    <div class="tr-attention">
      <Part name="kinds" kind="bw-controls">
        <Choice
          name="attention"
          label="Which attention?"
          options={KINDS}
          value={kind}
          onChange={(attention) => write({ attention, layer: Math.min(layer, layersOf(machine, attention) - 1) })}
        />
        {layers > 1 && (
          <Menu
            name="layer"
            label="Layer"
            options={range(layers).map((l) => [String(l), String(l + 1)] as const)}
            value={String(layer)}
            onChange={(one) => write({ layer: Number(one) })}
          />
        )}
      </Part>
      <Part name="heads">
        <div class="bw-wrap tr-minis" role="group" aria-label="Heads">
          {range(heads + 1).map((head) => (
            <Button
              key={head}
              name={`head-${head}`}
              pressed={head === state.head}
              label={head ? `head ${head}${off(head) ? ", removed" : ""}` : "mean of all heads"}
              onClick={() => write({ head })}
            >
              {minis[head]}
              <span>{head ? `head ${head}${off(head) ? " ✕" : ""}` : "mean"}</span>
            </Button>
          ))}
        </div>
      </Part>
      <Part name="map">
        <p class="bw-quiet">
          {KINDS.find((one) => one.value === kind)!.about}
          {kind === "encoder" ? " A row is the word that looks." : " A row is the word that the step writes."} Tap a
          place to mask this edge{state.head ? ` in head ${state.head}` : " in all heads"}; tap again to unmask it.
        </p>
        <Scroll>
          <Grid
            label={`Weights, ${state.head ? `head ${state.head}` : "mean of all heads"}`}
            class={`tr-map bw-stuck${columns.length > 12 ? " tr-many" : ""}`}
            rows={rows.slice(0, kind === "encoder" ? rows.length : shown)}
            columns={columns.map((word, j) => <span key={j}>{word}</span>)}
            rowKind="query"
            columnKind="key"
            cell={cell}
            onLook={(at) => look({ what: "weight", at })}
          />
        </Scroll>
      </Part>
    </div>
  );
}

/** A small map of weights, without letters. */
function Mini({ sheet: { rows, columns, data } }: { sheet: Sheet }) {
  return (
    <svg viewBox={`0 0 ${columns} ${rows}`} class="tr-mini" preserveAspectRatio="none" aria-hidden="true">
      {[...data].map((value, at) => (
        <rect
          key={at}
          x={at % columns}
          y={Math.floor(at / columns)}
          width={1.02}
          height={1.02}
          style={{ fill: weightColours(value).ground }}
        />
      ))}
    </svg>
  );
}

function Operations({ state, data: { machine, layer }, write }: Props) {
  const kind = state.attention;
  const swapped = state.swapped.some(([k, l]) => k === kind && l === layer);
  return (
    <div class="tr-operations">
      <Boxes legend={`Heads of this attention`}>
        {range(machine.sizes.num_heads).map((h) => (
          <Toggle
            key={h}
            name={`off-${h + 1}`}
            label={`head ${h + 1}`}
            on={!state.heads_off.some(([k, l, one]) => k === kind && l === layer && one === h + 1)}
            onChange={() => write({ heads_off: toggled(state.heads_off, [kind, layer, h + 1] as const) })}
          />
        ))}
      </Boxes>
      <div class="bw-toggles">
        <Toggle
          name="swapped"
          label="Swap keys and values"
          on={swapped}
          onChange={() => write({ swapped: toggled(state.swapped, [kind, layer] as const) })}
        />
        {kind !== "decoder" && (
          <Toggle
            name="mask"
            label="Padding is masked"
            on={!state.unmasked.includes(kind)}
            onChange={() => write({ unmasked: toggled(state.unmasked, kind) })}
          />
        )}
      </div>
      <div class="bw-controls">
        {kind === "decoder" ? (
          <Choice
            name="shift"
            label="Causal mask: a position sees"
            options={[
              { value: "-1", text: "not itself" },
              { value: "0", text: "itself and before" },
              { value: "1", text: "the next one too" },
            ]}
            value={String(state.shift)}
            onChange={(shift) => write({ shift: Number(shift) })}
          />
        ) : (
          <Slider
            name="padding"
            label="Padding after the sentence"
            min={0}
            max={8}
            value={state.padding}
            say={(n) => (n ? count(n, "position") : "none")}
            onChange={(padding) => write({ padding })}
          />
        )}
      </div>
      {kind === "decoder" && state.shift > 0 && (
        <p class="bw-quiet">
          In writing, the newest word has no next one yet: what it writes stays the same. In training this would be a
          leak.
        </p>
      )}
    </div>
  );
}

function DoneList({ done, write }: { done: Data["done"]; write: Props["write"] }) {
  return (
    <div class="tr-done">
      <p class="tr-title">
        <b>Done to it</b> {done.length === 0 && <span class="bw-quiet">nothing yet</span>}
      </p>
      {done.length > 0 && (
        <ul class="bw-wrap">
          {done.map(({ text, without }, i) => (
            <li key={i}>
              <Button label={`Undo: ${text}`} onClick={() => write(without as Partial<State>)}>
                {text} <span aria-hidden="true">✕</span>
              </Button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

// ---- Any matrix ---------------------------------------------------------------------------------------------------

const [MOST_ROWS, MOST_COLUMNS] = [10, 8];
const FIRST = "decoder.0.cross_attention.q.1";

/** The matrix that is open, as it is and as it would be untouched. */
function openMatrix({ matrix }: State, { trace, beside, encoded, machine }: Data) {
  const name = trace.has(matrix) || encoded.parameters.has(matrix) ? matrix : FIRST;
  const sheet = trace.get(name) ?? encoded.parameters.get(name)!;
  return { name, sheet, plain: beside.get(name) ?? machine.parameters.get(name)! };
}

function Matrix(props: Props & Looking & { onInvalid: (invalid: boolean) => void }) {
  const { state, data, write, look, onInvalid } = props;
  const { trace, machine, axes } = data;
  const { name, sheet } = openMatrix(state, data);
  const all = [...trace.keys(), ...machine.parameters.keys()];
  const part = partOf(name);
  const parts = [...new Set([...trace.keys()].map(partOf))];
  const [top, left] = [
    Math.min(Math.max(state.corner[0] ?? 0, 0), Math.max(0, sheet.rows - 1)),
    Math.min(Math.max(state.corner[1] ?? 0, 0), Math.max(0, sheet.columns - 1)),
  ];
  const [rows, columns] = labelsOf(name, sheet.rows, sheet.columns, axes, machine);
  const seen = { rows: Math.min(MOST_ROWS, sheet.rows - top), columns: Math.min(MOST_COLUMNS, sheet.columns - left) };
  const largest = sheet.data.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const isChanged = (i: number, j: number) => state.changes.some(([m, r, c]) => m === name && r === i && c === j);

  function change(row: number, column: number, value: number) {
    const others = state.changes.filter(([m, r, c]) => m !== name || r !== row || c !== column);
    write({ changes: [...others, [name, row, column, value] satisfies Change] });
  }
  const open = (matrix: string) => write({ matrix, corner: [0, 0] });

  return (
    <Folded title="Open any matrix, and change a number">
      <div class="bw-controls">
        <Menu
          name="part"
          label="Part of the machine"
          options={parts.map((one) => [one, sayPart(one)] as const)}
          value={part}
          onChange={(one) => open(all.find((each) => partOf(each) === one)!)}
        />
        <Menu
          name="matrix"
          label="Matrix"
          options={all.filter((each) => partOf(each) === part).map((each) => [each, sayMatrix(each)] as const)}
          value={name}
          onChange={open}
        />
      </div>
      <p class="bw-quiet">
        <code>{name}</code>, {sheet.rows} × {sheet.columns}. The stronger the colour, the larger the number: orange
        above zero, blue below.
      </p>
      <Scroll>
        <Grid
          label={sayWhole(name)}
          class="tr-matrix bw-stuck"
          rows={rows.slice(top, top + seen.rows)}
          columns={columns.slice(left, left + seen.columns)}
          onLook={([i, j]) => look({ what: "number", at: [top + i, left + j] })}
          cell={(i, j, tabIndex) => {
            const [row, column] = [top + i, left + j];
            const value = sheet.data[row * sheet.columns + column]!;
            const share = largest ? Math.abs(value) / largest : 0;
            const hue = value < 0 ? "var(--book-query)" : "var(--book-key)";
            return (
              <td
                key={`${name} ${row} ${column}`}
                class={`bw-cell${isChanged(row, column) ? " tr-changed" : ""}`}
                data-row={i}
                data-column={j}
                data-value={value}
                style={{ "--tr-tint": `color-mix(in srgb, ${hue} ${Math.round(30 * share)}%, var(--bw-cell))` }}
              >
                <NumberField
                  label={`${rows[row]}, ${columns[column]}`}
                  value={value}
                  tabIndex={tabIndex}
                  onChange={(given) => change(row, column, given)}
                  onInvalid={onInvalid}
                />
              </td>
            );
          }}
        />
      </Scroll>
      <div class="bw-wrap">
        <Paging name="rows" first={top} most={MOST_ROWS} all={sheet.rows} go={(to) => write({ corner: [to, left] })} />
        <Paging
          name="columns"
          first={left}
          most={MOST_COLUMNS}
          all={sheet.columns}
          go={(to) => write({ corner: [top, to] })}
        />
      </div>
    </Folded>
  );
}

interface PagingProps {
  name: string;
  first: number;
  most: number;
  all: number;
  go: (first: number) => void;
}

function Paging({ name, first, most, all, go }: PagingProps) {
  if (all <= most) return null;
  return (
    <Slider
      name={`first-${name}`}
      label={name}
      min={0}
      max={all - 1 - ((all - 1) % most)}
      value={first}
      say={(from) => `${from + 1} to ${Math.min(from + most, all)} of ${all}`}
      onChange={go}
    />
  );
}

// ---- What is said -------------------------------------------------------------------------------------------------

type AboutProps = Pick<Props, "state" | "data"> & { looked: Looked | null; invalid: boolean };

function About({ state, data, looked, invalid }: AboutProps) {
  const { machine, trace, beside, axes, layer, written, plain, isIntervened } = data;
  const [now, before] = [spell(written.ids, machine), spell(plain.ids, machine)];
  const result = isIntervened
    ? now === before
      ? "Changed, it writes the same."
      : `Changed, it writes: ${now || "(nothing)"}`
    : now;
  if (invalid) return <NoNumber />;
  if (looked?.what === "weight") {
    const kind = state.attention;
    const [i, j] = looked.at;
    const own = weightsOf(trace, [kind, layer], state.head, machine.sizes.num_heads);
    const other = weightsOf(beside, [kind, layer], state.head, machine.sizes.num_heads);
    const [row, column] = [rowsOf(kind, axes)[i], columnsOf(kind, axes)[j]];
    if (i < own.rows && j < own.columns && row !== undefined && column !== undefined) {
      const value = own.data[i * own.columns + j]!;
      const same = i < other.rows && j < other.columns ? other.data[i * other.columns + j]! : null;
      return (
        <Panel
          title={`${state.head ? `Head ${state.head}` : "Mean of the heads"}: “${row}” looks at “${column}” with ${show(value)}${isIntervened && same !== null ? `; unchanged ${show(same)}` : ""}.`}
        >
          {result}
        </Panel>
      );
    }
  }
  if (looked?.what === "number") {
    const { name, sheet, plain: other } = openMatrix(state, data);
    const [i, j] = looked.at;
    if (i < sheet.rows && j < sheet.columns) {
      const at = i * sheet.columns + j;
      const inPlain = i < other.rows && j < other.columns ? other.data[i * other.columns + j]! : null;
      return (
        <Panel
          title={`${sayWhole(name)} [${i + 1}, ${j + 1}]: ${Number(sheet.data[at]!.toPrecision(9))}${isIntervened && inPlain !== null ? `; unchanged ${Number(inPlain.toPrecision(9))}` : ""}.`}
        >
          {result}
        </Panel>
      );
    }
  }
  return <Panel title={isIntervened ? `Unchanged, it writes: ${before}` : "Unchanged, it writes"}>{result}</Panel>;
}

/** Each step: what is written, how likely, and where each head looks most. */
function describeSteps(state: State, { machine, axes, trace, written, layer, every }: Data): string[] {
  const kind = state.attention;
  const heads = range(machine.sizes.num_heads).map((h) =>
    weightsOf(trace, [kind, layer], h + 1, machine.sizes.num_heads),
  );
  const columns = named(columnsOf(kind, axes));
  const most = (sheet: Sheet, i: number) => {
    const row = rowOf(sheet, i);
    const best = argmax(row);
    return `${columns[best]} ${show(row[best]!)}`;
  };
  const looks = (i: number) => heads.map((sheet, h) => `head ${h + 1} at ${most(sheet, i)}`).join(", ");
  if (kind === "encoder") return axes.source.map((word, i) => `“${word}” looks most: ${looks(i)}.`);
  return axes.steps.map(
    (_, i) =>
      `Step ${i + 1} writes “${every.steps[i]}” with probability ${show(written.sure[i]!)} and looks most: ${looks(i)}.`,
  );
}

export default defineWidget<State, Data>({
  name: "translator",
  label: "Trained translator, interactive",
  settle,
  linked: ["text", "sentence"],
  compute,
  View,
});
