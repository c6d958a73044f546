/* Cut a text into words and words into pieces, as `WordPieces` in Python does. */

const SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
const SPECIALS = /(\[(?:PAD|UNK|CLS|SEP|MASK)\])/;
const LONGEST_WORD = 100; // characters

const INVISIBLE = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\ufffd]/u;
const PUNCTUATION = /[!-/:-@[-`{-~\p{P}]/u;
const MARKS = /\p{Mn}/gu;

/** Blocks of Chinese characters, as BERT counts them. */
const CHINESE: readonly (readonly [number, number])[] = [
  [0x4e00, 0x9fff],
  [0x3400, 0x4dbf],
  [0x20000, 0x2a6df],
  [0x2a700, 0x2b73f],
  [0x2b740, 0x2b81f],
  [0x2b920, 0x2ceaf],
  [0xf900, 0xfaff],
  [0x2f800, 0x2fa1f],
];

function standsAlone(character: string): boolean {
  const code = character.codePointAt(0)!;
  return PUNCTUATION.test(character) || CHINESE.some(([first, last]) => first <= code && code <= last);
}

/** The words of a text, in small letters and without accents; punctuation marks are words. */
export function wordsOf(text: string): string[] {
  return text.split(SPECIALS).flatMap((part) => {
    if (SPECIAL.includes(part)) return [part];
    const seen = Array.from(part, (c) => (/[\t\n\r]/.test(c) ? " " : INVISIBLE.test(c) ? "" : /\s/.test(c) ? " " : c));
    const plain = Array.from(seen.join("").normalize("NFD").replace(MARKS, ""));
    const spaced = plain.map((c) => (standsAlone(c) ? ` ${c} ` : c.toLowerCase())).join("");
    return spaced.split(/\s+/).filter(Boolean);
  });
}

/** The pieces of a word: at each place the longest that there is. */
export function piecesOf(word: string, ids: ReadonlyMap<string, number>): string[] {
  if (SPECIAL.includes(word)) return [word];
  const characters = Array.from(word);
  if (characters.length > LONGEST_WORD) return ["[UNK]"];
  const pieces: string[] = [];
  for (let start = 0; start < characters.length; ) {
    const before = start ? "##" : "";
    let end = characters.length;
    while (end > start && !ids.has(before + characters.slice(start, end).join(""))) end--;
    if (end === start) return ["[UNK]"];
    pieces.push(before + characters.slice(start, end).join(""));
    start = end;
  }
  return pieces;
}

/** All pieces of a text. */
export const cut = (text: string, ids: ReadonlyMap<string, number>): string[] => [
  "[CLS]",
  ...wordsOf(text).flatMap((word) => piecesOf(word, ids)),
  "[SEP]",
];

/** The places of the pieces of each word; those that begin or end a text are words of their own. */
export function groupPieces(pieces: readonly string[]): number[][] {
  const words: number[][] = [];
  pieces.forEach((piece, place) => {
    if (piece.startsWith("##")) words.at(-1)!.push(place);
    else words.push([place]);
  });
  return words;
}
