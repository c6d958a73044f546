/* Turns a view into a widget: its state, unique ids, and cleaning up. */

import { type ComponentChildren, type ComponentType, createContext, render as draw } from "preact";
import { useContext, useState } from "preact/hooks";
import { fromFragment, markOf, toFragment } from "./link.ts";

/** What a view gets: the state, what `compute` made of it, and a way to change it. */
export interface ViewProps<S, D> {
  state: S;
  data: D;
  write: (changes: Partial<S>) => void;
}

interface Definition<S, D> {
  /** Its class in style sheets, and the beginning of its ids. */
  name: string;
  /** What a screen reader calls it. */
  label: string;
  /** Repair an inconsistent state, such as a step that the example does not have. */
  settle?: (state: S) => S;
  /** What of the state a link carries; without it there is no link. */
  linked?: readonly (keyof S)[];
  /** Compute everything that is shown from the state. */
  compute: (state: S) => D;
  View: ComponentType<ViewProps<S, D>>;
}

const Prefix = createContext("");
/** The link to what is shown, that to the same on a page of its own, and the element that can fill the screen. */
const Frame = createContext<{ link?: string; alone?: string; el?: HTMLElement }>({});

/** A function that makes ids which are this widget's alone: `useIds()("reset")` is "temperature-2-reset". */
export function useIds(): (key: string) => string {
  const prefix = useContext(Prefix);
  return (key) => `${prefix}-${key}`;
}

/** A state that is reset when its subject changes. */
export function useStateFor<T>(subject: string, first: T): [T, (value: T) => void] {
  const [held, hold] = useState({ subject, value: first });
  return [held.subject === subject ? held.value : first, (value) => hold({ subject, value })];
}

// Keys that sliders, menus, buttons and grids use; a field takes all. A notebook must not see them: it has its own shortcuts.
const OURS = /^(Arrow|Home$|End$|Page|Enter$| $)/;

function keepOurKeys(event: KeyboardEvent) {
  const typed = (event.target as Element).matches("textarea, input[type=text]") && !/^(Tab|Escape)$/.test(event.key);
  const ours = typed || (OURS.test(event.key) && !event.altKey);
  if (ours && !event.ctrlKey && !event.metaKey) event.stopPropagation();
}

/** A function that, should what has the focus have gone, gives it to what is left nearest to that place. */
function focusIn(el: HTMLElement): () => void {
  const root = el.getRootNode() as Document | ShadowRoot;
  const held = root.activeElement;
  const around: Element[] = [];
  for (let part = held; part && part !== el; part = part.parentElement) around.push(part);
  return () => {
    if (!held || held.isConnected || el.contains(root.activeElement)) return;
    const near = [...around, el].filter((part) => part.isConnected);
    const found = near.flatMap((part) => [...part.querySelectorAll<HTMLElement>("button, input, select")]);
    found.find((part) => part.tabIndex === 0)?.focus({ preventScroll: true });
  };
}

/** Show what a choice leads to; if that is less tall, room is left, so that what stands below keeps its place. */
function keepHeight(el: HTMLElement, show: () => void) {
  const section = el.firstElementChild as HTMLElement;
  const { height } = getComputedStyle(section); // as if it were not enlarged
  show();
  section.style.minHeight = height;
}

/** Room that was left goes when the width changes or a fold is opened or closed; the function returned ends that. */
function letGoOfHeight(el: HTMLElement): () => void {
  const section = el.firstElementChild as HTMLElement;
  const letGo = () => section.style.removeProperty("min-height");
  let width = 0;
  const observer = new ResizeObserver(([entry]) => {
    if (entry!.contentRect.width !== width) letGo();
    width = entry!.contentRect.width;
  });
  observer.observe(section);
  section.addEventListener("toggle", letGo, true);
  return () => observer.disconnect();
}

// In a notebook each widget has imported its bundle anew, so a shared counter belongs to the page.
const page = globalThis as typeof globalThis & { attentionWidgetsMounted?: number };

/** What tells a widget of a page from those of its kind in a link: "plane", "plane-2"; a notebook's have no link. */
function nameInLinks(el: HTMLElement): string {
  const { widget } = el.dataset;
  if (!widget || el.getRootNode() !== document) return "";
  const place = [...document.querySelectorAll(`[data-widget="${widget}"]`)].indexOf(el);
  return place > 0 ? `${widget}-${place + 1}` : widget;
}

