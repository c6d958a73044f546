/* Attention step by step. The maths comes first, as pure functions of plain arrays; the page comes behind it. */

import { connect, isWhole, make, matmul, minus, named, nextCell, openKeys, parseNumber, show, softmaxRows, symbol, transpose, weightColours } from "./common.js";

export const STEPS = ["x", "projections", "scores", "scaled", "masked", "softmax", "output"];

// ---- The maths ----------------------------------------------------------------------------------------------------

/** Every matrix of the widget, from the numbers that a reader can change. */
export function compute({ numbers, source, scaling, causal, padding }) {
  const fromX = source === "x";
  const q = fromX ? matmul(numbers.x, numbers.w_q) : numbers.q;
  const k = fromX ? matmul(numbers.x, numbers.w_k) : numbers.k;
  const v = fromX ? matmul(numbers.x, numbers.w_v) : numbers.v;
  const kT = transpose(k);
  const raw = matmul(q, kT);
  const factor = scaling ? 1 / Math.sqrt(k[0].length) : 1;
  const scaled = raw.map((row) => row.map((score) => score * factor));
  const open = openKeys(q.length, k.length, causal, padding);
  const masked = scaled.map((row, i) => row.map((score, j) => (open[i][j] ? score : -Infinity)));
  const weights = softmaxRows(masked);
  // Where a projection changes nothing, its numbers still mean the features, and may carry their names.
  const meant = { keys: fromX && isIdentity(numbers.w_k), values: fromX && isIdentity(numbers.w_v) };
  return { ...numbers, q, k, v, kT, raw, scaled, open, masked, weights, output: matmul(weights, v), meant };
}

function isIdentity(matrix) {
  return matrix.every((row, i) => row.length === matrix.length && row.every((value, j) => value === Number(i === j)));
}

/** A number in a matrix. Those that come out of a division have three digits, so that they stand in line. */
function showCell(name, value) {
  const divided = ["scaled", "masked", "weights", "output"].includes(name);
  return divided && Number.isFinite(value) && !isWhole(value) ? minus(value.toFixed(3)) : show(value);
}

// ---- What is said about a cell ------------------------------------------------------------------------------------

const factorText = (value) => (value < 0 ? `(${show(value)})` : show(value));

/** A sum of products, "1 × 2 + 0 × 3", as pieces with the part that each number plays. */
function sumOfProducts(left, right, leftKind, rightKind) {
  return left.flatMap((value, l) => [
    { text: l ? " + " : "" },
    { text: factorText(value), kind: leftKind },
    { text: " × " },
    { text: factorText(right[l]), kind: rightKind },
  ]);
}

/** Which word a row or a column of a matrix stands for. */
export function labels(name, sentence, all) {
  const numbered = (size) => Array.from({ length: size }, (_, j) => String(j + 1));
  const keyFeatures = all.meant.keys ? sentence.features : numbered(all.k[0].length);
  const valueFeatures = all.meant.values ? sentence.features : numbered(all.v[0].length);
  if (name === "x") return [sentence.keys, sentence.features];
  if (name === "w_q" || name === "w_k") return [sentence.features, keyFeatures];
  if (name === "w_v") return [sentence.features, valueFeatures];
  if (name === "q") return [sentence.queries, keyFeatures];
  if (name === "k") return [sentence.keys, keyFeatures];
  if (name === "kT") return [keyFeatures, sentence.keys];
  if (name === "v") return [sentence.values ?? sentence.keys, valueFeatures];
  if (name === "output") return [sentence.queries, valueFeatures];
  return [sentence.queries, sentence.keys];
}

/** The name of a column in a sentence: a feature, or its number. */
const columnName = (label) => (/^\d+$/.test(label) ? `number ${label}` : label);

/** The cells of other matrices that a cell was made from, as [matrix, row, column]. */
export function origins(name, i, j, state, all) {
  const row = (matrix, r) => all[matrix][r].map((_, l) => [matrix, r, l]);
  const column = (matrix, c) => all[matrix].map((_, l) => [matrix, l, c]);
  if ("qkv".includes(name) && state.source === "x") return [...row("x", i), ...column(`w_${name}`, j)];
  if (name === "raw") return [...row("q", i), ...column("kT", j)];
  if (name === "scaled") return [["raw", i, j]];
  if (name === "masked") return [["scaled", i, j]];
  if (name === "weights") return row("masked", i);
  if (name === "output") return [...row("weights", i), ...column("v", j)];
  return [];
}

