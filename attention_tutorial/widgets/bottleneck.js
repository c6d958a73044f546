/* The bottleneck: what two networks wrote, and the weights they returned. Nothing is computed anew here but counts. */

import { connect, decodeFloats, make, makeSlider, makeSvg, show, weightColours } from "./common.js";

// ---- What the networks returned -----------------------------------------------------------------------------------

/** A text of letters with spaces between, as a list. */
const letters = (text) => text.split(" ");

/** Which letters are right, and how many. */
export function mark(wanted, wrote) {
  const right = wanted.map((letter, i) => letter === wrote[i]);
  return { wrote, right, count: right.filter(Boolean).length };
}

/** One sequence of a length: what was read and wanted, what both networks wrote, and the weights, a row for each step. */
export function look(one, sequence) {
  const [read, wanted, plain, attentive] = ["read", "wanted", "plain", "attentive"].map((key) => letters(one[key][sequence - 1]));
  const [m, n] = [wanted.length, read.length];
  const numbers = decodeFloats(one.returned_weights).slice((sequence - 1) * m * n, sequence * m * n);
  const weights = wanted.map((_, i) => numbers.slice(i * n, (i + 1) * n));
  return { read, wanted, plain: mark(wanted, plain), attentive: mark(wanted, attentive), weights };
}

/** The place of the largest number. */
export const largest = (row) => row.indexOf(Math.max(...row));

/** What happens at an output step (counted from 1), in sentences: about the step, the plain network, the attentive one. */
export function tell(seen, step) {
  const i = step - 1;
  const row = seen.weights[i];
  const j = largest(row);
  const verdict = ({ wrote, right }) => (right[i] ? `writes ${wrote[i]}, which is right` : `writes ${wrote[i]}, which is wrong`);
  return {
    wanted: `Step ${step} of ${seen.wanted.length}: the letter to write is ${seen.wanted[i]}.`,
    plain: `One vector: ${verdict(seen.plain)}.`,
    attentive: `Attention: ${verdict(seen.attentive)}. It looks most at letter ${j + 1}, ${seen.read[j]}, with weight ${show(row[j])}.`,
  };
}

/** All weights of a step in words. */
export function weightsInWords(seen, step) {
  const row = seen.weights[step - 1];
  return `Weights of step ${step}: ${row.map((weight, j) => `${seen.read[j]} ${show(weight)}`).join(", ")}.`;
}

/** A line of a chart: the points of one network's accuracy, in a box of the given size. */
export function curve(cases, network, { left, top, width, height }) {
  const longest = Math.max(...cases.map((one) => one.length));
  const shortest = Math.min(...cases.map((one) => one.length));
  const x = (length) => left + (longest === shortest ? width / 2 : ((length - shortest) / (longest - shortest)) * width);
  const y = (share) => top + (1 - share) * height;
  return { x, y, points: cases.map((one) => [x(one.length), y(one.accuracy[network])]) };
}

// ---- Drawings -----------------------------------------------------------------------------------------------------

const WIDTH = 360; // of every drawing, in units that the page scales
const NAMES = ["one vector", "attention"];

/** Where the letters of a row stand. */
export function columns(n) {
  const size = Math.min(34, (WIDTH - 4) / n);
  const left = (WIDTH - n * size) / 2;
  return { size, centre: (j) => left + (j + 0.5) * size };
}

function letterBox(letter, x, y, size, attributes = {}, style = null) {
  const side = Math.min(size - 2, 26);
  const font = Math.min(16, size * 0.86);
  const box = makeSvg("rect", { x: x - side / 2, y, width: side, height: 26, rx: 4, style: style && `fill: ${style.ground}`, ...attributes });
  const text = makeSvg("text", { x, y: y + 18.5, "font-size": font, class: "bot-letter", style: style && `fill: ${style.ink}` }, letter);
  return [box, text];
}

/** A curve from one point down to another. */
const thread = (x1, y1, x2, y2) => `M${x1},${y1} C${x1},${(y1 + y2) / 2} ${x2},${(y1 + y2) / 2} ${x2},${y2}`;

const READ = 24;
const WRITTEN = 152;

