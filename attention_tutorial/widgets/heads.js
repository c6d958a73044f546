/* Heads: where each head of a layer looks. The maths comes first, as pure functions of plain arrays; the page comes behind it. */

import { connect, decodeFloats, make, makeSvg, named, nextCell, weightColours } from "./common.js";

// ---- The maths ----------------------------------------------------------------------------------------------------

/** The weights of a case, as [head][query][key]. */
export function weightsOf({ heads, queries, tokens, weights }) {
  const flat = decodeFloats(weights);
  const n = tokens.length;
  return Array.from({ length: heads }, (_, h) =>
    queries.map((_, i) => flat.slice((h * queries.length + i) * n, (h * queries.length + i + 1) * n)),
  );
}

/** The mean over the heads, [query][key]: what a layer that averages its heads would show. */
export function meanOfHeads(weights) {
  return weights[0].map((row, i) => row.map((_, j) => weights.reduce((sum, head) => sum + head[i][j], 0) / weights.length));
}

/** How much weight two rows have in common: 1 if they are the same average, 0 if they look at different keys. */
export function inCommon(a, b) {
  return a.reduce((sum, weight, j) => sum + Math.min(weight, b[j]), 0);
}

/** The pairs of heads with the most and with the least weight in common, for one query: [head, head, weight]. */
export function alike(weights, i) {
  const pairs = weights.flatMap((head, a) => weights.slice(a + 1).map((other, b) => [a, a + 1 + b, inCommon(head[i], other[i])]));
  const sorted = pairs.sort((one, other) => other[2] - one[2]);
  return { most: sorted[0], least: sorted.at(-1) };
}

const FAVOURITE = 0.1; // a weight that is worth a word
const MOST_FAVOURITES = 4;
const ALIKE = 0.0005; // weights that differ by less are the same to three digits

/** The keys that a row looks at most, as [key, weight], how many others have any weight, and how much these share. */
export function favourites(row) {
  const sorted = row.map((weight, j) => [j, weight]).filter(([, weight]) => weight > 0).sort((a, b) => b[1] - a[1]);
  const listed = sorted.filter(([, weight], place) => place === 0 || (weight >= FAVOURITE && place < MOST_FAVOURITES));
  const others = sorted.slice(listed.length);
  return { listed, others: others.length, rest: others.reduce((sum, [, weight]) => sum + weight, 0) };
}

// ---- What is said -------------------------------------------------------------------------------------------------

/** The names of a case's queries and keys; a word that stands there twice gets its place. */
export function labelsOf({ tokens, queries, positions }) {
  const keys = named(tokens);
  return { keys, queries: positions ? positions.map((position) => keys[position]) : named(queries) };
}

/** Where a row looks, in words. */
export function tell(row, query, keys) {
  const { listed, others, rest } = favourites(row);
  if (!listed.length) return `“${query}” looks nowhere: no key is open to it, and all its weights are 0`;
  const open = row.filter((weight) => weight > 0);
  if (open.length > 2 && Math.max(...open) - Math.min(...open) < ALIKE) return `“${query}” looks at ${open.length} words alike, ${open[0].toFixed(3)} each`;
  const words = listed.map(([j, weight]) => `“${keys[j]}” ${weight.toFixed(3)}`).join(", ");
  const shared = others === 0 ? "" : others === 1 ? `; one other has ${rest.toFixed(3)}` : `; ${others} others share ${rest.toFixed(3)}`;
  return `“${query}” looks at ${words}${shared}`;
}

/** How much the heads have in common, in words. */
export function tellAlike(weights, i) {
  if (weights.length < 2) return "";
  const { most, least } = alike(weights, i);
  const pair = ([a, b]) => `Heads ${a + 1} and ${b + 1}`;
  const same = `${most[2].toFixed(3)} of their weight lies on the same words`;
  if (weights.length === 2) return `${pair(most)}: ${same}`;
  return `${pair(most)} share most: ${same}. ${pair(least)} share least: ${least[2].toFixed(3)}`;
}

/** What the model answers, in words, if the case says it. */
export const tellAnswers = ({ answers }) => (answers ? `The model answers: ${answers}.` : "");

/** Every row in words, head by head. */
export function tellAll(weights, shown, labels) {
  return shown.flatMap((h) => weights[h].map((row, i) => `head ${h + 1}: ${tell(row, labels.queries[i], labels.keys)}`));
}

// ---- Where things stand -------------------------------------------------------------------------------------------

