/* The laboratory: two models that differ in one switch, trained in the page, side by side. */

import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Fitting, Gridlines, Lettering, Line, Picture, pathThrough, Ramp, spread } from "../../kit/chart.tsx";
import { weightColours, weightStyle } from "../../kit/colour.ts";
import { Button, Choice, Menu } from "../../kit/controls.tsx";
import { FaintDot } from "../../kit/grid.tsx";
import "../../kit/kit.css";
import { memoizeLast, range } from "../../kit/maths.ts";
import { Folded, Panel, ReservedHeight, Scroll, TextAlternative } from "../../kit/panel.tsx";
import { isFaint } from "../../kit/text.ts";
import { defineWidget, Heading, useStateFor, type ViewProps, Words } from "../../kit/widget.tsx";
import { defaults, Model, TASKS, type TaskName } from "./engine.ts";
import { Race } from "./race.ts";
import {
  DIFFER,
  describe,
  type Experiment,
  fromLink,
  LABELS,
  NAMES,
  NEW,
  type Pair,
  type Switch,
  type Switches,
  say,
  setupsOf,
  toLink,
  toPython,
  type Value,
} from "./setups.ts";
import "./style.css";
import {
  ASKS,
  onLater,
  percent,
  type Start,
  sayPoints,
  sayRange,
  sayRun,
  sayStarts,
  score,
  two,
  type Winner,
} from "./words.ts";
import type { Look, Point } from "./worker.ts";
import thread from "./worker.ts?thread";

export const THREAD = thread;
export * from "./setups.ts";
export * from "./words.ts";

interface State extends Chosen {
  /** The tasks, each with its usual switch: what a press on its button sets up. */
  experiments: (Experiment & { id: string; title: string })[];
  /** What can be switched, and its values. */
  switches: Switches;
  /** How many steps a run has. */
  steps: number;
  predicted: Winner | "";
  /** The fragment of the page's address that was followed last. */
  linked: string;
  /** Where the book tells of each switch. */
  links: Partial<Record<Switch, string>>;
}

interface Chosen {
  task: TaskName;
  differ: Switch;
  values: Pair<Value>;
  both: Record<Switch, Value>;
}

type Props = Pick<ViewProps<State, null>, "state" | "write">;

const chosen = ({ task, differ, values, both }: Experiment): Chosen => ({ task, differ, values, both });

// ---- The view -----------------------------------------------------------------------------------------------------

function View({ state, write }: Props) {
  const top = useRef<HTMLDivElement>(null);
  const [strange, setStrange] = useState(false);
  const set = (changes: Partial<State>) => write({ predicted: "", ...changes });
  useLinks(state.linked, (fragment) => {
    const found = fromLink(fragment, state.experiments, state.switches);
    setStrange(found === undefined);
    if (found === null) return;
    set({ linked: fragment, ...(found && chosen(found)) });
    top.current!.scrollIntoView({ block: "nearest" });
  });
  const subject = JSON.stringify(chosen(state));
  return (
    <div ref={top}>
      <Heading>The laboratory: two models, one switch apart</Heading>
      {strange && (
        <p class="bw-trouble" role="status">
          The link that led here holds no set-up that the laboratory knows. This one is as good a start.
        </p>
      )}
      <Choosing state={state} set={set} />
      <Training key={subject} state={state} write={write} />
      <Taking state={state} />
    </div>
  );
}

/** Call `follow` with the page's fragment: when the page opens, if it has another one than before, and whenever a link to a
    fragment is followed, also to the one that the page has already. */
function useLinks(before: string, follow: (fragment: string) => void) {
  const latest = useRef(follow);
  latest.current = follow;
  useEffect(() => {
    const go = () => latest.current(location.hash);
    const press = ({ target }: Event) => {
      const link = target instanceof Element ? target.closest("a") : null;
      if (link?.hash && link.href === location.href) go();
    };
    const first = setTimeout(() => location.hash !== before && go());
    addEventListener("hashchange", go);
    addEventListener("click", press);
    return () => {
      clearTimeout(first);
      removeEventListener("hashchange", go);
      removeEventListener("click", press);
    };
  }, []);
}

// ---- Choosing -----------------------------------------------------------------------------------------------------

