/* Review cards: the page lists questions with folded answers; here they are asked one at a time. What the reader knew is
   kept in this browser alone. Without this script the list stays. */

import "./style.css";
import { answer, dayOf, type Kept, queue, understand } from "./schedule.ts";

const KEY = "review cards";

function element<Name extends keyof HTMLElementTagNameMap>(name: Name, className = "", ...content: (string | Node)[]) {
  const made = document.createElement(name);
  made.className = className;
  made.append(...content);
  return made;
}

function button(label: string, key: string, onClick: () => void, className = ""): HTMLButtonElement {
  const made = element("button", `review-button ${className}`.trim(), label);
  made.type = "button";
  if (key) {
    made.append(" ", element("kbd", "", key));
    made.setAttribute("aria-keyshortcuts", key === "←" ? "ArrowLeft" : key);
  }
  made.addEventListener("click", onClick);
  return made;
}

function recall(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // a browser may forbid it: then the answers last as long as the page
  }
}

function keep(kept: Kept): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(kept));
  } catch {}
}

function start(root: HTMLElement): void {
  const cards = new Map([...root.querySelectorAll<HTMLElement>(".review-card")].map((card) => [card.id, card]));
  const chapters = new Map<string, string>();
  for (const section of root.querySelectorAll("section")) {
    const number = section.querySelector<HTMLElement>(".review-card")?.dataset.chapter;
    const title = section.querySelector("h2 > a")?.textContent ?? "";
    if (number && !chapters.has(number)) chapters.set(number, title);
  }
  const today = () => dayOf(new Date());

  let kept = understand(recall());
  let before: { kept: Kept; card: string }[] = [];
  let early = false; // cards are asked before their time
  let card: string | undefined;
  let sure = false; // whether all answers are to be forgotten

  const select = element("select");
  select.append(new Option("All chapters", ""), ...[...chapters].map(([number, title]) => new Option(title, number)));
  const left = element("span", "review-left");
  left.setAttribute("role", "status");
  const show = button("Show the answer", "Space", () => reveal(true), "review-main");
  const again = button("Not yet", "1", () => reply(false));
  const knew = button("I knew it", "2", () => reply(true), "review-main");
  const back = button("Go back", "←", goBack, "review-plain");
  const anyway = button("Ask me all the same", "", () => {
    early = true;
    draw();
    focusCard();
  });
  const list = button(
    "Show all as a list",
    "",
    () => setListed(!root.classList.contains("review-listed")),
    "review-plain",
  );
  const forget = button("Forget my answers", "", () => {
    if (sure) change({ ...kept, count: 0, answered: {} });
    sure = !sure;
    if (!sure) before = [];
    draw();
  });
  const done = element("p", "review-done");
  done.tabIndex = -1;
  root.prepend(element("div", "review-bar", element("label", "", "Ask ", select), left));
  root.append(done, element("div", "review-buttons", show, again, knew, anyway, back, list, forget));
  root.classList.add("reviewing");

  function change(next: Kept): void {
    kept = next;
    keep(kept);
  }

  const chosen = () =>
    [...cards].filter(([, each]) => !kept.chapter || each.dataset.chapter === kept.chapter).map(([id]) => id);

  const fold = () => (card ? cards.get(card)?.querySelector("details") : undefined);

  function reveal(open: boolean): void {
    const shown = fold();
    if (shown) shown.open = open;
    drawButtons();
    if (open) focusCard();
  }

  function focusCard(): void {
    (card ? cards.get(card) : done)?.focus({ preventScroll: true });
  }

  function reply(known: boolean): void {
    if (!card) return;
    before.push({ kept, card });
    change(answer(kept, card, known, today()));
    draw();
    focusCard();
  }

  function goBack(): void {
    const last = before.pop();
    if (!last) return;
    change({ ...last.kept, chapter: kept.chapter });
    draw(last.card);
    focusCard();
  }

  function setListed(listed: boolean): void {
    root.classList.toggle("review-listed", listed);
    list.textContent = listed ? "Ask one at a time" : "Show all as a list";
    if (!listed) for (const each of cards.values()) close(each);
    sure = false;
    draw(card);
  }

  function close(each: HTMLElement): void {
    const shown = each.querySelector("details");
    if (shown) shown.open = false;
  }

  /** When the next card of this choice comes back. */
  function nextDay(): string {
    const days = Math.min(...chosen().map((id) => kept.answered[id]?.due ?? Infinity)) - today();
    return days === 1 ? "tomorrow" : `in ${days} days`;
  }

  function draw(wanted?: string): void {
    if (kept.chapter && !chapters.has(kept.chapter)) kept = { ...kept, chapter: "" }; // it is no more
    const waiting = queue(chosen(), kept, today());
    const ahead = early ? [...chosen()].sort((a, b) => (kept.answered[a]?.at ?? 0) - (kept.answered[b]?.at ?? 0)) : [];
    if (card) cards.get(card)?.classList.remove("review-current");
    card = wanted && chosen().includes(wanted) ? wanted : (waiting[0] ?? ahead[0]);
    const current = card ? cards.get(card) : undefined;
    if (current) {
      current.classList.add("review-current");
      current.tabIndex = -1;
      if (!root.classList.contains("review-listed")) close(current);
    }
    const fresh = waiting.filter((id) => !kept.answered[id]).length;
    left.textContent = `${waiting.length - fresh} to repeat, ${fresh} new, of ${chosen().length}`;
    done.textContent = current ? "" : `Nothing is to be asked now. The next card comes back ${nextDay()}.`;
    done.hidden = Boolean(current);
    select.value = kept.chapter;
    drawButtons();
  }

  function drawButtons(): void {
    const listed = root.classList.contains("review-listed");
    const open = Boolean(fold()?.open);
    const had = document.activeElement;
    show.hidden = listed || !card || open;
    again.hidden = knew.hidden = listed || !card || !open;
    anyway.hidden = listed || Boolean(card);
    back.hidden = listed || before.length === 0;
    forget.hidden = !listed || Object.keys(kept.answered).length === 0;
    forget.textContent = sure ? "Forget them: sure?" : "Forget my answers";
    if (had instanceof HTMLButtonElement && had.hidden && root.contains(had))
      (listed ? list : (cards.get(card ?? "") ?? done)).focus();
  }

  select.addEventListener("change", () => {
    early = false;
    change({ ...kept, chapter: select.value });
    draw();
  });
  // Only where the focus is within: a letter typed elsewhere is not meant for the cards.
  root.addEventListener("keydown", (event) => {
    const on = event.target as HTMLElement;
    if (event.ctrlKey || event.altKey || event.metaKey || root.classList.contains("review-listed")) return;
    if (on.closest("select, input")) return;
    const presses = on.closest("button, a, summary") !== null;
    const open = Boolean(fold()?.open);
    if ((event.key === " " || event.key === "Enter") && !presses && card && !open) reveal(true);
    else if (event.key === "1" && open) reply(false);
    else if (event.key === "2" && open) reply(true);
    else if (event.key === "ArrowLeft" && before.length > 0) goBack();
    else return;
    event.preventDefault();
  });
  root.addEventListener("toggle", drawButtons, true);
  // Another window of this browser has been answered.
  addEventListener("storage", (event) => {
    if (event.key !== KEY) return;
    kept = understand(event.newValue);
    before = [];
    draw(card);
  });
  // A link to a chapter or to a card, from the menu or from elsewhere.
  function follow(): void {
    const there = document.getElementById(location.hash.slice(1));
    if (!there || !root.contains(there)) return;
    const wanted = there.closest<HTMLElement>(".review-card") ?? there.querySelector<HTMLElement>(".review-card");
    if (!wanted) return;
    kept = { ...kept, chapter: wanted.dataset.chapter ?? "" };
    draw(there === wanted ? wanted.id : undefined);
    root.scrollIntoView();
  }
  addEventListener("hashchange", follow);
  draw();
  follow();
}

const root = document.querySelector<HTMLElement>(".review-cards");
if (root) start(root);
