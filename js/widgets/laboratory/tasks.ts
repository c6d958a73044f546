/* Four small tasks, and the random numbers that they and the first weights are drawn from. In Python:
   attention_tutorial/data/synthetic.py, number for number. */

import { range } from "../../kit/maths.ts";

/** The output of mulberry32 (Tommy Ettinger, 2017, public domain): a hash of 32 bits. */
function hash(x: number): number {
  let t = Math.imul(x ^ (x >>> 15), x | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return (t ^ (t >>> 14)) >>> 0;
}

/** Random numbers by counting: number i is a hash of i. Numbers of one seed from different streams are independent. */
export class Random {
  private state: number;

  constructor(seed: number, stream = 0) {
    this.state = hash(hash(seed) + stream);
  }

  /** Uniform on [0, 1). */
  next(): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    return hash(this.state) / 2 ** 32;
  }

  /** A whole number from 0 to count − 1. */
  below(count: number): number {
    return Math.floor(this.next() * count);
  }

  /** From the standard normal distribution (Box and Muller, 1958). */
  normal(): number {
    const radius = Math.sqrt(-2 * Math.log(1 - this.next()));
    return radius * Math.cos(2 * Math.PI * this.next());
  }

  /** The numbers from 0 to count − 1 in random order: where the smallest of `count` draws is, the next, and so on. */
  shuffled(count: number): number[] {
    const draws = range(count).map(() => this.next());
    return range(count).sort((a, b) => draws[a]! - draws[b]!);
  }
}

export type TaskName = "look_up" | "two_look_ups" | "bites" | "write_on";

export interface Task {
  name: TaskName;
  /** What each token is called, and each class of the output. */
  words: string[];
  answers: string[];
  /** Tokens of a sequence. */
  length: number;
  /** Sequences, one after the other, and at each token the right class, or −1 where nothing is asked. */
  /** Where a model may write: which token comes after a text. */
  next?: (text: ArrayLike<number>) => number;
  batch(random: Random, size: number): { ids: Int32Array; targets: Int32Array };
}

/** Writes one sequence and its targets, from `at` on; where it writes no target, nothing is asked. */
type Writer = (random: Random, ids: Int32Array, targets: Int32Array, at: number) => void;

const task = (name: TaskName, words: string[], answers: string[], length: number, write: Writer): Task => ({
  name,
  words,
  answers,
  length,
  batch(random, size) {
    const ids = new Int32Array(size * length);
    const targets = new Int32Array(size * length).fill(-1);
    for (let at = 0; at < ids.length; at += length) write(random, ids, targets, at);
    return { ids, targets };
  },
});

const LETTERS = [..."abcdefgh"];
const digits = (count: number) => range(count).map((v) => `${v + 1}`);

/** Six keys with a value each, then one of the keys: which value has it? */
function lookUp(keys = 8, values = 4, pairs = 6): Task {
  const named = LETTERS.slice(0, keys);
  const words = [...named.flatMap((k) => digits(values).map((v) => `${k}=${v}`)), ...named.map((k) => `${k}=?`)];
  return task("look_up", words, digits(values), pairs + 1, (random, ids, targets, at) => {
    const key = random.shuffled(keys);
    const value = range(pairs).map(() => random.below(values));
    const asked = random.below(pairs);
    for (let i = 0; i < pairs; i++) ids[at + i] = key[i]! * values + value[i]!;
    ids[at + pairs] = keys * values + key[asked]!;
    targets[at + pairs] = value[asked]!;
  });
}

/** All keys with a value each, then two of the keys: which values have they, in this order? */
function twoLookUps(keys = 6, values = 6): Task {
  const named = LETTERS.slice(0, keys);
  const both = named.flatMap((k) => named.filter((l) => l !== k).map((l) => `${k},${l}=?`));
  const words = [...named.flatMap((k) => digits(values).map((v) => `${k}=${v}`)), ...both];
  const answers = digits(values).flatMap((v) => digits(values).map((w) => `${v},${w}`));
  return task("two_look_ups", words, answers, keys + 1, (random, ids, targets, at) => {
    const key = random.shuffled(keys);
    const value = range(keys).map(() => random.below(values));
    const [one, other] = random.shuffled(keys) as [number, number];
    for (let i = 0; i < keys; i++) ids[at + i] = key[i]! * values + value[i]!;
    const [first, second] = [key[one]!, key[other]!];
    ids[at + keys] = keys * values + first * (keys - 1) + second - (second > first ? 1 : 0);
    targets[at + keys] = value[one]! * values + value[other]!;
  });
}

/** Who bites? It is asked at the verb. */
function bites(): Task {
  const animals = ["dog", "cat", "man", "snake", "shark", "horse", "goose", "mouse"];
  return task("bites", [...animals, "bites"], animals, 3, (random, ids, targets, at) => {
    const [one, other] = random.shuffled(animals.length) as [number, number];
    ids.set([one, animals.length, other], at);
    targets[at + 1] = one;
  });
}

/** The next letter of a text, asked at every letter but the last: three letters, and then the same three, each one
    further in the alphabet, again and again. */
function writeOn(period = 3, length = 12): Task {
  const made = task("write_on", LETTERS, LETTERS, length, (random, ids, targets, at) => {
    const first = range(period).map(() => random.below(LETTERS.length));
    const letter = (i: number) => (first[i % period]! + Math.floor(i / period)) % LETTERS.length;
    for (let i = 0; i < length; i++) {
      ids[at + i] = letter(i);
      if (i + 1 < length) targets[at + i] = letter(i + 1);
    }
  });
  return { ...made, next: (text) => (text[text.length - period]! + 1) % LETTERS.length };
}

export const TASKS: Readonly<Record<TaskName, Task>> = {
  look_up: lookUp(),
  two_look_ups: twoLookUps(),
  bites: bites(),
  write_on: writeOn(),
};
