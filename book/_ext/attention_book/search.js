/* The page of search results: sections of the book, found by Pagefind. Where the page was opened as a file, the browser
   may not read the index, and Sphinx's own search answers, without excerpts. */

(() => {
  "use strict";
  const AT_ONCE = 15; // results; more are shown when they are asked for
  const home = document.documentElement.dataset.content_root;
  const output = document.getElementById("search-results");
  const input = document.querySelector(".bd-search-container input[type=search]");
  const asked = new URLSearchParams(location.search).get("q") ?? "";

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

  function item({ raw_url: place, url, meta, excerpt: html }) {
    const link = element("a", "", meta.title ?? meta.name);
    link.href = home + address(place ?? url);
    const page = meta.page ? [" ", element("span", "search-page", meta.page)] : [];
    return element("li", "", link, ...page, element("p", "search-excerpt", ...excerpt(html)));
  }

  /* How much counts: words repeated less than Pagefind has it, and a name in the package much or little. */
  const ranking = (name) => ({ termFrequency: 0.5, metaWeights: { name } });

  /* Places that have all of the words. A name in the package comes first if it is what was typed. */
  async function withAll(pagefind, query) {
    if (/_|[a-z][A-Z]|\(|\./.test(query)) {
      await pagefind.options({ ranking: ranking(10) });
      const { results } = await pagefind.search(query);
      const first = await Promise.all(results.slice(0, 8).map((result) => result.data()));
      const typed = query.toLowerCase().replace(/\(.*/, "");
      const names = first.map(({ meta }) => meta.name?.toLowerCase() ?? "");
      if (names[0]?.includes(typed)) {
        const exact = names.indexOf(typed);
        return exact > 0 ? [results[exact], ...results.filter((_, place) => place !== exact)] : results;
      }
    }
    await pagefind.options({ ranking: ranking(0.1) });
    return (await pagefind.search(query)).results;
  }

  /* Places that have some of the words, where none has all: what many words, or rare ones, lead to comes first. */
  async function withSome(pagefind, query) {
    const words = [...new Set(query.split(/\s+/))];
    const found = await Promise.all(words.map(async (word) => (await pagefind.search(word)).results));
    const places = new Map(found.flat().map((result) => [result.id, { result, worth: 0 }]));
    for (const results of found) {
      const rarity = Math.log(1 + places.size / results.length);
      for (const { id, score } of results) places.get(id).worth += rarity * score;
    }
    return [...places.values()].sort((a, b) => b.worth - a.worth).map(({ result }) => result);
  }

  function withPagefind() {
    const summary = output.appendChild(element("p", "search-summary"));
    summary.setAttribute("role", "status");
    const list = output.appendChild(element("ul", "search"));
    const more = output.appendChild(element("button", "btn btn-sm", "Show more"));
    more.hidden = true;
    const engine = import(new URL(`${home}pagefind/pagefind.js`, location.href));
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
      const pagefind = await engine;
      const whole = query ? await withAll(pagefind, query) : [];
      const results = query && !whole.length ? await withSome(pagefind, query) : whole;
      if (query !== latest) return; // another word was typed meanwhile
      waiting = [...results];
      list.replaceChildren();
      await showMore();
      const count = results.length === 1 ? "1 place" : `${results.length} places`;
      const some = results.length && !whole.length ? ", each with some of these words" : "";
      summary.textContent = query ? `${count} for “${query}”${some}` : "";
    }

    more.addEventListener("click", async () => (await showMore())?.querySelector("a").focus());
    let timer = 0;
    input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        const query = input.value.trim();
        history.replaceState(null, "", query ? `?q=${encodeURIComponent(query)}` : location.pathname);
        search(query);
      }, 200);
    });
    search(asked.trim());
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

  input.value = asked;
  input.focus();
  input.select();
  if (location.protocol === "file:") withSphinx();
  else withPagefind();
})();