/** The letters read above, those written below, and between them what the network has to go by at this step. */
function drawNetwork(seen, step, network, label) {
  const { read } = seen;
  const { wrote, right } = seen[network];
  const [source, target] = [columns(read.length), columns(wrote.length)];
  const i = step - 1;
  const goal = target.centre(i);
  const picture = makeSvg("svg", { viewBox: `0 0 ${WIDTH} 222`, role: "img", "aria-label": label, class: "bot-network" });
  picture.append(makeSvg("text", { x: 4, y: 15, class: "bot-side" }, "read"));
  picture.append(makeSvg("text", { x: 4, y: 215, class: "bot-side" }, "written"));
  if (network === "plain") {
    const neck = WIDTH / 2;
    read.forEach((_, j) => picture.append(makeSvg("path", { d: thread(source.centre(j), READ + 26, neck, 92), class: "bot-in" })));
    picture.append(
      makeSvg("path", { d: thread(neck, 116, goal, WRITTEN), class: "bot-flow", "stroke-width": 5 }),
      makeSvg("rect", { x: neck - 48, y: 90, width: 96, height: 26, rx: 13, class: "bot-neck" }),
      makeSvg("text", { x: neck, y: 107.5, class: "bot-letter", "font-size": 14 }, "one vector"),
    );
  }
  read.forEach((letter, j) => {
    const weight = network === "plain" ? null : seen.weights[i][j];
    if (weight !== null && weight >= 0.005) {
      picture.append(
        makeSvg("path", { d: thread(source.centre(j), READ + 26, goal, WRITTEN), class: "bot-flow", "stroke-width": (0.8 + 8 * weight).toFixed(2) }),
      );
    }
    const given = { class: "bot-read", "data-read": j, "data-value": weight };
    picture.append(...letterBox(letter, source.centre(j), READ, source.size, given, weight === null ? null : weightColours(weight)));
  });
  if (network !== "plain") {
    const j = largest(seen.weights[i]);
    const x = Math.min(Math.max(source.centre(j), 16), WIDTH - 16);
    picture.append(makeSvg("text", { x, y: READ + 44, class: "bot-weight" }, show(seen.weights[i][j])));
  }
  wrote.forEach((letter, l) => {
    const kind = `${right[l] ? "bot-right" : "bot-wrong"}${l === i ? " bot-now" : ""}`;
    const x = target.centre(l);
    picture.append(
      ...letterBox(letter, x, WRITTEN, target.size, { class: kind, "data-written": l, "data-right": String(right[l]) }),
      makeSvg("text", { x, y: WRITTEN + 42, class: `bot-sign ${kind}` }, right[l] ? "✓" : "✕"),
    );
  });
  return picture;
}

const CHART = { left: 34, top: 14, width: 312, height: 168 };

/** Both curves of accuracy, a marker at the length that is looked at, and what was longer than in training. */
function drawChart(cases, here, trainedTo, choose) {
  const curves = NAMES.map((_, network) => curve(cases, network, CHART));
  const { x, y } = curves[0];
  const at = x(here.length);
  const bottom = CHART.top + CHART.height;
  const label =
    `Share of letters right by length. At length ${here.length}: ` +
    NAMES.map((name, network) => `${name} ${show(here.accuracy[network])}`).join(", ") + "."; // prettier-ignore
  const picture = makeSvg("svg", { viewBox: `0 0 ${WIDTH} 226`, role: "img", "aria-label": label, class: "bot-chart" });
  const beyond = trainedTo !== null && cases.some((one) => one.length > trainedTo);
  const right = CHART.left + CHART.width;
  if (beyond) {
    picture.append(makeSvg("rect", { x: x(trainedTo), y: CHART.top, width: right - x(trainedTo) + 6, height: CHART.height, class: "bot-beyond" }));
  }
  for (const share of [0, 0.5, 1]) {
    picture.append(
      makeSvg("line", { x1: CHART.left - 4, x2: CHART.left + CHART.width + 6, y1: y(share), y2: y(share), class: "bot-grid" }),
      makeSvg("text", { x: CHART.left - 8, y: y(share) + 4, class: "bot-tick bot-end" }, String(share)),
    );
  }
  let last = -Infinity;
  for (const { length } of cases) {
    if (x(length) - last < 20) continue; // no room for another number
    last = x(length);
    picture.append(makeSvg("text", { x: last, y: bottom + 16, class: "bot-tick" }, String(length)));
  }
  picture.append(
    makeSvg("text", { x: CHART.left + CHART.width / 2, y: 222, class: "bot-tick" }, "length of the sequence"),
    makeSvg("line", { x1: at, x2: at, y1: CHART.top - 6, y2: bottom, class: "bot-marker" }),
    ...(beyond ? ["longer than", "in training"] : []).map((text, l) =>
      makeSvg("text", { x: (x(trainedTo) + right) / 2, y: y(0.5) - 20 + 14 * l, class: "bot-tick bot-on-panel" }, text),
    ),
  );
  curves.forEach(({ points }, network) => {
    const kind = `bot-line-${network}`;
    picture.append(makeSvg("polyline", { points: points.map((point) => point.join(",")).join(" "), class: `bot-line ${kind}` }));
    points.forEach(([px, py], l) => {
      const size = cases[l] === here ? 6 : 3.5;
      const given = { class: `bot-point ${kind}`, "data-network": network, "data-length": cases[l].length, "data-value": cases[l].accuracy[network] };
      picture.append(
        network ? makeSvg("circle", { cx: px, cy: py, r: size, ...given }) : makeSvg("rect", { x: px - size, y: py - size, width: 2 * size, height: 2 * size, ...given }),
      );
    });
  });
  picture.addEventListener("click", (event) => {
    const box = picture.getBoundingClientRect();
    const clicked = ((event.clientX - box.left) / box.width) * WIDTH;
    choose(cases.reduce((best, one) => (Math.abs(x(one.length) - clicked) < Math.abs(x(best.length) - clicked) ? one : best)));
  });
  return picture;
}

