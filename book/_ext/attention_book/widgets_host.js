/* Mount the widgets of a page that has no kernel. The scripts before this one hold the bundles of those that it opens
   with, as text; the others are fetched, by scripts of their own, when there is a reader who comes near.

   Each is imported from a Blob, since a page that was opened as a file may not import other files. A widget gets its
   state, into which it writes what a reader does, and an element. */

(() => {
  "use strict";
  const sources = (window.attentionWidgets ??= {}); // a bundle that is fetched later comes here too
  const modules = {};

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
    const changed = before[place]?.first === first ? before[place].changed : {};
    // The answer to a turn is kept beyond the visit, where the page keeps such (progress.js).
    const answers = element.dataset.widget === "your_turn" ? window.bookAnswers : undefined;
    const given = answers?.given(begun.question);
    if (given) changed.given ??= given;
    left[place] = { first, changed };
    function write(state, key, value) {
      if (key === "given") answers?.keep(begun.question, value);
      return Reflect.set(state, key, (changed[key] = value));
    }
    return new Proxy({ ...begun, ...changed }, { set: write });
  }

  function load(name) {
    if (!(name in modules)) {
      const address = URL.createObjectURL(new Blob([sources[name]], { type: "text/javascript" }));
      modules[name] = import(address).finally(() => URL.revokeObjectURL(address));
    }
    return modules[name];
  }

  // Widgets of one kind are told apart by those who hear the page.
  function number(element, name) {
    const alike = [...document.querySelectorAll(`[data-widget="${name}"]`)];
    const region = element.querySelector("section[aria-label]");
    if (region && alike.length > 1) region.ariaLabel += ` ${alike.indexOf(element) + 1}`;
  }

  async function mount(element, place) {
    const name = element.dataset.widget;
    if (!Object.hasOwn(sources, name) || element.dataset.mounted) return;
    element.dataset.mounted = "loading";
    const fallback = [...element.childNodes];
    try {
      const module = await load(name);
      await module.default.render({ state: stateOf(element, place), el: element });
      number(element, name);
      element.dataset.mounted = "yes";
    } catch (error) {
      element.replaceChildren(...fallback); // the table of results stays
      element.dataset.mounted = "failed";
      console.error(`The widget ${name} could not be shown.`, error);
    }
  }

  const home = document.currentScript?.src ?? "";

  function fetched(kind, name) {
    const address = new URL(`${name}.${kind}`, home).href;
    const sheet = kind === "css";
    const part = document.createElement(sheet ? "link" : "script");
    if (sheet) Object.assign(part, { rel: "stylesheet", href: address });
    else part.src = address;
    return new Promise((done, failed) => {
      part.onload = done;
      part.onerror = () => failed(new Error(`${address} did not come`));
      document.head.append(part);
    });
  }

  const bundles = {};
  const bring = (name) => (bundles[name] ??= Promise.all([fetched("css", name), fetched("js", name)]));

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
      await bring(element.dataset.widget);
    } catch (error) {
      element.dataset.mounted = "failed"; // the table stays
      console.error(`The widget ${element.dataset.widget} could not be fetched.`, error);
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
    const buttons = [element.dataset.offer, "Guided tour"].map((textContent) =>
      Object.assign(document.createElement("button"), { type: "button", className: "attention-widget-later", textContent }),
    );
    const still = element.querySelector(".attention-widget-still");
    if (still) still.after(...buttons);
    else element.prepend(...buttons);
    const remove = () => { for (const button of buttons) button.remove(); };

    async function open() {
      for (const button of buttons) button.disabled = true;
      try {
        await bring(name);
        remove();
        element.dataset.widget = name;
        await mount(element, `later ${place}`);
      } catch (error) {
        remove();
        element.dataset.mounted = "failed"; // the table of results stands there, as without a script
        console.error(`The widget ${name} could not be fetched.`, error);
      }
    }
    buttons.forEach((button, tour) => button.addEventListener("click", async () => {
      await open();
      element.querySelector(tour ? "[id$='-tour']" : "input, button, select")?.[tour ? "click" : "focus"]({ preventScroll: true });
    }));
    if (before[`later ${place}`]) open(); // its reader had opened it
  }

  const mountAll = () => {
    document.querySelectorAll("[data-widget]").forEach(mountOrWait);
    document.querySelectorAll("[data-later-widget]").forEach(offer);
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", mountAll);
  else mountAll();
})();
