/* Attention step by step: every number of a small example, and the arithmetic that made it. */

import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { Button, Menu, Padding, Toggle } from "../../kit/controls.tsx";
import { Grid, type Kind, NumberField } from "../../kit/grid.tsx";
import "../../kit/kit.css";
import { weightStyle } from "../../kit/colour.ts";
import { sum } from "../../kit/maths.ts";
import { NoNumber, Panel, Scroll, TextAlternative } from "../../kit/panel.tsx";
import { Quiz, type Reply } from "../../kit/quiz.tsx";
import { show } from "../../kit/text.ts";
import { defineWidget, Heading, useIds, useStateFor, type ViewProps, Words } from "../../kit/widget.tsx";
import {
  type Cell,
  type Computed,
  compute,
  type Given,
  labels,
  type Name,
  type Numbers,
  origins,
  type Sentence,
  type State,
} from "./maths.ts";
import "./style.css";
import { arithmetic, describe, isName, layout, meaning, NAMES, question, type Said, showCell } from "./words.ts";

export { weightColours } from "../../kit/colour.ts";
export { parseNumber, show } from "../../kit/text.ts";
export * from "./maths.ts";
export * from "./words.ts";

const sentenceOf = (state: State): Sentence =>
  state.sentences.find((one) => one.name === state.sentence) ?? state.sentences[0]!;

/** The steps there are: without X, Q, K and V are given and the first step is theirs. */
const stepsOf = ({ source, step_names }: State) =>
  source === "x" ? step_names : step_names.filter((step) => step !== "x");

const GIVEN: Given[] = ["x", "w_q", "w_k", "w_v", "q", "k", "v"];

/** The numbers of an example, and those computed from them that are given when Q, K and V are changed directly. */
function numbersOf(sentence: Sentence, source: State["source"]): Numbers {
  const numbers: Numbers = Object.fromEntries(
    GIVEN.flatMap((name) => (sentence[name] ? [[name, sentence[name]]] : [])),
  );
  if (source === "x" || !sentence.x) return numbers;
  const { q, k, v } = compute({ numbers, source: "x", scaling: true, causal: false, padding: [] });
  return { ...numbers, q, k, v };
}

/** The step is one that there is, and the matrices are as large as those of the example; others are taken from it. */
function settle(state: State): State {
  const steps = stepsOf(state);
  const usual = numbersOf(sentenceOf(state), state.source);
  const sizes = (numbers: Numbers) => GIVEN.map((name) => numbers[name]?.map((row) => row.length).join());
  const fits = sizes(usual).join(";") === sizes(state.numbers).join(";");
  const step = steps.includes(state.step) ? state.step : steps[0]!;
  return { ...state, step, numbers: fits ? state.numbers : usual };
}

/** A symbol with a real superscript: "W^Q". */
function Symbolic({ text }: { text: string }) {
  const [base, above] = text.split("^");
  return (
    <>
      {base}
      {above && <sup>{above}</sup>}
    </>
  );
}

// ---- The view -----------------------------------------------------------------------------------------------------

type Props = ViewProps<State, Computed>;

function View({ state, data: all, write }: Props) {
  const sentence = sentenceOf(state);
  const { sentence: name, source, step, scaling, causal, padding, predict } = state;
  const subject = JSON.stringify([name, source, step, scaling, causal, padding, predict]);
  const [looked, look] = useStateFor<Cell | null>(subject, null);
  const [invalid, setInvalid] = useStateFor(subject, false);
  const [reply, setReply] = useStateFor<Reply>(subject, null);
  const asked = predict ? question(step, state, all, sentence) : null;
  const { results } = layout(step, state, all);
  const isHidden = (matrix: Name) => asked !== null && reply === null && results.includes(matrix);

  function setNumber(matrix: Given, i: number, j: number, value: number) {
    const changed = state.numbers[matrix]!.map((row, r) => row.map((old, c) => (r === i && c === j ? value : old)));
    setReply(null);
    write({ numbers: { ...state.numbers, [matrix]: changed } });
  }

  return (
    <>
      <Heading>Attention, step by step</Heading>
      <Controls state={state} data={all} write={write} />
      <p class="bw-note">
        <Words>{sentence.note}</Words>
      </p>
      <Steps state={state} data={all} write={write} />
      <Stage state={state} data={all} write={write}>
        {asked && (
          <Quiz
            question={asked}
            reply={reply}
            onReply={(given) => {
              setReply(given);
              look(null);
            }}
            canShow
          />
        )}
        <Chain
          state={state}
          all={all}
          sentence={sentence}
          looked={looked}
          isHidden={isHidden}
          onLook={look}
          onNumber={setNumber}
          onInvalid={setInvalid}
        />
      </Stage>
      <Arithmetic
        invalid={invalid}
        covered={looked !== null && isHidden(looked[0])}
        said={looked && arithmetic(looked, state, all, sentence)}
      />
      <TextAlternative
        title="This step in words"
        lines={results.some(isHidden) ? ["Hidden until you predict."] : describe(step, state, all, sentence)}
      />
    </>
  );
}