/** The arithmetic behind a cell: a title, and pieces of text with their kinds. */
export function arithmetic(name, i, j, state, all, sentence) {
  if (name === "kT") return arithmetic("k", j, i, state, all, sentence);
  const [rows, columns] = labels(name, sentence, all);
  const value = all[name][i][j];
  const result = [{ text: " = " }, { text: show(value), kind: "result" }];
  const given = [{ text: show(value), kind: "result" }, { text: ": given. Type another number to change it." }];
  if (name === "x") return { title: `x of “${rows[i]}”, ${columnName(columns[j])}`, parts: given };
  if (name.startsWith("w_")) {
    const of = { w_q: "query", w_k: "key", w_v: "value" }[name];
    return { title: `How much ${columnName(rows[i])} of a word counts for ${columnName(columns[j])} of its ${of}`, parts: given };
  }
  if ("qkv".includes(name)) {
    const kind = { q: "query", k: "key", v: "value" }[name];
    const title = `${kind} of “${rows[i]}”, ${columnName(columns[j])}`;
    if (state.source !== "x") return { title, parts: given };
    const column = all[`w_${name}`].map((row) => row[j]);
    return { title, parts: [...sumOfProducts(all.x[i], column, "x", kind), ...result] };
  }
  const query = rows[i];
  const key = columns[j];
  if (name === "raw") {
    return {
      title: `Raw score of query “${query}” with key “${key}”`,
      parts: [...sumOfProducts(all.q[i], all.k[j], "query", "key"), ...result],
    };
  }
  const title = `Score of query “${query}” with key “${key}”`;
  if (name === "scaled") {
    const d = all.k[0].length;
    const root = { text: ` ÷ √${d} = ${show(all.raw[i][j])} ÷ ${show(Math.sqrt(d))}` };
    const parts = state.scaling
      ? [{ text: show(all.raw[i][j]) }, root, ...result]
      : [{ text: show(value), kind: "result" }, { text: ": scaling is switched off, so the raw score stays." }];
    return { title, parts };
  }
  if (name === "masked") {
    if (all.open[i][j]) {
      return { title, parts: [{ text: show(value), kind: "result" }, { text: ": this key is open, the score stays." }] };
    }
    const why = state.padding.includes(j) ? `“${key}” is padding` : `“${key}” comes after “${query}”`;
    return { title, parts: [{ text: `${show(all.scaled[i][j])} becomes ` }, { text: "−∞", kind: "result" }, { text: `: ${why}.` }] };
  }
  if (name === "weights") {
    const about = `Weight of query “${query}” on key “${key}”`;
    if (!all.open[i].includes(true)) {
      return { title: about, parts: [{ text: "No key is open to this query, so all its weights are " }, { text: "0", kind: "result" }, { text: "." }] };
    }
    const scores = all.masked[i];
    const largest = Math.max(...scores.filter(Number.isFinite));
    const shift = Math.abs(largest) > 20 ? largest : 0; // e to large powers: subtract the largest score first
    const powers = scores.map((score) => Math.exp(score - shift));
    const power = (score) => [{ text: "e" }, { text: show(score - shift), sup: true }];
    const sum = powers.reduce((a, b) => a + b, 0);
    return {
      title: about + (shift ? ` (${show(shift)} taken from every score of the row, which changes no weight)` : ""),
      parts: [
        ...power(scores[j]), { text: " ÷ (" },
        ...scores.flatMap((score, l) => [{ text: l ? " + " : "" }, ...power(score)]),
        { text: `) = ${show(powers[j])} ÷ ${show(sum)}` }, ...result,
      ], // prettier-ignore
    };
  }
  return {
    title: `Output of “${query}”, ${columnName(key)}`,
    parts: [...sumOfProducts(all.weights[i], all.v.map((row) => row[j]), "weight", "value"), ...result],
  };
}

// ---- Prediction ---------------------------------------------------------------------------------------------------

const near = (a, b) => Math.abs(a - b) < 1e-9;
const distance = (a, b) => Math.hypot(...a.map((x, l) => x - b[l]));
const length = (row) => Math.hypot(...row);
const quoted = (words) => words.map((word) => `“${word}”`).join(", ");