interface ChoosingProps {
  state: State;
  set: (changes: Partial<State>) => void;
}

/** The task, the switch in which A and B differ, and what both have. */
function Choosing({ state, set }: ChoosingProps) {
  const { task, differ, values, both, experiments } = state;
  function pickSwitch(name: Switch) {
    const own = both[name];
    const other = state.switches[name].find((value) => value !== own)!;
    set({ differ: name, values: [own, other], both: { ...both, [differ]: values[0] } });
  }
  return (
    <>
      <Choice
        name="task"
        label="Task"
        options={experiments.map((one) => ({ value: one.task, text: one.title }))}
        value={task}
        onChange={(name) => set(chosen(experiments.find((one) => one.task === name)!))}
      />
      <p class="bw-text lab-asks">
        <Words>{ASKS[task]}</Words>
      </p>
      <div class="bw-controls">
        <Menu
          name="differ"
          label="They differ in"
          options={DIFFER.map((name) => [name, LABELS[name]] as const)}
          value={differ}
          onChange={pickSwitch}
        />
        {values.map((value, i) => (
          <ValueMenu
            key={i}
            name={differ}
            all={state.switches[differ]}
            label={<b class={`lab-${"ab"[i]}`}>{"AB"[i]}</b>}
            place={`-${i}`}
            value={value}
            onChange={(other) => {
              const next: Pair<Value> = [...values];
              next[i] = other;
              if (next[0] === next[1]) next[1 - i] = value; // they change places, so that they always differ
              set({ values: next });
            }}
          />
        ))}
      </div>
      <Folded
        title={`What both have: ${DIFFER.filter((name) => name !== differ)
          .map((name) => describe(name, both[name]))
          .join(", ")}`}
      >
        <div class="bw-controls">
          {NAMES.filter((name) => name !== differ).map((name) => (
            <ValueMenu
              key={name}
              name={name}
              all={state.switches[name]}
              label={LABELS[name]}
              value={both[name]}
              onChange={(value) => set({ both: { ...both, [name]: value } })}
            />
          ))}
        </div>
      </Folded>
    </>
  );
}

interface ValueMenuProps {
  name: Switch;
  place?: string;
  all: readonly Value[];
  label: ComponentChildren;
  value: Value;
  onChange: (value: Value) => void;
}

function ValueMenu({ name, place = "", all, label, value, onChange }: ValueMenuProps) {
  return (
    <Menu
      name={`${name}${place}`}
      label={label}
      options={all.map((one) => [String(one), say(name, one)] as const)}
      value={String(value)}
      onChange={(text) => onChange(all.find((one) => String(one) === text)!)}
    />
  );
}

// ---- Training -----------------------------------------------------------------------------------------------------

interface Racing {
  race: Race | null;
  /** Begin another race; it calls what it is given whenever it has news. */
  begin: (make: (hear: () => void) => Race) => Race;
  drop: () => void;
  /** What has to be on the page: a while after that has gone, the race ends. */
  place: RefObject<HTMLDivElement | null>;
}

const WHILE = 60_000; // milliseconds, since a notebook takes what is far away off the page and brings it back

function useRace(): Racing {
  const [, again] = useState(0);
  const held = useRef<Race | null>(null);
  const place = useRef<HTMLDivElement>(null);
  const end = () => held.current?.end();
  function take(race: Race | null) {
    end();
    held.current = race;
    hear();
  }
  function hear() {
    again((times) => times + 1);
  }
  function begin(make: (hear: () => void) => Race) {
    const race = make(hear);
    take(race);
    return race;
  }
  useEffect(() => {
    let gone: ReturnType<typeof setTimeout>;
    const watch = new ResizeObserver(([entry]) => {
      clearTimeout(gone);
      if (!entry!.target.isConnected) gone = setTimeout(() => take(null), WHILE);
    });
    watch.observe(place.current!);
    return () => {
      watch.disconnect();
      clearTimeout(gone);
      end();
    };
  }, []);
  return { race: held.current, begin, drop: () => take(null), place };
}

