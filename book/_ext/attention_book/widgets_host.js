/* Mount the widgets of a page that has no kernel. The scripts before this one hold the sources of the modules.

   Each module is imported from a Blob, behind the source that all of them share, since a page that was opened as a file
   may not import other files. A widget gets what anywidget would hand it: a model with get, set, save_changes, on and
   off, and an element. */

(() => {
  "use strict";
  const sources = window.attentionWidgets ?? {};
  const modules = {};

  function load(name) {
    if (!(name in modules)) {
      const address = URL.createObjectURL(new Blob([sources.common, "\n", sources[name]], { type: "text/javascript" }));
      modules[name] = import(address).finally(() => URL.revokeObjectURL(address));
    }
    return modules[name];
  }

  function makeModel(state) {
    const listeners = new Map();
    return {
      get: (key) => state[key],
      set(key, value) {
        state[key] = value;
        for (const listener of [...(listeners.get(`change:${key}`) ?? [])]) listener(value);
      },
      save_changes() {},
      on: (event, listener) => listeners.set(event, [...(listeners.get(event) ?? []), listener]),
      off: (event, listener) => listeners.set(event, (listeners.get(event) ?? []).filter((one) => one !== listener)),
    };
  }

  async function mount(element) {
    const name = element.dataset.widget;
    if (!Object.hasOwn(sources, name) || element.dataset.mounted) return;
    element.dataset.mounted = "loading";
    const fallback = [...element.childNodes];
    try {
      const module = await load(name);
      await module.default.render({ model: makeModel(JSON.parse(element.dataset.state)), el: element });
      element.dataset.mounted = "yes";
    } catch (error) {
      element.replaceChildren(...fallback); // the table of results stays
      element.dataset.mounted = "failed";
      console.error(`The widget ${name} could not be shown.`, error);
    }
  }

  const mountAll = () => document.querySelectorAll("[data-widget]").forEach(mount);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", mountAll);
  else mountAll();
})();
