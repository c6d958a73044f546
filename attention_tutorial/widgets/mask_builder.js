/* Mask builder. The maths comes first, as pure functions of plain arrays; the page comes after it. */

import { connect, make, makeSlider, minus, named, nextCell, parseNumber, show, softmaxRows, weightColours } from "./common.js";

/** The masks that have a name. */
export const MASKS = {
  open: "no mask",
  causal: "causal",
  one_too_far: "one too far",
  without_self: "without itself",
  upper_left: "causal, upper left",
  padding: "padding",
  both_tokens: "both tokens",
  causal_and_padding: "causal AND padding",
  causal_or_padding: "causal OR padding",
  window: "sliding window",
  block: "one block a text",
  block_and_causal: "block AND causal",
  prefix: "prefix",
};

const MOST = 8; // queries or keys
const FOR_PADDING = ["padding", "both_tokens", "causal_and_padding", "causal_or_padding"];
const table = (m, n, cell) => Array.from({ length: m }, (_, i) => Array.from({ length: n }, (_, j) => cell(i, j)));

// ---- The maths ----------------------------------------------------------------------------------------------------

/** A mask by its name, true = may attend. In self-attention the queries are the newest m of the n positions. */
export function makeMask(name, { m, n, padding, window, first }) {
  const real = (j) => !padding.includes(j);
  const second = (position) => position >= first;
  return table(m, n, (i, j) => {
    const place = i + n - m;
    const causal = j <= place;
    const rules = {
      open: true,
      causal,
      one_too_far: j <= place + 1,
      without_self: j < place,
      upper_left: j <= i,
      padding: real(j),
      both_tokens: real(place) && real(j),
      causal_and_padding: causal && real(j),
      causal_or_padding: causal || real(j),
      window: causal && j > place - window,
      block: second(place) === second(j),
      block_and_causal: causal && second(place) === second(j),
      prefix: causal || !second(j),
    };
    return rules[name];
  });
}

/** Whether somebody reads the output of each query: not where the query itself is padding. */
export function rowsRead(task, { m, n, padding }) {
  return Array.from({ length: m }, (_, i) => task === "translate" || !padding.includes(i + n - m));
}

/** Why the task forbids a key to a query: "next", "later", "padding", "text", or null where it may look. */
export function forbidden(task, { m, n, padding, first }) {
  const read = rowsRead(task, { m, n, padding });
  return table(m, n, (i, j) => {
    const place = i + n - m;
    if (!read[i]) return null;
    if (padding.includes(j)) return "padding";
    if ((task === "write" || (task === "answer" && j >= first)) && j > place) return j === place + 1 ? "next" : "later";
    if (task === "pack" && place >= first !== j >= first) return "text";
    return null;
  });
}

/** Softmax over the open keys of each row. `empty` says what a row without one gets: "zeros", "nan" or "sentinel". */
export function weightsOf(scores, open, empty) {
  const closed = empty === "sentinel" ? -1e9 : -Infinity;
  const weights = softmaxRows(scores.map((row, i) => row.map((score, j) => (open[i][j] ? score : closed))));
  return weights.map((row, i) => (empty === "nan" && !open[i].includes(true) ? row.map(() => NaN) : row));
}

/** Everything that the widget shows, from its state. */
export function audit(state) {
  const open = state.cells.map((row) => [...row].map((cell) => cell === "1"));
  const m = open.length;
  const n = open[0].length;
  const sizes = { m, n, padding: state.padding, window: state.window, first: state.first };
  const scores = table(m, n, (i, j) => state.scores[i][j]);
  const weights = weightsOf(scores, open, state.empty);
  const emptyRows = open.map((row) => !row.includes(true));
  const read = rowsRead(state.task, sizes);
  const why = forbidden(state.task, sizes);
  const leaks = table(m, n, (i, j) => why[i][j] !== null && (open[i][j] || (emptyRows[i] && state.empty === "sentinel")));
  const hidden = table(m, n, (i, j) => !open[i][j] && read[i] && why[i][j] === null);
  const leaked = weights.map((row, i) => row.reduce((sum, weight, j) => (leaks[i][j] ? sum + weight : sum), 0));
  return { ...sizes, open, scores, weights, emptyRows, read, why, leaks, hidden, leaked, spread: spread(weights, state.task, m, n) };
}

/** Where NaN in the weights gets to. The second layer is self-attention under the same mask; else there is none. */
function spread(weights, task, m, n) {
  const lost = weights.map((row) => row.some(Number.isNaN));
  const any = lost.includes(true);
  const again = task !== "translate" && m === n;
  return { weights: lost, output: lost, second: again ? lost.map(() => any) : null, gradients: weights[0].map(() => any) };
}