/** The whole matrix: a row for each letter written, a column for each letter read. */
function drawMatrix(seen, step, choose) {
  const [m, n] = [seen.weights.length, seen.read.length];
  const [left, top] = [24, 22];
  const size = Math.min(34, (WIDTH - left - 4) / n, 204 / m);
  const from = left + (WIDTH - left - n * size) / 2;
  const font = Math.min(14, Math.max(9, size * 0.9));
  const j = largest(seen.weights[step - 1]);
  const label =
    `Weights of attention: ${m} rows, the letters written, and ${n} columns, the letters read. Row ${step}, ` +
    `${seen.attentive.wrote[step - 1]}, is marked; its largest weight is ${show(seen.weights[step - 1][j])}, in column ${j + 1}.`;
  const picture = makeSvg("svg", { viewBox: `0 0 ${WIDTH} ${Math.max(226, top + m * size + 6)}`, role: "img", "aria-label": label, class: "bot-matrix" });
  seen.read.forEach((letter, l) => picture.append(makeSvg("text", { x: from + (l + 0.5) * size, y: top - 6, "font-size": font, class: "bot-letter bot-key" }, letter)));
  seen.weights.forEach((row, i) => {
    const y = top + i * size;
    const line = makeSvg("g", { class: "bot-row", onclick: () => choose(i + 1) });
    line.append(makeSvg("text", { x: from - 9, y: y + size / 2 + font * 0.35, "font-size": font, class: "bot-letter bot-query" }, seen.attentive.wrote[i]));
    row.forEach((weight, l) => {
      const { ground } = weightColours(weight);
      line.append(makeSvg("rect", { x: from + l * size, y, width: size, height: size, style: `fill: ${ground}`, "data-row": i, "data-column": l, "data-value": weight }));
    });
    picture.append(line);
  });
  picture.append(
    makeSvg("rect", { x: from, y: top, width: n * size, height: m * size, class: "bot-frame" }),
    makeSvg("rect", { x: from - 1, y: top + (step - 1) * size - 1, width: n * size + 2, height: size + 2, rx: 2, class: "bot-here" }),
  );
  return picture;
}

// ---- The page -----------------------------------------------------------------------------------------------------

let count = 0;
const KEYS = ["cases", "trained_to", "note", "length", "sequence", "step"];

