/* What the style sheet cannot do, for keyboards and screen readers. */

(() => {
  "use strict";
  const boxes = "pre, .cell_output, .output, .katex-display, div.math, .pst-scrollable-table-container";

  /* What scrolls sideways can be reached by Tab, and then scrolled with the arrow keys; nothing else is a stop. All are
     measured before one of them changes, so that the page is laid out once; those in a section that is not laid out yet
     (custom.css) wait until it is. */
  const overflows = (box) =>
    ["auto", "scroll"].includes(getComputedStyle(box).overflowX) && box.scrollWidth > box.clientWidth + 1;
  function updateStops() {
    const there = [...document.querySelectorAll(boxes)].filter((box) => box.checkVisibility({ contentVisibilityAuto: true }));
    for (const [box, scrolls] of there.map((box) => [box, overflows(box)])) {
      if (scrolls) {
        box.tabIndex = 0;
        box.dataset.scrolls = "";
      } else if ("scrolls" in box.dataset || box.matches("pre")) {
        box.removeAttribute("tabindex");
        delete box.dataset.scrolls;
      }
    }
  }

  /* Names for those who hear the page: code and its output are told apart, the page's own link is marked, and a fold of
     code is called what is written on it; the theme calls all of them "Toggle hidden content". */
  function nameParts() {
    // The theme's button that folds a chapter's deep notebooks in the list of pages has no name of its own.
    for (const fold of document.querySelectorAll("summary:has(> .toctree-toggle)")) {
      fold.setAttribute("aria-label", `Pages of ${fold.closest("li").querySelector("a").textContent.trim()}`);
    }
    const named = [
      [".cell_input", "group", "Code"],
      [".cell_output", "group", "Output"],
      ["nav.page-toc", "navigation", "On this page"],
    ];
    for (const [selector, role, label] of named) {
      for (const part of document.querySelectorAll(selector)) {
        part.setAttribute("role", role);
        part.setAttribute("aria-label", label);
      }
    }
    for (const summary of document.querySelectorAll("details.hide > summary")) summary.removeAttribute("aria-label");
    const here = "nav.bd-docs-nav :is(a.current, .current:not(:has(.current)) > a)";
    for (const link of document.querySelectorAll(here)) link.setAttribute("aria-current", "page");
  }

  /* A link lands where it points: a claim in a folded table is unfolded, and the place is kept until the reader does
     something, since widgets above still take the place of their tables. Not every browser does either by itself. */
  const targeted = () => document.getElementById(location.hash.slice(1));
  function unfoldTarget() {
    const there = targeted();
    const fold = there?.closest("details:not([open])");
    if (!fold) return;
    fold.open = true;
    there.scrollIntoView();
  }
  let aim = null; // scrolls to it
  for (const act of ["wheel", "pointerdown", "keydown", "click"]) {
    addEventListener(act, () => { aim = null; }, { capture: true, passive: true });
  }

  /* After a reload and on the way back a browser would go to the pixel where its reader was, while what lies above is not
     as high yet: the section in sight is kept, and where it was. */
  const place = `place on ${location.pathname}`;
  addEventListener("pagehide", () => {
    const section = document.elementFromPoint(innerWidth / 2, innerHeight / 3)?.closest("article section[id]");
    try {
      sessionStorage.setItem(place, JSON.stringify([section.id, section.getBoundingClientRect().top]));
    } catch {} // not on a section, or a browser that keeps nothing
  });
  function goBack() {
    try {
      const [id, top] = JSON.parse(sessionStorage.getItem(place));
      scrollBy(0, document.getElementById(id).getBoundingClientRect().top - top);
    } catch {}
  }

  /* The form for an error in a chapter names the section in sight. */
  function nameSection({ target }) {
    const link = target.closest?.("a.btn-source-issues-button");
    if (!link) return;
    const above = [...document.querySelectorAll("article section[id]")].filter(
      (section) => section.getBoundingClientRect().top < innerHeight / 2,
    );
    const [section, address] = [above.at(-1), new URL(link.href)];
    if (!section) return;
    const page = address.searchParams.get("place").replace(/#.*/, "");
    address.searchParams.set("place", `${page}#${section.id}`);
    link.href = address;
  }

  /* One switch shows all the code that is folded, that of widgets too. */
  function addCodeSwitch() {
    const all = () => document.querySelectorAll(".cell:not(.tag_hide-cell) > details.hide");
    const button = document.querySelector(".book-code-switch");
    if (!all().length || !button) return;
    button.classList.add("of-use");
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") === "false";
      button.setAttribute("aria-pressed", shown);
      document.documentElement.dataset.code = shown ? "shown" : "";
      for (const fold of all()) fold.open = shown;
    });
  }

  /* The theme's menus, tooltips and mark of the section in sight come at the first sign of a reader: a page can be read
     without them. A click that is too early for its menu is made again. Where their script does not come, a click still opens
     and closes a menu, and asks for it again. */
  let menus;
  function bringMenus() {
    menus ??= new Promise((done, fail) => {
      const script = document.createElement("script");
      script.src = document.getElementById("menus-script").dataset.src;
      script.onload = () => {
        // Without a list of contents it would take every link of the page for one.
        const { bsTarget } = document.body.dataset;
        if (bsTarget && document.querySelector(bsTarget)) bootstrap.ScrollSpy.getOrCreateInstance(document.body);
        done();
      };
      script.onerror = fail;
      document.head.append(script);
    }).catch((error) => {
      menus = undefined;
      throw error;
    });
    return menus;
  }
  let isMet = false;
  function meet({ type, movementX, movementY }) {
    if (type === "pointermove" && !movementX && !movementY) return; // it rests where the page opened
    if (!isMet) bringMenus().catch(() => {});
    isMet = true;
  }
  for (const sign of ["pointermove", "pointerdown", "keydown", "scroll"]) {
    addEventListener(sign, meet, { passive: true }); // the page's own scrolling, no list's in it
  }
  addEventListener("click", async (event) => {
    const opener = event.target.closest?.("[data-bs-toggle=dropdown]");
    if (!opener || window.bootstrap) return;
    event.stopPropagation();
    try {
      await bringMenus();
      opener.click();
    } catch {
      const menu = opener.parentElement.querySelector(".dropdown-menu");
      menu.dataset.bsPopper = "static"; // places it
      opener.setAttribute("aria-expanded", menu.classList.toggle("show"));
    }
  }, { capture: true });

  let waiting = 0;
  function later() {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(updateStops);
  }
  function start() {
    nameParts();
    later();
    unfoldTarget();
    addCodeSwitch();
    addEventListener("hashchange", unfoldTarget);
    const [entry] = performance.getEntriesByType("navigation");
    const there = targeted();
    if (["reload", "back_forward"].includes(entry?.type)) aim = goBack;
    else aim = () => there?.scrollIntoView();
    new ResizeObserver(() => { later(); aim?.(); }).observe(document.querySelector("main"));
    addEventListener("click", nameSection);
    document.addEventListener("toggle", later, true);
    document.addEventListener("contentvisibilityautostatechange", later);
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
  // The theme looks for the same boxes, one by one, and again after every change: it would lay out all that can wait.
  addEventListener("load", (event) => { event.stopImmediatePropagation(); later(); setTimeout(() => aim?.()); });
})();
