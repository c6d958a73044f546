/* Temperature and width. The maths comes first, as pure functions of plain arrays; the page comes behind it. */

import { connect, make, makeSlider, makeSvg, minus, show, softmaxRows, symbol } from "./common.js";

export const DIVISORS = ["none", "sqrt(d_k)", "d_k"];
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// ---- The maths ----------------------------------------------------------------------------------------------------

/** The features of queries and keys, one a row. One letter stands for one feature: an odd number of sixteenths. */
export function readFeatures(letters, width) {
  const features = Array.from(letters, (letter) => (LETTERS.indexOf(letter) - 31.5) / 8);
  return Array.from({ length: features.length / width }, (_, i) => features.slice(i * width, (i + 1) * width));
}

/** The dot product of every query with every key, over the first d_k features. */
export function rawScores(features, queryCount, dK) {
  const dot = (a, b) => {
    let sum = 0;
    for (let c = 0; c < dK; c++) sum += a[c] * b[c];
    return sum;
  };
  const keys = features.slice(queryCount);
  return features.slice(0, queryCount).map((query) => keys.map((key) => dot(query, key)));
}

/** What the scores are divided by. */
export function temperatureOf(divisor, dK, own) {
  return { none: 1, "sqrt(d_k)": Math.sqrt(dK), d_k: dK, own }[divisor];
}

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const mean = (numbers) => sum(numbers) / numbers.length;

/** The value in the middle; the lower one of two, as in torch. */
export const median = (numbers) => [...numbers].sort((a, b) => a - b)[(numbers.length - 1) >> 1];

/** The standard deviation, with n − 1 below the sum, as in torch. */
export function deviation(numbers) {
  const centre = mean(numbers);
  return Math.sqrt(sum(numbers.map((x) => (x - centre) ** 2)) / (numbers.length - 1));
}

/** How spread out weights are, in nats; 0 ln 0 is 0. */
export const entropyOf = (weights) => -sum(weights.map((a) => (a > 0 ? a * Math.log(a) : 0))) || 0;

/** The norm of the softmax's Jacobian, diag(a) − a aᵀ: its largest eigenvalue.

    An eigenvalue is 0 or makes Σ a_j / (a_j − λ) zero. The largest lies between the two largest weights, and between the
    bounds of Theorem 4 of chapter 3, n/(n−1) M (1−M) and 2 M (1−M). In between the sum rises, so halving finds it. */
export function jacobianNorm(weights) {
  const largest = Math.max(...weights);
  const place = weights.indexOf(largest);
  const others = weights.filter((_, j) => j !== place);
  const rest = sum(others); // 1 − M, without the rounding
  let low = Math.max(...others, (largest * rest * weights.length) / others.length);
  let high = Math.min(largest, 2 * largest * rest);
  for (let step = 0; step < 60 && low < high; step++) {
    const middle = (low + high) / 2;
    if (sum(weights.map((a) => a / (a - middle))) < 0) low = middle;
    else high = middle;
  }
  return high;
}

/** Scores after the division, weights, and three numbers for each query. */
export function measure(raw, temperature) {
  const scores = raw.map((row) => row.map((score) => score / temperature));
  const weights = softmaxRows(scores);
  const largest = weights.map((row) => Math.max(...row));
  return { scores, weights, largest, entropy: weights.map(entropyOf), norm: weights.map(jacobianNorm) };
}

/** The share of a normal quantity of deviation 1 below x (Abramowitz and Stegun, 7.1.26: right to 1e-7). */
export function normalBelow(x) {
  const t = 1 / (1 + (0.3275911 * Math.abs(x)) / Math.SQRT2);
  const series = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592].reduce((part, c) => part * t + c, 0);
  const tail = (series * t * Math.exp((-x * x) / 2)) / 2;
  return x < 0 ? tail : 1 - tail;
}

const BINS = 49;