const cellsOf = (open) => open.map((row) => row.map((on) => (on ? "1" : "0")).join(""));

/** The name of the mask that has these cells, among those that the task offers; else "hand". */
export function recognise(cells, offered, sizes) {
  const wanted = cells.join(" ");
  return offered.find((name) => cellsOf(makeMask(name, sizes)).join(" ") === wanted) ?? "hand";
}

// ---- The mask as code ---------------------------------------------------------------------------------------------

const rowsOfCode = (rows) => rows.map((row) => `    [${row.join(", ")}],`).join("\n");

/** The package's calls that make the mask `name`. */
function calls(name, { m, n, padding, window, first }) {
  const sizes = m === n ? `${n}` : `${m}, ${n}`;
  const words = n - padding.length;
  const atTheEnd = padding.every((position) => position >= words);
  const flags = Array.from({ length: n }, (_, j) => (padding.includes(j) ? 0 : 1));
  const real = atTheEnd ? `padding_mask([${words}], n=${n})` : `padding_mask([[${flags.join(", ")}]], pad_id=0)`;
  const ones = `torch.ones(${m}, ${n}, dtype=torch.bool)`;
  const second = Array.from({ length: n }, (_, j) => Number(j >= first));
  const text = `text = torch.tensor([${second.join(", ")}])\n`;
  const block = "text[:, None] == text[None, :]";
  return {
    open: "mask = None  # every query may see every key",
    causal: `mask = causal_mask(${sizes})`,
    one_too_far: `mask = ${ones}.tril(${n - m + 1})  # causal_mask has ${n - m}`,
    without_self: `mask = ${ones}.tril(${n - m - 1})  # causal_mask has ${n - m}`,
    upper_left: `mask = ${ones}.tril()  # as torch's is_causal=True`,
    padding: `mask = ${real}  # (1, 1, 1, ${n})`,
    both_tokens: `real = ${real}\nmask = real & real.mT  # (1, 1, ${n}, ${n})`,
    causal_and_padding: `mask = combine_masks(\n    causal_mask(${sizes}),\n    ${real},\n)  # AND`,
    causal_or_padding: `mask = (\n    causal_mask(${sizes})\n    | ${real}\n)  # OR`,
    window: `mask = combine_masks(\n    causal_mask(${sizes}),\n    ${ones}.triu(${n - m - window + 1}),\n)`,
    block: `${text}mask = ${block}`,
    block_and_causal: `${text}mask = combine_masks(\n    causal_mask(${sizes}),\n    ${block},\n)`,
    prefix: `mask = causal_mask(${sizes}) | (torch.arange(${n}) < ${first})`,
  }[name];
}

/** The mask as Python, in one of four forms. */
export function codeOf({ preset, form }, all) {
  const bits = (on) => rowsOfCode(all.open.map((row) => row.map((cell) => Number(cell === on))));
  const bool = `mask = torch.tensor([\n${bits(true)}\n], dtype=torch.bool)  # True = may attend`;
  if (form === "module") {
    const last = "output, weights = module(query, key, value, attn_mask=closed)";
    return `closed = torch.tensor([\n${bits(false)}\n], dtype=torch.bool)  # True = closed\n# the same as to_torch_mha_mask(mask)\n${last}`;
  }
  if (form === "float") {
    const added = rowsOfCode(all.open.map((row) => row.map((on) => (on ? "0" : "-inf"))));
    const last = "output = F.scaled_dot_product_attention(\n    query, key, value, attn_mask=added\n)";
    return `from math import inf\nadded = torch.tensor([\n${added}\n], dtype=query.dtype)  # added to the scores\n${last}`;
  }
  if (form === "bool") return `${bool}\noutput = F.scaled_dot_product_attention(\n    query, key, value, attn_mask=mask\n)`;
  const made = preset === "hand" ? bool : calls(preset, all);
  return `${made}\noutput, weights = scaled_dot_product_attention(\n    query, key, value, mask\n)`;
}

// ---- What is said -------------------------------------------------------------------------------------------------

const REASONS = {
  next: "the word it has to predict",
  later: "a word that comes later",
  padding: "padding, which is no word",
  text: "a word of the other text",
};
const TOO_EARLY = "The loss in training gets wonderful. But when the model has to write, these words are not there yet.";
const HARM = {
  next: TOO_EARLY,
  later: TOO_EARLY,
  padding: "Nobody said these words, and yet they change what the model makes of the sentence.",
  text: "So one text changes what the model makes of the other.",
};
const short = (weight) => (weight === 0 || weight === 1 ? String(weight) : weight.toFixed(2));
const quoted = (words) => words.map((word) => `“${word}”`).join(", ");
const some = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;

