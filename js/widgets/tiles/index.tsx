/* Step through the tiles: softmax of a row that is read block by block. */

import { Gridlines, Lettering, Picture, useWidth } from "../../kit/chart.tsx";
import { Menu, Slider, Toggle } from "../../kit/controls.tsx";
import { Grid, NumberField } from "../../kit/grid.tsx";
import "../../kit/kit.css";
import { range, withPlace } from "../../kit/maths.ts";
import { NoNumber, Panel, ReservedHeight, Scroll, TextAlternative } from "../../kit/panel.tsx";
import { Player } from "../../kit/player.tsx";
import { Covered, Quiz, type Reply } from "../../kit/quiz.tsx";
import { minus } from "../../kit/text.ts";
import { defineWidget, Heading, useStateFor, type ViewProps } from "../../kit/widget.tsx";
import { type Computed, compute, type State, settle } from "./maths.ts";
import "./style.css";
import { arithmetic, brief, compare, describe, diagnose, question } from "./words.ts";

export * from "./maths.ts";
export * from "./words.ts";

type Props = ViewProps<State, Computed>;

/** Words for numbers that are none, so that a colour can warn of them. */
const isBad = (value: number): boolean => Number.isNaN(value) || value === Infinity;

// ---- The view -----------------------------------------------------------------------------------------------------

function View({ state, data, write }: Props) {
  const { row, scores, values, masked, block, forget, no_maximum, careless, predict } = state;
  const subject = JSON.stringify([row, scores, values, masked, block, forget, no_maximum, careless, predict]);
  const [reply, setReply] = useStateFor<Reply>(subject, null);
  const [invalid, setInvalid] = useStateFor(row, false);
  const note = state.rows.find((one) => one.name === row)?.note ?? "";
  const covered = predict && reply === null;
  return (
    <>
      <Heading
        beside={
          <Toggle
            name="predict"
            label="Predict first"
            on={predict}
            onChange={(on) => write({ predict: on, ...(on ? { step: 0 } : {}) })}
          />
        }
      >
        Step through the tiles
      </Heading>
      <Controls state={state} data={data} write={write} />
      <ReservedHeight kind="bw-note" longest={state.rows.map((one) => one.note)}>
        {note}
      </ReservedHeight>
      <Row state={state} data={data} write={write} onInvalid={setInvalid} />
      <div class="bw-toggles" role="group" aria-label="Mistakes">
        <span class="bw-quiet">Make a mistake:</span>
        <Toggle name="forget" label="forget to rescale" on={forget} onChange={(on) => write({ forget: on })} />
        <Toggle name="no_maximum" label="no maximum" on={no_maximum} onChange={(on) => write({ no_maximum: on })} />
        <Toggle name="careless" label="careless with −∞" on={careless} onChange={(on) => write({ careless: on })} />
      </div>
      {predict && (
        <Quiz
          question={question(state)}
          reply={reply}
          onReply={(given) => {
            setReply(given);
            write({ step: data.steps.length });
          }}
          canShow
        />
      )}
      <Covered when={covered}>
        <Player
          name="moment"
          label="Blocks read"
          first={0}
          last={data.steps.length}
          at={state.step}
          say={(step) => `${step} of ${data.steps.length}`}
          onMove={(step) => write({ step })}
          pace={1200}
        />
        <Bars state={state} data={data} write={write} />
        <Ledger state={state} data={data} write={write} />
        <ReservedHeight kind="tl-verdict" longest={[LONGEST]}>
          {sayEnd(state, data)}
        </ReservedHeight>
        {invalid ? <NoNumber largest={state.limit} /> : <Arithmetic state={state} data={data} />}
        <TextAlternative title="All blocks in words" lines={describe(data.steps, data.whole)} />
      </Covered>
    </>
  );
}

const LONGEST =
  "By blocks −99999.9, the whole row −99999.9: difference 9.9 · 10⁻¹⁶. A block in which every key is masked: −∞ − (−∞) is NaN, and NaN stays in every sum that it enters.";

/** What came out, beside the softmax of the whole row. */
function sayEnd(state: State, { steps, whole, finished }: Computed) {
  if (!finished)
    return <p class="bw-note">The whole row at once gives {brief(whole.output)}. Read all blocks to compare.</p>;
  const { o } = steps.at(-1)!;
  const { right, difference } = compare(o, whole.output);
  return (
    <p>
      By blocks <b>{brief(o)}</b>, the whole row <b>{brief(whole.output)}</b>: difference{" "}
      <b data-number="difference" data-value={difference}>
        {brief(difference)}
      </b>
      . <b class={right ? "bw-good" : "bw-bad"}>{diagnose(state, { steps, whole })}</b>
    </p>
  );
}

