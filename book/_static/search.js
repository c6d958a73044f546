/* Sections of the book, found by Pagefind while one types: below the field that opens on every page, and on the page of
   search results. Where that was opened as a file, the browser may not read the index, and Sphinx's own search answers,
   without excerpts. */

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
    /^(a|an|and|are|as|at|be|by|can|do|does|for|from|have|how|i|in|is|it|its|mean|my|of|on|or|should|that|the|there|this|to|vs|what|when|where|which|who|why|with|work|works)$/i;
  const tokens = (text) => text.match(/[\p{L}\p{N}_]+/gu) ?? [];
  const parts = (word) => word.split(/_+|(?<=\p{Ll})(?=\p{Lu})/u).filter(Boolean);

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
    const has = (word) => {
      const stem = word.toLowerCase().replace(/(?<=...)(?:ies|ing|ed|es|s|e|y)$/, "");
      return vocabulary.some((known) => known.startsWith(stem));
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

  /* How much counts: words repeated and short places less than Pagefind has it, titles of lists little, names of the package if asked for. */
  const ranking = (isName) => ({ termFrequency: 0.5, pageLength: 0.4, metaWeights: { entry: 0, name: isName ? 10 : 0 } });

  /* Places with these words: those with many of them, or rare ones, come first, and what is called so before all. */
  async function find(pagefind, { words, isName }) {
    await pagefind.options({ ranking: ranking(isName) });
    const found = [];
    for (const word of words) found.push((await pagefind.search(word)).results);
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
    if (some && whole) return `${count(whole)} for “${query}”, ${some} more with some of these words`;
    return `${count(results.length)} for “${query}”${some ? ", each with some of these words" : ""}`;
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

  const engine = async () => {
    const folder = new URL(`${home}pagefind/`, location.href);
    const [pagefind, words] = await Promise.all([import(new URL("pagefind.js", folder)), fetch(new URL("words.txt", folder))]);
    return [pagefind, (await words.text()).split("\n")];
  };
  let started;

  /* Have a field show what it finds; return a function that searches. */
  function withPagefind(input, output, note) {
    output.classList.add("search-results");
    const summary = output.appendChild(element("p", "search-summary"));
    summary.setAttribute("role", "status");
    const list = output.appendChild(element("ul", "search"));
    const more = output.appendChild(element("button", "btn btn-sm", "Show more"));
    more.type = "button";
    more.hidden = true;
    let waiting = [];
    let latest = "";

    async function showMore() {
      const query = latest;
      const shown = await Promise.all(waiting.splice(0, AT_ONCE).map((result) => result.data()));
      if (query !== latest) return;
      const items = shown.map(item);
      list.append(...items);
      more.hidden = !waiting.length;
      return items[0];
    }

    async function search(query) {
      latest = query;
      started ??= engine();
      const [pagefind, vocabulary] = await started;
      const asked = read(query, vocabulary);
      const found = asked.words.length ? await find(pagefind, asked) : { results: [], whole: 0 };
      if (query !== latest) return; // another word was typed meanwhile
      waiting = [...found.results];
      list.replaceChildren();
      await showMore();
      const lacking = asked.unknown.map((word) => missing(word, vocabulary));
      summary.replaceChildren(...lacking, query && (asked.words.length || !lacking.length) ? summaryOf(query, found) : "");
    }

    more.addEventListener("click", async () => (await showMore())?.querySelector("a").focus());
    let timer = 0;
    input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        const query = input.value.trim();
        note?.(query);
        search(query);
      }, 200);
    });
    return search;
  }

  function withSphinx() {
    window.SPHINX_HIGHLIGHT_ENABLED = false;
    DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
    for (const name of ["_static/language_data.js", "_static/searchtools.js", "searchindex.js"]) {
      const script = document.createElement("script");
      script.async = false;
      script.src = `${home}${name}`;
      document.head.append(script);
    }
  }

  const isFile = location.protocol === "file:";
  const opened = document.querySelector(".search-button__search-container");
  if (opened && !isFile) withPagefind(opened.querySelector("input"), opened.appendChild(element("div")));

  const results = document.getElementById("search-results");
  if (!results) return;
  const input = document.querySelector(".bd-search-container input[type=search]");
  const asked = new URLSearchParams(location.search).get("q") ?? "";
  input.value = asked;
  input.focus();
  input.select();
  if (isFile) withSphinx();
  else {
    const note = (query) => history.replaceState(null, "", query ? `?q=${encodeURIComponent(query)}` : location.pathname);
    withPagefind(input, results, note)(asked.trim());
  }
})();
