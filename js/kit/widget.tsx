/* Turns a view into a widget: its state, unique ids, and cleaning up. */

import { type ComponentChildren, type ComponentType, createContext, render as draw } from "preact";
import { useContext, useState } from "preact/hooks";

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
  /** Compute everything that is shown from the state. */
  compute: (state: S) => D;
  View: ComponentType<ViewProps<S, D>>;
}

const Prefix = createContext("");

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
  const height = section.getBoundingClientRect().height;
  show();
  section.style.minHeight = `${height}px`;
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

/** Make what the book's pages and notebooks mount. */
export function defineWidget<S extends object, D>({ name, label, settle, compute, View }: Definition<S, D>) {
  /** Show a state in an element, and write into the state what a reader does; the function returned ends that. */
  function render({ state, el }: { state: S; el: HTMLElement }): () => void {
    page.attentionWidgetsMounted = (page.attentionWidgetsMounted ?? 0) + 1;
    const prefix = `${name}-${page.attentionWidgetsMounted}`;

    function show() {
      const settled = settle ? settle({ ...state }) : { ...state };
      const keepFocus = focusIn(el);
      draw(
        <Prefix.Provider value={prefix}>
          <section class={`bw ${name}`} aria-label={label} onKeyDown={keepOurKeys} translate={false}>
            <View state={settled} data={compute(settled)} write={write} />
          </section>
        </Prefix.Provider>,
        el,
      );
      keepFocus();
    }

    function write(changes: Partial<S>) {
      Object.assign(state, changes);
      keepHeight(el, show);
    }

    el.replaceChildren();
    show();
    const stop = letGoOfHeight(el);
    return () => {
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

/** The heading of a widget, with what is at its right. */
export function Heading({ children, beside }: { children: ComponentChildren; beside?: ComponentChildren }) {
  return (
    <div class="bw-head">
      <p class="bw-heading">
        <Words>{children}</Words>
      </p>
      {beside}
    </div>
  );
}