/** The words at the rows and columns, as they stand there and (`query`, `key`) as sentences name them. */
export function labels(offer, { m, n, padding }) {
  const keys = offer.keys.slice(0, n).map((word, j) => (padding.includes(j) ? "pad" : word));
  const queries = offer.queries ? offer.queries.slice(0, m) : keys.slice(n - m);
  return { keys, queries, key: named(keys), query: offer.queries ? named(queries) : named(keys).slice(n - m) };
}

/** The judgement: its kind ("leak", "empty", "blind" or "fits"), a headline, and why. */
export function verdict(state, all, words) {
  const { kind, headline, text } = judge(state, all, words);
  const unpadded = FOR_PADDING.includes(state.preset) && !all.padding.length;
  return { kind, headline, text: unpadded ? `No key is padded yet: tick one above. ${text}` : text };
}

function judge(state, all, { key, query }) {
  const blind = all.hidden.flat().filter(Boolean).length;
  const closed = `${some(blind, "cell is", "cells are")} closed that could be open`;
  const also = blind ? ` Besides, ${closed}.` : "";
  const leaks = all.leaks.flat().filter(Boolean).length;
  const rows = all.emptyRows.flatMap((is, i) => (is ? [i] : []));
  if (leaks) {
    const i = all.leaked.indexOf(Math.max(...all.leaked));
    const reason = all.why[i][all.leaks[i].indexOf(true)];
    const seen = key.filter((_, j) => all.leaks[i][j]);
    const others = seen.length > 1 ? `, and ${quoted(seen.slice(1))}` : "";
    const take = seen.length > 1 ? "They take" : "It takes";
    const text = `“${query[i]}” sees “${seen[0]}”, ${REASONS[reason]}${others}. ${take} ${show(all.leaked[i])} of its weight. ${HARM[reason]}${also}`;
    return { kind: "leak", headline: `Leak: ${some(leaks, "cell")}`, text };
  }
  if (rows.length) {
    const read = rows.filter((i) => all.read[i]);
    const who = read.length ? `${quoted(read.map((i) => query[i]))} ${read.length === 1 ? "sees" : "see"} nothing` : "The padding’s own rows see nothing";
    const text = {
      zeros: "This package gives an empty row weights 0 and output 0, and nothing else is touched.",
      nan: read.length ? "Its weights are 0 ÷ 0, not a number." : "Nobody reads these rows. But they are NaN, and NaN does not stay where it is.",
      sentinel: "With −1e9 the row shares its weight among keys that the mask has closed.",
    }[state.empty];
    return { kind: "empty", headline: `No leak, but ${some(rows.length, "row is", "rows are")} empty`, text: `${who}. ${text}${also}` };
  }
  if (blind) {
    const i = all.hidden.findLastIndex((row) => row.includes(true));
    const missed = key.filter((_, j) => all.hidden[i][j]);
    const missing = `“${query[i]}” does not see ${quoted(missed)}${missed.includes(query[i]) && state.task !== "translate" ? ", itself included" : ""}.`;
    const reason = {
      window: "A window closes what is long past on purpose: less to compute in a long text.",
      upper_left: "With a cache the newest query belongs to the newest key, so the triangle has to stand at the lower right.",
    }[state.preset];
    return { kind: "blind", headline: `No leak, but ${closed}`, text: `${missing} ${reason ?? "Nothing forbids it."}` };
  }
  const unneeded = state.task === "write" && state.preset === "causal" && all.padding.length;
  const more = unneeded ? " The padding comes after every word, so the causal mask closes it too." : "";
  return { kind: "fits", headline: "This mask fits the task", text: `No leak, and every query sees all that it may.${more}` };
}

/** What happens to rows without an open key, in words. */
export function aboutEmptyRows(state, all) {
  const rows = all.emptyRows.filter(Boolean).length;
  if (!rows) {
    return "No row is empty now, so all three answers give the same weights. Close a whole row to see them differ.";
  }
  const n = all.n;
  return {
    zeros: "A sum over no keys is 0: weights 0, output 0, and finite gradients. No other row notices.",
    nan: "Every score of the row is −∞. The softmax divides e to the power of −∞, which is 0, by the sum of such zeros: 0 ÷ 0 is NaN. "
      + "And since 0 × NaN is NaN, it spreads:",
    sentinel: `All ${n} scores of the row are −1e9, so they are equal, and the softmax gives each key 1/${n} = ${show(1 / n)}. `
      + "No NaN, no error: an average of exactly what the mask forbids.",
  }[state.empty]; // prettier-ignore
}

