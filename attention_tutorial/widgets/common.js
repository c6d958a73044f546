/* What the book's widgets share: arithmetic on plain arrays, numbers and colours for the eye, pieces of a page.

   A widget's module imports from here. Jupyter takes one source for a widget, so the two are joined on the way
   (`module_source` in _base.py): no module may define a name of this file once more. */

// ---- Arithmetic ----------------------------------------------------------------------------------------------------

export function transpose(a) {
  return a[0].map((_, j) => a.map((row) => row[j]));
}

export function matmul(a, b) {
  return a.map((row) => b[0].map((_, j) => row.reduce((sum, value, l) => sum + value * b[l][j], 0)));
}

/** Which keys each query may see: the causal mask (lower right, as in the package) and the padding mask, joined. */
export function openKeys(m, n, causal, padding) {
  return Array.from({ length: m }, (_, i) =>
    Array.from({ length: n }, (_, j) => !(causal && j > i + n - m) && !padding.includes(j)),
  );
}

/** Softmax along each row. A row in which every score is minus infinity gets zeros. */
export function softmaxRows(scores) {
  return scores.map((row) => {
    const largest = Math.max(...row);
    if (largest === -Infinity) return row.map(() => 0);
    const exponentials = row.map((score) => Math.exp(score - largest));
    const sum = exponentials.reduce((a, b) => a + b, 0);
    return exponentials.map((e) => e / sum);
  });
}

/** The numbers that `encode_floats` in Python wrote: "f32:" and little-endian float32 in base64. */
export function decodeFloats(text) {
  const bytes = Uint8Array.from(atob(text.replace("f32:", "")), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
}

// ---- Numbers and colours ------------------------------------------------------------------------------------------

export const minus = (text) => (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
export const isWhole = (value) => Math.abs(value - Math.round(value)) < 1e-9;

/** A number for the eye: as short as it is exact, else with three digits behind the point, and with a real minus sign. */
export function show(value) {
  if (value === -Infinity) return "−∞";
  return minus(isWhole(value * 1000) ? String(Math.round(value * 1000) / 1000) : value.toFixed(3));
}

/** What a reader typed, as a number; NaN if it is none or too large to be shown. */
export function parseNumber(text) {
  const plain = text.trim().replace("−", "-").replace(",", ".");
  if (!/^[-+]?(\d+\.?\d*|\.\d+)$/.test(plain)) return NaN;
  return Math.abs(Number(plain)) <= 1000 ? Number(plain) : NaN;
}

const BLUES = [
  [247, 251, 255], [222, 235, 247], [198, 219, 239], [158, 202, 225], [107, 174, 214],
  [66, 146, 198], [33, 113, 181], [8, 81, 156], [8, 48, 107],
]; // prettier-ignore

const luminance = (rgb) =>
  rgb
    .map((c) => c / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);

/** The ground of a weight on the scale from 0 to 1, and the ink that is easier to read on it. */
export function weightColours(weight) {
  const place = Math.min(Math.max(weight, 0), 1) * (BLUES.length - 1);
  const below = Math.min(Math.floor(place), BLUES.length - 2);
  const ground = BLUES[below].map((c, i) => Math.round(c + (BLUES[below + 1][i] - c) * (place - below)));
  const light = luminance(ground);
  const ink = 1.05 / (light + 0.05) > (light + 0.05) / 0.05 ? "#ffffff" : "#000000";
  return { ground: `rgb(${ground.join(",")})`, ink };
}

/** A word and, where it stands more than once, its place. */
export function named(words) {
  return words.map((word, i) => (words.indexOf(word) === words.lastIndexOf(word) ? word : `${word} (${i + 1})`));
}

// ---- The page -----------------------------------------------------------------------------------------------------

/** Make an element. Text is always set as text, never as HTML. */
export const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

/** Make an element of a drawing (SVG). */
export const makeSvg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** A widget's side of its model: `write` changes it in silence, `watch` calls when it is changed from elsewhere. */
export function connect(model) {
  let writing = false;
  return {
    write(changes) {
      writing = true;
      for (const [key, value] of Object.entries(changes)) model.set(key, value);
      model.save_changes();
      writing = false;
    },
    /** Call `changed` when one of these keys is; return a function that ends it. */
    watch(keys, changed) {
      const heard = () => writing || changed();
      for (const key of keys) model.on(`change:${key}`, heard);
      return () => keys.forEach((key) => model.off(`change:${key}`, heard));
    },
  };
}

/** "W_Q" with a real subscript. */
export function symbol(text) {
  const [base, below] = text.split("_");
  return below ? [base, make("sub", {}, below)] : [base];
}

/** A slider with its name and its value in words. `write` says a position as text; `set` moves the slider from outside. */
export function makeSlider({ id, name, min, max, step = 1, value, write = String, onchange }) {
  const shown = make("output", { for: id });
  const input = make("input", { type: "range", id, min, max, step, oninput: () => (say(), onchange(Number(input.value))) });
  const say = () => {
    shown.textContent = write(Number(input.value));
    input.setAttribute("aria-valuetext", shown.textContent);
  };
  const set = (position) => {
    input.value = position;
    say();
  };
  set(value);
  return { element: make("label", { class: "bw-slider", for: id }, make("span", {}, name, shown), input), input, set };
}

/** Which cell a key leads to, from row i and column j of a grid: [row, column], or null for other keys and at the edge. */
export function nextCell(key, i, j, rows, columns) {
  const [r, c] = {
    ArrowUp: [i - 1, j], ArrowDown: [i + 1, j], ArrowLeft: [i, j - 1], ArrowRight: [i, j + 1],
    Home: [i, 0], End: [i, columns - 1],
  }[key] ?? [-1, -1]; // prettier-ignore
  return r >= 0 && r < rows && c >= 0 && c < columns ? [r, c] : null;
}