const LETTER = 7.4; // width of a letter, about
const NAME = 84; // width of the names of the heads
const MEAN = 46; // width of the column of the mean
const LEAST_ARCS = 44; // width that arcs need

/** The widths of the words' columns, or null if the sentence does not fit into the width. */
export function columnWidths(tokens, width, asks) {
  const least = tokens.map((token) => Math.max(asks ? 44 : 38, Math.ceil(LETTER * token.length) + 14));
  const spare = width - NAME - least.reduce((a, b) => a + b, 0);
  if (spare < 0) return null;
  const more = Math.min(Math.floor(spare / tokens.length), 60);
  return least.map((one) => one + more);
}

/** What fits beside words that stand below each other: numbers and their mean, numbers alone, or the colours alone. */
export function sizes(width, heads) {
  const columns = [
    { each: 46, mean: true },
    { each: 36, mean: true },
    { each: 36, mean: false },
    { each: 21, mean: false, dense: true },
  ];
  const fits = ({ each, mean }) => width - each * heads - (mean && heads > 1 ? MEAN : 0) >= LEAST_ARCS;
  return columns.find(fits) ?? columns.at(-1);
}

/** The middle of each of several widths that stand side by side. */
export function middles(widths) {
  let edge = 0;
  return widths.map((width) => (edge += width) - width / 2);
}

/** An arc from one place on a line to another. `turn` makes the picture's point of (along, away). */
export function arc(from, to, lift, turn) {
  const loops = from === to;
  const start = loops ? to - 18 : from;
  const bow = lift / 0.75; // a cubic curve reaches three quarters of the way to its two guides
  const widen = loops ? 8 : 0;
  const points = [turn(start, 0), turn(start - widen, bow), turn(to + widen, bow), turn(to, 0)].map((point) => point.map((x) => x.toFixed(1)).join(" "));
  return `M${points[0]} C${points[1]}, ${points[2]}, ${points[3]}`;
}

/** A curve from a query that stands apart down to a key. */
export function line([x, y], [toX, toY], turned) {
  const [guide, other] = turned ? [`${(x + toX) / 2} ${y}`, `${(x + toX) / 2} ${toY}`] : [`${x} ${(y + toY) / 2}`, `${toX} ${(y + toY) / 2}`];
  return `M${x} ${y} C${guide}, ${other}, ${toX} ${toY}`;
}

// ---- The page -----------------------------------------------------------------------------------------------------

let count = 0;
const KEYS = ["cases", "choices", "model", "sentence", "query", "head", "note"];
const LEAST_DRAWN = 0.005;
const MARK = 7; // radius of the number of a head, at the end of an arc
// For arcs: their lift by distance, at least, and for each further head; the figure's edge; the width of turned ones.
const ROOM = { lift: 96, base: 22, step: 9, edge: 8, least: 12, most: 150 };
const ROW = { asks: 44, plain: 34, head: 34 };