function Training({ state, write }: Props) {
  const { race, begin, drop, place } = useRace();
  const [which, setWhich] = useState(0);
  const { steps: length, task } = state;
  const running = race?.running ?? false;
  const taken = race?.steps ?? 0;
  const done = taken > 0 && taken % length === 0 && !running;
  const whole = Math.max(1, Math.ceil(taken / length)) * length;
  const points: Pair<Point[]> = race?.points ?? [[], []];
  const goOn = () => race ?? begin((hear) => new Race(setupsOf(state), which, hear));
  const another = () => {
    const next = (which + 1) % NEW;
    setWhich(next);
    race?.look(next);
  };
  const main = running ? "Pause" : !taken ? "Train both" : done ? `${length} more steps` : "Go on";
  return (
    <>
      <Predicting state={state} write={write} open={!taken} />
      <div data-follows-eye ref={place}>
        <div class="bw-wrap lab-buttons">
          <Button
            name="train"
            kind="main"
            onClick={() => (running ? race!.pause() : goOn().run(done ? whole + length : whole))}
          >
            {main}
          </Button>
          <Button name="step" disabled={running} onClick={() => goOn().run(taken + 1)}>
            One step
          </Button>
          <Button name="again" kind="plain" disabled={!race} onClick={drop}>
            Start over
          </Button>
          <span class="lab-place">
            step <b>{taken}</b> of {whole}
          </span>
        </div>
        {race?.failed && <NoThreads />}
        {useMemo(
          () => (
            <Curves points={points} steps={whole} write={task === "write_on"} />
          ),
          [race, points[0].length, whole],
        )}
        <Sequence state={state} looks={race?.looks ?? null} which={which} onAnother={another} />
      </div>
      <Saw state={state} race={race} done={done} />
      <div data-follows-eye>
        {useMemo(
          () => (
            <TextAlternative
              title="The curves in words"
              lines={points[0].length ? sayPoints(points) : ["Nothing is trained yet."]}
            />
          ),
          [race, points[0].length],
        )}
        <Starts state={state} busy={running} own={done ? points : null} />
      </div>
    </>
  );
}

const NoThreads = () => (
  <p class="bw-trouble" role="alert">
    The models did not train: this browser, or a setting of this page, forbids threads (Web Workers). Another browser
    may allow them, and the code below trains the same models in PyTorch.
  </p>
);

function Predicting({ state, write, open }: Props & { open: boolean }) {
  const { task, values, differ, steps, predicted } = state;
  const question = task === "write_on" ? "write more letters correctly" : "learn faster";
  return (
    <div class="bw-question">
      <Choice
        name="predicted"
        label={`Predict first: which will ${question}, in ${steps} steps?`}
        options={[
          { value: "A", text: `A: ${describe(differ, values[0])}` },
          { value: "B", text: `B: ${describe(differ, values[1])}` },
          { value: "same", text: "no difference" },
        ]}
        value={predicted || null}
        onChange={(one) => open && write({ predicted: one as Winner })}
      />
    </div>
  );
}

/** What there is to say: seldom something new, since it is read out. */
function Saw({ state, race, done }: { state: State; race: Race | null; done: boolean }) {
  const { task, steps, predicted, differ, links } = state;
  const points = race?.points ?? [[], []];
  const [a, b] = points.map((all) => all.findLast(({ step }) => step % 100 === 0));
  const link = links[differ];
  let [title, said]: [string, ComponentChildren] = [
    "Nothing is trained yet",
    `Press “Train both”: A and B begin with the same numbers and read the same sequences, ${steps} times 32.`,
  ];
  if (done) {
    [title, said] = [`What you saw after ${race!.steps} steps`, sayRun(state, points, predicted)];
  } else if (a && b) {
    const right = task === "write_on" ? "Letters written correctly" : "New sequences answered correctly";
    title = a.step ? `Step ${a.step}` : "Before the first step";
    said = `${right}: A ${percent(score(a))}, B ${percent(score(b))}.`;
  }
  return (
    <Panel title={title}>
      <ReservedHeight longest={[LONGEST]}>
        {said}
        {done && link && (
          <>
            {" "}
            <a href={link}>
              <Words>The chapter says why.</Words>
            </a>
          </>
        )}
      </ReservedHeight>
    </Panel>
  );
}

