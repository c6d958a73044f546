/* Two models that are trained side by side, each in a thread of its own: both take the same steps, and nobody runs ahead. */

import type { Setup } from "./engine.ts";
import type { Pair } from "./setups.ts";
import type { Answer, Asked, Look, Point } from "./worker.ts";
import script from "./worker.ts?thread";

const EVERY = 25; // steps from one measurement to the next, at first: where there are twice as many, twice as far
const MANY = 1600; // steps of a run, from which on it is measured less often
const MOMENT = 100; // milliseconds that a round should take, and from one picture to the next

/** A thread, which is asked one thing at a time. */
class Thread {
  private worker: Worker;
  private answered: (answer: Answer) => void = () => {};

  constructor(private fail: () => void) {
    const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
    this.worker = new Worker(address);
    this.worker.onmessage = ({ data }: MessageEvent<Answer>) => ("failed" in data ? this.fail() : this.answered(data));
    this.worker.onerror = this.fail;
    URL.revokeObjectURL(address);
  }

  ask(question: Asked): Promise<Exclude<Answer, { failed: string }>> {
    return new Promise((done) => {
      this.answered = (answer) => done(answer as Exclude<Answer, { failed: string }>);
      this.worker.postMessage(question);
    });
  }

  end() {
    this.worker.terminate();
  }
}

export class Race {
  steps = 0;
  points: Pair<Point[]> = [[], []];
  looks: Pair<Look> | null = null;
  /** Up to which step the two are trained now; they rest where it is reached. */
  goal = 0;
  failed = false;
  private threads: Thread[] = [];
  private busy = false;
  private round = 5; // steps, as many as take a moment

  private told = 0; // when

  /** Begin with two set-ups; `listen` is called when there is something new, while they train some times a second. */
  constructor(
    setups: Pair<Setup>,
    private which: number,
    private listen: () => void,
  ) {
    const fail = () => {
      this.end();
      this.failed = true;
      this.hear();
    };
    try {
      this.threads = setups.map(() => new Thread(fail));
    } catch {
      this.failed = true; // a browser may forbid threads
      return;
    }
    this.busy = true;
    this.ask((i) => ({ kind: "begin", setup: setups[i]!, which })).then(() => this.go());
  }

  get running(): boolean {
    return this.goal > this.steps && !this.failed;
  }

  /** Train until both have taken so many steps. */
  run(goal: number) {
    this.goal = goal;
    this.hear();
    if (!this.busy) this.go();
  }

  pause() {
    this.goal = this.steps;
    this.hear();
  }

  /** Look at another new sequence. */
  look(which: number) {
    this.which = which;
    if (!this.busy) this.go(true);
  }

  end() {
    this.goal = this.steps;
    for (const thread of this.threads) thread.end();
    this.threads = [];
  }

  private hear() {
    this.told = performance.now();
    this.listen();
  }

  private async ask(question: (i: number) => Asked) {
    const answers = await Promise.all(this.threads.map((thread, i) => thread.ask(question(i))));
    for (const [i, { point }] of answers.entries()) if (point) this.points[i]!.push(point);
    this.looks = [answers[0]!.look, answers[1]!.look];
  }

  private async go(again = false) {
    this.busy = true;
    let seen = again ? -1 : this.which;
    while (this.threads.length && (this.running || seen !== this.which)) {
      seen = this.which;
      const steps = this.running ? Math.min(this.round, this.goal - this.steps, EVERY - (this.steps % EVERY)) : 0;
      const end = this.steps + steps;
      const measure = end % (EVERY * 2 ** Math.max(0, Math.ceil(Math.log2(end / MANY)))) === 0 || end === this.goal;
      const start = performance.now();
      await this.ask(() => (steps ? { kind: "train", steps, measure, which: seen } : { kind: "look", which: seen }));
      if (steps) this.round = Math.max(1, Math.min(EVERY, Math.round((steps * MOMENT) / (performance.now() - start))));
      this.steps = end;
      if (performance.now() - this.told >= MOMENT) this.hear();
    }
    this.busy = false;
    this.hear();
  }
}