/** The options of which a measure is largest are right. */
function choose(words, measures) {
  const best = Math.max(...measures);
  return named(words).map((label, j) => ({ label, right: near(measures[j], best) }));
}

/** The question of a step: its text, options that are right or wrong, and what is said afterwards. */
export function question(step, state, all, sentence) {
  const i = Math.min(sentence.focus, all.q.length - 1);
  const word = named(sentence.queries)[i];
  const keys = sentence.keys;
  const d = all.k[0].length;
  if (step === "projections" && state.source === "x") {
    return {
      text: "Which word asks most strongly? (Its query is the longest.)",
      options: choose(sentence.queries, all.q.map(length)),
      why: "A query is a row of X times W_Q: large features that meet large entries of W_Q make it long.",
    };
  }
  if (step === "scores") {
    return {
      text: `Which key matches the query of “${word}” best?`,
      options: choose(keys, all.raw[i]),
      why: `The row of “${word}”: ${all.raw[i].map((s) => show(s)).join(", ")}. The largest dot product matches best.`,
    };
  }
  if (step === "scaled") {
    return {
      text: state.scaling ? `All scores are divided by √${d}. Can that change which key is best?` : "Scaling is off. What happens to the scores?",
      options: state.scaling
        ? [{ label: "yes", right: false }, { label: "no", right: true }]
        : [{ label: "they stay", right: true }, { label: "they shrink", right: false }],
      why: state.scaling ? "Every score shrinks by the same factor, so their order stays. Their differences shrink, and so the weights get flatter." : "Without scaling the softmax gets the raw scores.",
    };
  }
  if (step === "masked") {
    const open = all.open[i].filter(Boolean).length;
    return {
      text: `How many of the ${keys.length} keys may “${word}” see?`,
      options: Array.from({ length: keys.length + 1 }, (_, c) => ({ label: String(c), right: c === open })),
      why: open === keys.length ? "No mask closes a key to it." : `Open to it: ${open ? quoted(keys.filter((_, j) => all.open[i][j])) : "none"}.`,
    };
  }
  if (step === "softmax") {
    const best = all.weights[i].indexOf(Math.max(...all.weights[i]));
    const weight = all.weights[i][best];
    const edges = [0, 0.25, 0.5, 0.75, 1];
    return {
      text: `How much of its weight will “${word}” put on “${named(keys)[best]}”?`,
      options: edges.slice(1).map((edge, c) => ({
        label: ["less than 0.25", "0.25 to 0.5", "0.5 to 0.75", "more than 0.75"][c],
        right: weight >= edges[c] - 1e-9 && weight <= edge + 1e-9,
      })),
      why: `It is ${show(weight)}. The softmax turns a lead of 1 in the score into a weight 2.718 times as large.`,
    };
  }
  if (step === "output") {
    return {
      text: `Whose value will the output of “${word}” be nearest to?`,
      options: choose(keys, all.v.map((row) => -distance(row, all.output[i]))),
      why: "The output is an average of the values, drawn towards those with large weights.",
    };
  }
  return null;
}

// ---- The steps ----------------------------------------------------------------------------------------------------

const NAMES = {
  x: ["X", "input", "x"],
  w_q: ["W_Q", "makes queries", "query"],
  w_k: ["W_K", "makes keys", "key"],
  w_v: ["W_V", "makes values", "value"],
  q: ["Q", "queries", "query"],
  k: ["K", "keys", "key"],
  kT: ["Kᵀ", "keys, on their side", "key"],
  v: ["V", "values", "value"],
  raw: ["Q Kᵀ", "raw scores", "score"],
  scaled: ["S", "scores", "score"],
  masked: ["S", "masked scores", "score"],
  weights: ["A", "weights", "weight"],
  output: ["O", "output", "value"],
};

