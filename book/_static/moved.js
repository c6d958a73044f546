/* An address of the first edition leads to where its words are now; works over file:// too. */

(() => {
  "use strict";
  const CAME_BY = "came-by-a-link-to";
  const moved = JSON.parse(document.getElementById("moved").textContent);

  /* A link of this site means the section that has the number now. */
  addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    if (link) sessionStorage.setItem(CAME_BY, link.href);
  });

  function follow() {
    for (const line of document.querySelectorAll("p.moved")) line.remove();
    const name = decodeURIComponent(location.hash.slice(1));
    if (!Object.hasOwn(moved, name)) return;
    const [address, heading] = moved[name];
    const here = document.getElementById(name);
    if (!here) {
      location.replace(address);
    } else if (heading && sessionStorage.getItem(CAME_BY) !== location.href) {
      const link = document.createElement("a");
      link.href = address;
      link.textContent = "it is here now";
      const line = document.createElement("p");
      line.className = "moved";
      line.append(`Did you look for “${heading}” of the first edition? `, link, ".");
      here.querySelector("h2, h3, h4")?.after(line);
    }
  }

  follow();
  addEventListener("hashchange", follow);
})();
