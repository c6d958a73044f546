/* Reading an answer and saying what is wrong with it, in the order in which the package's tables do. */

export interface State {
  question: string;
  kind: "number" | "numbers" | "shape" | "choice";
  choices: string[];
  /** One number or several, the sizes of a shape, or the place of a choice. */
  right: number[];
  wrong: { answer: number[]; words: string }[];
  tolerance: number;
  rest: string;
  /** What the reader has typed or chosen. */
  given: string;
}

export interface Reply {
  right: boolean;
  words: string;
}

const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(\/\d+\.?\d*)?$/;

function readNumber(text: string): number | null {
  if (!NUMBER.test(text)) return null;
  const [above = NaN, below = 1] = text.split("/").map(Number);
  return below === 0 ? null : above / below;
}

const isComplete = <T>(all: (T | null)[]): all is T[] => all.length > 0 && !all.includes(null);

/** What a reader typed or chose, as numbers; null where it is no answer of this kind. */
export function read({ kind, choices }: Pick<State, "kind" | "choices">, given: string): number[] | null {
  const plain = given.trim().replaceAll("−", "-");
  if (kind === "choice") return choices.includes(given) ? [choices.indexOf(given)] : null;
  if (kind === "number") {
    const thousands = /^[-+]?[1-9]\d{0,2}(,\d{3})+$/.test(plain); // as in 1,920; any other comma is a point
    const number = readNumber((thousands ? plain.replaceAll(",", "") : plain.replace(",", ".")).replaceAll(" ", ""));
    return number === null ? null : [number];
  }
  const parts = plain
    .replace(/^(torch\.Size|tensor)?[([]+|[)\]]+$/g, "")
    .split(kind === "shape" ? /[\s,×x*]+/ : /[\s,;]+/)
    .filter((part) => part !== "");
  const numbers = parts.map((part) => (kind === "shape" && !/^\d+$/.test(part) ? null : readNumber(part)));
  return isComplete(numbers) ? numbers : null;
}

const HOW = {
  number: "Type a number, such as 0.25 or 1/4.",
  numbers: "Type the numbers with commas between them, such as 0.25, 0.5, 1/4.",
  shape: "Type the sizes with commas between them, such as 3, 4.",
  choice: "Choose one of the answers.",
};

const isSame = (a: number[], b: number[], tolerance: number): boolean =>
  a.length === b.length && a.every((x, i) => Math.abs(x - b[i]!) <= tolerance);

/** A diagnosis as a sentence, as in `judging.py`: names of code and symbols stay as they are. */
function sentence(words: string): string {
  const first = /^(a|[a-z]{2,})([ ,:;'.]|$)/.test(words) ? words.slice(0, 1).toUpperCase() : words.slice(0, 1);
  return `${first}${words.slice(1)}${/[.?]$/.test(words) ? "" : "."}`;
}

/** What there is to say about an answer; null before one is given. */
export function reply(state: State): Reply | null {
  if (state.given.trim() === "") return null;
  const answer = read(state, state.given);
  if (answer === null) return { right: false, words: HOW[state.kind] };
  if (isSame(answer, state.right, state.tolerance)) return { right: true, words: "Right." };
  const wrong = state.wrong.find((one) => isSame(answer, one.answer, state.tolerance));
  return { right: false, words: `Not yet. ${sentence(wrong ? wrong.words : state.rest)}` };
}