/** A step's tab, title, sentence and matrices; a text between matrices is a sign, and `results` are what it makes. */
function layout(step, state, all) {
  const d = all.k[0].length;
  const anyMask = all.open.some((row) => row.includes(false));
  switch (step) {
    case "x":
      return {
        tab: "X", title: "The input", results: [], groups: [["x"]],
        text: "Each word is a row of numbers, its features. Everything below is made from them. Change any number.",
      };
    case "projections":
      return state.source === "x"
        ? {
            tab: "Q, K, V", title: "Three projections", results: ["q", "k", "v"],
            groups: [["x"], ["×", "w_q", "=", "q"], ["×", "w_k", "=", "k"], ["×", "w_v", "=", "v"]],
            text: "Three learned matrices turn each word into a query (what it looks for), a key (what it offers) and a value (what it hands over).",
          }
        : {
            tab: "Q, K, V", title: "Queries, keys and values", results: [], groups: [["q"], ["k"], ["v"]],
            text: "A query says what is looked for, a key what is offered, a value what is handed over. Change any number.",
          };
    case "scores":
      return {
        tab: "Scores", title: "Scores: how well does a key match a query?", results: ["raw"],
        groups: [["q", "×", "kT"], ["=", "raw"]],
        text: "Each score is the dot product of one query and one key.",
      };
    case "scaled":
      return {
        tab: "Scale", title: state.scaling ? `Divide by √${d}` : "No scaling", results: ["scaled"],
        groups: [["raw", state.scaling ? `÷ √${d} =` : "→"], ["scaled"]],
        text: state.scaling
          ? `Queries and keys have d_k = ${d} numbers. Dividing by its square root keeps scores moderate, however many numbers there are.`
          : "Scaling is switched off: the raw scores go on as they are.",
      };
    case "masked":
      return {
        tab: "Mask", title: "Close some keys", results: ["masked"], groups: [["scaled", "→"], ["masked"]],
        text: anyMask
          ? "A closed key gets the score −∞, and so the weight 0."
          : state.causal && all.q.length === 1
            ? "The causal mask closes nothing here: a single query is the newest position, and sees every key."
            : "No mask is on, so nothing changes. Switch on the causal mask or the padding mask.",
      };
    case "softmax":
      return {
        tab: "Softmax", title: "Softmax: from scores to weights", results: ["weights"], groups: [["masked", "→"], ["weights"]],
        text: all.open.every((row) => row.includes(true))
          ? "In each row, take e to the power of every score and divide by the row’s sum. No weight is negative, and each row sums to 1."
          : "In each row, take e to the power of every score and divide by the row’s sum. A row without an open key gets weights of 0; every other row sums to 1.",
      };
    default:
      return {
        tab: "Output", title: "Output: a weighted average of the values", results: ["output"],
        groups: [["weights", "×", "v"], ["=", "output"]],
        text: "Each row of weights says how much of every value goes into that row’s output.",
      };
  }
}

/** The result of a step in words, row by row. */
export function describe(step, state, all, sentence) {
  const { results, groups } = layout(step, state, all);
  const matrices = results.length ? results : groups.flat().filter((part) => part in NAMES);
  return matrices.flatMap((name) => {
    const [rows, columns] = labels(name, sentence, all);
    const verb = name === "weights" ? " looks at " : ": ";
    const opening = name === "weights" ? "" : `${NAMES[name][1]}, `;
    return all[name].map((row, i) => {
      const cells = row.map((value, j) => {
        const text = value === -Infinity ? "closed" : showCell(name, value);
        return /^\d+$/.test(columns[j]) ? text : `${columns[j]} ${text}`;
      });
      return `${opening}${rows[i]}${verb}${cells.join(", ")}`;
    });
  });
}

// ---- The page -----------------------------------------------------------------------------------------------------

let count = 0;
const KEYS = ["sentence", "source", "numbers", "step", "scaling", "causal", "padding", "predict"];