/** The share of the scores in each bin from −half to half, and the share of a normal curve of the predicted deviation. */
export function histogram(scores, predicted, half) {
  const all = scores.flat();
  const width = (2 * half) / BINS;
  const counts = Array(BINS).fill(0);
  let outside = 0;
  for (const score of all) {
    const bin = Math.floor((score + half) / width);
    if (bin >= 0 && bin < BINS) counts[bin] += 1;
    else outside += 1;
  }
  const below = Array.from({ length: BINS + 1 }, (_, i) => normalBelow((i * width - half) / predicted));
  return { width, shares: counts.map((c) => c / all.length), normal: counts.map((_, i) => below[i + 1] - below[i]), outside };
}

/** Medians over the queries, at each width. */
export function alongWidths(rawAt, widths, divisor, own) {
  return widths.map((dK) => mediansOf(measure(rawAt(dK), temperatureOf(divisor, dK, own))));
}

/** Medians over the queries at one width, for each temperature. */
export function alongTemperatures(raw, temperatures) {
  return temperatures.map((temperature) => mediansOf(measure(raw, temperature)));
}

export const mediansOf = ({ largest, entropy, norm }) => ({
  largest: median(largest),
  entropy: median(entropy),
  norm: median(norm),
});

/** The temperatures of the slider, four to an octave, from 1/4 to 1024. */
export const temperatureAt = (position) => 2 ** (position / 4);
export const FIRST = -8;
export const LAST = 40;
const sliderPosition = (temperature) => Math.min(Math.max(4 * Math.log2(temperature), FIRST), LAST);

// ---- Words --------------------------------------------------------------------------------------------------------

/** A number with a few digits, also where it is tiny. */
export function brief(value) {
  if (value === 0 || Math.abs(value) >= 0.001) return minus(value.toFixed(3));
  const [digit, exponent] = value.toExponential(0).split("e-");
  return `${minus(digit)} · 10⁻${Array.from(exponent, (place) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[place]).join("")}`;
}

const showTemperature = (temperature) => show(Number(temperature.toPrecision(4)));

/** What one row of weights is like, in words. */
export function verdict(largest, share) {
  if (largest >= 0.9) return "saturated, one key takes nearly everything";
  if (share >= 0.97) return "nearly a plain average of all keys";
  return "some preference, nothing settled";
}

const near = (a, b, tolerance) => Math.abs(a - b) <= tolerance;

