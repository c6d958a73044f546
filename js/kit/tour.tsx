/* A guided tour: cards that each light up the part of a widget that they speak of. */

import { type ComponentChildren, createContext, type JSX } from "preact";
import { useContext, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Button } from "./controls.tsx";
import { wantsLessMotion } from "./motion.ts";

export interface Card {
  /** The name of the part that it lights up. */
  part: string;
  title: string;
  text: string;
}

/** The card that is open: its part, and its number, since two cards may speak of one part. */
const Lit = createContext<{ part: string; place: number } | null>(null);
export const Tour = Lit.Provider;

/** A part of a widget that a tour can light up, and then brings into sight. */
export function Part({ name, kind = "", children }: { name: string; kind?: string; children: ComponentChildren }) {
  const lit = useContext(Lit);
  const box = useRef<HTMLDivElement>(null);
  const on = lit?.part === name;
  useEffect(() => {
    const behavior = wantsLessMotion() ? "instant" : "smooth";
    if (on) box.current!.scrollIntoView({ block: "nearest", behavior });
  }, [on, lit?.place]);
  return (
    <div ref={box} class={`${kind}${on ? " bw-lit" : ""}`} data-part={name}>
      {children}
    </div>
  );
}

/** A tour: the button that begins it, what <Tour> needs, and the open card, which takes the place of the panel. */
export function useTour(cards: () => readonly Card[]) {
  const [place, go] = useState<number | null>(null);
  const begin = useRef<HTMLSpanElement>(null);
  const all = place === null ? [] : cards();
  const card = place === null ? undefined : all[Math.min(place, all.length - 1)];
  const was = useRef(place);
  useLayoutEffect(() => {
    const button = begin.current!.querySelector("button")!;
    const now = focusNear(button);
    if (was.current !== null && place === null && !now) button.focus({ preventScroll: true });
    was.current = place;
  }, [place === null]);
  const button = (
    <span ref={begin} data-follows-eye>
      <Button name="tour" kind="plain" onClick={() => go(0)}>
        Guided tour
      </Button>
    </span>
  );
  const open = card && <Open card={card} place={place!} all={all.length} go={go} />;
  return { button, open: open as JSX.Element | undefined, lit: card ? { part: card.part, place: place! } : null };
}

/** What has the focus, if it is in a widget. */
const focusNear = (el: Element): Element | null => {
  const { activeElement } = el.getRootNode() as Document | ShadowRoot;
  return activeElement?.closest(".bw") ? activeElement : null;
};

interface OpenProps {
  card: Card;
  place: number;
  all: number;
  go: (place: number | null) => void;
}

function Open({ card, place, all, go }: OpenProps) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const next = box.current!.querySelector<HTMLElement>(".bw-main")!;
    const now = focusNear(next); // the button that began it, unless a hand was faster
    if (!now || now.id.endsWith("-tour")) next.focus({ preventScroll: true });
  }, []);
  const last = place === all - 1;
  const back = () => place > 0 && go(place - 1);
  const next = () => go(last ? null : place + 1);

  function walk({ key }: KeyboardEvent) {
    if (key === "ArrowLeft") back();
    else if (key === "ArrowRight" && !last) next();
    else if (key === "Escape") go(null);
  }
  return (
    <div ref={box} class="bw-panel bw-card" role="group" aria-label="Guided tour" onKeyDown={walk}>
      <div role="status">
        <p class="bw-title">
          {place + 1} of {all}: <b>{card.title}</b>
        </p>
        <p>{card.text}</p>
      </div>
      <div class="bw-wrap">
        <Button name="card-back" disabled={place === 0} onClick={back}>
          ← Back
        </Button>
        <Button name="card-next" kind="main" onClick={next}>
          {last ? "Done" : "Next →"}
        </Button>
        <Button name="card-leave" kind="plain" onClick={() => go(null)}>
          Leave the tour
        </Button>
      </div>
    </div>
  );
}