function Controls({ state, write }: Props) {
  const sentence = sentenceOf(state);
  const edited = useRef(new Map<string, Pick<State, "numbers" | "source">>()); // what a reader changed, by example
  const { source, step, padding } = state;
  const stepOf = (next: State["source"]) => (next === "qkv" && step === "x" ? "projections" : step);

  function pick(name: string) {
    edited.current.set(sentence.name, { numbers: state.numbers, source });
    const next = state.sentences.find((one) => one.name === name)!;
    const given = next.x ? "x" : "qkv";
    const kept = edited.current.get(name) ?? { numbers: numbersOf(next, given), source: given };
    write({ sentence: name, ...kept, padding: [], step: stepOf(kept.source) });
  }
  function change(next: State["source"]) {
    const { q, k, v } = compute(state);
    const numbers = next === "qkv" ? { ...state.numbers, q, k, v } : state.numbers;
    write({ source: next, numbers, step: stepOf(next) });
  }

  return (
    <div class="bw-controls">
      <Menu
        name="sentence"
        label="Example"
        value={sentence.name}
        options={state.sentences.map((one) => [one.name, one.name] as const)}
        onChange={pick}
      />
      <Menu
        name="source"
        label="Change"
        value={source}
        options={[
          ...(sentence.x ? ([["x", "X and the projections"]] as const) : []),
          ["qkv", "Q, K and V directly"] as const,
        ]}
        onChange={change}
      />
      <div class="bw-toggles" role="group" aria-label="Switches">
        <Toggle
          name="scaling"
          label={
            <>
              Divide by √d<sub>k</sub>
            </>
          }
          on={state.scaling}
          onChange={(scaling) => write({ scaling })}
        />
        <Toggle name="causal" label="Causal mask" on={state.causal} onChange={(causal) => write({ causal })} />
        <Toggle
          name="padding"
          label="Padding mask"
          on={padding.length > 0}
          onChange={(on) => write({ padding: on ? [sentence.keys.length - 1] : [] })}
        />
        <Toggle name="predict" label="Predict first" on={state.predict} onChange={(predict) => write({ predict })} />
      </div>
      {padding.length > 0 && (
        <Padding words={sentence.keys} padding={padding} onChange={(places) => write({ padding: places })} />
      )}
    </div>
  );
}

function Steps({ state, data: all, write }: Props) {
  const id = useIds();
  return (
    <div class="ats-steps" role="group" aria-label="Steps">
      <ol class="bw-wrap">
        {stepsOf(state).map((step, i) => (
          <li key={step}>
            <button
              type="button"
              class="bw-button"
              id={id(`step-${step}`)}
              aria-current={step === state.step ? "step" : undefined}
              onClick={() => write({ step })}
            >
              <span class="ats-number">{i + 1}</span> {layout(step, state, all).tab}
            </button>
          </li>
        ))}
      </ol>
    </div>
  );
}

/** A step: the way to the next one, which keeps its place under the hand, what it does, and its matrices. */
function Stage({ state, data: all, write, children }: Props & { children: ComponentChildren }) {
  const { title, text } = layout(state.step, state, all);
  const steps = stepsOf(state);
  const here = steps.indexOf(state.step);

  return (
    <div class="ats-stage">
      <div class="ats-walk">
        <Button name="reset" onClick={() => write({ numbers: numbersOf(sentenceOf(state), state.source) })}>
          Reset numbers
        </Button>
        <Button name="back" disabled={here === 0} onClick={() => write({ step: steps[here - 1]! })}>
          ← Back
        </Button>
        <Button
          name="next"
          kind="main"
          disabled={here === steps.length - 1}
          onClick={() => write({ step: steps[here + 1]! })}
        >
          Next step →
        </Button>
      </div>
      <p class="ats-step-title">{title}</p>
      <p class="bw-text">{text}</p>
      {children}
    </div>
  );
}

// ---- Matrices -----------------------------------------------------------------------------------------------------

interface ChainProps {
  state: State;
  all: Computed;
  sentence: Sentence;
  looked: Cell | null;
  isHidden: (name: Name) => boolean;
  onLook: (cell: Cell) => void;
  onNumber: (name: Given, i: number, j: number, value: number) => void;
  onInvalid: (invalid: boolean) => void;
}

