/* What tests/page_faults.py asks of a page in the browser. Each function lists what it finds, in words. */

const words = (element) => element.textContent.trim().slice(0, 40);
const name = (element) => `${element.tagName}.${element.getAttribute("class")} "${words(element)}"`;
const all = (selector) => [...document.querySelectorAll(selector)];

/* One element of each kind: what a style sheet may treat its own way, in a box that it may. */
function ofEachKind(elements) {
  const kind = (x) => [x.tagName, x.getAttribute("class"), x.getAttribute("style")].join();
  return [...new Map(elements.map((x) => [`${kind(x)} in ${x.parentElement && kind(x.parentElement)}`, x])).values()];
}

/* Formulas that were not set, or are not as large as the words around them (a little larger, but on the least phones). */
function unsetFormulas() {
  const unset = all(".math").filter((x) => !x.querySelector(".katex"));
  const size = (x) => parseFloat(getComputedStyle(x).fontSize);
  const odd = all(".katex").filter((x) => Math.abs(size(x) / size(x.parentElement) - 1.15) > 0.2);
  return [...unset, ...odd].map((x) => `not set: ${name(x)}`);
}

/* Marks that stand on another line than the formula that they touch. */
function looseMarks() {
  const place = (text, at) => {
    const range = document.createRange();
    range.setStart(text, at);
    range.setEnd(text, at + 1);
    return range.getBoundingClientRect();
  };
  return all(".katex:not(.katex-display *)").flatMap((formula) => {
    const bases = [...formula.querySelectorAll(".katex-html > .base")].map((base) => base.getBoundingClientRect());
    const { previousSibling: before, nextSibling: after } = formula.closest(".math") ?? formula;
    const closing = after?.nodeType === 3 && /^[^\s\w([“‘]/.test(after.data) && place(after, 0);
    const opening = before?.nodeType === 3 && /[([“‘]$/.test(before.data) && place(before, before.length - 1);
    const loose = (closing && closing.left < bases.at(-1).right - 1) || (opening && opening.right > bases[0].left + 1);
    return loose ? [`breaks at a mark: ${name(formula.parentElement.parentElement)}`] : [];
  });
}

/* The text of the page without code, formulas and widgets. */
function prose() {
  const left = "code, pre, script, style, .katex, dl.py, [data-state]";
  const found = [];
  for (const article of all("article.bd-article")) {
    const walker = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      if (!walker.currentNode.parentElement.closest(left)) found.push(walker.currentNode.data);
    }
  }
  return found.join(" ");
}

/* The boxes of the text: those of letters of code and within formulas and drawings are where these put them. */
const boxes = "main *:not(pre *, .katex .base *, .katex-mathml, .katex-mathml *, svg *)";
const scrollable = (x) => ["auto", "scroll"].includes(getComputedStyle(x).overflowX);

/* A box may be wider than the screen only inside of one that scrolls; a phone's menus wait beside the screen. */
function overflow() {
  const screen = document.documentElement.clientWidth;
  const whole = document.documentElement.scrollWidth;
  const right = (x) => x.getBoundingClientRect().right;
  const held = (x) =>
    x !== null &&
    (getComputedStyle(x).position === "fixed" || (scrollable(x) && right(x) <= screen + 1) || held(x.parentElement));
  const sticksOut = (x) => {
    const box = x.getBoundingClientRect();
    return box.width && box.height && box.right > screen + 1 && !x.matches("svg") && !held(x);
  };
  const out = all(boxes).filter(sticksOut).filter(sticksOut); // what is far from sight has its place when it is asked for it
  const page = whole > screen ? [`the page is ${whole} wide on a screen of ${screen}`] : [];
  return [...page, ...out.map((x) => `reaches to ${right(x)} of ${screen}: ${name(x)}`)];
}

/* A table of two or three columns fits any screen. */
function wideTables() {
  const few = all("table.table:not(:has(tr > :nth-child(4)))");
  return few.filter((x) => x.offsetWidth > x.parentElement.clientWidth + 1).map((x) => `scrolls: ${name(x)}`);
}

/* What is far from sight is measured when a reader comes near: so come near. */
async function unreachableScrollers() {
  const stops = "a[href], button, input, select, summary, [tabindex='0']";
  const reached = (x) => x.tabIndex >= 0 || x.querySelector(stops);
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const unreached = [];
  for (const x of all(boxes).filter((x) => x.scrollWidth > x.clientWidth + 1 && x.clientWidth && scrollable(x) && x.checkVisibility())) {
    if (reached(x)) continue;
    x.scrollIntoView();
    for (const _ of ["near", "measured", "noted"]) await frame();
    if (!reached(x)) unreached.push(`scrolls, but Tab does not reach it: ${name(x)}`);
  }
  scrollTo(0, 0);
  return unreached;
}

function headings() {
  const seen = all("main :is(h1, h2, h3, h4, h5, h6)").filter((x) => x.checkVisibility());
  return seen.map((x) => [Number(x.tagName[1]), words(x)]);
}

function images() {
  return all("img").map((x) => ({
    alt: x.alt.trim(),
    source: x.getAttribute("src"),
    loaded: x.complete && x.naturalWidth > 0,
    content: !x.getAttribute("src").includes("_static/"), // not one of the theme's own
  }));
}

function motion(longest) {
  const parts = ofEachKind(all("*")).flatMap((x) => [null, "::before", "::after"].map((part) => [x, getComputedStyle(x, part)]));
  return parts.flatMap(([x, style]) => {
    const animation = style.animationName === "none" ? "0s" : style.animationDuration;
    const times = [style.transitionDuration, animation].flatMap((each) => each.split(", "));
    return times.filter((time) => parseFloat(time) > longest).map((time) => `moves for ${time}: ${name(x)}`);
  });
}

/* Red, green, blue (0 to 255) and opacity (0 to 1) of a colour in any notation of CSS. */
function makeColourReader() {
  const dot = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();
  return (colour) => {
    if (!known.has(colour)) {
      dot.clearRect(0, 0, 1, 1);
      dot.fillStyle = colour;
      dot.fillRect(0, 0, 1, 1);
      const [red, green, blue, opacity] = dot.getImageData(0, 0, 1, 1).data;
      known.set(colour, [red, green, blue, opacity / 255]);
    }
    return known.get(colour);
  };
}

/* WCAG's relative luminance. */
function luminance([red, green, blue]) {
  const linear = (c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
}

/* Every letter against what lies behind it: the grounds of the boxes around it, laid over each other. */
function contrast({ least, within }) {
  const read = makeColourReader();
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
  const grounds = new Map([[null, [255, 255, 255]]]);
  const opacities = new Map([[null, 1]]);
  const parent = (x) => x.parentElement ?? x.getRootNode().host ?? null; // also out of a shadow root
  const ground = (x) => {
    if (!grounds.has(x)) grounds.set(x, over(read(getComputedStyle(x).backgroundColor), ground(parent(x))));
    return grounds.get(x);
  };
  const seenThrough = (x) => {
    if (!opacities.has(x)) opacities.set(x, getComputedStyle(x).opacity * seenThrough(parent(x)));
    return opacities.get(x);
  };
  const holders = new Set();
  const boxes = ["checkbox", "radio", "range", "color", "hidden", "image"]; // inputs that show no letters
  const inShadow = (root) => [...root.querySelectorAll("*")].flatMap((x) => x.shadowRoot ?? []);
  for (const root of [document, ...inShadow(document)]) {
    for (const change of root.getAnimations()) if (change instanceof CSSTransition) change.finish(); // what it comes to
  }
  for (const root of all(within).flatMap((x) => [x, ...inShadow(x)])) {
    for (const x of root.querySelectorAll("input, select, textarea")) if (!boxes.includes(x.type)) holders.add(x);
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) if (walker.currentNode.data.trim()) holders.add(walker.currentNode.parentElement);
  }

  const faults = new Set();
  for (const x of holders) {
    if (x.closest("script, style, noscript, .katex-mathml, [disabled], svg, option, datalist")) continue;
    if (!x.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const style = getComputedStyle(x);
    const [red, green, blue, opacity] = read(style.color);
    const letters = over([red, green, blue, opacity * seenThrough(x)], ground(x));
    const [light, dark] = [letters, ground(x)].map(luminance).sort((a, b) => b - a);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const found = (light + 0.05) / (dark + 0.05);
    if (found < (large ? 3 : least)) {
      faults.add(`${found.toFixed(2)}: ${style.color} on ${ground(x).map(Math.round)}: ${name(x)}`);
    }
  }
  return [...faults];
}

/* What axe looks at in a formula or in a piece of code it needs to see once, not for each of thousands of letters. */
function thinOut() {
  for (const x of all(".katex")) x.replaceChildren("x");
  for (const x of all(".highlight pre")) x.replaceChildren(x.textContent);
}

/* Whether one sees that an element has the focus; the link of a card is the card. */
function isRinged(element) {
  const style = getComputedStyle(element.closest(".sd-card") || element);
  const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
  return outlined || style.boxShadow !== "none";
}

/* The links of the text that do not show that they have the focus. */
function linksWithoutRing() {
  const links = all("article a[href]").filter((link) => link.checkVisibility({ visibilityProperty: true }));
  const unseen = ofEachKind(links).filter((link) => {
    link.focus({ preventScroll: true }); // as from a keyboard, where no mouse was used
    return !isRinged(link);
  });
  document.activeElement.blur();
  return unseen.map((link) => `the focus is not seen: ${name(link)}`);
}

/* Note every place that the keyboard comes to, in `window.stops`, until it comes back to the first. */
function followFocus() {
  window.stops = [];
  window.cameAround = false;
  document.addEventListener("focusin", ({ target }) => {
    if (target === window.stops[0]?.target) window.cameAround = true;
    if (window.cameAround) return;
    const box = (target.closest(".sd-card") || target).getBoundingClientRect();
    window.stops.push({
      target,
      name: name(target),
      seen: isRinged(target),
      placed: box.width > 0 && box.height > 0,
      skips: Boolean(target.closest("#pst-skip-link")),
      navigation: Boolean(target.closest("nav")),
    });
  });
}

const stopsSeen = () => window.stops.map(({ target, ...rest }) => rest);

/* What the theme shows and hides as a page scrolls: the button that leads up, while one scrolls up, and in the list of
   sections those below the one that is read. Both lead to places that have stops of their own. */
const comesAndGoes = "#pst-back-to-top, nav.page-toc ul ul a";

function neverReached() {
  const reached = new Set(window.stops.map((stop) => stop.target));
  return all("a[href], button, input, select, textarea, summary, [tabindex]")
    .filter((x) => x.tabIndex >= 0 && !x.disabled && x.checkVisibility({ visibilityProperty: true }))
    .filter((x) => !reached.has(x) && !(x.type === "radio" && !x.checked) && !x.matches(comesAndGoes))
    .map((x) => `Tab does not reach ${name(x)}`);
}
