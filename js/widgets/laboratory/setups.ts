/* Two set-ups that differ in one switch: what can be switched, and how a pair is written in a link and in Python. */

import type { Setup, TaskName } from "./engine.ts";

export type Pair<T> = [a: T, b: T];

/** On how many sequences, which no model is trained on, the two are compared. */
export const NEW = 512;

export const LABELS = {
  divisor: "divisor of the scores",
  heads: "heads",
  d_head: "features of a head, dₖ",
  causal: "mask",
  positions: "positions",
  rate: "learning rate",
  seed: "start and data",
} as const;

export type Switch = keyof typeof LABELS;
export type Value = string | number | boolean;
export type Switches = Record<Switch, Value[]>;
export const NAMES = Object.keys(LABELS) as Switch[];
/** Those in which two models may differ. */
export const DIFFER = NAMES.filter((name) => name !== "seed");

const DIVISORS: Record<string, string> = { one: "1", root: "√dₖ", width: "dₖ" };

/** A value as a reader sees it. */
export function say(name: Switch, value: Value): string {
  if (name === "divisor") return DIVISORS[String(value)]!;
  if (name === "causal") return value ? "causal" : "none";
  return String(value);
}

/** What a model is, in few words: "divided by √dₖ", "2 heads". */
export function describe(name: Switch, value: Value): string {
  const said = say(name, value);
  return {
    divisor: `divided by ${said}`,
    heads: value === 1 ? "1 head" : `${said} heads`,
    d_head: `dₖ = ${said}`,
    causal: value ? "causal mask" : "no mask",
    positions: value === "none" ? "no positions" : `positions: ${said}`,
    rate: `rate ${said}`,
    seed: `start ${said}`,
  }[name];
}

/** An experiment: a task, the switch in which A and B differ, its two values, and what both have. */
export interface Experiment {
  task: TaskName;
  differ: Switch;
  values: Pair<Value>;
  both: Record<Switch, Value>;
}

/** The set-ups of A and B; with another seed, if one is given. */
export function setupsOf({ task, differ, values, both }: Experiment, seed = both.seed): Pair<Setup> {
  const [a, b] = values.map((value) => {
    const { d_head, ...rest } = { ...both, seed, [differ]: value };
    return { task, dHead: d_head, ...rest } as Setup;
  });
  return [a!, b!];
}

// ---- A link -------------------------------------------------------------------------------------------------------

const MARK = "#lab?";

/** An experiment as the fragment of an address: #lab?task=look_up&divisor=root,one&heads=1&... */
export function toLink({ task, differ, values, both }: Experiment): string {
  const parts = NAMES.map((name) => `${name}=${name === differ ? values.join() : both[name]}`);
  return `${MARK}task=${task}&${parts.join("&")}`;
}

/** The experiment that a fragment names or holds: null if it is about something else, undefined if it cannot be read. */
export function fromLink(
  fragment: string,
  usual: readonly (Experiment & { id: string })[],
  switches: Switches,
): Experiment | null | undefined {
  const named = usual.find(({ id }) => fragment === `#${id}`);
  if (named) return named;
  if (!fragment.startsWith(MARK)) return null;
  const given = new URLSearchParams(fragment.slice(MARK.length));
  const found = usual.find(({ task }) => task === given.get("task"));
  if (!found) return undefined;
  const both = { ...found.both };
  let pair: Pick<Experiment, "differ" | "values"> | undefined;
  for (const name of NAMES) {
    const texts = given.get(name)?.split(",") ?? [];
    const values = texts.map((text) => switches[name].find((value) => String(value) === text));
    if (values.includes(undefined) || values.length > 2 || (values.length === 2 && (pair || name === "seed")))
      return undefined;
    if (values.length === 2) pair = { differ: name, values: values as Pair<Value> };
    if (values.length) both[name] = values[0]!;
  }
  const known = [...given.keys()].every((name) => name === "task" || NAMES.includes(name as Switch));
  return pair && known && pair.values[0] !== pair.values[1] ? { task: found.task, ...pair, both } : undefined;
}

// ---- The same in Python -------------------------------------------------------------------------------------------

function inPython(value: Value): string {
  if (typeof value === "boolean") return value ? "True" : "False";
  return typeof value === "string" ? `"${value}"` : String(value);
}

/** The code that trains the two models in PyTorch. */
export function toPython({ task, differ, values, both }: Experiment, steps: number): string {
  const rest = NAMES.filter((name) => name !== differ).map((name) => `${name}=${inPython(both[name])}`);
  return [
    "from attention_tutorial.models.one_layer import evaluate_one_layer, train_one_layer",
    "",
    `both = dict(${rest.join(", ")}, steps=${steps})`,
    ...values.map((value, i) => `${"ab"[i]} = train_one_layer("${task}", ${differ}=${inPython(value)}, **both)`),
    "for trained in (a, b):",
    "    loss, accuracy = evaluate_one_layer(trained.model)",
    '    print(f"loss {loss:.2f}, {accuracy:.1%} correct")',
  ].join("\n");
}
