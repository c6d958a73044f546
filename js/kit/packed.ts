/* Numbers of half precision, as `_pack_numbers` in Python writes them into a text. */

/** A number of half precision from its 16 bits. */
export function half(bits: number): number {
  const [sign, exponent, fraction] = [bits & 0x8000 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** The i-th ten bits of some bytes. */
function tenBits(bytes: Uint8Array, i: number): number {
  const [at, skip] = [(10 * i) >> 3, (10 * i) & 7];
  return (((bytes[at]! << 8) | (bytes[at + 1] ?? 0)) >> (6 - skip)) & 1023;
}

export const bytesOf = (base64: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));

/** Halves: sign and exponent of each are a letter, the ten bits of all fractions stand after a colon. */
export function unpackHalves(text: string): Float64Array {
  const [tops, rest] = text.split(":") as [string, string];
  const bytes = bytesOf(rest);
  return Float64Array.from(tops, (letter, i) => half((LETTERS.indexOf(letter) << 10) | tenBits(bytes, i)));
}