/** Questions to be answered before looking. Which option is right, the numbers say: `at(d_k, divisor)` measures. */
export function questions(at, keyCount) {
  const [narrow, moderate, wide] = [4, 16, 256];
  const typical = (dK, divisor) => mediansOf(at(dK, divisor));
  const ask = (text, before, after, numbers, options, why) => {
    const [from, to] = numbers;
    return { text, before, after, why: `It goes from ${brief(from)} to ${brief(to)}. ${why}`, numbers,
             options: options.map(([label, holds]) => ({ label, right: holds(from, to) })) }; // prettier-ignore
  };
  const state = (d_k, divisor) => ({ d_k, divisor });
  const moved = [
    ["It shrinks", (from, to) => to < 0.9 * from],
    ["It stays about the same", (from, to) => to >= 0.9 * from && to <= 1.1 * from],
    ["It grows", (from, to) => to > 1.1 * from],
  ];
  const sharp = (from) => [
    ["It goes to nearly 1", (_, to) => to > 0.95],
    [`It stays near ${from.toFixed(1)}`, (_, to) => near(to, from, 0.1)],
    [`It goes to about 1/${keyCount}`, (_, to) => near(to, 1 / keyCount, 0.03)],
  ];
  const largest = [typical(narrow, "none"), typical(wide, "none"), typical(wide, "sqrt(d_k)"), typical(wide, "d_k")].map((one) => one.largest);
  const trap = at(wide, "none");
  return [
    ask("Nothing is divided (÷ 1), and dₖ grows from 4 to 256. What happens to the largest weight of a typical query?",
      state(narrow, "none"), state(wide, "none"), [largest[0], largest[1]], sharp(largest[0]),
      "With 256 features the scores have a standard deviation of about 16. The best key leads by several points, and each point of lead multiplies a ratio of weights by 2.72."),
    ask("Nothing is divided (÷ 1), and dₖ grows from 4 to 16 only. What does the norm of the Jacobian do?",
      state(narrow, "none"), state(moderate, "none"), [typical(narrow, "none").norm, typical(moderate, "none").norm], moved,
      "Moderately sharp weights respond more than flat ones. Move dₖ on to 256 and see it fall."),
    ask("Now every score is divided by √dₖ, and dₖ grows from 4 to 256. What does the entropy of a typical query do?",
      state(narrow, "sqrt(d_k)"), state(wide, "sqrt(d_k)"), [typical(narrow, "sqrt(d_k)").entropy, typical(wide, "sqrt(d_k)").entropy], moved,
      "The standard deviation of the scores is about 1 at both widths, so the softmax does not notice the width."),
    ask("At dₖ = 256, divide by dₖ in place of √dₖ. What happens to the largest weight of a typical query?",
      state(wide, "sqrt(d_k)"), state(wide, "d_k"), [largest[2], largest[3]], sharp(largest[2]),
      "The standard deviation of the scores is 1/16: they are nearly equal, whatever the query is."),
    { ...ask("At dₖ = 256 and with nothing divided (÷ 1) the median norm of the Jacobian is almost 0. And the mean over the queries?",
      state(wide, "none"), state(wide, "none"), [median(trap.norm), mean(trap.norm)],
      [["Almost 0 as well", (middle, average) => average < 3 * middle], ["Many times larger", (middle, average) => average >= 3 * middle]], ""),
      why: `The median is ${brief(median(trap.norm))}, the mean ${brief(mean(trap.norm))}. A few queries have two keys neck and neck, and a large Jacobian. The mean sees the few.` },
  ]; // prettier-ignore
}

// ---- The page -----------------------------------------------------------------------------------------------------

const KEYS = ["features", "query_count", "key_count", "widths", "d_k", "divisor", "own", "query", "along", "zoom", "predict"];
const NAMES = { none: "1", "sqrt(d_k)": "√dₖ", d_k: "dₖ", own: "τ" };
const NODES = { none: () => ["1"], "sqrt(d_k)": () => ["√", ...symbol("d_k")], d_k: () => symbol("d_k") };
const HALF = { true: 4.9, false: 49 };
const LINES = {
  none: { "stroke-dasharray": "6 3" },
  "sqrt(d_k)": {},
  d_k: { "stroke-dasharray": "2 3" },
  own: { "stroke-dasharray": "9 3 2 3" },
};

let count = 0;

