/* For tests: mount a widget from its bundle on any page, and use it. */

window.bench = (() => {
  const mounted = [];
  let widget; // the bundle's module, and its style sheet
  let css;

  /** Read a bundle, once, as on a page. */
  async function read(source, sheet) {
    const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    widget = (await import(address)).default;
    css = sheet;
    URL.revokeObjectURL(address);
  }

  /** Mount the widget into a new element, or into a shadow root in one; return its number. */
  async function mount(state, shadow = false) {
    const host = document.body.appendChild(document.createElement("div"));
    const root = shadow ? host.attachShadow({ mode: "open" }) : host;
    const style = document.createElement("style");
    style.textContent = css;
    const el = document.createElement("div");
    root.append(style, el);
    const own = structuredClone(state);
    const end = widget.render({ state: own, el });
    mounted.push({ state: own, el, end, host });
    return mounted.length - 1;
  }

  /** Take all away; return what is left of each. */
  function clear() {
    return mounted.splice(0).map(({ el, end, host }) => {
      end();
      host.remove();
      return el.textContent;
    });
  }

  /** All that a widget shows but for what is said about the cell in sight: its texts, and the numbers behind them. */
  function shown({ el }) {
    const copy = el.cloneNode(true);
    for (const part of copy.querySelectorAll(".bw-panel, [data-follows-eye]")) part.remove();
    const data = [...copy.querySelectorAll("*")].map((x) => Object.values(x.dataset).join()).filter(Boolean);
    const on = [...el.querySelectorAll("[aria-pressed], [aria-current], :checked")].map((x) => (x.id || x.textContent).replace(/^\w+-\d+-/, ""));
    const typed = [...el.querySelectorAll("input, select, textarea")].map((x) => x.value);
    return JSON.stringify([copy.textContent, data, on, typed]);
  }

  /** Numbers between 0 and 1 that are the same on every run. */
  function dice(seed) {
    return () => {
      seed = (seed * 1103515245 + 12345) % 2147483648;
      return seed / 2147483648;
    };
  }

  const OTHERS = "button, select, input[type=range], input[type=checkbox], input[type=text]";

  /** Use any control that is there and in sight, as a hand would; return what was done. */
  function use(el, roll) {
    const pick = (all) => all[Math.floor(roll() * all.length)];
    const there = [...el.querySelectorAll(OTHERS)].filter((x) => !x.disabled && x.checkVisibility() && !x.closest(".bw-question, [inert]"));
    const kinds = [...new Set(there.map((x) => x.type || x.tagName))];
    const kind = pick(kinds);
    const control = pick(there.filter((x) => (x.type || x.tagName) === kind));
    const fire = (name) => control.dispatchEvent(new Event(name, { bubbles: true }));
    if (control.type === "range") {
      control.value = Math.round(Number(control.min) + roll() * (Number(control.max) - Number(control.min)));
      fire("input");
    } else if (control.tagName === "SELECT") {
      control.value = pick([...control.options]).value;
      fire("change");
    } else if (control.type === "text") {
      control.value = pick(["2", "−0.5", "abc", "1,25", "-999.999", "1e9"]);
      fire("input");
      fire("blur");
    } else control.click();
    return `${control.id || control.ariaLabel || control.textContent}: ${control.value ?? ""}`;
  }

  const settled = () => new Promise((done) => setTimeout(done));

  /** Use a widget many times; return its states. After each time, `look` sees what was done. */
  async function wander(number, times, seed, look = () => {}) {
    const { el, state } = mounted[number];
    const roll = dice(seed);
    const states = [];
    for (let time = 0; time < times; time++) {
      const done = use(el, roll);
      await settled();
      states.push(structuredClone(state));
      await look(done);
    }
    return states;
  }

  /** Use a widget many times. After each time, one mounted anew with its state must show the same. */
  async function exercise(number, times, seed) {
    const one = mounted[number];
    const faults = [];
    const states = await wander(number, times, seed, async (done) => {
      let begun;
      do {
        begun = JSON.stringify(one.state); // what plays may go on while its twin is mounted
        const twin = mounted[await mount(one.state)];
        const same = shown(twin) === shown(one) || begun !== JSON.stringify(one.state);
        if (!same) faults.push([done, shown(one), shown(twin)]);
        twin.end();
        twin.host.remove();
        mounted.pop();
      } while (begun !== JSON.stringify(one.state));
    });
    return { faults, states };
  }

  return { read, mount, wander, exercise, clear, shown: (number) => shown(mounted[number]), mounted };
})();
