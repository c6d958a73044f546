/* Texts: about the cell under the pointer, everything in words, and texts that keep their height. */

import type { ComponentChildren } from "preact";
import { Words } from "./widget.tsx";

interface PanelProps {
  title: ComponentChildren;
  children: ComponentChildren;
}

/** Describes what the reader points at. It sticks to the lower edge of the window while a large widget scrolls. */
export function Panel({ title, children }: PanelProps) {
  return (
    <div class="bw-panel" role="status">
      <p class="bw-title">{title}</p>
      <p class="bw-sums">{children}</p>
    </div>
  );
}

/** Shown when a field holds no number, or one that is too large. */
export function NoNumber({ largest = 1000 }: { largest?: number }) {
  return (
    <Panel title="Type a number">
      from −{largest} to {largest}, such as 2 or −0.5. Until then the last number counts.
    </Panel>
  );
}

/** A part that is folded away under its title. */
export function Folded({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <details class="bw-words">
      <summary>
        <Words>{title}</Words>
      </summary>
      {children}
    </details>
  );
}

/** Everything that a picture shows, in words. */
export function TextAlternative({ title, lines }: { title: string; lines: readonly string[] }) {
  return (
    <Folded title={title}>
      <ul>
        {lines.map((line, i) => (
          <li key={i}>{line}</li>
        ))}
      </ul>
    </Folded>
  );
}

interface ReservedHeightProps {
  children: ComponentChildren;
  /** The longest texts that may appear here. */
  longest: readonly ComponentChildren[];
  kind?: string;
}

/** A text with the height of the longest that may take its place, so that nothing below it moves. */
export function ReservedHeight({ children, longest, kind = "" }: ReservedHeightProps) {
  return (
    <div class={`bw-reserved ${kind}`}>
      <div>{children}</div>
      {longest.map((text, i) => (
        <div key={i} aria-hidden="true">
          {text}
        </div>
      ))}
    </div>
  );
}

/** A box that scrolls sideways. If nothing in it takes the focus, it needs a label and is a tab stop itself. */
export function Scroll({ label, children }: { label?: string; children: ComponentChildren }) {
  const stop = label === undefined ? {} : { tabIndex: 0, role: "region" as const, "aria-label": label };
  return (
    <div class="bw-scroll" {...stop}>
      {children}
    </div>
  );
}
