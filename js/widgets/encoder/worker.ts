/* The thread that computes, so that the page never waits. It gets the whole model in parts, and then texts to read. */

import { bytesOf } from "../../kit/packed.ts";
import { type Head, type Network, read, unpack } from "./network.ts";
import { cut, groupPieces } from "./pieces.ts";

/** What the page asks. */
export type Asked =
  | { kind: "part"; text: string }
  | { kind: "open" }
  | { kind: "read"; text: string; off: Head[]; hidden: number[] };

/** What Python added: the words with stored senses, and the texts of each of two lists. */
export interface About {
  most: number;
  words: Record<string, { names: [string, string]; lists: [string[], string[]] }>;
}

/** What comes back. */
export type Answer =
  | { kind: "ready"; about: About; senses: Float32Array<ArrayBuffer>; layers: number; heads: number; width: number }
  | { kind: "failed"; why: string }
  | {
      kind: "read";
      pieces: string[];
      /** How many pieces the text has: more than are read of a long one. */
      all: number;
      weights: Float32Array<ArrayBuffer>;
      states: Float32Array<ArrayBuffer>;
    };

const thread = globalThis as unknown as {
  onmessage: (event: { data: Asked }) => unknown;
  postMessage: (answer: Answer, moved?: ArrayBuffer[]) => void;
};
const parts: Uint8Array<ArrayBuffer>[] = [];
let net: Network;

async function open(): Promise<void> {
  const whole = new Blob(parts.splice(0)).stream().pipeThrough(new DecompressionStream("deflate"));
  net = unpack(new Uint8Array(await new Response(whole).arrayBuffer()));
  const { heads, layers, width } = net;
  const senses = net.numbers.get("senses")!.slice();
  thread.postMessage({ kind: "ready", about: net.about as About, senses, layers, heads, width });
}

/** Where the last whole word ends before a place; a word that is longer than all that is read is cut. */
function endOfWord(pieces: readonly string[], place: number): number {
  const end = pieces.findLastIndex((piece, at) => at <= place && !piece.startsWith("##"));
  return end > 1 ? end : place;
}

function readText(text: string, off: Head[], hidden: number[]): void {
  const whole = cut(text, net.ids);
  const { most } = net.about as About;
  const pieces = whole.length > most ? [...whole.slice(0, endOfWord(whole, most - 1)), "[SEP]"] : whole;
  const words = groupPieces(pieces);
  const { weights, states } = read(
    net,
    pieces,
    off,
    hidden.flatMap((word) => words[word] ?? []),
  );
  thread.postMessage({ kind: "read", pieces, all: whole.length, weights, states }, [weights.buffer, states.buffer]);
}

thread.onmessage = async ({ data }) => {
  try {
    if (data.kind === "part") parts.push(bytesOf(data.text));
    else if (data.kind === "open") await open();
    else readText(data.text, data.off, data.hidden);
  } catch (error) {
    thread.postMessage({ kind: "failed", why: String(error) });
  }
};