function Controls({ state, write }: Props) {
  function pick(name: string) {
    const { scores, values, masked, block } = state.rows.find((one) => one.name === name)!;
    write({ row: name, scores, values, masked, block, step: 0 });
  }
  return (
    <div class="bw-controls">
      <Menu
        name="row"
        label="Row of scores"
        value={state.row}
        options={state.rows.map(({ name }) => [name, name] as const)}
        onChange={pick}
      />
      <Slider
        name="block"
        label="keys in a block"
        min={1}
        max={state.scores.length}
        value={state.block}
        onChange={(block) => write({ block, step: 0 })}
      />
    </div>
  );
}

// ---- The row ------------------------------------------------------------------------------------------------------

/** Whether a key is in the block just read, and whether it begins a block. */
const placeOf = ({ block }: State, { now }: Computed, j: number): string =>
  `${now && j >= now.first && j < now.end ? "tl-now" : ""}${j > 0 && j % block === 0 ? " tl-first" : ""}`;

function Row({ state, data, write, onInvalid }: Props & { onInvalid: (invalid: boolean) => void }) {
  const { scores, values, masked } = state;
  const set = (name: "scores" | "values", j: number, value: number) =>
    write({ [name]: state[name].map((old, i) => (i === j ? value : old)) });

  function cell(i: number, j: number, tabIndex: number) {
    const closed = masked.includes(j);
    const common = { key: j, "data-row": i, "data-column": j };
    const kind = `bw-cell ${placeOf(state, data, j)}`;
    if (i === 1) {
      return (
        <td {...common} class={`${kind} tl-mask`}>
          <button
            type="button"
            tabIndex={tabIndex}
            aria-pressed={closed}
            aria-label={`key ${j + 1} masked`}
            onClick={() => write({ masked: withPlace(masked, j, !closed) })}
          >
            {closed ? "−∞" : "0"}
          </button>
        </td>
      );
    }
    const [name, said] = i === 0 ? (["scores", "score"] as const) : (["values", "value"] as const);
    return (
      <td {...common} class={`${kind}${i === 2 ? " value" : closed ? " bw-masked" : ""}`}>
        <NumberField
          label={`${said} of key ${j + 1}`}
          value={(i === 0 ? scores : values)[j]!}
          tabIndex={tabIndex}
          largest={state.limit}
          onChange={(value) => set(name, j, value)}
          onInvalid={onInvalid}
        />
      </td>
    );
  }

  return (
    <Scroll>
      <Grid
        label={`Scores, mask and values of ${scores.length} keys`}
        rows={["score s", "mask", "value v"]}
        columns={scores.map((_, j) => j + 1)}
        columnKind="key"
        cell={cell}
        class="tl-row"
      />
    </Scroll>
  );
}

/** The weight of every key so far, before the one that the softmax of the whole row gives it. */
function Bars({ state, data }: Props) {
  const { now, whole } = data;
  const [box, measured] = useWidth<HTMLDivElement>();
  const width = Math.max(measured ?? 0, 200);
  const n = state.scores.length;
  const weights = now?.weights ?? range(n).map(() => 0);
  const [left, right, floor, ceiling] = [30, width - 2, 122, 16];
  const each = (right - left) / n;
  const x = (j: number) => left + j * each;
  const y = (weight: number) => floor - (floor - ceiling) * Math.min(Math.max(weight, 0), 1);
  const reached = now?.end ?? 0;
  const list = (all: readonly number[]) => all.map(brief).join(", ");
  return (
    <div ref={box} class="tl-bars">
      <p class="bw-quiet">
        Weights: <span class="tl-swatch tl-fill" aria-hidden="true" /> of the blocks read so far,{" "}
        <span class="tl-swatch tl-whole" aria-hidden="true" /> of the whole row at once
      </p>
      {measured !== null && (
        <Picture
          label={`Weights so far: ${list(weights.slice(0, reached)) || "none"}. Weights of the whole row: ${list(whole.weights)}.`}
          width={width}
          height={160}
          style={{ width, height: 160 }}
        >
          {now && (
            <rect
              x={x(now.first)}
              y={ceiling - 12}
              width={each * (now.end - now.first)}
              height={floor - ceiling + 34}
              class="tl-block"
              rx={4}
            />
          )}
          <Gridlines at={[0, 0.5, 1]} y={y} left={left} right={right} />
          {range(n).map((j) => {
            const [weight, target] = [weights[j]!, whole.weights[j]!];
            const inset = each * 0.16;
            return (
              <g key={j}>
                {j < reached && !Number.isNaN(weight) && (
                  <rect
                    x={x(j) + inset}
                    y={y(weight)}
                    width={each - 2 * inset}
                    height={floor - y(weight)}
                    class="tl-fill"
                    data-weight={weight}
                  />
                )}
                <rect
                  x={x(j) + inset - 2}
                  y={y(target)}
                  width={each - 2 * inset + 4}
                  height={floor - y(target)}
                  class="tl-whole"
                  data-whole={target}
                />
                {j < reached && (
                  <Lettering
                    at={[x(j + 0.5), Math.min(y(Number.isNaN(weight) ? 0 : weight), y(target)) - 4]}
                    kind={isBad(weight) ? "tl-bad" : "tl-number"}
                  >
                    {Number.isNaN(weight) ? "NaN" : weight.toFixed(2)}
                  </Lettering>
                )}
                <Lettering at={[x(j + 0.5), floor + 16]} kind="bw-tick key">
                  {j + 1}
                </Lettering>
              </g>
            );
          })}
          {range(Math.ceil(n / state.block)).map((b) => {
            const [from, to] = [x(b * state.block), x(Math.min((b + 1) * state.block, n))];
            return (
              <g key={b}>
                <path d={`M${from + 3} ${floor + 23}V${floor + 26}H${to - 3}V${floor + 23}`} class="tl-bracket" />
                {(to - from > 60 || n / state.block < 5) && (
                  <Lettering at={[(from + to) / 2, floor + 37]}>block {b + 1}</Lettering>
                )}
              </g>
            );
          })}
        </Picture>
      )}
    </div>
  );
}