const LONGEST =
  "A (positions: learned) answers > 99 % of 512 new sequences correctly, B (positions: sines) > 99 %. In the end that is too close to tell, but A got to 90 % sooner: after 200 steps, B after 300. You predicted no difference. The chapter says why.";

// ---- Curves -------------------------------------------------------------------------------------------------------

interface CurvesProps {
  points: Pair<readonly Point[]>;
  steps: number;
  /** Whether the models write. */
  write: boolean;
}

type Measure = (point: Point) => number | null;

/** How the two models do, measurement by measurement. */
function Curves({ points, steps, write }: CurvesProps) {
  const all: [string, Measure, ((value: number) => string)?][] = [
    [write ? "next letters correct" : "answers correct", (point) => point.accuracy, percent],
    ["loss", (point) => point.loss],
    write
      ? ["letters written correctly", (point) => point.written, percent]
      : ["largest weight, on average", (point) => point.largest, two],
    ["length of the gradient of W^Q", (point) => point.gradient],
  ];
  return (
    <div class="lab-curves">
      {all.map(([title, of, share]) => (
        <Curve
          key={title}
          title={title}
          steps={steps}
          lines={points.map((line) => read(line, of)) as Pair<Dot[]>}
          share={share}
        />
      ))}
    </div>
  );
}

type Dot = [step: number, value: number];

const read = (points: readonly Point[], of: (point: Point) => number | null): Dot[] =>
  points.flatMap((point): Dot[] => {
    const value = of(point);
    return value === null ? [] : [[point.step, value]];
  });

/** A round number that is at least as large. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 5, 10].find((times) => times * power >= value)!;
}

interface CurveProps {
  title: string;
  steps: number;
  lines: Pair<Dot[]>;
  /** How a share is written, where this is one: its scale is from 0 to 1. */
  share: ((value: number) => string) | undefined;
}

const [HIGH, LEFT, RIGHT, CEILING] = [112, 42, 62, 8];
const FLOOR = HIGH - 22;

/** One curve for A and one for B, on the same scale. */
function Curve({ title, steps, lines, share }: CurveProps) {
  const largest = Math.max(...lines.flat().map(([, value]) => value));
  const most = share || largest <= 0 ? 1 : roundUp(largest); // of nothing yet, −∞
  const brief = share ?? ((value: number) => (most >= 1 ? two(value) : value.toPrecision(2)));
  const tick = (value: number) => (share === percent ? percent(value) : String(Number(value.toPrecision(2))));
  const now = lines.map((line) => line.at(-1)?.[1]);
  const said = now[0] === undefined ? "nothing yet" : `A ${brief(now[0])}, B ${brief(now[1]!)}`;
  return (
    <div class="lab-curve">
      <p class="bw-quiet">
        {title.endsWith("W^Q") ? (
          <>
            {title.slice(0, -2)}
            <sup>Q</sup>
          </>
        ) : (
          title
        )}
      </p>
      <Fitting>
        {(width) => {
          const x = (step: number) => LEFT + ((width - LEFT - RIGHT) * step) / steps;
          const y = (value: number) => FLOOR - ((FLOOR - CEILING) * Math.min(value, most)) / most;
          const ends = lines.flatMap((line, i): [number, number][] =>
            line.length ? [[i, y(line.at(-1)![1]) + 4]] : [],
          );
          return (
            <Picture label={`${title}: ${said}`} width={width} height={HIGH} style={{ width, height: HIGH }}>
              <Gridlines at={[0, most / 2, most]} y={y} left={LEFT} right={width - RIGHT} say={tick} />
              <Line from={[LEFT, FLOOR]} to={[width - RIGHT, FLOOR]} kind="bw-axis" />
              <Lettering at={[LEFT, HIGH - 6]}>0</Lettering>
              <Lettering at={[width - RIGHT, HIGH - 6]}>{steps}</Lettering>
              {lines.map((line, i) => (
                <g
                  key={i}
                  class={`lab-line lab-${"ab"[i]}`}
                  data-model={"AB"[i]}
                  data-value={JSON.stringify(line.at(-1) ?? null)}
                >
                  <path d={pathThrough(line.map(([step, value]) => [x(step), y(value)] as const))} />
                  {line.length > 0 && <circle cx={x(line.at(-1)![0])} cy={y(line.at(-1)![1])} r={3} />}
                </g>
              ))}
              {spread(ends, FLOOR + 4, 13).map(([i, at]) => (
                <g key={i} class={`lab-${"ab"[i]}`}>
                  <Lettering at={[x(lines[i]!.at(-1)![0]) + 7, at]} anchor="start" kind="lab-end">
                    {`${"AB"[i]} ${brief(now[i]!)}`}
                  </Lettering>
                </g>
              ))}
            </Picture>
          );
        }}
      </Fitting>
    </div>
  );
}

