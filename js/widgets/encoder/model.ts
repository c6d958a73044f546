/* The whole model of a page: fetched when a reader asks for it, computed with in a thread of its own, and shared by all
   widgets of the page. */

import { type Reading, readingOf } from "./maths.ts";
import type { Head } from "./network.ts";
import type { Answer, Asked } from "./worker.ts";
import script from "./worker.ts?thread";

/** The scripts that hold the model, as the site says: where they are, how many, and how many bytes a server sends. */
interface Files {
  home: string;
  parts: number;
  bytes: number;
  /** What a part calls with its text. */
  take?: (text: string) => void;
}

export type Status =
  /** A notebook: the model is on the site. */
  | { kind: "elsewhere" }
  /** A copy of the site without it. */
  | { kind: "absent" }
  | { kind: "offered"; bytes: number; failed: boolean }
  | { kind: "loading"; done: number; of: number }
  | { kind: "ready" };

/** A text as it is to be read: without some heads, and with some of its words hidden from all. */
export interface Wish {
  text: string;
  off: Head[];
  hidden: number[];
}

const page = globalThis as typeof globalThis & { attentionModels?: { encoder?: Files } };
const KEPT = 24; // readings
const readings = new Map<string, Reading>();
const listeners = new Set<() => void>();

let thread: Worker | null = null;
let opened: Extract<Answer, { kind: "ready" }> | null = null;
let done: number | null = null; // parts that have come, while it loads
let failed = false;
const wished = new Map<object, Wish[]>(); // by widget
let asked: Wish | null = null;

export function status(): Status {
  const files = page.attentionModels?.encoder;
  if (!page.attentionModels) return { kind: "elsewhere" };
  if (!files) return { kind: "absent" };
  if (opened) return { kind: "ready" };
  if (done !== null) return { kind: "loading", done, of: files.parts };
  return { kind: "offered", bytes: files.bytes, failed };
}

export function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const tell = () => {
  for (const listener of listeners) listener();
};
const ask = (question: Asked) => thread!.postMessage(question);

/** Fetch the model and open it. A page that was opened as a file can load scripts, and nothing else: the parts are some. */
export async function open(): Promise<void> {
  const files = page.attentionModels?.encoder;
  if (!files || opened || done !== null) return;
  [done, failed] = [0, false];
  tell();
  try {
    thread = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
    thread.onmessage = ({ data }: MessageEvent<Answer>) => hear(data);
    thread.onerror = giveUp;
    files.take = (text) => ask({ kind: "part", text });
    for (let part = 1; part <= files.parts; part++) {
      await fetched(`${files.home}${part}.js`);
      done = part;
      tell();
    }
    ask({ kind: "open" });
  } catch {
    giveUp();
  }
}

function fetched(address: string): Promise<void> {
  const element = document.createElement("script");
  const done = new Promise<void>((come, fail) => {
    element.onload = () => come();
    element.onerror = () => fail(new Error(`${address} did not come`));
  });
  element.src = address;
  document.head.append(element);
  return done.finally(() => element.remove());
}

function giveUp(): void {
  thread?.terminate();
  [thread, opened, done, failed, asked] = [null, null, null, true, null];
  tell();
}

function hear(answer: Answer): void {
  if (answer.kind === "failed") {
    giveUp();
    return;
  }
  if (answer.kind === "ready") opened = answer;
  else {
    readings.set(keyOf(asked!), readingOf(asked!.text, answer, opened!));
    if (readings.size > KEPT) readings.delete(readings.keys().next().value!);
    asked = null;
  }
  next();
  tell();
}

const keyOf = ({ text, off, hidden }: Wish) => JSON.stringify([text, off, hidden]);

function next(): void {
  if (asked || !opened) return;
  const wish = [...wished.values()].flat().find((one) => !readings.has(keyOf(one)));
  if (!wish) return;
  asked = wish;
  ask({ kind: "read", ...wish });
}

/** Say what a widget wants to be read; what it wanted before is forgotten. */
export function want(widget: object, wishes: Wish[]): void {
  wished.set(widget, wishes);
  next();
}

/** What the whole model made of a text, if it has been read. */
export const known = (wish: Wish): Reading | null => readings.get(keyOf(wish)) ?? null;

/** The words whose senses are stored. */
export const senseWords = (): string[] => Object.keys(opened?.about.words ?? {});