/** What NaN has reached: a name, which rows, and in words. */
export function aboutSpread({ spread: reached }) {
  const count = (lost) => lost.filter(Boolean).length;
  const rows = (lost) => `${count(lost)} of ${some(lost.length, "row")}`;
  return [
    { name: "weights", lost: reached.weights, text: rows(reached.weights) },
    { name: "output", lost: reached.output, text: rows(reached.output) },
    ...(reached.second ? [{ name: "second layer", lost: reached.second, text: rows(reached.second) }] : []),
    { name: "gradients of the values", lost: reached.gradients, text: `${count(reached.gradients)} of ${some(reached.gradients.length, "key")}, even if the loss leaves the empty rows out` },
  ];
}

/** One cell in words: a title and what it means. */
export function aboutCell(i, j, state, all, { key, query }) {
  const on = all.open[i][j];
  const weight = show(all.weights[i][j]);
  const score = show(all.scores[i][j]);
  const title = `Query “${query[i]}”, key “${key[j]}”: ${on ? "open" : "closed"}`;
  const reason = REASONS[all.why[i][j]];
  if (all.emptyRows[i]) {
    const text = {
      zeros: "The row is empty. This package gives it weights of 0.",
      nan: "The row is empty: 0 ÷ 0, so this weight is NaN.",
      sentinel: `The row is empty: every score is −1e9, and this closed key gets ${weight}.`,
    }[state.empty];
    return { title, text };
  }
  if (!all.read[i]) return { title, text: `Weight ${weight}. The query is padding: nobody reads its output, so nothing can go wrong here.` };
  if (all.leaks[i][j]) return { title, text: `A leak: it is ${reason}. It takes ${weight} of the weight of “${query[i]}”.` };
  if (on) return { title, text: `The score ${score} stays, and gives the weight ${weight}.` };
  const becomes = `The score ${score} becomes ${state.empty === "sentinel" ? "−1e9" : "−∞"}, and the weight 0.`;
  return { title, text: `${becomes} ${reason ? `Right: it is ${reason}.` : `The task would let “${query[i]}” look at it.`}` };
}

/** The mask and the weights in words, query by query. */
export function describe(state, all, { key, query }) {
  return query.map((word, i) => {
    const which = (row) => quoted(key.filter((_, j) => row[j]));
    const weights = key.map((name, j) => `“${name}” ${show(all.weights[i][j])}`).join(", ");
    const sees = all.emptyRows[i] ? "sees nothing" : `sees ${which(all.open[i])}`;
    const leak = all.leaks[i].includes(true) ? ` Leak: ${which(all.leaks[i])} with ${show(all.leaked[i])}.` : "";
    return `“${word}” ${sees}. Weights: ${weights}.${leak}`;
  });
}

// ---- The page -----------------------------------------------------------------------------------------------------

let count = 0;
const KEYS = ["task", "preset", "cells", "padding", "window", "first", "scores", "empty", "form"];
const ANSWERS = { zeros: "weights 0 (this package)", nan: "NaN (softmax of −∞)", sentinel: "equal weights (−1e9 for −∞)" };
const FORMS = {
  calls: "calls of the package",
  bool: "True = may attend (package, torch’s function)",
  module: "True = closed (nn.MultiheadAttention)",
  float: "float, added to the scores",
};
const SIGNS = { leak: "✗", empty: "∅", blind: "○", fits: "✓" };