/** A model that is never trained: it holds the new sequences of a task. */
const exampleOf = memoizeLast((task: TaskName) => new Model(defaults(task)));

// ---- One sequence -------------------------------------------------------------------------------------------------

interface SequenceProps {
  state: State;
  looks: Pair<Look> | null;
  which: number;
  onAnother: () => void;
}

/** One new sequence: what is asked, where both look, and what they answer. */
function Sequence({ state, looks, which, onAnother }: SequenceProps) {
  const { task } = state;
  const { words, answers } = TASKS[task];
  const { ids, targets } = looks?.[0] ?? exampleOf(task).example(which);
  const asked = [...targets.keys()].filter((i) => targets[i]! >= 0);
  const tokens = [...ids].map((id) => words[id]!);
  const one = asked.length === 1 ? asked[0]! : null;
  return (
    <div class="lab-sequence">
      <div class="bw-head">
        <p>
          {one === null ? (
            <>
              One new text: where each letter looks (<Ramp />)
            </>
          ) : (
            <>
              One new sequence: where <b class="query">{tokens[one]}</b> looks (<Ramp />
              ). Correct: <b>{answers[targets[one]!]}</b>
            </>
          )}
        </p>
        <Button name="another" onClick={onAnother}>
          Another
        </Button>
      </div>
      {one === null ? (
        <Maps state={state} looks={looks} tokens={tokens} />
      ) : (
        <Rows state={state} looks={looks} tokens={tokens} asked={one} right={targets[one]!} />
      )}
    </div>
  );
}

const headsOf = ({ differ, values, both }: State, i: number): number =>
  Number(differ === "heads" ? values[i] : both.heads);

interface RowsProps {
  state: State;
  looks: Pair<Look> | null;
  tokens: string[];
  asked: number;
  right: number;
}

/** A row of weights for each head of both models, over the tokens. */
function Rows({ state, looks, tokens, asked, right }: RowsProps) {
  const n = tokens.length;
  const { answers } = TASKS[state.task];
  return (
    <Scroll label="Where A and B look">
      <table class="lab-rows bw-stuck">
        <thead>
          <tr>
            <td />
            {tokens.map((token, j) => (
              <th key={j} scope="col" class={j === asked ? "query" : "key"}>
                {token}
              </th>
            ))}
            <th scope="col" class="lab-answer">
              answers
            </th>
          </tr>
        </thead>
        <tbody>
          {range(2).flatMap((i) =>
            range(headsOf(state, i)).map((head) => {
              const look = looks?.[i];
              const answer = look?.answers[asked];
              return (
                <tr key={`${i} ${head}`} data-model={"AB"[i]} data-head={head + 1}>
                  <th scope="row">
                    <b class={`lab-${"ab"[i]}`}>{"AB"[i]}</b>
                    {headsOf(state, i) > 1 ? `, head ${head + 1}` : ""}
                  </th>
                  {range(n).map((j) => {
                    const weight = look?.weights[(head * n + asked) * n + j];
                    return (
                      <td
                        key={j}
                        class="bw-cell"
                        {...(weight === undefined ? {} : { style: weightStyle(weight), "data-value": weight })}
                      >
                        {weight === undefined ? "" : isFaint(weight) ? <FaintDot number={two(weight)} /> : two(weight)}
                      </td>
                    );
                  })}
                  {head === 0 && (
                    <td class="lab-answer" rowSpan={headsOf(state, i)} data-answer={answer}>
                      {answer !== undefined && (
                        <b class={answer === right ? "bw-good" : "bw-bad"}>
                          {answers[answer]} {answer === right ? "✓" : "✗"}
                        </b>
                      )}
                    </td>
                  )}
                </tr>
              );
            }),
          )}
        </tbody>
      </table>
    </Scroll>
  );
}