/** The matrices of a step, with signs between them. */
function Chain(props: ChainProps) {
  const { state, all, looked, isHidden } = props;
  const from = looked && !isHidden(looked[0]) ? origins(looked, state.source, all) : [];
  const made = new Set(from.map(String));
  return (
    <div class={`ats-chain ats-${state.step} ats-from-${state.source}`}>
      {layout(state.step, state, all).groups.map((group, g) => (
        <div key={`${state.step}-${g}`} class="ats-group">
          {group.map((part) =>
            isName(part) ? (
              <MatrixBox key={part} {...props} name={part} made={made} />
            ) : (
              <span key={part} class="ats-sign">
                {part}
              </span>
            ),
          )}
        </div>
      ))}
    </div>
  );
}

/** Whose words stand at the rows and at the columns of a matrix. */
const ROW_KIND: Partial<Record<Name, Kind>> = { k: "key", v: "value", kT: "", x: "", w_q: "", w_k: "", w_v: "" };
const KEYS_ACROSS: Name[] = ["kT", "raw", "scaled", "masked", "weights"];

function isGiven(name: Name, { source, step }: State): name is Given {
  if (source !== "x") return name === "q" || name === "k" || name === "v";
  return name === "x" || (name.startsWith("w_") && step === "projections");
}

function MatrixBox(props: ChainProps & { name: Name; made: Set<string> }) {
  const { name, made, state, all, sentence, looked, isHidden, onLook, onNumber, onInvalid } = props;
  const [rows, columns] = labels(name, sentence, all);
  const [title, , kind] = NAMES[name];
  const what = meaning(name, state.step, all);
  const values = all[name]!;
  const [m, n] = [values.length, values[0]!.length];
  const covered = isHidden(name);

  function cell(i: number, j: number, tabIndex: number) {
    const value = values[i]![j]!;
    const masked = (name === "masked" || name === "weights") && !all.allowed[i]![j];
    const place = `${rows[i]}, ${columns[j]}`;
    const text = covered ? "?" : showCell(name, value);
    const on = looked?.[0] === name && looked[1] === i && looked[2] === j;
    const kinds = [
      `bw-cell ${kind}`,
      on && "ats-on",
      made.has(String([name, i, j])) && "ats-from",
      covered ? "ats-covered" : masked && "bw-masked",
    ];
    const given = isGiven(name, state);
    const own = given ? {} : { tabIndex, "aria-label": `${place}: ${covered ? "hidden until you predict" : text}` };
    return (
      <td
        key={j}
        class={kinds.filter(Boolean).join(" ")}
        data-matrix={name}
        data-row={i}
        data-column={j}
        data-value={covered ? "" : value}
        style={name === "weights" && !covered && !masked ? weightStyle(value) : undefined}
        {...own}
      >
        {given ? (
          <NumberField
            label={`${title.replace("_", " ")}, ${place}`}
            value={value}
            tabIndex={tabIndex}
            onChange={(number) => onNumber(name, i, j, number)}
            onInvalid={onInvalid}
          />
        ) : (
          text
        )}
      </td>
    );
  }

  const total = (i: number) => (
    <td class="bw-sum" data-sum={i}>
      {covered ? "?" : show(sum(values[i]!))}
    </td>
  );
  return (
    <div class="ats-matrix">
      <div class="ats-caption">
        <b class={kind}>
          <Symbolic text={title} />
        </b>{" "}
        <span class="bw-quiet">
          {what}{" "}
          <span class="bw-shape">
            {m} × {n}
          </span>
        </span>
      </div>
      <Scroll>
        <Grid
          label={`${title.replace("_", " ")}, ${what}, ${m} rows and ${n} columns`}
          rows={rows}
          columns={columns}
          rowKind={ROW_KIND[name] ?? "query"}
          columnKind={KEYS_ACROSS.includes(name) ? "key" : ""}
          cell={cell}
          {...(name === "weights" ? { last: { head: "sum", cell: total } } : {})}
          onLook={([i, j]) => onLook([name, i, j])}
        />
      </Scroll>
    </div>
  );
}

// ---- The arithmetic -----------------------------------------------------------------------------------------------

interface ArithmeticProps {
  invalid: boolean;
  covered: boolean;
  said: Said | null;
}

function Arithmetic({ invalid, covered, said }: ArithmeticProps) {
  if (invalid) return <NoNumber />;
  if (said === null) {
    return (
      <Panel title="How was a number made?">
        Point at any cell, tap it, or walk to it with Tab and the arrow keys.
      </Panel>
    );
  }
  if (covered)
    return <Panel title="Predict first">Answer the question above, then look how this number was made.</Panel>;
  return (
    <Panel title={said.title}>
      {said.parts.map(({ text, kind, sup }, p) =>
        sup ? (
          <sup key={p}>{text}</sup>
        ) : (
          <span key={p} class={kind}>
            {text}
          </span>
        ),
      )}
    </Panel>
  );
}

export default defineWidget<State, Computed>({
  name: "attention_steps",
  label: "Attention step by step, interactive",
  settle,
  linked: ["sentence", "source", "numbers", "step", "scaling", "causal", "padding"],
  compute,
  View,
});
