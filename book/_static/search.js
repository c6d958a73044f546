/* Sections of the book, found by Pagefind while one types: below the field that opens on every page, and on the page of
   search results. Where Pagefind fails there, as on a page that was opened as a file or one that may not run WebAssembly,
   Sphinx's own search answers, with pages and without excerpts. If that fails too, the reader is told, and can try again. */

(() => {
  "use strict";
  const AT_ONCE = 15; // results; more are shown when they are asked for
  const PLACES = 1200; // of the book, roughly
  const home = document.documentElement.dataset.content_root;

  function element(name, className, ...content) {
    const made = document.createElement(name);
    if (className) made.className = className;
    made.append(...content);
    return made;
  }

  const button = (words) => Object.assign(element("button", "btn btn-sm", words), { type: "button" });

  /* An excerpt is HTML with marks; only its text and its marks are taken over. */
  function excerpt(html) {
    const found = new DOMParser().parseFromString(html, "text/html").body.childNodes;
    return [...found].map((node) => (node.nodeName === "MARK" ? element("mark", "", node.textContent) : node.textContent));
  }

  /* A place in the index is "/name.page/id/" for "name.html#id". */
  const address = (place) => place.replace(/^\/|\/$/g, "").replace(".page/", ".html#").replace(".page", ".html");

  const title = ({ meta }) => meta.title ?? meta.name ?? meta.entry;

  function item(data) {
    const link = element("a", "", title(data));
    link.href = home + address(data.raw_url ?? data.url);
    const page = data.meta.page ? [" ", element("span", "search-page", data.meta.page)] : [];
    return element("li", "", link, ...page, element("p", "search-excerpt", ...excerpt(data.excerpt)));
  }

  /* The words of a question that do not say what it is about. */
  const ASKING =
    /^(a|an|and|are|as|at|be|by|can|do|does|don|doesn|for|from|have|how|i|in|is|isn|it|its|mean|my|of|on|or|should|that|the|there|this|to|vs|what|when|where|which|who|why|with|work|works)$/i;
  /* A symbol is one word, however it is typed: W^O, W_{O} and WO are W_O, dₖ and dk are d_k, and Q K^T is QKT. */
  const plain = (text) =>
    text
      .normalize("NFKC")
      .replace(/[’'](s|t|re|ve|ll)\b|[\^{}\\$]/g, "")
      .replace(/\bW_?([QKVO])\b/gi, "W_$1")
      .replace(/\bd_?(k|v|model|head|ff)\b/g, "d_$1")
      .replace(/\bQ K_?T\b/gi, "QKT");
  const tokens = (text) => plain(text).match(/[\p{L}\p{N}_]+/gu) ?? [];
  const parts = (word) => word.split(/_+|(?<=\p{Ll})(?=\p{Lu})/u).filter((part) => part.length > 2);

  /* How far a word is from another: the letters to put in, leave out, change, or exchange with the next. */
  function distance(one, other) {
    let [before, last] = [[], [...Array(other.length + 1).keys()]];
    for (let i = 0; i < one.length; i++) {
      const row = [i + 1];
      for (let j = 0; j < other.length; j++) {
        const exchanged = i > 0 && one[i] === other[j - 1] && one[i - 1] === other[j] ? before[j - 1] + 1 : Infinity;
        row.push(Math.min(row[j] + 1, last[j + 1] + 1, last[j] + (one[i] !== other[j]), exchanged));
      }
      [before, last] = [last, row];
    }
    return last.at(-1);
  }

  /* The words of the book that are nearest to one that it does not have, at most three; of equals the frequent first. */
  function nearest(word, vocabulary) {
    const steps = new Map(vocabulary.map((known) => [known, distance(word, known)]));
    const near = vocabulary.filter((known) => known.length > 2 && steps.get(known) <= word.length / 4);
    return near.sort((one, other) => steps.get(one) - steps.get(other)).slice(0, 3);
  }

  /* What a query asks for: the words that the book has, in some form, and those that it does not have. */
  function read(query, vocabulary) {
    const every = [...new Set(tokens(query))];
    const telling = every.filter((word) => !ASKING.test(word));
    const stem = (word) => word.replace(/(?<=....)(?:ies|ing|ed|es|s|e|y)$/, "");
    const has = (word) => {
      const typed = word.toLowerCase(); // perhaps not to its end
      return vocabulary.some((known) => known.startsWith(typed) || stem(known) === stem(typed));
    };
    const here = (word) => word.replace(/(?<=\p{Ll}{4})iz(?=[aei])/u, "is"); // the spelling of the book
    const asked = (telling.length ? telling : every).map((word) => (has(here(word)) ? here(word) : word));
    const found = asked.flatMap((word) => (has(word) ? [word] : parts(word).filter(has)));
    return {
      words: [...new Set(found.map((word) => word.toLowerCase()))],
      unknown: asked.filter((word) => !has(word)),
      isName: found.length === asked.length && /^\S*(_|[a-z][A-Z]|\(|\.)\S*$/.test(query),
    };
  }

  /* How much counts: words repeated and short places less than Pagefind has it, titles of lists little,
     other names of a place much, names of the package if asked for. */
  const ranking = (isName) => ({ termFrequency: 0.5, pageLength: 0.4, metaWeights: { aliases: 4, entry: 0, name: isName ? 10 : 0 } });

  /* Places with these words: those with many of them, or rare ones, come first, and what is called so before all. */
  async function find(pagefind, { words, isName }, vocabulary) {
    await pagefind.options({ ranking: ranking(isName) });
    const found = [];
    for (const word of words) {
      const { results } = await pagefind.search(word);
      // Pagefind takes a part of the index that did not come for an empty one.
      if (!results.length && vocabulary.includes(word)) throw new Error(`The index of “${word}” did not come`);
      found.push(results);
    }
    const places = new Map(found.flat().map((result) => [result.id, { result, worth: 0, words: 0 }]));
    for (const results of found) {
      const rarity = Math.log(1 + PLACES / results.length);
      for (const { id, score } of results) {
        places.get(id).worth += rarity * score;
        places.get(id).words += 1;
      }
    }
    const worth = (place) => place.worth * place.words ** 3;
    const ordered = [...places.values()].sort((one, other) => worth(other) - worth(one));
    const first = await Promise.all(ordered.slice(0, AT_ONCE).map(({ result }) => result.data()));
    const name = ({ meta }) => (isName ? meta.name : meta.title) ?? "";
    const called = first.findIndex((data) => `${tokens(name(data).toLowerCase())}` === `${words}`);
    if (called > 0) ordered.unshift(...ordered.splice(called, 1));
    const whole = ordered.filter((place) => place.words === words.length).length;
    return { results: ordered.map(({ result }) => result), whole };
  }

  const count = (places) => (places === 1 ? "1 place" : `${places} places`);

  /* What was found, in words. */
  function summaryOf(query, { results, whole }) {
    const some = results.length - whole;
    if (!some) return `${count(whole)} for “${query}”`;
    return `${whole ? `${count(whole)} for` : "No place has all of"} “${query}”, ${some} ${whole ? "more " : ""}with some of these words`;
  }

  /* A word that no page has, with links that search for the words nearest to it. */
  function missing(word, vocabulary) {
    const links = nearest(word.toLowerCase(), vocabulary).flatMap((near, place) => {
      const link = element("a", "", near);
      link.href = `${home}search.html?q=${near}`;
      return [place ? ", " : "; near it: ", link];
    });
    return element("span", "search-missing", `No page has “${word}”`, ...links, ". ");
  }

  let started; // the promise of Pagefind and the book's words
  let starts = 0;
  async function start() {
    const folder = new URL(`${home}pagefind/`, location.href);
    const again = starts++ ? `?${starts}` : ""; // a browser may remember that an address did not come
    const [pagefind, words] = await Promise.all([
      import(new URL(`pagefind.js${again}`, folder)),
      fetch(new URL("words.txt", folder)),
    ]);
    if (!words.ok) throw new Error(`${words.url} did not come`);
    return [pagefind, (await words.text()).split("\n")];
  }

  function loadScript(address) {
    const script = element("script");
    script.src = address;
    return new Promise((done, fail) => {
      script.onload = done;
      script.onerror = () => fail(new Error(`${address} did not come`));
      document.head.append(script);
    });
  }

  /* Load Sphinx's own search, which begins by itself, and have it answer a query; return whether it came. */
  const missingScripts = ["_static/language_data.js", "_static/searchtools.js", "searchindex.js"];
  async function startSphinx(query) {
    window.SPHINX_HIGHLIGHT_ENABLED = false;
    DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
    try {
      for (; missingScripts.length; missingScripts.shift()) {
        if (missingScripts.length === 1) {
          showEachPageOnce();
          Search.deferQuery(query);
        }
        await loadScript(home + missingScripts[0]);
      }
    } catch (error) {
      console.error("Sphinx's search failed.", error);
    }
    return !missingScripts.length;
  }
  function showEachPageOnce() { // of the places found on a page the last is the best
    const all = Search._performSearch;
    Search._performSearch = (...query) => {
      const pages = new Set();
      return all(...query).reverse().filter(([page]) => !pages.has(page) && pages.add(page)).reverse();
    };
  }

  /* Have a field show what it finds; return a function that searches. Where Pagefind never answers, `fallback` may. */
  function showFound(input, output, { note, fallback, hint = "" } = {}) {
    output.classList.add("search-results");
    const summary = output.appendChild(element("p", "search-summary"));
    summary.setAttribute("role", "status");
    const list = output.appendChild(element("ul", "search"));
    const more = output.appendChild(button("Show more"));
    more.hidden = true;
    let waiting = [];
    let latest = "";
    let hasAnswered = false;

    async function showMore() {
      const query = latest;
      const shown = await Promise.all(waiting.slice(0, AT_ONCE).map((result) => result.data()));
      if (query !== latest) return;
      waiting.splice(0, AT_ONCE);
      const items = shown.map(item);
      list.append(...items);
      more.hidden = !waiting.length;
      return items[0];
    }

    async function search(query) {
      latest = query;
      const [pagefind, vocabulary] = await (started ??= start());
      const asked = read(query, vocabulary);
      const found = asked.words.length ? await find(pagefind, asked, vocabulary) : { results: [], whole: 0 };
      if (query !== latest) return; // another word was typed meanwhile
      waiting = [...found.results];
      list.replaceChildren();
      await showMore();
      const lacking = asked.unknown.map((word) => missing(word, vocabulary));
      summary.replaceChildren(...lacking, query && (asked.words.length || !lacking.length) ? summaryOf(query, found) : "");
      hasAnswered = true;
    }

    /* If a file does not come, all that was fetched is forgotten, and the reader is told and may try again. */
    async function attempt(act) {
      try {
        return await act();
      } catch (error) {
        console.error("The search failed.", error);
        started = undefined;
        if (!latest) return;
        const isAnswered = fallback && !hasAnswered && (await fallback(latest));
        const ours = [summary, list, more];
        for (const part of [...output.children]) {
          if (!ours.includes(part)) part.hidden = !isAnswered;
          else if (isAnswered) part.remove();
        }
        if (isAnswered) return;
        list.replaceChildren();
        more.hidden = true;
        const again = button("Try again");
        again.addEventListener("click", () => attempt(() => search(latest)));
        summary.replaceChildren(`The search did not load. Is there a connection? ${hint}`, again);
      }
    }

    more.addEventListener("click", async () => (await attempt(showMore))?.querySelector("a").focus());
    let timer = 0;
    input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        if (!summary.isConnected) return; // the fallback answers, when Enter is pressed
        const query = input.value.trim();
        note?.(query);
        attempt(() => search(query));
      }, 200);
    });
    return (query) => attempt(() => search(query));
  }

  const opened = document.querySelector(".search-button__search-container");
  const hint = "Press Enter to search on a page of its own. ";
  if (opened) showFound(opened.querySelector("input"), opened.appendChild(element("div")), { hint });

  const results = document.getElementById("search-results");
  if (!results) return;
  const input = document.querySelector(".bd-search-container input[type=search]");
  const asked = new URLSearchParams(location.search).get("q") ?? "";
  input.value = asked;
  input.focus();
  input.select();
  const note = (query) => history.replaceState(null, "", query ? `?q=${encodeURIComponent(query)}` : location.pathname);
  let loading; // of Sphinx's search, while it goes on
  const fallback = (query) => (loading ??= startSphinx(query).finally(() => { loading = undefined; }));
  showFound(input, results, { note, fallback })(asked.trim());
})();