const CELL = 15; // of a map, in its own units
const STEPS = 100;
/** The colours of a map, which are many: a hundredth tells them apart. */
const COLOURS = range(STEPS + 1).map((i) => weightColours(i / STEPS).ground);

/** For each head of both models a map of all weights; below, what the model writes. */
function Maps({ state, looks, tokens }: { state: State; looks: Pair<Look> | null; tokens: string[] }) {
  const half = tokens.length / 2;
  const { words } = TASKS[state.task];
  return (
    <div class="bw-pair lab-maps">
      {range(2).map((i) => {
        const look = looks?.[i];
        return (
          <div key={i} data-model={"AB"[i]}>
            <div class="bw-wrap">
              {range(headsOf(state, i)).map((head) => (
                <WeightMap
                  key={head}
                  name={`${"AB"[i]}${headsOf(state, i) > 1 ? `, head ${head + 1}` : ""}`}
                  kind={`lab-${"ab"[i]}`}
                  tokens={tokens}
                  look={look}
                  head={head}
                />
              ))}
            </div>
            <p class="lab-written">
              After <span class="lab-letters">{tokens.slice(0, half).join(" ")}</span>{" "}
              <b class={`lab-${"ab"[i]}`}>{"AB"[i]}</b> writes{" "}
              <span class="lab-letters">
                {look
                  ? look.written.map(({ id, correct }, at) => (
                      <span key={at}>
                        <b class={correct ? "bw-good" : "bw-bad lab-wrong"}>{words[id]}</b>{" "}
                      </span>
                    ))
                  : "…"}
              </span>
            </p>
          </div>
        );
      })}
    </div>
  );
}

interface WeightMapProps {
  name: string;
  kind: string;
  tokens: string[];
  look: Look | undefined;
  head: number;
}

function WeightMap({ name, kind, tokens, look, head }: WeightMapProps) {
  const n = tokens.length;
  const size = (n + 1) * CELL;
  const said = look ? `${two(onLater(look, head))} of the weight is on later letters` : "nothing yet";
  return (
    <div class="lab-map">
      <p class={kind}>
        <b>{name}</b>
      </p>
      <Picture label={`${name}, from each letter to each: ${said}`} width={size} height={size}>
        <rect x={CELL} y={CELL} width={n * CELL} height={n * CELL} class="lab-ground" />
        {look &&
          range(n * n).map((place) => {
            const weight = look.weights[head * n * n + place]!;
            if (isFaint(weight)) return null;
            const [i, j] = [Math.floor(place / n), place % n];
            return (
              <rect
                key={place}
                x={(j + 1) * CELL + 0.5}
                y={(i + 1) * CELL + 0.5}
                width={CELL - 1}
                height={CELL - 1}
                style={{ fill: COLOURS[Math.round(weight * STEPS)] }}
              />
            );
          })}
        {tokens.map((token, i) => (
          <g key={i}>
            <g class="key">
              <Lettering at={[(i + 1.5) * CELL, CELL - 4]} kind="lab-token">
                {token}
              </Lettering>
            </g>
            <g class="query">
              <Lettering at={[CELL / 2, (i + 1.5) * CELL + 4]} kind="lab-token">
                {token}
              </Lettering>
            </g>
          </g>
        ))}
      </Picture>
    </div>
  );
}

// ---- More starts --------------------------------------------------------------------------------------------------

interface StartsProps {
  state: State;
  busy: boolean;
  /** What was measured of the reader's own run, if that is complete. */
  own: Pair<readonly Point[]> | null;
}

const MORE = 5;