function render({ model, el }) {
  const id = `attention-steps-${++count}`;
  const root = make("section", { class: "bw ats", "aria-label": "Attention step by step, interactive" });
  el.replaceChildren(root);

  let state;
  let all;
  let grids = {}; // matrix name -> rows of cells on the page
  let heads = {}; // matrix name -> the heads of its rows and of its columns
  let revealed = false; // whether the prediction of this step was made
  let active = null; // the cell that the arithmetic is about: [name, i, j]
  const link = connect(model);

  const sentenceNow = () => model.get("sentences").find((one) => one.name === state.sentence) ?? model.get("sentences")[0];
  const steps = () => (state.source === "x" ? STEPS : STEPS.slice(1));

  function read() {
    state = Object.fromEntries(KEYS.map((key) => [key, model.get(key)]));
    if (!steps().includes(state.step)) state.step = steps()[0];
    all = compute(state);
  }

  function write(changes) {
    link.write(changes);
    read();
  }

  // The frame, made once; what is inside is replaced.
  const controls = make("div", { class: "bw-controls" });
  const note = make("p", { class: "bw-note" });
  const nav = make("div", { class: "ats-steps", role: "group", "aria-label": "Steps" });
  const stage = make("div", { class: "ats-stage" });
  const panel = make("div", { class: "bw-panel", role: "status" });
  const words = make("ul");
  const inWords = make("details", { class: "bw-words" }, make("summary", {}, "This step in words"), words);
  const heading = make("p", { class: "bw-heading" }, "Attention, step by step");
  root.append(heading, controls, note, nav, stage, panel, inWords);

  // -- Controls

  function toggle(label, key, on, change) {
    const box = make("input", { type: "checkbox", id: `${id}-${key}`, checked: on, onchange: () => change(box.checked) });
    return make("label", { class: "bw-toggle", for: box.id }, box, make("span", {}, ...label));
  }

  function drawControls() {
    const held = document.activeElement?.id;
    const sentence = sentenceNow();
    const picker = make(
      "select",
      { id: `${id}-sentence`, onchange: () => pick(picker.value) },
      ...model.get("sentences").map((one) => make("option", { value: one.name, selected: one.name === state.sentence }, one.name)),
    );
    const source = make(
      "select",
      { id: `${id}-source`, onchange: () => changeSource(source.value) },
      ...(sentence.x ? [make("option", { value: "x", selected: state.source === "x" }, "X and the projections")] : []),
      make("option", { value: "qkv", selected: state.source === "qkv" }, "Q, K and V directly"),
    );
    const padded = make("fieldset", { class: "ats-padding", hidden: !state.padding.length });
    padded.append(
      make("legend", {}, "Which keys are padding?"),
      ...named(sentence.keys).map((word, j) =>
        toggle([word], `padding-${j}`, state.padding.includes(j), (on) => {
          const others = state.padding.filter((p) => p !== j);
          write({ padding: on ? [...others, j].sort((a, b) => a - b) : others });
          rebuild();
        }),
      ),
    );
    controls.replaceChildren(
      make("label", { class: "bw-field", for: picker.id }, make("span", {}, "Example"), picker),
      make("label", { class: "bw-field", for: source.id }, make("span", {}, "Change"), source),
      make(
        "div",
        { class: "bw-toggles", role: "group", "aria-label": "Switches" },
        toggle(["Divide by √d", make("sub", {}, "k")], "scaling", state.scaling, (on) => (write({ scaling: on }), rebuild())),
        toggle(["Causal mask"], "causal", state.causal, (on) => (write({ causal: on }), rebuild())),
        toggle(["Padding mask"], "padding", state.padding.length > 0, (on) => {
          write({ padding: on ? [sentence.keys.length - 1] : [] });
          rebuild();
        }),
        toggle(["Predict first"], "predict", state.predict, (on) => (write({ predict: on }), rebuild())),
      ),
      padded,
    );
    note.textContent = sentence.note;
    refocus(held);
  }

  /** Give the focus back to the control of the same id, after it was drawn anew. */
  function refocus(held) {
    if (held && held.startsWith(`${id}-`) && document.activeElement?.id !== held) {
      const again = root.querySelector(`[id="${held}"]:not(:disabled)`) ?? nav.querySelector("[aria-current]");
      again?.focus({ preventScroll: true });
    }
  }

  function pick(name) {
    const sentence = model.get("sentences").find((one) => one.name === name);
    const numbers = {};
    for (const key of ["x", "w_q", "w_k", "w_v", "q", "k", "v"]) {
      if (sentence[key]) numbers[key] = sentence[key].map((row) => [...row]);
    }
    const source = sentence.x ? "x" : "qkv";
    const padding = name === state.sentence ? state.padding : [];
    const step = source === "qkv" && state.step === "x" ? "projections" : state.step;
    write({ sentence: name, numbers, source, padding, step });
    rebuild();
  }

  function changeSource(source) {
    const numbers = { ...state.numbers };
    if (source === "qkv") for (const key of ["q", "k", "v"]) numbers[key] = all[key].map((row) => [...row]);
    const step = source === "qkv" && state.step === "x" ? "projections" : state.step;
    write({ source, numbers, step });
    rebuild();
  }

  // -- Steps

  function go(step) {
    write({ step });
    rebuild();
  }

  /** Go on with the buttons at the foot of a step: they may lie far below the head of the next one. */
  function walk(step) {
    go(step);
    if (nav.getBoundingClientRect().top < 0) nav.scrollIntoView({ block: "start" });
  }

  function drawSteps() {
    const held = document.activeElement?.id;
    const names = steps();
    const here = names.indexOf(state.step);
    nav.replaceChildren(
      make(
        "ol",
        {},
        ...names.map((name, i) =>
          make(
            "li",
            {},
            make(
              "button",
              { type: "button", id: `${id}-step-${name}`, "aria-current": i === here ? "step" : null, onclick: () => go(name) },
              make("span", { class: "ats-number" }, String(i + 1)), " ",
              layout(name, state, all).tab,
            ), // prettier-ignore
          ),
        ),
      ),
    );
    refocus(held);
  }

  // -- Matrices

  function editable(name) {
    if (state.source === "x") return name === "x" ? true : name.startsWith("w_") && state.step === "projections";
    return "qkv".includes(name);
  }

  function setNumber(name, i, j, value) {
    const matrix = state.numbers[name].map((row) => [...row]);
    matrix[i][j] = value;
    write({ numbers: { ...state.numbers, [name]: matrix } });
    revealed = false;
    drawQuestion();
    update();
    tell(name, i, j);
  }

  function matrix(name) {
    const sentence = sentenceNow();
    const [rowNames, columnNames] = labels(name, sentence, all);
    const [title, given, kind] = NAMES[name];
    const anyMask = all.open.some((row) => row.includes(false));
    const meaning = name === "masked" && !anyMask && state.step === "softmax" ? "scores" : given;
    const values = all[name];
    const shape = `${values.length} × ${values[0].length}`;
    const kinds = { rows: name === "kT" || name.startsWith("w_") ? "" : "query", columns: "" };
    if (name === "k") kinds.rows = "key";
    if (name === "v") kinds.rows = "value";
    if (name === "x") kinds.rows = "";
    if (["kT", "raw", "scaled", "masked", "weights"].includes(name)) kinds.columns = "key";
    const label = `${title.replace("_", " ")}, ${meaning}, ${values.length} rows and ${values[0].length} columns`;
    const grid = make("table", { role: "grid", "aria-label": label });
    const withSum = name === "weights";
    heads[name] = {
      rows: rowNames.map(() => make("th", { scope: "row", class: kinds.rows })),
      columns: columnNames.map(() => make("th", { scope: "col", class: kinds.columns })),
    };
    grid.append(
      make(
        "thead",
        {},
        make(
          "tr",
          {},
          make("td", { class: "ats-corner" }),
          ...heads[name].columns,
          withSum ? make("th", { scope: "col", class: "bw-sum" }, "sum") : null,
        ),
      ),
    );
    const body = make("tbody");
    grids[name] = values.map((row, i) => {
      const line = make("tr", {}, heads[name].rows[i]);
      const cells = row.map((_, j) => {
        const first = i === 0 && j === 0;
        const cell = make("td", { class: `bw-cell ${kind}`, "data-matrix": name, "data-row": i, "data-column": j });
        if (editable(name)) {
          const input = make("input", {
            type: "text", autocomplete: "off", spellcheck: "false", tabindex: first ? 0 : -1,
            oninput: () => {
              const value = parseNumber(input.value);
              if (Number.isNaN(value)) input.setAttribute("aria-invalid", "true");
              else {
                input.removeAttribute("aria-invalid");
                setNumber(name, i, j, value);
              }
              if (Number.isNaN(value)) say("Type a number", [{ text: "from −1000 to 1000, such as 2 or −0.5. Until then the last number counts." }]);
            },
            onblur: () => {
              input.removeAttribute("aria-invalid");
              update();
            },
          }); // prettier-ignore
          input.addEventListener("focus", () => input.select());
          cell.append(input);
        } else {
          cell.tabIndex = first ? 0 : -1;
        }
        cell.addEventListener("pointerenter", (event) => event.pointerType !== "touch" && tell(name, i, j));
        cell.addEventListener("pointerdown", () => !editable(name) && cell.focus({ preventScroll: true }));
        cell.addEventListener("focusin", () => {
          rove(name, i, j);
          tell(name, i, j);
        });
        cell.addEventListener("keydown", (event) => move(event, name, i, j));
        line.append(cell);
        return cell;
      });
      if (withSum) line.append(make("td", { class: "bw-sum", "data-sum": i }));
      body.append(line);
      return cells;
    });
    grid.append(body);
    return make(
      "div",
      { class: `ats-matrix ${kind}` },
      make("div", { class: "bw-caption" }, make("b", {}, ...symbol(title)), ` ${meaning} `, make("span", { class: "bw-shape" }, shape)),
      make("div", { class: "bw-scroll" }, grid),
    );
  }

  const target = (cell) => cell.querySelector("input") ?? cell;

  function rove(name, i, j) {
    for (const [r, row] of grids[name].entries()) for (const [c, cell] of row.entries()) target(cell).tabIndex = r === i && c === j ? 0 : -1;
  }

  /** Arrow keys, Home and End go from cell to cell; inside a number, left and right first go through its digits. */
  function move(event, name, i, j) {
    const rows = grids[name];
    const input = event.target.tagName === "INPUT" ? event.target : null;
    const everything = input && input.selectionStart === 0 && input.selectionEnd === input.value.length;
    const atStart = !input || everything || input.selectionEnd === 0;
    const atEnd = !input || everything || input.selectionStart === input.value.length;
    if ((event.key === "ArrowLeft" && !atStart) || (event.key === "ArrowRight" && !atEnd)) return;
    if (input && ["Home", "End"].includes(event.key)) return;
    const key = event.key === "Enter" && input ? "ArrowDown" : event.key;
    if (!["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End"].includes(key)) return;
    event.stopPropagation(); // a notebook or a page has uses of its own for these keys
    event.preventDefault();
    const next = nextCell(key, i, j, rows.length, rows[0].length);
    if (next) target(rows[next[0]][next[1]]).focus();
  }

  function hidden(name) {
    return state.predict && !revealed && layout(state.step, state, all).results.includes(name) && questionNow() !== null;
  }

  /** Write the numbers into the cells that are there. */
  function update() {
    for (const [name, rows] of Object.entries(grids)) {
      const covered = hidden(name);
      const [rowNames, columnNames] = labels(name, sentenceNow(), all);
      heads[name].rows.forEach((head, i) => (head.textContent = rowNames[i]));
      heads[name].columns.forEach((head, j) => (head.textContent = columnNames[j]));
      rows.forEach((row, i) =>
        row.forEach((cell, j) => {
          const value = all[name][i][j];
          const input = cell.querySelector("input");
          const place = `${rowNames[i]}, ${columnNames[j]}`;
          cell.dataset.value = covered ? "" : String(value);
          if (input) {
            input.setAttribute("aria-label", `${NAMES[name][0].replace("_", " ")}, ${place}`);
            if (input !== root.getRootNode().activeElement) input.value = minus(String(Number(value.toFixed(6))));
            return;
          }
          const text = covered ? "?" : showCell(name, value);
          cell.textContent = text;
          cell.setAttribute("aria-label", `${place}: ${covered ? "hidden until you predict" : text}`);
          cell.classList.toggle("ats-covered", covered);
          cell.classList.toggle("bw-closed", !covered && ["masked", "weights"].includes(name) && !all.open[i][j]);
          if (name === "weights") {
            const { ground, ink } = weightColours(value);
            cell.style.background = covered || !all.open[i][j] ? "" : ground;
            cell.style.color = covered || !all.open[i][j] ? "" : ink;
          }
        }),
      );
      if (name === "weights") {
        for (const cell of root.querySelectorAll("[data-sum]")) {
          cell.textContent = covered ? "?" : show(all.weights[cell.dataset.sum].reduce((a, b) => a + b, 0));
        }
      }
    }
    const covered = layout(state.step, state, all).results.some(hidden);
    words.replaceChildren(
      ...(covered ? ["Hidden until you predict."] : describe(state.step, state, all, sentenceNow())).map((line) => make("li", {}, line)),
    );
  }

  // -- The arithmetic

  function say(title, parts) {
    panel.replaceChildren(
      make("p", { class: "bw-title" }, title),
      make("p", { class: "bw-sums" }, ...parts.map((part) => make(part.sup ? "sup" : "span", { class: part.kind ?? null }, part.text))),
    );
  }

  function tell(name, i, j) {
    active = [name, i, j];
    for (const cell of root.querySelectorAll(".ats-on, .ats-from")) cell.classList.remove("ats-on", "ats-from");
    grids[name][i][j].classList.add("ats-on");
    if (hidden(name)) {
      say("Predict first", [{ text: "Answer the question above, then look how this number was made." }]);
      return;
    }
    for (const [from, r, c] of origins(name, i, j, state, all)) grids[from]?.[r]?.[c]?.classList.add("ats-from");
    const { title, parts } = arithmetic(name, i, j, state, all, sentenceNow());
    say(title, parts);
  }

  function invite() {
    active = null;
    say("How was a number made?", [{ text: "Point at any cell, tap it, or walk to it with Tab and the arrow keys." }]);
  }

  // -- Predictions

  const asked = make("div", { class: "bw-question" });
  const questionNow = () => question(state.step, state, all, sentenceNow());

  function drawQuestion() {
    const now = state.predict ? questionNow() : null;
    asked.hidden = now === null;
    if (now === null) {
      asked.replaceChildren();
      return;
    }
    if (revealed) return; // the answer stands there
    const answer = (option) => {
      revealed = true;
      const rights = now.options.filter((one) => one.right).map((one) => one.label);
      const verdict = option === null ? "The answer: " : option.right ? "Yes: " : "Not quite. It is ";
      const listed = option?.right ? option.label : rights.length === now.options.length ? "all of them alike" : rights.join(" or ");
      const reply = make("p", { class: option?.right ? "bw-right" : "bw-wrong", tabindex: -1 }, make("b", {}, `${verdict}${listed}.`), ` ${now.why}`);
      asked.replaceChildren(make("p", { class: "bw-asked" }, now.text), reply);
      reply.focus({ preventScroll: true });
      update();
      invite();
    };
    asked.replaceChildren(
      make("p", { class: "bw-asked", id: `${id}-asked` }, make("b", {}, "Predict first. "), now.text),
      make(
        "div",
        { class: "bw-options", role: "group", "aria-labelledby": `${id}-asked` },
        ...now.options.map((option) => make("button", { type: "button", class: "bw-button", onclick: () => answer(option) }, option.label)),
        make("button", { type: "button", class: "bw-button bw-plain", onclick: () => answer(null) }, "Show me"),
      ),
    );
  }

  // -- Putting it together

  function drawStage() {
    const held = document.activeElement?.id;
    const { title, text, groups } = layout(state.step, state, all);
    grids = {};
    heads = {};
    const part = (one) => (one in NAMES ? matrix(one) : make("span", { class: "ats-sign" }, one));
    const names = steps();
    const here = names.indexOf(state.step);
    stage.replaceChildren(
      make("p", { class: "ats-step-title" }, title),
      make("p", { class: "bw-text" }, text),
      asked,
      make("div", { class: `ats-chain ats-${state.step} ats-from-${state.source}` }, ...groups.map((group) => make("div", { class: "ats-group" }, ...group.map(part)))),
      make(
        "div",
        { class: "ats-walk" },
        make("button", { type: "button", class: "bw-button ats-reset", id: `${id}-reset`, onclick: () => pick(state.sentence) }, "Reset numbers"),
        make("button", { type: "button", class: "bw-button", id: `${id}-back`, disabled: here === 0, onclick: () => walk(names[here - 1]) }, "← Back"),
        make("button", { type: "button", class: "bw-button bw-main", id: `${id}-next`, disabled: here === names.length - 1, onclick: () => walk(names[here + 1]) }, "Next step →"),
      ),
    );
    refocus(held);
  }

  function rebuild() {
    revealed = false;
    drawControls();
    drawSteps();
    drawStage();
    drawQuestion();
    update();
    invite();
  }

  function redraw() {
    read();
    rebuild();
  }
  redraw();
  return link.watch([...KEYS, "sentences"], redraw);
}

export default { render };