// ---- What is kept from block to block -----------------------------------------------------------------------------

const COLUMNS = [
  ["t", "running maximum"],
  ["factor", "what everything before is multiplied by"],
  ["l", "running sum of exponentials"],
  ["u", "running sum of exponentials times values"],
  ["o", "output so far, u / l"],
] as const;

function Ledger({ state, data: { steps, whole } }: Props) {
  return (
    <Scroll label="What is kept from block to block">
      <table class="tl-ledger">
        <thead>
          <tr>
            <td />
            {COLUMNS.map(([name, title]) => (
              <th key={name} scope="col">
                {name}
                <span class="bw-unseen"> {title}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {steps.map((one, b) => (
            <tr key={b} class={b === state.step - 1 ? "tl-now" : ""}>
              <th scope="row">
                block {b + 1}{" "}
                <span class="tl-keys">{one.end - one.first > 1 ? `${one.first + 1}–${one.end}` : one.end}</span>
              </th>
              {COLUMNS.map(([name]) => {
                const value = one[name];
                const unused = name === "t" && state.no_maximum;
                const shown = b < state.step;
                return (
                  <td
                    key={name}
                    class={
                      shown && isBad(value)
                        ? "tl-bad"
                        : name === "factor" && b > 0 && value !== 1 && shown
                          ? "tl-scaled"
                          : ""
                    }
                    {...(shown ? { "data-step": b, "data-of": name, "data-value": String(value) } : {})}
                  >
                    {shown && !unused ? brief(value) : <span class="bw-none">{unused && shown ? "–" : "·"}</span>}
                  </td>
                );
              })}
            </tr>
          ))}
          <tr class="tl-total">
            <th scope="row">whole row</th>
            <td colSpan={4}>softmax at once</td>
            <td data-number="whole" data-value={whole.output}>
              {brief(whole.output)}
            </td>
          </tr>
        </tbody>
      </table>
    </Scroll>
  );
}

/** How the numbers of the block just read were made. */
function Arithmetic({ state, data: { steps, now } }: Omit<Props, "write">) {
  if (now === null) {
    return (
      <Panel title={`Nothing is read yet: t = ${minus("-∞")}, l = 0, u = 0`}>
        Press “Play”. One block at a time is looked at, and t, l and u are all that is kept.
      </Panel>
    );
  }
  const between = now.end - now.first === 2 ? "and" : "to";
  const keys = now.end - now.first > 1 ? `keys ${now.first + 1} ${between} ${now.end}` : `key ${now.end}`;
  return (
    <Panel title={`Block ${state.step} of ${steps.length}, ${keys}`}>
      {arithmetic(now, state).map(([name, sum]) => (
        <span key={name} class="tl-line">
          <b>{name}</b> {sum}
        </span>
      ))}
    </Panel>
  );
}

export default defineWidget<State, Computed>({
  name: "tiles",
  label: "Step through the tiles, interactive",
  settle,
  compute,
  View,
});