/** The same two models from five more starts, one after the other. */
function Starts({ state, busy, own }: StartsProps) {
  const { race, begin, drop, place } = useRace();
  const [more, keep] = useState<Start[]>([]);
  const { steps, both } = state;
  const first = Number(both.seed) + 1;
  const at = race ? Math.min(more.length + 1, MORE) : 0;
  const running = race?.running ?? false;

  function next(done: Start[]) {
    const seed = first + done.length;
    begin((hear) => {
      const one: Race = new Race(setupsOf(state, seed), 0, () => {
        hear();
        if (one.running || one.steps < steps || one.points[0].at(-1)?.step !== steps) return;
        one.end();
        const [a, b] = one.points.map((points) => score(points.at(-1)!)) as Pair<number>;
        const all = [...done, { seed, scores: [a, b] as Pair<number> }];
        keep(all);
        if (all.length < MORE) next(all);
      });
      return one;
    }).run(steps);
  }
  function start() {
    keep([]);
    next([]);
  }
  const mine = own?.[0].find(({ step }) => step === steps);
  const starts: Start[] = [
    ...(own && mine
      ? [{ seed: first - 1, scores: own.map((all) => score(all.find(({ step }) => step === steps)!)) as Pair<number> }]
      : []),
    ...more,
  ];
  const complete = more.length === MORE;
  return (
    <div class="lab-starts" ref={place}>
      <div class="bw-wrap lab-buttons">
        <Button name="starts" disabled={busy && !running} onClick={running ? drop : start}>
          {running ? "Stop" : "Five more starts"}
        </Button>
        <span class="bw-quiet lab-place">
          {running
            ? `start ${at} of ${MORE}, step ${race!.steps}`
            : "One run may be luck: other first numbers, other data."}
        </span>
      </div>
      {race?.failed && <NoThreads />}
      {more.length > 0 && (
        <>
          <table class="lab-table" aria-label={`What is correct after ${steps} steps, from several starts`}>
            <thead>
              <tr>
                <th scope="col">start</th>
                <th scope="col">A</th>
                <th scope="col">B</th>
              </tr>
            </thead>
            <tbody>
              {starts.map(({ seed, scores }) => (
                <tr key={seed}>
                  <th scope="row">{seed}</th>
                  {scores.map((value, i) => (
                    <td key={i} data-value={value}>
                      {percent(value)}
                    </td>
                  ))}
                </tr>
              ))}
              <tr class="lab-range">
                <th scope="row">lowest to highest</th>
                <td>{sayRange(starts, 0)}</td>
                <td>{sayRange(starts, 1)}</td>
              </tr>
            </tbody>
          </table>
          <p class="bw-said" role="status">
            {complete && sayStarts(starts)}
          </p>
        </>
      )}
    </div>
  );
}

// ---- Taking it away -----------------------------------------------------------------------------------------------

/** The code that trains the same two models in PyTorch, and the link that leads to this set-up. */
function Taking({ state }: { state: State }) {
  const place = useRef<HTMLPreElement>(null);
  const code = toPython(state, state.steps);
  const link = toLink(state);
  const [copied, setCopied] = useStateFor(code, "");
  const [inBook, setInBook] = useState(false);
  useEffect(() => setInBook(!(place.current!.getRootNode() instanceof ShadowRoot)), []);

  async function copy(name: string, text: string) {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(name);
    } catch {
      setCopied("no");
    }
  }
  return (
    <Folded title="The same in PyTorch, and a link to this set-up">
      <Scroll label="The same in PyTorch">
        <pre ref={place} class="lab-code">
          {code}
        </pre>
      </Scroll>
      <p class="bw-quiet">
        <Words>
          The numbers are the same up to rounding. Where a run jumps about, rounding errors grow and the two part.
        </Words>
      </p>
      <div class="bw-wrap lab-buttons" data-follows-eye>
        <Button name="copy-code" onClick={() => copy("code", code)}>
          {copied === "code" ? "Copied" : "Copy the code"}
        </Button>
        {inBook && (
          <>
            <Button name="copy-link" onClick={() => copy("link", location.href.replace(/#.*/, "") + link)}>
              {copied === "link" ? "Copied" : "Copy the link"}
            </Button>
            <a href={link} class="lab-link">
              <Words>This set-up</Words>
            </a>
          </>
        )}
        {copied === "no" && (
          <span role="status">The browser does not let it be copied: select it, and copy it by hand.</span>
        )}
      </div>
    </Folded>
  );
}

export default defineWidget<State, null>({
  name: "laboratory",
  label: "The laboratory, interactive",
  compute: () => null,
  View,
});