/** Make what the book's pages and notebooks mount. */
export function defineWidget<S extends object, D>(definition: Definition<S, D>) {
  const { name, label, settle, linked = [], compute, View } = definition;

  /** Show a state in an element, and write into the state what a reader does; the function returned ends that. */
  function render({ state, el }: { state: S; el: HTMLElement }): () => void {
    page.attentionWidgetsMounted = (page.attentionWidgetsMounted ?? 0) + 1;
    const prefix = `${name}-${page.attentionWidgetsMounted}`;
    const inLinks = linked.length ? nameInLinks(el) : "";
    let refused = false;
    let link = "";

    function show() {
      const settled = settle ? settle({ ...state }) : { ...state };
      const data = compute(settled);
      link = inLinks && toFragment(inLinks, settled, linked);
      const home = el.dataset.alone ?? "";
      const alone = home && home + link.replace(/^(#[a-z_]+)-\d+/, "$1");
      const keepFocus = focusIn(el);
      draw(
        <Prefix.Provider value={prefix}>
          <Frame.Provider value={{ link, alone, el }}>
            <section class={`bw ${name}`} aria-label={label} onKeyDown={keepOurKeys} translate={false}>
              {refused && (
                <p class="bw-trouble" role="status">
                  <Words>
                    The link that led here holds nothing that this demonstration knows. This is its beginning.
                  </Words>
                </p>
              )}
              <View state={settled} data={data} write={write} />
            </section>
          </Frame.Provider>
        </Prefix.Provider>,
        el,
      );
      keepFocus();
    }

    function write(changes: Partial<S>) {
      refused = false;
      Object.assign(state, changes);
      keepHeight(el, show);
    }

    /** Show what the page's fragment says; what cannot be read or shown is refused. */
    function follow() {
      const changes = inLinks ? fromFragment(location.hash, inLinks, state, linked) : null;
      if (changes === null) return show();
      const before = { ...state };
      refused = !changes;
      try {
        Object.assign(state, changes);
        show();
      } catch {
        Object.assign(state, before);
        refused = true;
        draw(null, el);
        show();
      }
      el.scrollIntoView();
    }
    const followed = () => location.hash.startsWith(markOf(inLinks)) && location.hash !== link && follow();

    el.replaceChildren();
    const [entry] = performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
    if (entry?.type === "navigate") follow();
    else show(); // after a reload and on the way back it is where its reader left it
    if (inLinks) addEventListener("hashchange", followed);
    const stop = letGoOfHeight(el);
    return () => {
      removeEventListener("hashchange", followed);
      stop();
      draw(null, el);
    };
  }

  return { render };
}

/** Words that a browser may translate, where all else is computed and stays as it is. A translator puts elements of its
    own in the place of a text, which nobody could change then: other words are a new element. */
export function Words({ children }: { children: ComponentChildren }) {
  if (typeof children !== "string") return <>{children}</>;
  return (
    <span key={children} translate={true}>
      {children}
    </span>
  );
}

/** Let a widget fill the screen, as large as it fits. */
async function fillScreen(el: HTMLElement) {
  const section = el.firstElementChild as HTMLElement;
  const { width, height } = section.getBoundingClientRect();
  try {
    await el.requestFullscreen();
  } catch {
    return; // a browser may refuse it, and the page may have let go of the widget meanwhile
  }
  const zoom = Math.min(innerWidth / width, innerHeight / height, 3);
  Object.assign(section.style, { width: `${width}px`, zoom: Math.max(zoom, 1) });
  const leave = () => {
    if (document.fullscreenElement === el) return;
    section.style.removeProperty("width");
    section.style.removeProperty("zoom");
    document.removeEventListener("fullscreenchange", leave);
  };
  document.addEventListener("fullscreenchange", leave);
}

/** At the heading's end, on a page of the book: the links to what is shown, and the way to fill the screen, if any. */
function Tools() {
  const { link, alone, el } = useContext(Frame);
  const [copied, say] = useStateFor(link ?? "", "");
  if (!el || el.getRootNode() !== document || el.closest(".demonstration")) return null; // a notebook, a slide

  async function copy() {
    try {
      await navigator.clipboard.writeText(new URL(link!, location.href).href);
      say("Link copied");
    } catch {
      say("The link is in the address bar");
    }
  }
  return (
    <span class="bw-tools">
      <span aria-live="polite">{copied}</span>
      {link && (
        <a href={link} title="A link to what you see" onClick={copy}>
          <span class="bw-unseen">A link to what you see</span>
          <i class="bw-chain" />
        </a>
      )}
      {alone && (
        <a href={alone} title="A page of its own, to embed">
          <span class="bw-unseen">A page of its own, to embed</span>
          <i class="bw-alone" />
        </a>
      )}
      {document.fullscreenEnabled && (
        <button type="button" title="Fill the screen" aria-label="Fill the screen" onClick={() => fillScreen(el)}>
          <i class="bw-corners" />
        </button>
      )}
    </span>
  );
}

/** The heading of a widget, with what is at its right. */
export function Heading({ children, beside }: { children: ComponentChildren; beside?: ComponentChildren }) {
  return (
    <div class="bw-head">
      <p class="bw-heading">
        <Words>{children}</Words>
      </p>
      {beside}
      <Tools />
    </div>
  );
}
