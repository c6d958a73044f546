/* Lay out a deck, then start reveal.js. As many parts stand on a slide as fit, so no slide overflows on any machine.

   In comes a section for each heading, with its parts in their order; it becomes a column of slides. */

(async () => {
  "use strict";
  const root = document.documentElement;
  const printing = /print-pdf/.test(location.search);

  // ---- Light or dark: as the site's switch says, else as the reader's system does; paper is light.

  function kept(value) {
    try {
      if (value) localStorage.setItem("mode", value);
      return localStorage.getItem("mode");
    } catch {
      return null; // a browser may forbid it
    }
  }
  const system = matchMedia("(prefers-color-scheme: dark)");
  function dress() {
    const mode = kept();
    const chosen = ["light", "dark"].includes(mode) ? mode : system.matches ? "dark" : "light";
    root.dataset.theme = printing ? "light" : chosen;
  }
  system.addEventListener("change", dress);
  dress();

  // ---- From parts to slides

  const SMALL = 130; // pixels: a line or two
  const bodyOf = (page) => page.querySelector(".body");
  const shown = (element) => [...element.children].filter((child) => !child.matches("aside"));
  const overflows = (page) => bodyOf(page).scrollHeight > bodyOf(page).clientHeight + 1;
  const isFlow = (page) => page && !bodyOf(page).querySelector(":scope > .alone");

  function heightOf(page) {
    const parts = shown(bodyOf(page));
    return parts.at(-1).getBoundingClientRect().bottom - parts[0].getBoundingClientRect().top;
  }

  // A formula that is too wide gets smaller.
  function narrow(part) {
    for (const formula of part.querySelectorAll(".katex-display")) {
      const excess = formula.scrollWidth / formula.clientWidth;
      if (excess > 1) formula.firstElementChild.style.fontSize = `${1.21 / excess}em`;
    }
  }

  function shrink(page) {
    for (const size of ["dense", "denser"]) if (overflows(page)) page.classList.add(size);
    narrow(page);
  }

  // Somewhat smaller letters may save a slide.
  function fitsDense(page) {
    const { className } = page;
    page.classList.add("dense");
    if (overflows(page)) page.className = className;
    return !overflows(page);
  }

  // A figure is as large as its slide lets it be, with its caption below or, where that leaves more room, beside it.
  function fitFigure(figure) {
    const picture = figure.querySelector("img");
    const [width, height] = ["width", "height"].map((name) => Number(picture.getAttribute(name)));
    const scale = () => Math.min(picture.clientWidth / width, picture.clientHeight / height);
    let size = scale();
    figure.classList.add("beside");
    if (scale() > 1.05 * size) size = scale();
    else figure.classList.remove("beside");
    Object.assign(picture.style, { flex: "none", width: `${size * width}px`, height: `${size * height}px` });
  }

  // Take from a part what does not fit, from its end; return that as a part of its own.
  function splitOff(page, part) {
    const holder = (element) => (shown(element).length > 1 ? element : element.querySelector("tbody, ul, ol"));
    const rest = part.cloneNode(true);
    const [from, to] = [holder(part), holder(rest)];
    if (!from || shown(from).length < 2) return null;
    to.replaceChildren();
    while (overflows(page) && shown(from).length > 1) to.prepend(shown(from).at(-1));
    for (const step of shown(rest)) step.classList.remove("fragment");
    return rest;
  }

  function fill(source, column) {
    const heading = source.querySelector(":scope > h2");
    const waiting = [...source.querySelectorAll(":scope > .part")];
    let page = null;

    function add() {
      const slide = document.createElement("section");
      slide.id = column.children.length ? `${source.id}-${column.children.length + 1}` : source.id;
      slide.innerHTML = '<div class="page"><div class="body"></div></div>';
      if (heading) slide.firstChild.prepend(heading.cloneNode(true));
      column.append(slide);
      page = slide.firstChild;
    }

    function take(part) {
      bodyOf(page).append(part);
      narrow(part);
      return !overflows(page);
    }

    while (waiting.length) {
      const part = waiting.shift();
      const alone = part.matches(".alone");
      // A line or two may stand above a figure or a prediction.
      const below = page && isFlow(page) && (!alone || (part.matches(".spacious") && heightOf(page) < SMALL));
      if (below && (take(part) || fitsDense(page))) continue;
      add();
      if (take(part)) continue;
      shrink(page);
      const rest = overflows(page) && splitOff(page, part);
      if (rest) waiting.unshift(rest);
    }

    // A line or two that are left over go back to the slide before, where smaller letters make room for them. Below a
    // question they come with its answer. What still stands alone is set large.
    for (const slide of [...column.children].slice(1)) {
      const [last, before] = [slide.firstChild, slide.previousElementSibling.firstChild];
      if (!isFlow(last) || heightOf(last) > SMALL || before.querySelector(".demonstration")) continue;
      const [parts, size] = [[...bodyOf(last).children], before.className];
      const waits = before.querySelector(".fragment") !== null;
      for (const part of parts) part.classList.toggle("fragment", waits);
      if (waits) for (const part of parts) part.dataset.fragmentIndex = 0;
      bodyOf(before).append(...parts);
      shrink(before);
      if (!overflows(before)) slide.remove();
      else {
        before.className = size;
        for (const part of parts) part.classList.remove("fragment");
        bodyOf(last).append(...parts);
      }
    }
    for (const { firstChild: page } of column.children)
      if (isFlow(page) && heightOf(page) < SMALL) page.classList.add("short");
  }

  // A slide without words of its own has those of the slide before.
  function handOnNotes() {
    let notes = [];
    for (const page of document.querySelectorAll(".page")) {
      const own = [...page.querySelectorAll("aside.notes")];
      if (own.length) notes = own;
      else page.append(...notes.map((each) => each.cloneNode(true)));
    }
  }

  // ---- Demonstrations

  const frame = () => new Promise((done) => setTimeout(done, 30));

  // A mounted widget moves into a shadow tree, where reveal.js does not take its elements for slides.
  async function enclose(box) {
    const widget = box.firstElementChild;
    const sheet = document.querySelector(`link[href$="/${widget.dataset.widget}.css"]`).cloneNode();
    const loaded = new Promise((done) => sheet.addEventListener("load", done));
    box.attachShadow({ mode: "open" }).append(sheet, widget);
    await loaded;
    // It is as large as its slide lets it be; one that is too long scrolls.
    let [fits, limit] = [0.95, 1.8];
    while (limit - fits > 0.03) {
      const zoom = (fits + limit) / 2;
      widget.style.zoom = zoom;
      await frame();
      if (box.scrollHeight <= box.clientHeight) fits = zoom;
      else limit = zoom;
    }
    widget.style.zoom = limit < 1 ? 1.2 : fits;
  }

  root.classList.add("laying-out");
  await document.fonts.ready;
  for (const source of document.querySelectorAll(".slides > section")) {
    const column = document.createElement("section");
    source.before(column);
    fill(source, column);
    source.remove();
  }
  document.querySelectorAll("figure").forEach(fitFigure);
  handOnNotes();
  const open = "[data-widget]:not([data-mounted=yes], [data-mounted=failed])";
  while (document.querySelector(open)) await frame();
  await Promise.all([...document.querySelectorAll(".demonstration")].map(enclose));
  root.classList.remove("laying-out");

  // ---- reveal.js

  // A demonstration keeps its keys, but a clicker always leads on.
  const inDemonstration = (event) => event.target.closest?.(".demonstration");
  function leadOn(event) {
    const way = { PageDown: "next", PageUp: "prev" }[event.key];
    if (!way || !inDemonstration(event)) return;
    event.preventDefault();
    event.stopPropagation();
    Reveal[way]();
  }
  addEventListener("keydown", leadOn, true);

  const pages = [...document.querySelectorAll(".page")];
  await Reveal.initialize({
    width: 1280,
    height: 720,
    margin: 0,
    minScale: 0.1,
    maxScale: 10,
    center: false,
    controls: false,
    hash: true,
    navigationMode: "linear", // one way through; the overview (O) shows a column for each section
    pdfMaxPagesPerSlide: 1,
    slideNumber: "c/t",
    transition: "none",
    viewDistance: pages.length, // all slides are laid out
    keyboardCondition: (event) => !inDemonstration(event),
    plugins: [RevealNotes],
  });
  Reveal.addKeyBinding({ keyCode: 68, key: "D", description: "Light or dark" }, () => {
    kept(root.dataset.theme === "dark" ? "light" : "dark");
    dress();
  });
  root.dataset.ready = "";
})();