function render({ model, el }) {
  const id = `mask-builder-${++count}`;
  const root = make("section", { class: "bw mb", "aria-label": "Mask builder, interactive" });
  el.replaceChildren(root);

  let state;
  let all;
  let names; // the words of rows and columns
  let active = null; // the cell that the panel is about: [i, j]
  let painting = null; // while a pointer draws: whether it opens cells
  let pressed = false; // while a click that is still to come has done its work already
  const link = connect(model);
  const firstScores = model.get("scores");

  const offerNow = () => model.get("tasks").find((one) => one.name === state.task);

  function read() {
    state = Object.fromEntries(KEYS.map((key) => [key, model.get(key)]));
    all = audit(state);
    names = labels(offerNow(), all);
  }

  function write(changes) {
    link.write(changes);
    read();
  }

  // -- Changes of the state

  /** Change sizes or what a mask is made from; a mask with a name is made again, one by hand keeps its cells. */
  /** The window and the first text, no longer than n keys allow. */
  const fitting = (window, first, n) => ({ window: Math.min(window, n), first: Math.min(first, Math.max(1, n - 1)) });

  function remake(changes) {
    const { m, n, padding, window, first } = { ...all, ...changes };
    const inside = padding.filter((position) => position < n);
    const sizes = { m, n, padding: inside, ...fitting(window, first, n) };
    const wanted = changes.preset ?? state.preset;
    const preset = wanted === "upper_left" && m === n ? "causal" : wanted; // then both corners are the same
    const open = preset === "hand" ? table(m, n, (i, j) => all.open[i]?.[j] ?? true) : makeMask(preset, sizes);
    write({ preset, cells: cellsOf(open), padding: inside, window: sizes.window, first: sizes.first });
    refresh();
  }

  function chooseTask(task) {
    const { m, n, padding } = model.get("tasks").find((one) => one.name === task);
    const cells = cellsOf(makeMask("open", { ...all, m, n, padding }));
    write({ task, padding, preset: "open", cells, ...fitting(all.window, all.first, n) });
    refresh();
  }

  function setCell(i, j, on) {
    if (all.open[i][j] !== on) {
      const open = all.open.map((row) => [...row]);
      open[i][j] = on;
      const cells = cellsOf(open);
      write({ cells, preset: recognise(cells, offered(), all) });
      update();
    }
    tell(i, j);
  }

  const rowInMind = () => (active ?? [Math.floor(all.m / 2)])[0];

  /** Close every cell of a row, or open those again that the task allows. */
  function turnRow() {
    const i = rowInMind();
    const row = (j) => all.emptyRows[i] && all.why[i][j] === null;
    const cells = cellsOf(table(all.m, all.n, (r, j) => (r === i ? row(j) : all.open[r][j])));
    write({ cells, preset: recognise(cells, offered(), all) });
    update();
    tell(i, active?.[1] ?? 0);
  }

  /** The masks that the task offers; where there are as many queries as keys, both corners are the same. */
  const offered = () => offerNow().masks.filter((name) => name !== "upper_left" || all.m !== all.n);

  // -- The frame, made once

  const picker = make("select", { id: `${id}-task`, onchange: () => chooseTask(picker.value) });
  const note = make("p", { class: "bw-note" });
  const chips = make("div", { class: "mb-chips", role: "group", "aria-label": "Mask" });
  const slider = (key, name, min, max, change) => makeSlider({ id: `${id}-${key}`, name, min, max, value: min, onchange: change });
  const sliders = {
    n: slider("n", "keys n", 1, MOST, (n) => remake({ n, m: state.task === "translate" ? all.m : all.m === all.n ? n : Math.min(all.m, n) })),
    m: slider("m", "queries m", 1, MOST, (m) => remake({ m })),
    window: slider("window", "keys in the window", 1, MOST, (window) => remake({ window })),
    first: slider("first", "words of the first text", 1, MOST, (first) => remake({ first })),
  };
  const padded = make("fieldset", { class: "mb-padding" });
  const judgement = make("div", { class: "mb-verdict" });
  const maskBox = make("div", { class: "mb-box" });
  const weightBox = make("div", { class: "mb-box" });
  const stage = make("div", { class: "mb-stage" }, maskBox, weightBox);
  const answer = make(
    "select",
    { id: `${id}-empty`, onchange: () => (write({ empty: answer.value }), update(), active && tell(...active)) },
    ...Object.entries(ANSWERS).map(([value, text]) => make("option", { value }, text)),
  );
  const rowButton = make("button", { type: "button", class: "bw-button", id: `${id}-row`, onclick: turnRow });
  const emptyText = make("p", { class: "bw-text" });
  const tiles = make("ul", { class: "mb-spread" });
  const panel = make("div", { class: "bw-panel", role: "status" });
  const form = make(
    "select",
    { id: `${id}-form`, onchange: () => (write({ form: form.value }), update()) },
    ...Object.entries(FORMS).map(([value, text]) => make("option", { value }, text)),
  );
  const code = make("textarea", { id: `${id}-code`, class: "mb-code", readonly: true, spellcheck: "false", wrap: "off" });
  const copied = make("span", { class: "bw-title", role: "status" });
  const scoreBox = make("div", { class: "bw-scroll" });
  const words = make("ul");
  const folded = (title, ...inside) => make("details", { class: "bw-words" }, make("summary", {}, title), ...inside);
  root.append(
    make("p", { class: "bw-heading" }, "Mask builder"),
    make("div", { class: "bw-controls" }, make("label", { class: "bw-field", for: picker.id }, make("span", {}, "What is attention to do?"), picker)),
    note,
    chips,
    make("div", { class: "bw-controls mb-sliders" }, sliders.window.element, sliders.first.element),
    padded,
    judgement,
    stage,
    make(
      "div",
      { class: "mb-empty" },
      make("div", { class: "bw-controls" }, make("label", { class: "bw-field", for: answer.id }, make("span", {}, "A row without open keys gets"), answer), rowButton),
      emptyText,
      tiles,
    ),
    panel,
    folded("More or fewer words", make("div", { class: "bw-controls mb-sliders" }, sliders.n.element, sliders.m.element)),
    folded(
      "The mask as code",
      make("label", { class: "bw-field", for: form.id }, make("span", {}, "Write the mask as"), form),
      make("label", { class: "mb-code-label", for: code.id }, "Python"),
      code,
      make("p", {}, make("button", { type: "button", class: "bw-button", id: `${id}-copy`, onclick: copy }, "Copy"), " ", copied),
    ),
    folded("The scores behind the weights", scoreBox),
    folded("Mask and weights in words", words),
  );

  async function copy() {
    code.select();
    try {
      await navigator.clipboard.writeText(code.value);
      copied.textContent = "Copied.";
    } catch {
      copied.textContent = "Selected: copy it with your keyboard.";
    }
  }

  // -- The grids, made again when a size changes

  let buttons = []; // cells of the mask
  let shown = []; // cells of the weights
  let inputs = []; // the scores
  let totals = [];
  let built = "";

  function heads(rows, columns) {
    return { rows: rows.map((word) => make("th", { scope: "row", class: "query" }, word)), columns: columns.map((word) => make("th", { scope: "col", class: "key" }, make("span", {}, word))) };
  }

  /** A table with words at its rows and columns; `last` is the head of one more column. */
  function grid(attributes, cell, last = null) {
    const { rows, columns } = heads(names.queries, names.keys);
    const cells = rows.map((_, i) => columns.map((_, j) => cell(i, j)));
    const ends = last ? rows.map(() => make("td", { class: "bw-sum" })) : [];
    const head = make("tr", {}, make("td"), ...columns, last ? make("th", { scope: "col", class: "bw-sum" }, last) : null);
    const body = rows.map((row, i) => make("tr", {}, row, ...cells[i], ends[i] ?? null));
    return { element: make("table", attributes, make("thead", {}, head), make("tbody", {}, ...body)), cells, ends };
  }

  function titled(name, table, legend) {
    const shape = make("span", { class: "bw-shape" }, `${all.m} × ${all.n}`);
    return [make("p", { class: "mb-title" }, make("b", {}, name), " ", shape), table, make("p", { class: "bw-title" }, legend)];
  }

  function build() {
    built = JSON.stringify([names.queries, names.keys]);
    active = null;
    stage.dataset.keys = String(all.n);
    const mask = grid({ role: "grid", "aria-label": "Mask, queries in rows and keys in columns" }, maskCell);
    buttons = mask.cells.map((row) => row.map((cell) => cell.firstChild));
    maskBox.replaceChildren(...titled("Mask", make("div", { class: "bw-scroll" }, mask.element), "Filled is open, × is closed, ○ is closed but could be open, ! is a leak. Click, or drag to paint. By keyboard: arrows, space, and shift with arrows."));
    const weights = grid({ "aria-label": "Weights, queries in rows and keys in columns" }, weightCell, "leaked");
    [shown, totals] = [weights.cells, weights.ends];
    const scroll = make("div", { class: "bw-scroll", tabindex: 0, role: "region", "aria-label": "Weights" }, weights.element);
    weightBox.replaceChildren(...titled("Weights", scroll, "Each row is the softmax over its open keys."));
    const scores = grid({ role: "grid", "aria-label": "Scores, queries in rows and keys in columns" }, scoreCell);
    inputs = scores.cells.map((row) => row.map((cell) => cell.firstChild));
    scoreBox.replaceChildren(scores.element);
  }

  function maskCell(i, j) {
    const button = make("button", {
      type: "button", class: "mb-cell", tabindex: i + j ? -1 : 0, "data-row": i, "data-column": j,
      onpointerdown: (event) => {
        if (event.pointerType === "touch" || event.button !== 0) return; // a finger may want to scroll: it paints no line
        event.preventDefault(); // no text is to be selected while painting
        pressed = true;
        button.focus({ preventScroll: true });
        painting = !all.open[i][j];
        setCell(i, j, painting);
      },
      onpointerenter: (event) => {
        if (painting !== null && event.buttons & 1) setCell(i, j, painting);
        else if (event.pointerType !== "touch") tell(i, j);
      },
      onclick: (event) => {
        if (!pressed) setCell(i, j, !all.open[i][j]);
      },
      onfocus: () => {
        rove(buttons, i, j);
        tell(i, j);
      },
      onkeydown: (event) => {
        if ([" ", "Enter"].includes(event.key)) event.stopPropagation(); // a notebook has uses of its own for them
        const next = follow(event, buttons, i, j);
        if (next && event.shiftKey) setCell(...next, all.open[i][j]);
      },
    }); // prettier-ignore
    return make("td", { role: "gridcell" }, button);
  }

  function weightCell(i, j) {
    return make("td", { class: "bw-cell", "data-matrix": "weights", "data-row": i, "data-column": j, onpointerenter: () => tell(i, j) });
  }

  function scoreCell(i, j) {
    const input = make("input", {
      type: "text", autocomplete: "off", spellcheck: "false", tabindex: i + j ? -1 : 0, "aria-label": `Score, ${names.query[i]}, ${names.key[j]}`,
      oninput: () => {
        const value = parseNumber(input.value);
        if (Number.isNaN(value)) {
          input.setAttribute("aria-invalid", "true");
          say("Type a number", "from −1000 to 1000, such as 2 or −0.5. Until then the last number counts.");
          return;
        }
        input.removeAttribute("aria-invalid");
        write({ scores: state.scores.map((row, r) => row.map((score, c) => (r === i && c === j ? value : score))) });
        update();
        tell(i, j);
      },
      onblur: () => (input.removeAttribute("aria-invalid"), update()),
      onfocus: () => {
        rove(inputs, i, j);
        input.select();
      },
      onkeydown: (event) => {
        const [start, end, length] = [input.selectionStart, input.selectionEnd, input.value.length];
        const whole = start === 0 && end === length;
        if (event.key === "ArrowLeft" && !whole && end > 0) return;
        if (event.key === "ArrowRight" && !whole && start < length) return;
        if (!["Home", "End"].includes(event.key)) follow(event, inputs, i, j);
      },
    }); // prettier-ignore
    return make("td", { class: "bw-cell" }, input);
  }

  function rove(targets, i, j) {
    targets.forEach((row, r) => row.forEach((target, c) => (target.tabIndex = r === i && c === j ? 0 : -1)));
  }

  /** Let the arrow keys, Home and End go from cell to cell; return where they went. */
  function follow(event, targets, i, j) {
    if (!/^(Arrow|Home$|End$)/.test(event.key)) return null;
    event.stopPropagation(); // a notebook or a page has uses of its own for these keys
    event.preventDefault();
    const next = nextCell(event.key, i, j, all.m, all.n);
    if (next) targets[next[0]][next[1]].focus();
    return next;
  }

  // -- What follows the state

  /** Draw everything anew that depends on the task, the sizes or the padding. */
  function refresh() {
    const held = root.getRootNode().activeElement?.id;
    const offer = offerNow();
    picker.replaceChildren(...model.get("tasks").map(({ name, label }) => make("option", { value: name, selected: name === state.task }, label)));
    const cached = state.task === "write" && all.m < all.n ? ` Here ${some(all.n - all.m, "word is", "words are")} in the cache, and only the newest ${all.m} ${all.m === 1 ? "asks" : "ask"}.` : "";
    note.textContent = offer.note + cached;
    chips.replaceChildren(
      ...offered().map((name) => make("button", { type: "button", class: "bw-button", id: `${id}-mask-${name}`, "data-mask": name, onclick: () => remake({ preset: name }) }, MASKS[name])),
      make("button", { type: "button", class: "bw-button bw-plain", id: `${id}-reset`, onclick: () => (write({ scores: firstScores }), chooseTask(state.task)) }, "Start again"),
    );
    const square = state.task !== "write" && state.task !== "translate";
    sliders.n.element.querySelector("span").firstChild.textContent = square ? "words: queries m and keys n" : "keys n";
    sliders.n.input.min = square ? 2 : 1;
    sliders.m.input.max = state.task === "translate" ? MOST : all.n;
    sliders.window.input.max = all.n;
    sliders.first.input.max = Math.max(1, all.n - 1);
    for (const key of ["n", "m", "window", "first"]) sliders[key].set(all[key]);
    sliders.m.element.hidden = square;
    sliders.window.element.hidden = state.preset !== "window";
    sliders.first.element.hidden = !["pack", "answer"].includes(state.task);
    sliders.first.element.querySelector("span").firstChild.textContent = state.task === "answer" ? "words of the question" : "words of the first text";
    padded.hidden = ["pack", "answer"].includes(state.task);
    padded.replaceChildren(make("legend", {}, "Which keys are padding?"), ...named(offer.keys.slice(0, all.n)).map(paddingBox));
    if (built !== JSON.stringify([names.queries, names.keys])) {
      build();
      invite();
    }
    update();
    if (held?.startsWith(id)) root.querySelector(`[id="${held}"]`)?.focus({ preventScroll: true });
  }

  function paddingBox(word, j) {
    const box = make("input", {
      type: "checkbox", id: `${id}-padding-${j}`, checked: all.padding.includes(j),
      onchange: () => remake({ padding: box.checked ? [...all.padding, j].sort((a, b) => a - b) : all.padding.filter((p) => p !== j) }),
    }); // prettier-ignore
    return make("label", { class: "bw-toggle", for: box.id }, box, make("span", {}, box.checked ? `${word} → pad` : word));
  }

  /** Write the state into what is there. */
  function update() {
    const focused = root.getRootNode().activeElement;
    for (const chip of chips.querySelectorAll("[data-mask]")) chip.setAttribute("aria-pressed", String(chip.dataset.mask === state.preset));
    sliders.window.element.hidden = state.preset !== "window";
    const { kind, headline, text } = verdict(state, all, names);
    judgement.className = `mb-verdict mb-${kind}`;
    judgement.replaceChildren(make("span", { class: "mb-sign", "aria-hidden": "true" }, SIGNS[kind]), make("p", {}, make("b", {}, headline), ". ", text));
    for (let i = 0; i < all.m; i++) for (let j = 0; j < all.n; j++) updateCell(i, j, focused);
    const leaking = all.leaks.flat().includes(true);
    weightBox.querySelector("th.bw-sum").textContent = leaking ? "leaked" : "";
    totals.forEach((cell, i) => {
      cell.textContent = all.leaked[i] ? short(all.leaked[i]) : "";
      cell.dataset.leaked = String(all.leaked[i]);
    });
    answer.value = state.empty;
    nameRow();
    emptyText.textContent = aboutEmptyRows(state, all);
    const reached = all.spread.weights.includes(true) ? aboutSpread(all) : [];
    tiles.hidden = reached.length === 0;
    tiles.replaceChildren(...reached.map(tile));
    form.value = state.form;
    code.value = codeOf(state, all);
    code.rows = code.value.split("\n").length;
    copied.textContent = "";
    words.replaceChildren(...describe(state, all, names).map((line) => make("li", {}, line)));
  }

  function nameRow() {
    const i = rowInMind();
    rowButton.textContent = `${all.emptyRows[i] ? "Open" : "Close"} the row of “${names.query[i]}”`;
  }

  function updateCell(i, j, focused) {
    const [on, leak, needless, weight] = [all.open[i][j], all.leaks[i][j], all.hidden[i][j], all.weights[i][j]];
    const button = buttons[i][j];
    button.setAttribute("aria-pressed", String(on));
    button.setAttribute("aria-label", `query ${names.query[i]}, key ${names.key[j]}: ${on ? "open" : "closed"}${leak ? ", leak" : needless ? ", could be open" : ""}`);
    button.className = `mb-cell ${on ? "mb-open" : "mb-closed"} ${leak ? "mb-leaks" : ""} ${all.emptyRows[i] ? "mb-row-empty" : ""} ${all.read[i] ? "" : "mb-unread"}`;
    button.textContent = leak ? "!" : on ? "" : needless ? "○" : "×";
    const cell = shown[i][j];
    const lost = Number.isNaN(weight);
    const none = weight === 0 && !on;
    const { ground, ink } = lost || none ? { ground: "", ink: "" } : weightColours(weight);
    cell.textContent = lost ? "NaN" : short(weight);
    cell.dataset.value = String(weight);
    cell.className = `bw-cell ${lost ? "mb-nan" : none ? "bw-closed" : ""} ${leak ? "mb-leaks" : ""}`;
    cell.style.background = ground;
    cell.style.color = ink;
    if (inputs[i][j] !== focused) inputs[i][j].value = minus(String(Number(state.scores[i][j].toFixed(6))));
  }

  function tile({ name, lost, text }) {
    const dots = lost.map((is) => make("span", { class: is ? "mb-lost" : "" }));
    return make("li", { "data-spread": name, "data-count": lost.filter(Boolean).length }, make("span", { class: "mb-dots", "aria-hidden": "true" }, ...dots), make("b", {}, name), ` ${text}`);
  }

  // -- The cell that is looked at

  function say(title, text) {
    panel.replaceChildren(make("p", { class: "bw-title" }, title), make("p", { class: "bw-sums" }, text));
  }

  function tell(i, j) {
    for (const [r, c] of active ? [active] : []) for (const grid of [buttons, shown]) grid[r]?.[c]?.classList.remove("mb-on");
    active = [i, j];
    nameRow();
    buttons[i][j].classList.add("mb-on");
    shown[i][j].classList.add("mb-on");
    const { title, text } = aboutCell(i, j, state, all, names);
    say(title, text);
  }

  function invite() {
    say("Who may look at whom?", "Click a cell to close it or to open it. Each row is a query, each column a key.");
  }

  function letGo() {
    painting = null;
    setTimeout(() => (pressed = false)); // behind the click that follows
  }
  window.addEventListener("pointerup", letGo);
  window.addEventListener("pointercancel", letGo);
  function redraw() {
    read();
    refresh();
  }
  redraw();
  const stop = link.watch([...KEYS, "tasks"], redraw);
  return () => {
    stop();
    window.removeEventListener("pointerup", letGo);
    window.removeEventListener("pointercancel", letGo);
  };
}

export default { render };
