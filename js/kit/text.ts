/* Numbers and words as readers see them. */

/** A number's text with a real minus sign, and none before a zero. */
export const minus = (text: string): string => (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");

/** An exponent in superscript digits. */
export const raised = (power: number | string): string =>
  Array.from(String(power), (digit) => (digit === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)])).join("");

export const isWhole = (value: number): boolean => Math.abs(value - Math.round(value)) < 1e-9;

/** A number to read: exact if three decimals are enough, else rounded to three. */
export function show(value: number): string {
  if (value === -Infinity) return "−∞";
  return minus(isWhole(value * 1000) ? String(Math.round(value * 1000) / 1000) : value.toFixed(3));
}

/** A number as a field shows it, with up to six decimals. */
export const showInField = (value: number): string => minus(String(Number(value.toFixed(6))));

/** What a reader typed, as a number; NaN if it is none or too large to be shown. */
export function parseNumber(text: string, largest = 1000): number {
  const plain = text.trim().replace("−", "-").replace(",", ".");
  if (!/^[-+]?(\d+\.?\d*|\.\d+)$/.test(plain)) return NaN;
  return Math.abs(Number(plain)) <= largest ? Number(plain) : NaN;
}

/** Words; one that occurs more than once is followed by its position. */
export function named(words: readonly string[]): string[] {
  return words.map((word, i) => (words.indexOf(word) === words.lastIndexOf(word) ? word : `${word} (${i + 1})`));
}

/** Words in quotation marks, with commas between. */
export const quoted = (words: readonly string[]): string => words.map((word) => `“${word}”`).join(", ");

/** "1 cell", "3 cells". */
export const count = (number: number, one: string, many = `${one}s`): string =>
  `${number} ${number === 1 ? one : many}`;

/** Whether a weight is shown as a faint dot, since two digits would round it to 0.00. */
export const isFaint = (weight: number): boolean => weight < 0.005;
