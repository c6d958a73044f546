/* The forms in which people type numbers. An expression is none of them: who types one is asked for its value. */

/** The numbers that a text may stand for: 5,657 is one with a comma for a point, or one with a comma at the thousand. */
function readNumber(text: string): number[] {
  const [, sign = "", size = "", percent] = /^([-+]?)\s*(.*?)\s*(%|percent|per cent)?$/i.exec(text)!;
  const factor = (sign === "-" ? -1 : 1) / (percent ? 100 : 1);
  return (size.includes("/") ? readFraction(size) : readDecimal(size))
    .filter(Number.isFinite)
    .map((value) => factor * value);
}

function readDecimal(text: string): number[] {
  const grouped = /^[1-9]\d{0,2}([ ,.'’_])\d{3}(\1\d{3})*((?!\1)[,.]\d+)?$/.exec(text);
  const spellings = [text.replace(/,(?=\d)/, ".")];
  if (grouped) spellings.push(text.replaceAll(grouped[1]!, "").replace(",", "."));
  return spellings.filter((one) => /^(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(one)).map(Number);
}

function readFraction(text: string): number[] {
  const mixed = /^(\d+) (\d+ ?\/ ?\d+)$/.exec(text); // 2 1/4
  const [above = [], below = [], ...more] = (mixed?.[2] ?? text).split("/").map((part) => readDecimal(part.trim()));
  const values = more.length > 0 ? [] : above.flatMap((a) => below.map((b) => a / b));
  return mixed ? values.filter((value) => value < 1).map((value) => Number(mixed[1]) + value) : values;
}

/** One way to read an answer: for each of its numbers, what that may be. */
export type Reading = number[][];

const SEPARATORS = [/;/, /[\s,;]+/, /\s+/, /[\s×xX*]+/];

/** All ways to read what was typed as an answer of this kind; none if it is no such answer. */
export function read(kind: "number" | "numbers" | "shape", given: string): Reading[] {
  const plain = given
    .replace(/(\d)(?=[¼-¾⅐-⅞])/g, "$1 ")
    .replace(/[¼-¾⅐-⅞！-～]/g, (letter) => letter.normalize("NFKC")) // fractions, and full-width letters
    .replace(/[‐-―−]/g, "-")
    .replace(/[⁄∕÷]/g, "/")
    .replace(/^.*[=≈~≃≅]/, "") // as in "√32 ≈ 5.66"
    .replace(/[\s\u200b]+/g, " ")
    .trim()
    .replace(/^((torch\.)?(Size|tensor))?[([{"'`$]+|[)\]}"'`$.,;]+$/g, "")
    .trim();
  const ways = kind === "number" ? [[plain]] : SEPARATORS.map((one) => plain.split(one).filter((part) => part !== ""));
  return ways
    .map((way) => way.map((part) => readNumber(part.trim())))
    .map((way) => (kind === "shape" ? way.map((numbers) => numbers.filter(Number.isInteger)) : way))
    .filter((way) => way.length > 0 && way.every((numbers) => numbers.length > 0));
}