function render({ model, el }) {
  const id = `temperature-${++count}`;
  const root = make("section", { class: "bw tw", "aria-label": "Temperature and width, interactive" });
  el.replaceChildren(root);

  let state;
  const link = connect(model);
  let asked = 0; // which question
  let reply = null; // the option that was chosen
  let curves = {};
  let rawOf = {};
  const features = readFeatures(model.get("features"), Math.max(...model.get("widths")));
  const rawAt = (dK) => (rawOf[dK] ??= rawScores(features, model.get("query_count"), dK));
  const widthCurve = (divisor) =>
    divisor === "own" ? alongWidths(rawAt, state.widths, "own", state.own) : (curves[divisor] ??= alongWidths(rawAt, state.widths, divisor));
  const temperatures = Array.from({ length: LAST - FIRST + 1 }, (_, i) => temperatureAt(FIRST + i));
  const temperatureCurve = () => (curves[`at ${state.d_k}`] ??= alongTemperatures(rawAt(state.d_k), temperatures));
  const asking = () => questions((dK, divisor) => measure(rawAt(dK), temperatureOf(divisor, dK)), state.key_count);

  const read = () => (state = Object.fromEntries(KEYS.map((key) => [key, model.get(key)])));
  const tau = () => temperatureOf(state.divisor, state.d_k, state.own);

  function change(changes) {
    link.write(changes);
    read();
    update();
  }

  read();

  // -- Controls

  const widthSlider = makeSlider({
    id: `${id}-width`, name: make("span", {}, "features ", ...symbol("d_k")), min: 0, max: state.widths.length - 1,
    value: Math.max(0, state.widths.indexOf(state.d_k)), write: (i) => String(state.widths[i]),
    onchange: (i) => change({ d_k: state.widths[i] }),
  }); // prettier-ignore
  const temperatureSlider = makeSlider({
    id: `${id}-tau`, name: "temperature τ", min: FIRST, max: LAST, value: Math.round(sliderPosition(tau())),
    write: () => showTemperature(tau()) + (["none", "own"].includes(state.divisor) ? "" : ` = ${NAMES[state.divisor]}`),
    onchange: (position) => change({ divisor: "own", own: temperatureAt(position) }),
  }); // prettier-ignore
  const querySlider = makeSlider({
    id: `${id}-query`, name: make("span", { class: "query" }, "query"), min: 1, max: state.query_count, value: state.query,
    write: (i) => `${i} of ${state.query_count}`, onchange: (query) => change({ query }),
  }); // prettier-ignore

  function choice(key, value, content, name) {
    return make("button", { type: "button", class: "bw-button", id: `${id}-${key}-${value}`, "aria-label": name, onclick: () => change({ [key]: value }) }, ...content);
  }
  const rules = DIVISORS.map((divisor) =>
    choice("divisor", divisor, NODES[divisor](), `divide by ${{ none: "1", "sqrt(d_k)": "the square root of d k", d_k: "d k" }[divisor]}`),
  );
  const views = [choice("along", "d_k", ["along ", ...symbol("d_k")], "curves along d k"), choice("along", "temperature", ["along τ"], "curves along the temperature")];

  function toggle(label, key) {
    const box = make("input", { type: "checkbox", id: `${id}-${key}`, onchange: () => press(key, box.checked) });
    return { box, element: make("label", { class: "bw-toggle", for: box.id }, box, make("span", {}, label)) };
  }
  function press(key, on) {
    if (key === "predict") {
      [asked, reply] = [0, null];
      change({ predict: on, ...(on ? { ...asking()[0].before, zoom: false } : {}) });
      drawQuestion();
    } else change({ [key]: on });
  }
  const zoom = toggle("Zoom in on the scores, 10 times", "zoom");
  const predict = toggle("Predict first", "predict");

  // -- Captions

  function captionOfHill(predicted, measured, few, outside) {
    return [
      "Standard deviation: ", make("b", {}, show(predicted)), " predicted (outline), ", make("b", {}, show(measured)), " measured. Marks below the line: this query.",
      few ? " So few features form no bell curve yet." : "",
      outside ? ` Outside the picture: ${outside} of ${state.query_count * state.key_count}.` : "",
    ]; // prettier-ignore
  }
  function captionOfBars() {
    return [make("span", { class: "key" }, "keys"), ` 1 to ${state.key_count}. Dashed: all weights alike, 1/${state.key_count}.`];
  }
  function captionOfCurve(overWidth) {
    const along = overWidth ? [...symbol("d_k"), " to the right; one line for each divisor. "] : ["τ to the right, at ", ...symbol("d_k"), ` = ${state.d_k}. `];
    return [...along, "Dot: median now. Ring: this query."];
  }

  // -- The frame, made once; what is inside is replaced

  const question = make("div", { class: "bw-question" });
  /** What may change its number of lines, above an unseen text of the most lines, so that nothing below moves. */
  const steady = (kind, shown, longest) => make("div", { class: `tw-steady ${kind}` }, shown, make("p", { "aria-hidden": "true" }, ...longest));
  const figure = (title, longest, control = null) => {
    const caption = make("p");
    const drawing = make("div", { class: "tw-drawing" });
    const heading = make("p", { class: "tw-title" }, ...title);
    return { caption, drawing, element: make("div", { class: "tw-figure" }, ...[heading, drawing, steady("tw-caption", caption, longest), control].filter(Boolean)) };
  };
  const hill = figure(["Scores of all queries, divided by τ"], captionOfHill(88.888, 88.888, true, 888), zoom.element);
  const bars = figure(["Softmax: the weights of one ", make("span", { class: "query" }, "query")], captionOfBars(), querySlider.element);
  const entropies = figure(["Entropy, as a share of its largest value"], captionOfCurve(true));
  const norms = figure(["Norm of the Jacobian ‖J‖"], captionOfCurve(true));
  const table = make("table", { class: "tw-numbers" });
  const panel = make("div", { class: "bw-panel", role: "status" });
  const words = make("ul");
  root.append(
    make("div", { class: "tw-head" }, make("p", { class: "bw-heading" }, "Temperature and ", ...symbol("d_k")), predict.element),
    make("p", { class: "bw-note" }, "Move ", ...symbol("d_k"), ` to the right and watch the bars. One query may waver; the count below covers all ${state.query_count}. Then divide by √`, ...symbol("d_k"), ", and move it again."),
    make(
      "div",
      { class: "bw-controls" },
      widthSlider.element,
      make("div", { class: "tw-rules", role: "group", "aria-labelledby": `${id}-rules` }, make("span", { id: `${id}-rules` }, "divide the scores by"), make("div", {}, ...rules)),
      temperatureSlider.element,
    ),
    question,
    make("div", { class: "tw-pair" }, hill.element, bars.element),
    panel,
    make("div", { class: "tw-views", role: "group", "aria-label": "Curves" }, make("span", {}, "Where we are, for the typical (median) query"), make("div", {}, ...views)),
    make("div", { class: "tw-pair" }, entropies.element, norms.element),
    make("div", { class: "bw-scroll" }, table),
    make("details", { class: "bw-words" }, make("summary", {}, "All of this in words"), words),
  );

  // -- Drawings

  const svg = (label, height, ...parts) => makeSvg("svg", { viewBox: `0 0 320 ${height}`, role: "img", "aria-label": label }, ...parts);
  const line = (x1, y1, x2, y2, kind) => makeSvg("line", { x1, y1, x2, y2, class: kind });
  const text = (x, y, content, anchor = "middle", kind = "tw-tick") => makeSvg("text", { x, y, "text-anchor": anchor, class: kind }, content);

  function drawHill(all) {
    const half = HALF[state.zoom];
    const predicted = Math.sqrt(state.d_k) / tau();
    const { shares, normal, outside } = histogram(all.scores, predicted, half);
    const measured = deviation(all.scores.flat());
    const top = Math.max(...shares, ...normal);
    const [left, right, floor, ceiling] = [8, 312, 118, 8];
    const step = (right - left) / BINS;
    const y = (share) => floor - ((floor - ceiling) * share) / top;
    const x = (score) => left + ((right - left) * (score + half)) / (2 * half);
    const outline = normal.map((share, i) => `${i ? "L" : "M"}${left + i * step} ${y(share)}H${left + (i + 1) * step}`).join("");
    const ticks = state.zoom ? [-4, -2, 0, 2, 4] : [-40, -20, 0, 20, 40];
    hill.drawing.replaceChildren(
      svg(
        `Histogram of ${all.scores.flat().length} scores from ${minus(String(-half))} to ${half}, with the predicted normal curve`, 152,
        ...shares.map((share, i) => makeSvg("rect", { x: left + i * step + 0.4, y: y(share), width: step - 0.8, height: floor - y(share), class: "tw-fill", "data-share": share })),
        makeSvg("path", { d: outline, class: "tw-normal" }),
        line(left, floor, right, floor, "tw-axis"),
        ...all.scores[state.query - 1].filter((score) => Math.abs(score) <= half).map((score) => line(x(score), floor + 2, x(score), floor + 11, "tw-rug")),
        ...ticks.map((tick) => text(x(tick), floor + 28, minus(String(tick)))),
      ),
    ); // prettier-ignore
    hill.caption.replaceChildren(...captionOfHill(predicted, measured, state.d_k < 8, outside));
    Object.assign(hill.caption.children[0].dataset, { number: "predicted", value: predicted });
    Object.assign(hill.caption.children[1].dataset, { number: "measured", value: measured });
  }

  function drawBars(all) {
    const row = all.weights[state.query - 1];
    const [left, right, floor, ceiling] = [30, 316, 128, 12];
    const step = (right - left) / row.length;
    const y = (weight) => floor - (floor - ceiling) * weight;
    const best = row.indexOf(Math.max(...row));
    bars.drawing.replaceChildren(
      svg(
        `Bars of ${row.length} weights of query ${state.query}; the largest is ${brief(row[best])}, at key ${best + 1}`, 152,
        ...[0, 0.5, 1].flatMap((weight) => [line(left, y(weight), right, y(weight), "tw-grid"), text(left - 5, y(weight) + 4, String(weight), "end")]),
        ...row.map((weight, j) => makeSvg("rect", { x: left + j * step + 1.5, y: y(weight), width: step - 3, height: floor - y(weight), class: "tw-fill", "data-weight": weight })),
        line(left, y(1 / row.length), right, y(1 / row.length), "tw-even"),
        text(left + (best + 0.5) * step, Math.max(y(row[best]) - 3, 9), row[best].toFixed(2), "middle", "tw-best"),
        ...row.map((_, j) => text(left + (j + 0.5) * step, floor + 17, String(j + 1), "middle", "tw-tick key")),
      ),
    ); // prettier-ignore
    bars.caption.replaceChildren(...captionOfBars());
  }

  /** A curve of medians, where we are on it (dot), and this query (ring). */
  function drawCurve(target, key, { scale, ticks, write }, here, mine) {
    const overWidth = state.along === "d_k";
    const [left, right, floor, ceiling] = [34, 274, 116, 16];
    const y = (value) => floor - ((floor - ceiling) * value) / scale;
    const [first, last] = overWidth ? [0, Math.log2(Math.max(...state.widths))] : [FIRST / 4, LAST / 4];
    const x = (value) => left + ((right - left) * (Math.log2(value) - first)) / (last - first);
    const places = overWidth ? state.widths : temperatures;
    const path = (points) => points.map((point, i) => `${i ? "L" : "M"}${x(places[i]).toFixed(1)} ${y(point[key]).toFixed(2)}`).join("");
    const rulesShown = overWidth ? [...DIVISORS, ...(state.divisor === "own" ? ["own"] : [])] : [];
    const lines = overWidth
      ? rulesShown.map((divisor) => [divisor, widthCurve(divisor)])
      : [["", temperatureCurve()]];
    const labels = spread(overWidth ? lines.map(([divisor, points]) => [divisor, y(points.at(-1)[key])]) : [], floor);
    const now = overWidth ? state.d_k : Math.min(Math.max(tau(), temperatures[0]), temperatures.at(-1));
    const marks = overWidth ? [] : DIVISORS.map((divisor) => [divisor, x(temperatureOf(divisor, state.d_k))]);
    const apart = marks.filter(([, at], i) => marks.slice(i + 1).every(([, other]) => other - at >= 20));
    target.drawing.replaceChildren(
      svg(
        `${key === "entropy" ? "Entropy as a share of its largest value" : "Norm of the Jacobian"}, median over the queries, along ${overWidth ? "d k" : "the temperature"}; now ${brief(here)}`, 146,
        ...ticks.flatMap((tick) => [line(left, y(tick), right, y(tick), "tw-grid"), text(left - 5, y(tick) + 4, write(tick), "end")]),
        ...marks.map(([divisor, at]) => line(at, ceiling, at, floor, `tw-mark tw-is-${divisor.replace(/\W+/g, "-")}`)),
        ...apart.map(([divisor, at]) => text(at, 11, NAMES[divisor], "middle", "tw-tick")),
        ...lines.map(([divisor, points]) =>
          makeSvg("path", { d: path(points), class: `tw-line tw-is-${divisor.replace(/\W+/g, "-") || state.divisor.replace(/\W+/g, "-")}${!divisor || divisor === state.divisor ? " tw-now" : ""}`, ...(LINES[divisor] ?? {}) }),
        ),
        ...labels.map(([divisor, at]) => text(right + 4, at + 4, `÷ ${NAMES[divisor]}`, "start", `tw-label tw-is-${divisor.replace(/\W+/g, "-")}`)),
        makeSvg("circle", { cx: x(now), cy: y(Math.min(mine, scale)), r: 4, class: "tw-mine" }),
        makeSvg("circle", { cx: x(now), cy: y(here), r: 5, class: "tw-here", "data-value": here }),
        ...(overWidth ? [1, 4, 16, 64, 256] : [1, 4, 16, 64, 256, 1024]).map((tick) => text(x(tick), floor + 17, String(tick))),
      ),
    ); // prettier-ignore
    target.caption.replaceChildren(...captionOfCurve(overWidth));
  }

  /** Move labels at the ends of lines apart, so that none covers another, and none sinks below the floor. */
  function spread(labels, floor) {
    const sorted = [...labels].sort((a, b) => a[1] - b[1]);
    for (let i = 1; i < sorted.length; i++) sorted[i][1] = Math.max(sorted[i][1], sorted[i - 1][1] + 12);
    for (let i = sorted.length - 1, limit = floor; i >= 0; i--, limit = sorted[i + 1][1] - 12) sorted[i][1] = Math.min(sorted[i][1], limit);
    return sorted;
  }

  // -- Numbers and words

  function drawNumbers(all, most) {
    const rows = [
      ["largest weight M", "largest", all.largest],
      [`entropy H, nats, at most ln ${state.key_count} = ${most.toFixed(3)}`, "entropy", all.entropy],
      [`entropy as a share of ln ${state.key_count}`, "share", all.entropy.map((h) => h / most)],
      ["norm of the Jacobian ‖J‖, at most ½", "norm", all.norm],
    ];
    const cell = (name, of, value) => make("td", { "data-number": name, "data-of": of, "data-value": value }, brief(value));
    table.replaceChildren(
      make("thead", {}, make("tr", {}, make("td"), ...["this query", "median", "mean"].map((head) => make("th", { scope: "col" }, head)))),
      make("tbody", {}, ...rows.map(([label, name, values]) =>
        make("tr", {}, make("th", { scope: "row" }, label), cell(name, "query", values[state.query - 1]), cell(name, "median", median(values)), cell(name, "mean", mean(values))),
      )),
    ); // prettier-ignore
  }

  function drawWords(all, most) {
    const i = state.query - 1;
    const saturated = all.largest.filter((weight) => weight >= 0.9).length;
    const dead = all.norm.filter((norm) => norm < 0.01).length;
    const title = (query, said) => [`Weights of query ${query}: ${said}.`];
    const counts = (settled, still) => [
      make("b", {}, `${settled} of ${state.query_count}`), " queries give one key 0.9 or more. ",
      make("b", {}, `${still} of ${state.query_count}`), " have a norm ‖J‖ below 0.01: they hardly respond.",
    ]; // prettier-ignore
    const sums = make("p", {}, ...counts(saturated, dead));
    Object.assign(sums.children[0].dataset, { number: "saturated", value: saturated });
    Object.assign(sums.children[1].dataset, { number: "dead", value: dead });
    panel.replaceChildren(
      steady("bw-title", make("p", {}, ...title(state.query, verdict(all.largest[i], all.entropy[i] / most))), title(state.query_count, verdict(1, 0))),
      steady("bw-sums", sums, counts(state.query_count, state.query_count)),
    );
    const curve = state.along === "d_k" ? widthCurve(state.divisor) : temperatureCurve();
    const places = state.along === "d_k" ? state.widths : temperatures;
    const shown = state.along === "d_k" ? places : places.filter((_, p) => p % 8 === 0);
    words.replaceChildren(
      ...all.weights[i].map((weight, j) =>
        make("li", {}, `key ${j + 1}: score ${show(rawAt(state.d_k)[i][j])}, divided by ${showTemperature(tau())}: ${show(all.scores[i][j])}, weight ${brief(weight)}`),
      ),
      ...shown.map((place) => {
        const { entropy, norm } = curve[places.indexOf(place)];
        const where = state.along === "d_k" ? `d_k = ${place}, divided by ${NAMES[state.divisor]}` : `τ = ${showTemperature(place)}, d_k = ${state.d_k}`;
        return make("li", {}, `${where}: median entropy ${brief(entropy)} (share ${brief(entropy / most)}), median norm ${brief(norm)}`);
      }),
    );
  }

  // -- Predictions

  function drawQuestion() {
    question.hidden = !state.predict;
    if (!state.predict) return question.replaceChildren();
    const all = asking();
    const now = all[asked];
    const head = make("p", { class: "bw-asked", id: `${id}-asked` }, make("b", {}, `Predict first, ${asked + 1} of ${all.length}. `), now.text);
    const go = (next) => {
      [asked, reply] = [next, null];
      change(all[next].before);
      drawQuestion();
      question.querySelector("button").focus({ preventScroll: true });
    };
    if (reply === null) {
      const answer = (option) => {
        reply = option;
        change(now.after);
        drawQuestion();
        question.querySelector("[tabindex]").focus({ preventScroll: true });
      };
      const buttons = now.options.map((option) => make("button", { type: "button", class: "bw-button", onclick: () => answer(option) }, option.label));
      question.replaceChildren(head, make("div", { class: "bw-options", role: "group", "aria-labelledby": `${id}-asked` }, ...buttons));
      return null;
    }
    const rights = now.options.filter((option) => option.right).map((option) => option.label);
    const said = make("p", { class: reply.right ? "bw-right" : "bw-wrong", tabindex: -1 }, make("b", {}, reply.right ? `Yes: ${reply.label}.` : `Not quite. The answer: ${rights.join(" or ")}.`), ` ${now.why}`);
    const more = asked + 1 < all.length;
    const next = make("button", { type: "button", class: "bw-button bw-main", onclick: () => go(more ? asked + 1 : 0) }, more ? "Next question" : "Once more from the first");
    question.replaceChildren(head, said, make("div", { class: "bw-options" }, next));
    return null;
  }

  // -- Putting it together

  function update() {
    const all = measure(rawAt(state.d_k), tau());
    const most = Math.log(state.key_count);
    root.dataset.divisor = state.divisor;
    widthSlider.set(state.widths.indexOf(state.d_k));
    temperatureSlider.set(Math.round(sliderPosition(tau())));
    querySlider.set(state.query);
    rules.forEach((button, i) => button.setAttribute("aria-pressed", DIVISORS[i] === state.divisor));
    views.forEach((button, i) => button.setAttribute("aria-pressed", ["d_k", "temperature"][i] === state.along));
    zoom.box.checked = state.zoom;
    predict.box.checked = state.predict;
    drawHill(all);
    drawBars(all);
    const i = state.query - 1;
    const now = mediansOf(all);
    // The entropies of a curve are in nats, like those of the package; the picture's scale ends at ln n.
    drawCurve(entropies, "entropy", { scale: most, ticks: [0, most / 2, most], write: (tick) => String(tick / most) }, now.entropy, all.entropy[i]);
    drawCurve(norms, "norm", { scale: 0.5, ticks: [0, 0.25, 0.5], write: String }, now.norm, all.norm[i]);
    drawNumbers(all, most);
    drawWords(all, most);
  }

  update();
  drawQuestion();
  return link.watch(KEYS, () => {
    read();
    update();
    drawQuestion();
  });
}

export default { render };