function render({ model, el }) {
  const id = `bottleneck-${++count}`;
  let state;
  let here; // the case of the length that is looked at
  let seen; // its sequence
  const link = connect(model);

  function read() {
    state = Object.fromEntries(KEYS.map((key) => [key, model.get(key)]));
    here = state.cases.find((one) => one.length === state.length) ?? state.cases.at(-1);
    state.sequence = Math.min(Math.max(state.sequence, 1), here.read.length);
    seen = look(here, state.sequence);
    state.step = Math.min(Math.max(state.step, 1), seen.wanted.length);
  }

  function write(changes) {
    link.write(changes);
    read();
    draw();
  }

  const beyond = (one) => state.trained_to !== null && one.length > state.trained_to;
  const inLetters = (one) => `${one.length} ${one.length === 1 ? "letter" : "letters"}`;

  // -- The frame, made once; what is inside is replaced
  const top = make("div", { class: "bw-controls" });
  const note = make("p", { class: "bw-note" });
  const pair = make("div", { class: "bot-pair" });
  const steps = make("div", { class: "bot-steps" });
  const panel = make("div", { class: "bw-panel", role: "status" });
  const charts = make("div", { class: "bot-pair bot-charts" });
  const list = make("ul");
  const table = make("div", { class: "bw-scroll" });
  const root = make(
    "section",
    { class: "bw bot", "aria-label": "The bottleneck, interactive" },
    make("p", { class: "bw-heading" }, "Copy a sequence: through one vector, or with attention"),
    top, note, pair, steps, panel, charts,
    make("details", { class: "bw-words" }, make("summary", {}, "This step in words, and every length as a table"), list, table),
  ); // prettier-ignore
  el.replaceChildren(root);

  let lengthSlider;
  let stepSlider;
  let picker;

  function drawControls() {
    const cases = state.cases;
    lengthSlider = makeSlider({
      id: `${id}-length`, name: "Length", min: 0, max: cases.length - 1, value: cases.indexOf(here),
      write: (k) => inLetters(cases[k]) + (beyond(cases[k]) ? ", not practised" : ""),
      onchange: (k) => write({ length: cases[k].length, step: Math.min(state.step, letters(cases[k].wanted[0]).length) }),
    }); // prettier-ignore
    picker = make("select", { id: `${id}-sequence`, onchange: () => write({ sequence: Number(picker.value) }) });
    top.replaceChildren(lengthSlider.element, make("label", { class: "bw-field", for: picker.id }, make("span", {}, "Sequence"), picker));
  }

  function drawPicker() {
    const offered = here.read.map((text, k) => `${k + 1}: ${letters(text).join("")}`);
    const now = [...picker.options].map((option) => option.textContent);
    if (offered.join() !== now.join()) picker.replaceChildren(...offered.map((text, k) => make("option", { value: k + 1 }, text)));
    picker.value = state.sequence;
  }

  function drawSteps() {
    const most = seen.wanted.length;
    if (stepSlider && Number(stepSlider.input.max) === most) {
      stepSlider.set(state.step);
      return;
    }
    stepSlider = makeSlider({
      id: `${id}-step`, name: "Output step", min: 1, max: most, value: state.step,
      write: (step) => `${step} of ${most}`, onchange: (step) => write({ step }),
    }); // prettier-ignore
    steps.replaceChildren(stepSlider.element);
  }

  function network(name, title, said, text) {
    const { count: right } = seen[name];
    const score = make("b", { class: "bot-score", "data-network": name, "data-value": right }, `${right} of ${seen.wanted.length} right`);
    return make("div", { class: "bot-network-panel" }, make("p", { class: "bot-title" }, make("span", {}, title), score), drawNetwork(seen, state.step, name, said), make("p", { class: "bot-caption" }, text));
  }

  function drawTable() {
    const row = (one) =>
      make("tr", {}, make("th", { scope: "row" }, String(one.length)), ...one.accuracy.map((share) => make("td", {}, show(share)))); // prettier-ignore
    table.replaceChildren(
      make(
        "table",
        { "aria-label": "Share of letters right, by length" },
        make("thead", {}, make("tr", {}, ...["length", ...NAMES].map((name) => make("th", { scope: "col" }, name)))),
        make("tbody", {}, ...state.cases.map(row)),
      ),
    );
  }

  function draw() {
    lengthSlider.set(state.cases.indexOf(here));
    drawPicker();
    drawSteps();
    const said = tell(seen, state.step);
    pair.replaceChildren(
      network("plain", "One vector", said.plain, "Every letter must pass through the same vector, at every step."),
      network("attentive", "Attention", said.attentive, "Every letter stays in reach. Lines are as wide as the weights of this step."),
    );
    panel.replaceChildren(make("p", { class: "bw-title" }, said.wanted), make("p", {}, said.plain, " ", said.attentive));
    const share = here.accuracy.map((one) => show(one));
    charts.replaceChildren(
      make(
        "div", {},
        make("p", { class: "bot-title" }, `Share of letters right, over ${here.total} sequences of each length`),
        make("p", { class: "bot-legend" },
          make("span", { class: "bot-name-1" }, `● attention ${share[1]}`), make("span", { class: "bot-name-0" }, `■ one vector ${share[0]}`), ` at length ${here.length}`),
        drawChart(state.cases, here, state.trained_to, (one) => write({ length: one.length, step: Math.min(state.step, letters(one.wanted[0]).length) })),
      ),
      make(
        "div", {},
        make("p", { class: "bot-title" }, "All weights of attention"),
        make("p", { class: "bot-legend" }, "A row for each letter written, a column for each letter read. ", make("span", { class: "bot-scale", "aria-hidden": "true" }), " 0 to 1"),
        drawMatrix(seen, state.step, (step) => write({ step })),
      ),
    ); // prettier-ignore
    const texts = [
      ["Read", seen.read], ["To be written", seen.wanted], ["One vector wrote", seen.plain.wrote], ["Attention wrote", seen.attentive.wrote],
    ]; // prettier-ignore
    list.replaceChildren(
      ...texts.map(([title, text]) => make("li", {}, `${title}: ${text.join(" ")}`)),
      ...[said.wanted, said.plain, said.attentive, weightsInWords(seen, state.step)].map((line) => make("li", {}, line)),
    );
  }

  function rebuild() {
    read();
    note.textContent = state.note;
    note.hidden = !state.note;
    stepSlider = null;
    drawControls();
    drawTable();
    draw();
  }

  rebuild();
  const stops = [
    link.watch(KEYS.slice(0, 3), rebuild), // the data
    link.watch(KEYS.slice(3), () => (read(), draw())), // what is looked at
  ];
  return () => stops.forEach((stop) => stop());
}

export default { render };
