/* What a reader has read and answered, in this browser alone: one record in localStorage, which nothing sends anywhere.

   A section counts as read when its heading was in sight, its end is, and as much time went by within it as even a fast
   reader needs. Where a browser keeps nothing, the record lasts as long as the page. What is erased on one page is erased
   on all that are open, and on those that a reader goes back to. */

(() => {
  "use strict";
  const KEY = "attention-tutorial";
  const WORDS_PER_SECOND = 15;
  const page = DOCUMENTATION_OPTIONS.pagename;
  const root = document.documentElement.dataset.content_root ?? "";
  let unstored = null; // the record, where the browser refuses to store it

  /* { pages: { PAGE: { sections: how many it has, read: [ID], turns: { QUESTION: ANSWER } } }, last: { page, id, title },
       short: whether chapters show their short way } */
  function read() {
    let kept = unstored;
    try {
      kept ??= JSON.parse(localStorage.getItem(KEY));
    } catch {} // forbidden, or not of this book
    const sound = Object.entries(kept?.pages ?? {}).filter(([, own]) => Array.isArray(own?.read) && own.turns);
    return { pages: Object.fromEntries(sound), last: kept?.last?.id ? kept.last : null, short: kept?.short === true };
  }
  function change(edit) {
    const record = read(); // another tab may have written
    record.pages[page] ??= { sections: sections.length, read: [], turns: {} };
    edit(record.pages[page], record);
    write(record);
  }
  function write(record) {
    try {
      localStorage.setItem(KEY, JSON.stringify(record));
      unstored = null;
    } catch {
      unstored = record;
    }
    show();
  }
  function erase() {
    try {
      localStorage.removeItem(KEY);
    } catch {}
    forget();
  }
  function forget() { // what this page still shows of a record that is gone
    unstored = null;
    begun.clear();
    dispatchEvent(new Event("answers-erased"));
    show();
  }

  // ---- The answers to a page's turns, for the host of the widgets ----------------------------------------------------

  window.bookAnswers = {
    given: (question) => read().pages[page]?.turns[question],
    keep(question, given) {
      const isEmpty = !given.trim(); // a box that was left as it was
      if (isEmpty && !read().pages[page]?.turns[question]) return;
      change(({ turns }) => {
        if (isEmpty) delete turns[question];
        else turns[question] = given;
      });
    },
  };

  // ---- Sections ------------------------------------------------------------------------------------------------------

  const chapter = page.startsWith("notebooks/");
  const sections = chapter ? [...document.querySelectorAll('article section[id^="section-"]')] : [];
  const words = new Map();
  const within = (part, selector) => [...part.querySelectorAll(selector), ...(part.matches(selector) ? [part] : [])];
  function wordsOf(part) { // of its prose, not of what is folded
    if (!words.has(part)) {
      const prose = within(part, "p, li").filter((line) => !line.closest("details, .cell, .of-code"));
      words.set(part, prose.map((line) => line.textContent).join(" ").split(/\s+/).length);
    }
    return words.get(part);
  }
  const begun = new Map(); // the seconds within a section whose heading was in sight

  function look() {
    if (document.visibilityState !== "visible") return;
    for (const section of sections) {
      if ("folded" in section.dataset) continue;
      const { top, bottom } = section.getBoundingClientRect();
      if (top >= 0 && top < innerHeight) begun.set(section, begun.get(section) ?? 0);
      if (top > innerHeight / 2 || bottom < 0) continue;
      if (begun.has(section)) begun.set(section, begun.get(section) + 1);
      const done = bottom <= innerHeight && begun.get(section) >= Math.max(3, wordsOf(section) / WORDS_PER_SECOND);
      const record = read();
      const isNew = done && !record.pages[page]?.read.includes(section.id);
      const isHere = bottom > innerHeight / 2 && begun.get(section) >= 3 && record.last?.id !== section.id;
      if (!isNew && !isHere) continue;
      change((own, all) => {
        own.sections = sections.length;
        if (isNew) own.read.push(section.id);
        if (isHere) all.last = { page, id: section.id, title: titleOf(section) };
      });
    }
  }

  function titleOf(section) {
    const heading = section.querySelector("h2, h3").cloneNode(true);
    for (const part of heading.querySelectorAll(".headerlink, .katex-mathml")) part.remove();
    return heading.textContent.trim();
  }

  // ---- The short way: what a chapter says to read "In a hurry", without code; all else folds to its headings ----------

  const HURRY = /In\sa\shurry:\s(.*?)\.(\s|$)/s;
  const facts = [...document.querySelectorAll(".chapter-facts")].find((line) => HURRY.test(line.textContent));
  const way = facts ? named(facts.textContent.match(HURRY)[1].replace(/\s+/g, " ")) : [];
  const opened = new Set(history.state?.opened); // which folds this visit to the page has opened

  function named(words) { // the sections of "7.4 to 7.6, and 7.10"
    const place = (number) => sections.findIndex(({ id }) => id === `section-${number.replace(".", "-")}`);
    const runs = [...words.matchAll(/(\d+\.\d+)(?: to (\d+\.\d+))?/g)];
    return runs.flatMap(([, from, to = from]) => sections.slice(place(from), place(to) + 1));
  }
  function fold(short) {
    for (const section of document.querySelectorAll("article > section > section")) {
      const folds = short && !way.includes(section) && section.id !== "summary" && !opened.has(section.id);
      document.querySelector(`.bd-toc-nav a[href="#${section.id}"]`)?.classList.toggle("is-folded", folds);
      if (folds === "folded" in section.dataset) continue;
      section.toggleAttribute("data-folded", folds);
      const heading = section.querySelector("h2");
      if (folds) {
        const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Open" });
        button.ariaLabel = `Open ${titleOf(section)}`;
        heading.append(button);
      } else heading.querySelector("button").remove();
    }
  }
  function markWhatAsksForCode() { // turns that are answered in code, and words that lead to a cell with nothing else
    for (const cell of document.querySelectorAll(".cell.tag_turn:not(.tag_hide-input)")) {
      let part = cell.nextElementSibling; // its answer
      do part.classList.add("of-code");
      while (!part.textContent.startsWith("Your turn") && (part = part.previousElementSibling));
    }
    for (const cell of document.querySelectorAll("article .cell:not(:has(.cell_output))")) {
      const lead = cell.previousElementSibling;
      if (lead?.matches("p") && lead.textContent.trim().endsWith(":")) lead.classList.add("of-code");
    }
  }
  function foldCode(short) { // behind the same sign as code that is folded on every way
    document.querySelector("article").toggleAttribute("data-without-code", short);
    const shown = document.documentElement.dataset.code === "shown";
    for (const code of document.querySelectorAll(short ? ".cell > .cell_input" : ".of-short-way > .cell_input")) {
      if (short) {
        const fold = Object.assign(document.createElement("details"), { open: shown, className: "admonition hide of-short-way" });
        fold.innerHTML = "<summary><p class=collapsed>Show the code</p><p class=expanded>Hide the code</p></summary>";
        code.replaceWith(fold);
        fold.append(code);
      } else code.parentElement.replaceWith(code);
    }
  }
  function open(section) {
    opened.add(section.id);
    history.replaceState({ ...history.state, opened: [...opened] }, "");
    fold(true);
  }
  function openTarget() {
    const there = document.getElementById(location.hash.slice(1));
    const folded = there?.closest("[data-folded]");
    if (!folded) return;
    open(folded);
    there.scrollIntoView();
  }
  function offerShortWay() {
    const button = Object.assign(document.createElement("button"), { type: "button", className: "short-way" });
    markWhatAsksForCode();
    const opening = [...facts.parentElement.children].filter((part) => !part.matches("section"));
    const minutes = Math.round(minutesWithoutCode([...opening, ...way]));
    button.textContent = `Short way: ${way.length} sections without code, ${minutes} minutes`;
    facts.append(" ", button, " ", Object.assign(document.createElement("span"), { role: "status" }));
    button.addEventListener("click", () => {
      opened.clear();
      history.replaceState({ ...history.state, opened: [] }, "");
      const record = read();
      write({ ...record, short: !record.short });
    });
    addEventListener("hashchange", openTarget);
    addEventListener("beforeprint", () => foldCode(false)); // paper shows the whole chapter
    addEventListener("afterprint", show);
    document.addEventListener("click", ({ target }) => {
      const heading = target.closest("[data-folded] > h2");
      if (heading) {
        open(heading.parentElement);
        heading.tabIndex = -1; // its button, where the keyboard was, is gone
        heading.focus({ preventScroll: true });
      } else if (target.closest("a[href*='#']")) setTimeout(openTarget); // it may lead where the page is already
    });
    return button;
  }
  const shortWay = way.length ? offerShortWay() : null;

  // ---- What is shown of it -------------------------------------------------------------------------------------------

  function show() {
    const { pages, last, short } = read();
    if (shortWay) {
      shortWay.setAttribute("aria-pressed", short);
      shortWay.nextElementSibling.textContent = short ? "Code and other sections are folded. Press again to show all." : "";
      fold(short);
      foldCode(short);
    }
    const link = (to) => new URL(`${root}${to}`, location.href).href;
    const names = new Map(Object.keys(pages).map((name) => [link(`${name}.html`), pages[name]]));
    for (const anchor of document.querySelectorAll(".bd-docs-nav a, .you-are-here a")) {
      const own = names.get(anchor.href.replace(/#.*/, ""));
      if (own?.read.length) anchor.dataset.read = own.read.length < own.sections ? `${own.read.length}/${own.sections}` : "✓";
      else delete anchor.dataset.read;
    }
    const done = pages[page]?.read ?? [];
    for (const anchor of document.querySelectorAll(".bd-toc-nav a[href^='#section-']")) {
      anchor.classList.toggle("was-read", done.includes(anchor.hash.slice(1)));
    }
    showMinutes(done, short && way.length);
    showWayOn(last && { ...last, address: link(`${last.page}.html#${last.id}`) });
    const said = document.querySelector(".book-record [role=status]");
    if (said) said.textContent = inWords(Object.values(pages));
  }

  function minutesOf(some) { // what falls to some sections of the chapter's own time, by their words
    const [, minutes] = document.querySelector("article").textContent.match(/Time[.:]\s+(\d+)\s+minutes/) ?? [];
    const count = (those) => those.reduce((sum, section) => sum + wordsOf(section), 0);
    return (minutes * count(some)) / count(sections);
  }
  function minutesWithoutCode(parts) { // one for 110 words, one for a figure, three for a demonstration
    const looks = (part) => within(part, "img").length + 3 * within(part, "[data-widget]:not([data-widget=your_turn])").length;
    return parts.reduce((sum, part) => sum + wordsOf(part) / 110 + looks(part), 0);
  }

  function showMinutes(done, short) {
    const head = document.querySelector(".onthispage");
    if (head) head.dataset.left = "";
    if (!head || !done.length) return;
    const asked = (short ? way : sections).filter(({ id }) => !done.includes(id));
    const left = Math.ceil(short ? minutesWithoutCode(asked) : minutesOf(asked));
    if (Number.isNaN(left)) return;
    head.dataset.left = left ? `${left} min left` : "read";
  }

  const begin = document.querySelector(".promise .sd-btn[href*='notebooks/']");
  const atFirst = begin && [begin.href, begin.textContent];
  function showWayOn(last) {
    if (begin) [begin.href, begin.firstChild.textContent] = last ? [last.address, `Continue: ${last.title}`] : atFirst;
  }

  function inWords(all) {
    const counted = (n, name) => `${n} ${name}${n === 1 ? "" : "s"}`;
    const read = all.flatMap((own) => own.read).length;
    const turns = all.flatMap((own) => Object.keys(own.turns)).length;
    return read + turns ? `Kept: ${counted(read, "section")} read, ${counted(turns, "turn")} answered.` : "Nothing is kept.";
  }

  function save() {
    const address = URL.createObjectURL(new Blob([JSON.stringify(read(), null, 1)], { type: "application/json" }));
    Object.assign(document.createElement("a"), { href: address, download: "attention-tutorial.json" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  const box = document.querySelector(".book-record");
  if (box) {
    box.hidden = false;
    const [saving, erasing] = box.querySelectorAll("button");
    saving.addEventListener("click", save);
    erasing.addEventListener("click", erase);
  }
  addEventListener("storage", ({ key, newValue }) => { // another page wrote
    if (key === null || (key === KEY && newValue === null)) forget();
    else if (key === KEY) show();
  });
  addEventListener("pageshow", ({ persisted }) => { // back from where it heard nothing
    if (persisted && !read().pages[page]) forget();
    else if (persisted) show();
  });
  show();
  openTarget();
  if (sections.length) setInterval(look, 1000);
})();
