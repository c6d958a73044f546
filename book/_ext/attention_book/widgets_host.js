/* Mount the widgets of a page that has no kernel. The scripts before this one hold the bundles of those that it opens
   with, as text; the others are fetched, by scripts of their own, when there is a reader who comes near.

   Each is imported from a Blob, since a page that was opened as a file may not import other files. A widget gets its
   state, into which it writes what a reader does, and an element. One that does not come leaves its table, says so, and
   can be asked for again. */

(() => {
  "use strict";
  const sources = (window.attentionWidgets ??= {}); // a bundle that is fetched later comes here too

  /* What is fetched under a name: once for all, but again if it failed. */
  function oncePerName(fetchOne) {
    const fetches = {};
    return (name) => (fetches[name] ??= fetchOne(name).catch((error) => {
      delete fetches[name];
      throw error;
    }));
  }

  // After a reload and on the way back a widget is where its reader left it, as the page is. Who comes anew begins anew.
  const kept = `widgets of ${location.pathname}`;
  const [entry] = performance.getEntriesByType("navigation");
  const before = ["reload", "back_forward"].includes(entry?.type) ? recall() : {};
  const left = { ...before }; // for each widget of the page: what it began with, and what its reader changed

  function recall() {
    try {
      return JSON.parse(sessionStorage.getItem(kept)) ?? {};
    } catch {
      return {}; // a browser may forbid it, and what is stored may be of another time
    }
  }

  addEventListener("pagehide", () => {
    try {
      sessionStorage.setItem(kept, JSON.stringify(left));
    } catch {}
  });

  function stateOf(element, place) {
    const first = element.dataset.state;
    const begun = JSON.parse(first);
    // The answer to a turn is kept by the page alone, where it keeps such (progress.js), so that it is erased there alone.
    const answers = element.dataset.widget === "your_turn" ? window.bookAnswers : undefined;
    const given = answers?.given(begun.question);
    const changed = !answers && before[place]?.first === first ? before[place].changed : {};
    left[place] = { first, changed: answers ? {} : changed };
    if (given) changed.given = given;
    function write(state, key, value) {
      if (key === "given" && !isErasing) answers?.keep(begun.question, value);
      return Reflect.set(state, key, (changed[key] = value));
    }
    return new Proxy({ ...begun, ...changed }, { set: write });
  }

  const load = oncePerName((name) => {
    const address = URL.createObjectURL(new Blob([sources[name]], { type: "text/javascript" }));
    return import(address).finally(() => URL.revokeObjectURL(address));
  });

  // Widgets of one kind are told apart by those who hear the page.
  function number(element, name) {
    const alike = [...document.querySelectorAll(`[data-widget="${name}"]`)];
    const region = element.querySelector("section[aria-label]");
    if (region && alike.length > 1) region.ariaLabel += ` ${alike.indexOf(element) + 1}`;
  }

  const turns = new Map(); // those that are mounted, each with its place and what ends it

  async function mount(element, place) {
    const name = element.dataset.widget;
    if (!Object.hasOwn(sources, name) || ["loading", "yes"].includes(element.dataset.mounted)) return;
    element.dataset.mounted = "loading";
    const fallback = [...element.childNodes];
    try {
      const module = await load(name);
      const end = await module.default.render({ state: stateOf(element, place), el: element });
      if (name === "your_turn") turns.set(element, { place, end });
      number(element, name);
      element.dataset.mounted = "yes";
    } catch (error) {
      element.replaceChildren(...fallback);
      sayFailed(element, error, () => mount(element, place));
    }
  }

  let isErasing = false; // then a field that loses the focus has nothing to keep
  addEventListener("answers-erased", () => {
    for (const [element, { place, end }] of turns) {
      isErasing = true;
      element.querySelector(":focus")?.blur();
      isErasing = false;
      end();
      delete element.dataset.mounted;
      mount(element, place);
    }
  });

  function button(words) {
    return Object.assign(document.createElement("button"), { type: "button", className: "attention-widget-later", textContent: words });
  }

  /* Say that a widget did not come, and offer to try again; its table stays. */
  function sayFailed(element, error, again) {
    element.dataset.mounted = "failed";
    console.error(`The widget ${element.dataset.widget ?? element.dataset.laterWidget} could not be shown.`, error);
    const what = element.dataset.widget === "your_turn" ? "box for your answer" : "demonstration";
    const said = document.createElement("p");
    said.setAttribute("role", "status");
    said.textContent = `The ${what} did not load. Is there a connection? `;
    const retry = said.appendChild(button("Try again"));
    retry.addEventListener("click", async () => {
      said.remove();
      await again();
      element.querySelector("input, button, select")?.focus({ preventScroll: true });
    });
    element.prepend(said);
  }

  const home = document.currentScript?.src ?? "";

  function fetchPart(name, kind) {
    const address = new URL(`${name}.${kind}`, home).href;
    const isSheet = kind === "css";
    const part = document.createElement(isSheet ? "link" : "script");
    Object.assign(part, isSheet ? { rel: "stylesheet", href: address } : { src: address });
    return new Promise((done, fail) => {
      part.onload = done;
      part.onerror = () => {
        part.remove();
        fail(new Error(`${address} did not come`));
      };
      document.head.append(part);
    });
  }

  const fetchBundle = oncePerName(async (name) => {
    await Promise.all([fetchPart(name, "css"), fetchPart(name, "js")]);
    if (!Object.hasOwn(sources, name)) throw new Error(`${name}.js held something else`);
  });

  // What is fetched stands there as its table until there is a sign of a reader, who is half a screen away, or goes by
  // Tab, to which a table is no stop. After a reload, what was there before is there at once, so that nothing has moved.
  const waiting = new Map();
  const near = new IntersectionObserver(
    (seen) => {
      for (const { isIntersecting, target } of seen) if (isIntersecting) mountLate(target);
    },
    { rootMargin: "50% 0px" },
  );
  function meet({ type, movementX, movementY }) {
    if (type === "pointermove" && !movementX && !movementY) return; // a pointer that rests where the page opened
    for (const element of waiting.keys()) near.observe(element);
  }
  for (const sign of ["pointermove", "pointerdown", "keydown", "scroll"]) {
    addEventListener(sign, meet, { passive: true });
  }
  addEventListener("keydown", ({ key }) => { if (key === "Tab") mountRest(); });
  addEventListener("mount-widgets", mountRest); // for a program that looks at the whole page

  function mountRest() {
    for (const element of waiting.keys()) mountLate(element);
  }

  async function mountLate(element) {
    if (!waiting.has(element)) return;
    const place = waiting.get(element);
    waiting.delete(element);
    near.unobserve(element);
    try {
      await fetchBundle(element.dataset.widget);
    } catch (error) {
      sayFailed(element, error, () => {
        waiting.set(element, place);
        return mountLate(element);
      });
      return;
    }
    const { bottom, height } = element.getBoundingClientRect();
    await mount(element, place);
    // Most browsers hold what is in sight when something above it grows; Safari does not.
    const grown = element.getBoundingClientRect().height - height;
    if (bottom < 0 && grown && !CSS.supports("overflow-anchor: auto")) scrollBy(0, grown);
  }

  function mountOrWait(element, place) {
    const name = element.dataset.widget;
    if (Object.hasOwn(sources, name) || !home) return mount(element, place);
    waiting.set(element, place);
    if (place in before) mountLate(element);
  }

  // A heavy widget is there as a still, if it has one, and a table, with two buttons that fetch its bundle; the second also
  // begins its tour. The table is seen on paper alone.
  function offer(element, place) {
    const name = element.dataset.laterWidget;
    const buttons = [element.dataset.offer, "Guided tour"].map(button);
    const still = element.querySelector(".attention-widget-still");
    if (still) still.after(...buttons);
    else element.prepend(...buttons);

    async function open(tour) {
      for (const each of buttons) each.disabled = true;
      try {
        await fetchBundle(name);
      } catch (error) {
        for (const each of buttons) each.remove();
        sayFailed(element, error, () => open(tour));
        return;
      }
      for (const each of buttons) each.remove();
      element.dataset.widget = name;
      await mount(element, `later ${place}`);
      element.querySelector(tour ? "[id$='-tour']" : "input, button, select")?.[tour ? "click" : "focus"]({ preventScroll: true });
    }
    buttons.forEach((each, tour) => each.addEventListener("click", () => open(tour)));
    if (before[`later ${place}`]) open(); // its reader had opened it
  }

  const mountAll = () => {
    document.querySelectorAll("[data-widget]").forEach(mountOrWait);
    document.querySelectorAll("[data-later-widget]").forEach(offer);
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", mountAll);
  else mountAll();
})();