function render({ model, el }) {
  const id = `heads-${++count}`;
  const root = make("section", { class: "bw hds", "aria-label": "Heads, interactive" });
  el.replaceChildren(root);

  let state;
  let now; // the case that is shown
  let weights;
  let labels;
  let shown; // the heads that are shown, counted from 0
  let cells = []; // of the table: { td, h, j }, h = -1 for the mean
  let asked = []; // the buttons of the queries
  let placed; // where the arcs go
  let width = 0;
  const link = connect(model);

  function read() {
    state = Object.fromEntries(KEYS.map((key) => [key, model.get(key)]));
    const ofModel = state.cases.filter((one) => one.model === state.model);
    now = ofModel.find((one) => one.sentence === state.sentence) ?? ofModel[0] ?? state.cases[0];
    weights = weightsOf(now);
    labels = labelsOf(now);
    if (state.query >= now.queries.length) state.query = 0;
    if (state.head > now.heads) state.head = 0;
    shown = state.head ? [state.head - 1] : weights.map((_, h) => h);
  }

  function write(changes) {
    link.write(changes);
    read();
  }

  const note = make("p", { class: "bw-note" });
  const hint = make("p", { class: "hds-hint" });
  const controls = make("div", { class: "bw-controls" });
  const asking = make("div", { class: "hds-asking" });
  const figure = make("div", { class: "hds-figure" });
  const panel = make("div", { class: "bw-panel hds-panel" });
  const said = make("p", { class: "hds-said", role: "status" });
  const maps = make("div", { class: "hds-maps" });
  const words = make("ul");
  const inWords = make("details", { class: "bw-words" }, make("summary", {}, "All weights in words"), words);
  const heading = make("p", { class: "bw-heading" }, "Where the heads look");
  root.append(heading, note, controls, asking, hint, figure, panel, said, maps, inWords);

  // -- Controls

  /** Line and number of a head: never the colour alone. */
  function swatch(h) {
    const stroke = makeSvg("line", { x1: 1, y1: 6, x2: 29, y2: 6, class: "hds-line" });
    return makeSvg("svg", { class: `hds-swatch hds-${h + 1}`, width: 30, height: 12, "aria-hidden": "true" }, stroke);
  }

  function group(name, options) {
    const title = make("span", { class: "hds-name", id: `${id}-${name}-name` }, name);
    const buttons = options.map(({ key, label, on, choose }) =>
      make("button", { type: "button", class: "bw-button", id: `${id}-${key}`, "aria-pressed": String(on), onclick: choose }, ...label),
    );
    return make("div", { class: "hds-choice", role: "group", "aria-labelledby": title.id }, title, make("div", { class: "hds-options" }, ...buttons));
  }

  const distinct = (all) => [...new Set(all)];

  function drawControls() {
    const [modelName, sentenceName] = state.choices;
    const models = distinct(state.cases.map((one) => one.model));
    const sentences = state.cases.filter((one) => one.model === now.model).map((one) => one.sentence);
    const picker = make(
      "select",
      { id: `${id}-sentence`, onchange: () => (write({ sentence: picker.value }), drawAll()) },
      ...sentences.map((one) => make("option", { value: one, selected: one === now.sentence }, one)),
    );
    controls.replaceChildren(
      ...(models.length < 2 ? [] : [group(modelName, models.map((one, place) => (
        { key: `model-${place}`, label: [one], on: one === now.model, choose: () => pickModel(one) })))]),
      ...(sentences.length < 2 ? [] : [make("label", { class: "bw-field", for: picker.id }, make("span", {}, sentenceName), picker)]),
      ...(now.heads < 2 ? [] : [group("Show", [
        { key: "head-0", label: ["all heads"], on: !state.head, choose: () => pickHead(0) },
        ...weights.map((_, h) => ({ key: `head-${h + 1}`, label: [swatch(h), ` head ${h + 1}`], on: state.head === h + 1, choose: () => pickHead(h + 1) })),
      ])]),
    ); // prettier-ignore
    note.textContent = state.note;
    note.hidden = !state.note;
  }

  function pickModel(name) {
    const sentences = state.cases.filter((one) => one.model === name).map((one) => one.sentence);
    const sentence = sentences.includes(now.sentence) ? now.sentence : sentences[0];
    write({ model: name, sentence, head: 0 });
    drawAll();
  }

  function pickHead(head) {
    write({ head });
    drawAll();
  }

  function pickQuery(query) {
    write({ query });
    update(query);
  }

  // -- Who looks

  /** A word or a text that can ask: pressed while it is the query. The mouse shows what it would do. */
  function askButton(i) {
    const button = make(
      "button",
      {
        type: "button", class: "hds-ask", id: `${id}-query-${i}`,
        onclick: () => pickQuery(i),
        onkeydown: (event) => walk(event, i),
        onpointerenter: (event) => event.pointerType === "mouse" && update(i),
        onpointerleave: (event) => event.pointerType === "mouse" && update(state.query),
      },
      now.positions ? now.tokens[now.positions[i]] : now.queries[i],
    ); // prettier-ignore
    asked[i] = button;
    return button;
  }

  /** Arrow keys, Home and End go to another query. */
  function walk(event, i) {
    const key = { ArrowUp: "ArrowLeft", ArrowDown: "ArrowRight" }[event.key] ?? event.key;
    if (!["ArrowLeft", "ArrowRight", "Home", "End"].includes(key)) return;
    event.stopPropagation();
    event.preventDefault();
    const next = nextCell(key, 0, i, 1, asked.length);
    if (!next) return;
    pickQuery(next[1]);
    asked[next[1]].focus();
  }

  function drawAsking() {
    const apart = !now.positions;
    asking.hidden = !apart;
    asking.replaceChildren();
    if (!apart) return;
    const title = make("span", { class: "hds-name", id: `${id}-asking` }, "Query");
    const buttons = now.queries.map((_, i) => askButton(i));
    asking.append(make("div", { role: "group", class: "hds-choice", "aria-labelledby": title.id }, title, make("div", { class: "hds-options" }, ...buttons)));
  }

  // -- The sentence with its arcs and weights

  function keyHead(j, scope, size) {
    const i = now.positions ? now.positions.indexOf(j) : -1;
    const inside = i >= 0 && now.queries.length > 1 ? askButton(i) : make("span", {}, now.tokens[j]);
    return make("th", { scope, class: "key", style: size, "data-key": j }, inside);
  }

  function cell(h, j) {
    const td = make("td", { class: "hds-cell", "data-head": h < 0 ? "mean" : h + 1, "data-key": j }, make("span", {}));
    cells.push({ td, h, j });
    return td;
  }

  const rowName = (h) => (h < 0 ? ["mean"] : [swatch(h), `head ${h + 1}`]);

  /** The width of the words in a column of their own. */
  function wordWidth(asks) {
    const longest = Math.max(...now.tokens.map((token) => token.length)) * LETTER + 18;
    return Math.max(asks ? 52 : 40, Math.min(longest, 108));
  }

  const row = (...parts) => make("tr", {}, ...parts);
  const corner = (size) => make("td", { style: `width:${size}px` });
  const eachToken = (part) => now.tokens.map((_, j) => part(j));

  /** Words side by side: a column for each, a row for each head. */
  function flatTable(widths, heads) {
    const all = NAME + widths.reduce((a, b) => a + b, 0);
    const at = middles(widths).map((middle) => middle + NAME);
    placed = { turned: false, at, width: all, height: arcsHeight() + 2 * MARK + 8, step: Math.min(...widths), table: all };
    const words = eachToken((j) => keyHead(j, "col", `width:${widths[j]}px`));
    const rows = heads.map((h) => row(make("th", { scope: "row" }, ...rowName(h)), ...eachToken((j) => cell(h, j))));
    return [make("thead", {}, row(corner(NAME), ...words)), make("tbody", {}, ...rows)];
  }

  /** Words below each other: a row for each, a column for each head. */
  function turnedTable(word, each, asks, heads) {
    const size = asks ? ROW.asks : ROW.plain;
    const columns = heads.map((h) => (h < 0 ? MEAN : each));
    const table = word + columns.reduce((a, b) => a + b, 0);
    const room = width - ROOM.edge - table;
    const at = eachToken((j) => ROW.head + (j + 0.5) * size);
    const height = ROW.head + now.tokens.length * size;
    placed = { turned: true, at, width: Math.max(ROOM.least, Math.min(ROOM.most, room)), height, step: size, table };
    const headName = (h) => (h < 0 ? ["mean"] : [make("span", { class: "hds-hidden" }, "head "), String(h + 1)]);
    const names = heads.map((h, c) => make("th", { scope: "col", style: `width:${columns[c]}px` }, ...headName(h)));
    const rows = eachToken((j) => make("tr", { style: `height:${size}px` }, keyHead(j, "row", null), ...heads.map((h) => cell(h, j))));
    return [make("thead", {}, row(corner(word), ...names)), make("tbody", {}, ...rows)];
  }

  function drawFigure() {
    const held = document.activeElement?.id;
    cells = [];
    if (now.positions) asked = [];
    width = figure.clientWidth;
    const asks = now.positions !== null && now.queries.length > 1;
    const widths = columnWidths(now.tokens, width - ROOM.edge, asks);
    const word = wordWidth(asks);
    const { dense, each, mean } = widths ? { mean: true } : sizes(width - ROOM.edge - word, shown.length);
    const heads = shown.length > 1 && mean ? [...shown, -1] : shown;
    const parts = widths ? flatTable(widths, heads) : turnedTable(word, each, asks, heads);
    const box = { width: placed.width, height: placed.height, viewBox: `0 0 ${placed.width} ${placed.height}` };
    placed.picture = makeSvg("svg", { class: "hds-arcs", role: "img", ...box });
    figure.className = `hds-figure ${placed.turned ? "hds-turned" : "hds-flat"} ${dense ? "hds-dense" : ""}`;
    const fixed = `width:${placed.table}px;table-layout:fixed`; // whatever a page says of its tables: the arcs end at their words
    figure.replaceChildren(placed.picture, make("table", { "aria-label": "Weights of the query that is chosen", style: fixed }, ...parts));
    refocus(held);
  }

  /** Give the focus back to what has the same id, after it was drawn anew. */
  function refocus(held) {
    if (held?.startsWith(`${id}-`) && document.activeElement?.id !== held) root.querySelector(`[id="${held}"]`)?.focus({ preventScroll: true });
  }

  function drawArcs(query) {
    const { picture, at, turned, width: w, height, step } = placed;
    const between = Math.min(2 * MARK + 4, (step - 6) / shown.length); // of the arcs that end at one word
    const numbered = shown.length > 1 && between >= MARK + 2;
    const end = numbered ? 2 * MARK + 4 : 3;
    const from = now.positions ? at[now.positions[query]] : null;
    const longest = Math.max(1, ...at.map((place) => Math.abs(place - (from ?? place))));
    const apart = turned ? [8, (at[0] + at.at(-1)) / 2] : [(at[0] + at.at(-1)) / 2, 10];
    const turn = turned ? (along, away) => [w - end - (away * (w - end - 8)) / arcsHeight(), along] : (along, away) => [along, height - end - away];
    const lines = [];
    const numbers = [];
    shown.forEach((h, place) => {
      const shift = (place - (shown.length - 1) / 2) * between;
      at.forEach((middle, j) => {
        const weight = weights[h][query][j];
        if (weight < LEAST_DRAWN) return;
        const to = middle + shift;
        const lift = ROOM.base + (ROOM.lift * Math.abs(middle - (from ?? 0))) / longest + ROOM.step * place;
        const path = from === null ? line(apart, turn(to, 0), turned) : arc(j === now.positions[query] ? to : from, to, lift, turn);
        const look = `stroke-width:${(1 + 8 * weight).toFixed(2)};opacity:${(0.25 + 0.75 * weight).toFixed(2)}`;
        lines.push([weight, makeSvg("path", { d: path, class: `hds-line hds-${h + 1}`, style: look, "data-head": h + 1, "data-key": j, "data-value": weight })]);
        if (numbered && weight >= FAVOURITE) numbers.push(mark(h, turned ? [w - MARK - 2, to] : [to, height - MARK - 2]));
      });
    });
    lines.sort((a, b) => a[0] - b[0]);
    const origin = from === null ? [makeSvg("circle", { cx: apart[0], cy: apart[1], r: 7, class: "hds-origin" })] : [];
    if (from === null && !turned) origin.push(makeSvg("text", { x: apart[0] + 12, y: apart[1] + 4, class: "hds-from", "aria-hidden": "true" }, labels.queries[query]));
    picture.replaceChildren(...lines.map(([, path]) => path), ...origin, ...numbers);
    const label = shown.map((h) => `head ${h + 1}: ${tell(weights[h][query], labels.queries[query], labels.keys)}`).join(". ");
    picture.setAttribute("aria-label", `Arcs. ${label}.`);
  }

  const arcsHeight = () => ROOM.base + ROOM.lift + ROOM.step * shown.length;

  function mark(h, [x, y]) {
    return makeSvg(
      "g",
      { class: `hds-mark hds-${h + 1}`, "aria-hidden": "true" },
      makeSvg("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: MARK }),
      makeSvg("text", { x: x.toFixed(1), y: (y + 3.7).toFixed(1) }, String(h + 1)),
    );
  }

  // -- Small maps, one for each head

  function drawMaps() {
    maps.hidden = now.queries.length < 2;
    if (maps.hidden) return maps.replaceChildren();
    const [m, n] = [now.queries.length, now.tokens.length];
    const longest = (texts) => Math.min(Math.max(...texts.map((text) => text.length)) * 6.6 + 9, 96);
    const [left, top] = [longest(labels.queries), longest(labels.keys)];
    const fitting = (beside) => Math.floor((figure.clientWidth / beside - left - 20) / n);
    const size = Math.max(10, Math.min(26, [shown.length, 4, 3, 2, 1].map(fitting).find((one) => one >= 13) ?? fitting(1)));
    const legend = make(
      "p",
      { class: "hds-legend" },
      "Each row is a query, each column a key. ",
      make("span", { class: "hds-scale" }, "0 ", make("span", { class: "hds-ramp", "aria-hidden": "true" }), " 1"),
    );
    const map = (h) => {
      const texts = [
        ...labels.queries.map((text, i) => makeSvg("text", { x: left - 4, y: top + (i + 0.5) * size + 4, class: "query", "text-anchor": "end" }, text)),
        ...labels.keys.map((text, j) => makeSvg("text", { class: "key", transform: `translate(${left + (j + 0.5) * size + 4} ${top - 4}) rotate(-90)` }, text)),
      ];
      const squares = weights[h].flatMap((row, i) =>
        row.map((weight, j) => makeSvg("rect", {
          x: left + j * size, y: top + i * size, width: size - 1, height: size - 1, fill: weightColours(weight).ground,
          "data-head": h + 1, "data-query": i, "data-key": j, "data-value": weight, onclick: () => pickQuery(i),
        }, makeSvg("title", {}, `${labels.queries[i]} → ${labels.keys[j]}: ${weight.toFixed(3)}`))),
      ); // prettier-ignore
      const frame = makeSvg("rect", { x: left - 1, width: n * size + 1, height: size + 1, class: "hds-frame" });
      const [w, height] = [left + n * size + 2, top + m * size + 2];
      const label = `Map of head ${h + 1}, ${m} queries by ${n} keys; in words below`;
      const box = { width: w, height, viewBox: `0 0 ${w} ${height}` };
      const drawing = makeSvg("svg", { role: "img", "aria-label": label, ...box }, ...squares, frame, ...texts);
      return make("figure", {}, make("figcaption", {}, swatch(h), ` head ${h + 1}`), drawing);
    };
    maps.replaceChildren(legend, make("div", { class: "hds-row" }, ...shown.map(map)));
    maps.dataset.top = top;
    maps.dataset.size = size;
  }

  // -- What changes with the query

  function update(query) {
    const mean = meanOfHeads(weights);
    asked.forEach((button, i) => {
      button.setAttribute("aria-pressed", String(i === state.query));
      button.classList.toggle("hds-now", i === query);
      button.tabIndex = i === state.query ? 0 : -1;
    });
    for (const head of figure.querySelectorAll("th.key")) head.classList.toggle("hds-self", now.positions?.[query] === Number(head.dataset.key));
    for (const { td, h, j } of cells) {
      const weight = h < 0 ? mean[query][j] : weights[h][query][j];
      const { ground, ink } = weightColours(weight);
      td.dataset.value = weight;
      td.firstChild.textContent = weight === 0 ? "0" : weight.toFixed(2);
      td.style.background = ground;
      td.style.color = ink;
    }
    drawArcs(query);
    const name = labels.queries[query];
    const choose = now.queries.length > 1 ? `Choose ${now.positions ? "a word" : "a query"}. ` : "";
    const averaged = cells.some(({ h }) => h < 0) ? " “mean” is the average of the heads." : "";
    hint.textContent = `${choose}The arcs show where “${name}” looks. The wider and stronger an arc, the more weight.${averaged}`;
    const lines = shown.map((h) => make("p", {}, swatch(h), make("b", {}, ` head ${h + 1} `), tell(weights[h][query], name, labels.keys)));
    const compared = shown.length > 1 ? [make("p", { class: "hds-compared" }, `${tellAlike(weights, query)}.`)] : [];
    const answers = tellAnswers(now);
    panel.replaceChildren(...lines, ...compared, ...(answers ? [make("p", { class: "hds-answers" }, answers)] : []));
    const tops = shown.map((h) => [h, favourites(weights[h][query]).listed[0]]);
    const best = ([h, top]) => `Head ${h + 1}: ${top ? `most on “${labels.keys[top[0]]}”, ${top[1].toFixed(2)}` : "nowhere"}`;
    said.textContent = `Query “${name}”. ${tops.map(best).join(". ")}. ${answers}`.trim();
    for (const frame of maps.querySelectorAll(".hds-frame")) frame.setAttribute("y", Number(maps.dataset.top) + query * Number(maps.dataset.size) - 1);
  }

  function drawAll() {
    const held = document.activeElement?.id;
    asked = [];
    drawControls();
    drawAsking();
    drawFigure();
    drawMaps();
    const told = [...tellAll(weights, shown, labels), tellAnswers(now)].filter(Boolean);
    words.replaceChildren(...told.map((text) => make("li", {}, text)));
    update(state.query);
    refocus(held);
  }

  function redraw() {
    read();
    drawAll();
  }
  redraw();
  const stop = link.watch(KEYS, redraw);
  const watch = new ResizeObserver(() => {
    if (figure.clientWidth === width) return;
    drawFigure();
    drawMaps();
    update(state.query);
  });
  watch.observe(root);
  return () => {
    watch.disconnect();
    stop();
  };
}

export default { render };
