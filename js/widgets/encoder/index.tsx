/* The encoder: a published model that one may type to, look into, and take heads and words from. */

import type { ComponentChildren, TargetedKeyboardEvent } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Arc, arcsOf, boxesOf } from "../../kit/arcs.ts";
import { Picture, Ramp, useWidth } from "../../kit/chart.tsx";
import { weightColours, weightStyle } from "../../kit/colour.ts";
import { Button, Choice, Menu, Toggle } from "../../kit/controls.tsx";
import { FaintDot, Grid } from "../../kit/grid.tsx";
import "../../kit/kit.css";
import { range, withPlace } from "../../kit/maths.ts";
import { Panel, ReservedHeight, TextAlternative } from "../../kit/panel.tsx";
import { isFaint, quoted } from "../../kit/text.ts";
import { defineWidget, Heading, useIds, type ViewProps, Words } from "../../kit/widget.tsx";
import { between, betweenOf, nameOfHead, type Reading, recorded, type Sentence, spell } from "./maths.ts";
import { known, listen, open, senseWords, status, type Wish, want } from "./model.ts";
import type { Head } from "./network.ts";
import "./style.css";
import { describe, SENSE_LAYER, sayHeads, sayLook, saySense, two } from "./words.ts";
import thread from "./worker.ts?thread";

export const THREAD = thread;
export * from "./maths.ts";
export * from "./words.ts";

/** A sentence that is shown: its words are counted from 0, with what begins and ends the text. */
interface Slot {
  text: string;
  /** The word that was chosen last, and its place in this text; -1 where none has been chosen in it. */
  asks: string;
  word: number;
  /** Words that nobody may look at. */
  hidden: number[];
}

interface Shown {
  /** One sentence or two. */
  slots: Slot[];
  head: Head;
  heads_off: Head[];
}

interface State extends Shown {
  sentences: Sentence[];
  /** What the whole model offers to read besides, each with the word that looks. */
  more: [text: string, asks: string][];
  /** Whether the reader has opened the whole model. */
  opened: boolean;
  compact: boolean;
  /** Where the whole model is, from a small form. */
  link: string;
  /** The model's card. */
  card: string;
  note: string;
}

const [LAYERS, HEADS] = [6, 12];

function settle(state: State): State {
  if (state.opened) return state;
  const slots = state.slots.map(({ text }) => {
    const sentence = state.sentences.find((one) => one.text === text) ?? state.sentences[0]!;
    return { text: sentence.text, asks: sentence.asks, word: sentence.word, hidden: [] };
  });
  return { ...state, slots, heads_off: [] };
}

// ---- Readings -----------------------------------------------------------------------------------------------------

/** A sentence with what was made of it: as it is to be read, and by the whole model with nothing hidden. */
interface Read {
  now: Reading;
  plain: Reading | null;
  /** The word that looks. */
  word: number;
  hidden: readonly number[];
  /** The record, where that is all there is. */
  record: number | null;
  /** Whether the model still reads what the reader asked for last. */
  busy: boolean;
}

/** What is known of the sentences that are shown; the model is asked for the rest. */
function useReadings({ sentences, slots, heads_off: off, opened }: State): Read[] {
  const [, again] = useState(0);
  const me = useRef({});
  const last = useRef<(Read | undefined)[]>([]);
  useEffect(() => {
    const stop = listen(() => again((times) => times + 1));
    return () => {
      want(me.current, []);
      stop();
    };
  }, []);
  const ready = opened && status().kind === "ready";
  const wishes = slots.flatMap(({ text, hidden }): [Wish, Wish] => [
    { text, off, hidden },
    { text, off: [], hidden: [] },
  ]);
  useEffect(() => {
    if (ready) want(me.current, wishes);
  });
  last.current = slots.map((slot, place) => {
    const { text, hidden } = slot;
    const now = ready ? known(wishes[2 * place]!) : null;
    const plain = ready ? known(wishes[2 * place + 1]!) : null;
    if (now) return { now, plain, word: placeOf(slot, now), hidden, record: null, busy: false };
    const record = sentences.findIndex((one) => one.text === text);
    if (record >= 0 && !ready) {
      const reading = recordOf(sentences[record]!);
      return { now: reading, plain: reading, word: sentences[record]!.word, hidden: [], record, busy: false };
    }
    const before = last.current[place];
    if (before) return { ...before, busy: true };
    const reading = recordOf(sentences[0]!);
    return { now: reading, plain: reading, word: sentences[0]!.word, hidden: [], record: 0, busy: true };
  });
  return last.current as Read[];
}

/** The place of the word that looks: the chosen one; else the first with senses, its plural, the word chosen last, or the
    last word. */
function placeOf({ asks, word }: Slot, reading: Reading): number {
  const words = spellAll(reading);
  if (words[word] === asks) return word;
  const stored = senseWords();
  const rules = [
    (one: string) => stored.includes(one),
    (one: string) => stored.includes(one.replace(/s$/, "")),
    (one: string) => one === asks,
  ];
  const last = words.findLastIndex((one) => /^[\p{L}\p{N}]/u.test(one));
  return rules.map((rule) => words.findIndex(rule)).find((at) => at >= 0) ?? Math.max(0, last);
}

const spellAll = (reading: Reading): string[] => reading.words.map((_, at) => spell(reading, at));

const records = new WeakMap<Sentence, Reading>();

function recordOf(sentence: Sentence): Reading {
  if (!records.has(sentence)) records.set(sentence, recorded(sentence));
  return records.get(sentence)!;
}

// ---- The view -----------------------------------------------------------------------------------------------------

type Props = ViewProps<State, null> & { reads: Read[] };

function View({ state, write }: ViewProps<State, null>) {
  const reads = useReadings(state);
  const props = { state, data: null, write, reads };
  return state.compact ? <Small {...props} /> : <Whole {...props} />;
}

function Whole(props: Props) {
  const { state, write, reads } = props;
  const [past, remember] = useState<Pick<Shown, "slots" | "heads_off">[]>([]);
  const { slots, head, heads_off } = state;
  const live = state.opened && status().kind === "ready";

  function act(changes: Partial<Shown>) {
    remember([...past, { slots, heads_off }]);
    write(changes);
  }
  function undo() {
    write(past.at(-1)!);
    remember(past.slice(0, -1));
  }
  const change = (place: number, changes: Partial<Slot>) =>
    slots.map((slot, i) => (i === place ? { ...slot, ...changes } : slot));

  const choosing = (place: number) => (
    <Choosing
      {...props}
      place={place}
      live={live}
      onTake={(text) => act({ slots: change(place, fresh(text, state)) })}
    />
  );

  useEffect(() => {
    if (state.opened) open(); // its reader had opened it
  }, []);
  const wasOpen = useRef(state.opened);
  const buttons = useRef<HTMLDivElement>(null); // in the place of the button that opens the model
  useLayoutEffect(() => {
    const held = (buttons.current?.getRootNode() as Document | undefined)?.activeElement;
    if (!wasOpen.current && (!held || held.matches("body"))) {
      buttons.current?.querySelector("button")?.focus({ preventScroll: true });
    }
  }, [live]);
  return (
    <>
      <Heading>The encoder: a real model</Heading>
      {state.note && (
        <p class="bw-note">
          <Words>{state.note}</Words>
        </p>
      )}
      {slots.map((slot, place) => (
        <div key={place} class="enc-slot">
          {live && choosing(place)}
          <Picturing
            read={reads[place]!}
            head={head}
            off={heads_off}
            {...(live
              ? {
                  onWord: (word: number) =>
                    write({ slots: change(place, { word, asks: spell(reads[place]!.now, word) }) }),
                  onHide: (word: number) =>
                    act({
                      slots: change(place, { hidden: withPlace(slot.hidden, word, !slot.hidden.includes(word)) }),
                    }),
                }
              : {})}
          />
          {!live && choosing(place)}
        </div>
      ))}
      {live ? (
        <div class="bw-wrap enc-buttons" ref={buttons}>
          <Button name="take-away" kind="main" onClick={() => act({ heads_off: switched(heads_off, head) })}>
            {isOff(heads_off, head) ? `Put head ${nameOfHead(head)} back` : `Take head ${nameOfHead(head)} away`}
          </Button>
          <Button name="undo" kind="plain" disabled={!past.length} onClick={undo}>
            Undo
          </Button>
          <Toggle
            name="second"
            label="Two sentences"
            on={slots.length === 2}
            onChange={(on) =>
              act({
                slots: on ? [...slots, fresh(state.sentences[1]?.text ?? slots[0]!.text, state)] : slots.slice(0, 1),
              })
            }
          />
        </div>
      ) : (
        <Opening {...props} />
      )}
      <AllHeads {...props} />
      <TextAlternative title="All this in words" lines={reads.flatMap(({ now, word }) => describe(now, word, head))} />
      <p class="bw-quiet enc-licence">
        <Words>Model:</Words> <Licence card={state.card} /> <Words>{ROUNDED}</Words>
      </p>
      <About {...props} />
    </>
  );
}

/** A sentence that is offered, as it is first shown. */
function fresh(text: string, { sentences, more }: State): Slot {
  const asks = more.find(([one]) => one === text)?.[1] ?? "";
  const { word, ...record } = sentences.find((one) => one.text === text) ?? { asks, word: -1 };
  return { text, asks: record.asks, word, hidden: [] };
}

const isOff = (off: readonly Head[], head: Head): boolean => off.some((one) => nameOfHead(one) === nameOfHead(head));

const switched = (off: readonly Head[], head: Head): Head[] =>
  isOff(off, head)
    ? off.filter((one) => nameOfHead(one) !== nameOfHead(head))
    : [...off, head].sort((a, b) => a[0] - b[0] || a[1] - b[1]);

// ---- Choosing and opening -----------------------------------------------------------------------------------------

const OWN = "your own";

interface ChoosingProps extends Props {
  place: number;
  live: boolean;
  onTake: (text: string) => void;
}

/** Where a sentence is chosen and, once the model is there, typed. */
function Choosing({ state, write, reads, place, live, onTake }: ChoosingProps) {
  const id = useIds();
  const { text } = state.slots[place]!;
  const { all, pieces } = reads[place]!.now;
  const ready = [...state.sentences.map((one) => one.text), ...(live ? state.more.map(([one]) => one) : [])];
  const options = ready.map((one) => [one, one] as const);
  const label = state.slots.length > 1 ? `Sentence ${place + 1}` : "Sentence";
  const trouble = !live
    ? ""
    : !text.trim()
      ? "Type a word, or more: of an empty text the model reads only what begins and ends it."
      : all > pieces.length && !reads[place]!.busy
        ? `This text has ${all} pieces, and the page reads the first ${pieces.length - 1}; your text stays as it is.`
        : "";
  return (
    <div class="bw-controls">
      {live && (
        <label class="bw-field" for={id(`text-${place}`)}>
          <span>
            <Words>{`${label}: type one in English`}</Words>
          </span>
          <input
            type="text"
            class="bw-entry"
            id={id(`text-${place}`)}
            autocomplete="off"
            spellcheck={false}
            aria-invalid={trouble !== "" || undefined}
            value={text}
            onInput={(event) => {
              const typed = event.currentTarget.value;
              const slot = { ...state.slots[place]!, text: typed, word: -1, hidden: [] };
              write({ slots: state.slots.with(place, slot) });
            }}
          />
        </label>
      )}
      <Menu
        name={`ready-${place}`}
        label={live ? "or take one" : label}
        options={ready.includes(text) ? options : [...options, [text, OWN]]}
        value={text}
        onChange={onTake}
      />
      {trouble && (
        <p class="bw-trouble" role="status">
          {trouble}
        </p>
      )}
    </div>
  );
}

const megabytes = (bytes: number): string => `${Math.round(bytes / 1e6)} MB`;

const ROUNDED =
  "Opened here, its weights are rounded to 8 bits and its embeddings to 6: on the chapter’s sentences no weight of a head is off by more than 0.05.";

/** The button that fetches the model, how far that is, or why there is none. */
function Opening({ write }: Props) {
  const now = status();
  if (now.kind === "elsewhere") {
    return (
      <p class="bw-quiet enc-opening">
        <Words>
          On the book’s site the whole model opens here, and reads any sentence. In a notebook, SentenceReader takes
          sentences of your own.
        </Words>
      </p>
    );
  }
  if (now.kind === "absent") {
    return (
      <p class="bw-quiet enc-opening">
        <Words>This copy of the site was built without the whole model: it has these recorded sentences only.</Words>
      </p>
    );
  }
  const loading = now.kind === "loading";
  return (
    <div class="enc-opening">
      <Button
        name="open"
        kind="main"
        disabled={loading}
        onClick={() => {
          open();
          write({ opened: true });
        }}
      >
        Open the whole model{now.kind === "offered" ? ` (${megabytes(now.bytes)})` : ""}
      </Button>
      <div role="status">
        {loading ? (
          <>
            <progress max={now.of + 1} value={now.done} aria-label="The model is coming" />
            <span class="bw-quiet">
              {now.done < now.of ? ` ${now.done} of ${now.of} parts are here` : " all parts are here; it opens"}
            </span>
          </>
        ) : (
          <span class="bw-quiet">
            <Words>
              {now.kind === "offered" && now.failed
                ? "The model did not come. Is there a connection? Try again."
                : "Then type any sentence, choose any word, take heads away and hide words. It stays in your browser."}
            </Words>
          </span>
        )}
      </div>
    </div>
  );
}

function Licence({ card }: { card: string }) {
  return (
    <>
      <a href={card} target="_blank" rel="noopener">
        all-MiniLM-L6-v2
      </a>
      , <Words>Apache License 2.0.</Words>
    </>
  );
}

// ---- The sentence with its arcs -----------------------------------------------------------------------------------

interface PicturingProps {
  read: Read;
  head: Head;
  off: readonly Head[];
  small?: boolean;
  onWord?: (word: number) => void;
  onHide?: (word: number) => void;
}

const LEAST = 0.02; // a weight below this has no arc

/** The height of arcs over a line of words, in a figure of some width: over the first line there is more room. */
function roomAbove(first: boolean, width: number, small: boolean): number {
  const tight = small || width <= 480; // as the style sheet has it
  return first ? Math.min(tight ? 60 : 78, (tight ? 24 : 34) + width * 0.06) : tight ? 26 : 40;
}

/** The words of a sentence, each above the weight that it gets, under arcs from the word that looks. */
function Picturing({ read, head, off, small = false, onWord, onHide }: PicturingProps) {
  const { now, word, hidden, busy } = read;
  const [figure, width] = useWidth<HTMLDivElement>();
  const [arcs, draw] = useState<readonly Arc[]>([]);
  const weights = now.looks(word, head) ?? now.words.map(() => 0);
  const [first, setFirst] = useState(true); // whether the word that looks stands on the first line
  const key = JSON.stringify([now.pieces, word, weights]);
  useLayoutEffect(() => {
    const boxes = boxesOf(figure.current!, "[data-word]");
    const onFirst = boxes[word]!.top === boxes[0]!.top;
    setFirst(onFirst);
    draw(arcsOf(word, weights, boxes, roomAbove(onFirst, width ?? 0, small), LEAST));
  }, [key, width, first, onWord !== undefined]);
  const name = nameOfHead(head);
  const gone = isOff(off, head);
  const said = `From “${spell(now, word)}”, head ${name} ${gone ? "is taken away" : `looks most ${sayLook(now, word, head)}`}`;
  return (
    <div ref={figure} class={`enc-figure${busy ? " enc-busy" : ""}${small ? " enc-small" : ""}`} aria-busy={busy}>
      <svg class="enc-arcs" role="img" aria-label={`${said}.`}>
        {arcs.map(({ to, weight, path }) => (
          <path
            key={to}
            d={path}
            data-to={to}
            data-value={weight}
            style={{ strokeWidth: (1 + 7 * weight).toFixed(2), strokeOpacity: (0.3 + 0.6 * weight).toFixed(2) }}
          />
        ))}
      </svg>
      <div
        class="enc-words"
        style={{ paddingTop: `${first ? roomAbove(first, width ?? 0, small) + 8 : 8}px` }}
        role="group"
        aria-label="Words, and their weights"
        data-roving={word}
        onKeyDown={walk}
      >
        {now.words.map((places, at) => (
          <span key={at} class={`enc-word${at === word ? " enc-looks" : ""}`} data-word={at}>
            <Asking at={at} stop={at === word} onWord={onWord}>
              {places.map((place) => (
                <Piece key={place} text={now.pieces[place]!} />
              ))}
            </Asking>
            <Weight at={at} word={spell(now, at)} value={weights[at]!} hidden={hidden.includes(at)} onHide={onHide} />
          </span>
        ))}
      </div>
    </div>
  );
}

/** A piece; one from inside a word has its mark. */
const Piece = ({ text }: { text: string }) => {
  const inside = text.startsWith("##") && text.length > 2;
  return (
    <>
      {inside && <span class="enc-inside">##</span>}
      {inside ? text.slice(2) : text}
    </>
  );
};

interface AskingProps {
  at: number;
  stop: boolean;
  onWord: ((word: number) => void) | undefined;
  children: ComponentChildren;
}

function Asking({ at, stop, onWord, children }: AskingProps) {
  if (!onWord) return <b class="enc-ask">{children}</b>;
  return (
    <button type="button" class="enc-ask" tabIndex={stop ? 0 : -1} aria-pressed={stop} onClick={() => onWord(at)}>
      {children}
    </button>
  );
}

interface WeightProps {
  at: number;
  word: string;
  value: number;
  hidden: boolean;
  onHide: ((word: number) => void) | undefined;
}

/** The weight of a word; pressed, it hides the word from all. */
function Weight({ at, word, value, hidden, onHide }: WeightProps) {
  const shown = isFaint(value) ? <FaintDot number={two(value)} /> : two(value);
  if (!onHide) {
    return (
      <span class="enc-weight" style={weightStyle(value)} data-value={value}>
        {shown}
      </span>
    );
  }
  return (
    <button
      type="button"
      class={`enc-weight${hidden ? " enc-hidden" : ""}`}
      style={hidden ? undefined : weightStyle(value)}
      tabIndex={-1}
      aria-pressed={hidden}
      aria-label={`${hidden ? "" : `${two(value)}, `}hide “${word}”`}
      data-value={value}
      onClick={() => onHide(at)}
    >
      {hidden ? "hidden" : shown}
    </button>
  );
}

/** Left and right lead from word to word or from weight to weight, up and down between a word and its weight. */
function walk(event: TargetedKeyboardEvent<HTMLElement>): void {
  const here = (event.target as Element).closest<HTMLElement>("button");
  if (!here || !/^(Arrow|Home$|End$)/.test(event.key)) return;
  event.preventDefault(); // the page must not scroll
  const kind = here.classList.contains("enc-ask") ? ".enc-ask" : ".enc-weight";
  const all = [...event.currentTarget.querySelectorAll<HTMLElement>(kind)];
  const at = all.indexOf(here);
  const next = {
    ArrowLeft: all[at - 1],
    ArrowRight: all[at + 1],
    Home: all[0],
    End: all.at(-1),
    ArrowUp: here.parentElement!.querySelector<HTMLElement>(".enc-ask"),
    ArrowDown: here.parentElement!.querySelector<HTMLElement>(".enc-weight"),
  }[event.key];
  next?.focus();
}

// ---- All heads, and the path of a sense ---------------------------------------------------------------------------

/** All heads as small strips, a row for each layer, and beside each row how near the word is to its senses after it. */
function AllHeads({ state, write, reads }: Props) {
  const { head, heads_off } = state;
  const first = reads[0]!;
  const senses = first.now.senses(first.word);
  const words = [...new Set(reads.map(({ now, word }) => `“${spell(now, word)}”`))].join(" and ");
  const paths = reads.map(({ now, plain, word }) => {
    const [one, other] = [now.senses(word), plain?.senses(word) ?? null];
    return senses && one?.names.join() === senses.names.join() ? { now: one.path, plain: other?.path ?? null } : null;
  });
  return (
    <div class="enc-heads">
      <p class="bw-quiet">
        Where each of the {LAYERS * HEADS} heads looks from {words}: a strip is the sentence
        {reads.length > 1 ? ", one above the other" : ""} (<Ramp />
        ). Choose a head.
        {senses && ` At the right: after each layer, is the word nearer to ${senses.names.join(" or to ")}?`}
      </p>
      <Grid
        label="Heads: a row for each layer"
        style={{ tableLayout: "fixed" }} // whatever a page says of tables
        rows={range(LAYERS).map((l) => l + 1)}
        columns={range(HEADS).map((h) => h + 1)}
        cell={(l, h, tabIndex) => (
          <HeadCell
            key={h}
            head={[l + 1, h + 1]}
            place={[l, h]}
            tabIndex={tabIndex}
            reads={reads}
            pressed={head[0] === l + 1 && head[1] === h + 1}
            off={isOff(heads_off, [l + 1, h + 1])}
            onPick={() => write({ head: [l + 1, h + 1] })}
          />
        )}
        last={
          senses
            ? {
                head: (
                  <span class="enc-names">
                    <span>← {senses.names[0]}</span> <span>{senses.names[1]} →</span>
                  </span>
                ),
                cell: (l) => (
                  <td class="enc-path">
                    <Nearer paths={paths} layer={l + 1} names={senses.names} />
                  </td>
                ),
              }
            : undefined
        }
      />
    </div>
  );
}

interface HeadCellProps {
  head: Head;
  place: readonly [row: number, column: number];
  tabIndex: number;
  reads: readonly Read[];
  pressed: boolean;
  off: boolean;
  onPick: () => void;
}

function HeadCell({ head, place, tabIndex, reads, pressed, off, onPick }: HeadCellProps) {
  const id = useIds();
  const strips = reads.map(({ now, word }) => now.looks(word, head) ?? []);
  const drawn = useMemo(
    () => (
      <svg viewBox={`0 0 1 ${strips.length}`} preserveAspectRatio="none" aria-hidden="true">
        {strips.map((weights, row) =>
          weights.map((weight, at) =>
            isFaint(weight) ? null : (
              <rect
                key={`${row} ${at}`}
                x={at / weights.length}
                y={row + 0.04}
                width={1.02 / weights.length}
                height={0.92}
                style={{ fill: weightColours(weight).ground }}
              />
            ),
          ),
        )}
      </svg>
    ),
    [strips[0], strips[1]],
  );
  const looks = off ? "taken away" : reads.map(({ now, word }) => `looks ${sayLook(now, word, head)}`).join("; ");
  return (
    <td class={`enc-cell${off ? " enc-off" : ""}`} data-row={place[0]} data-column={place[1]}>
      <button
        type="button"
        id={id(`head-${head[0]}-${head[1]}`)}
        tabIndex={tabIndex}
        aria-pressed={pressed}
        aria-label={`Head ${nameOfHead(head)}: ${looks}`}
        title={nameOfHead(head)}
        onClick={onPick}
      >
        {drawn}
      </button>
    </td>
  );
}

interface NearerProps {
  paths: readonly ({ now: [number, number][]; plain: [number, number][] | null } | null)[];
  layer: number;
  names: readonly [string, string];
}

const [WIDE, HIGH, SPAN] = [120, 30, 0.16]; // of a drawing in its own units; the difference of cosines at its edge

/** How much nearer a word is to one of its senses, a numbered dot for each sentence; where it was, a faint one. */
function Nearer({ paths, layer, names }: NearerProps) {
  const at = ([one, other]: readonly [number, number]) =>
    WIDE / 2 + Math.max(-1, Math.min(1, (other - one) / SPAN)) * (WIDE / 2 - 9);
  const said = paths.flatMap((path, i) => {
    const [one, other] = path?.now[layer] ?? [0, 0];
    return path ? [`sentence ${i + 1}: ${names[0]} ${two(one)}, ${names[1]} ${two(other)}`] : [];
  });
  const y = (i: number) => (paths.length === 1 ? HIGH / 2 : HIGH / 2 + (i ? 7.5 : -7.5));
  return (
    <Picture label={`After layer ${layer}, ${said.join("; ")}`} width={WIDE} height={HIGH}>
      <line x1={WIDE / 2} x2={WIDE / 2} y1={-1} y2={HIGH + 1} class="bw-grid" />
      {paths.map((path, i) =>
        path ? (
          <g key={i} class={`enc-dot enc-dot-${i + 1}`} data-sentence={i + 1} data-value={path.now[layer]!.join()}>
            {path.plain && <circle cx={at(path.plain[layer]!)} cy={y(i)} r={6.5} class="enc-was" />}
            <circle cx={at(path.now[layer]!)} cy={y(i)} r={6.5} />
            <text x={at(path.now[layer]!)} y={y(i) + 3.6}>
              {i + 1}
            </text>
          </g>
        ) : null,
      )}
    </Picture>
  );
}

// ---- What is said -------------------------------------------------------------------------------------------------

/** Cosines of the word that looks in both sentences, after each layer; null where these are two different words. */
function cosinesOf(state: State, reads: readonly Read[]): number[] | null {
  const [one, other] = reads;
  if (!one || !other || spell(one.now, one.word) !== spell(other.now, other.word)) return null;
  if (one.record !== null && other.record !== null) {
    const path = betweenOf(state.sentences[one.record]!);
    const layers = path.length / state.sentences.length;
    return path.slice(other.record * layers, (other.record + 1) * layers);
  }
  return between(one.now.vectors(one.word), other.now.vectors(other.word));
}

function About({ state, reads }: Props) {
  const { head, heads_off } = state;
  const name = nameOfHead(head);
  const looks = reads.map(({ now, word }) => sayLook(now, word, head)).join("; in 2 ");
  const cosines = cosinesOf(state, reads);
  return (
    <Panel title={isOff(heads_off, head) ? `Head ${name} is taken away.` : `Head ${name} looks most ${looks}.`}>
      After layer {SENSE_LAYER}
      {heads_off.length > 0 && `, without ${heads_off.length > 3 ? `${heads_off.length} heads` : sayHeads(heads_off)}`}
      {": "}
      {reads.map((read) => sayVerdict(read, heads_off.length > 0)).join("; in 2, ")}.
      {cosines && ` The two vectors have the cosine ${two(cosines[SENSE_LAYER]!)}.`}
    </Panel>
  );
}

/** Which sense a word is nearest to, and how taking heads and words away moved its vector. */
function sayVerdict({ now, plain, word, hidden }: Read, fewer: boolean): string {
  const away = hidden.length ? `, with ${quoted(hidden.map((at) => spell(now, at)))} hidden,` : "";
  const name = `“${spell(now, word)}”${away}`;
  const changed = fewer || hidden.length > 0;
  const senses = now.senses(word);
  if (senses) return `${name} ${saySense(senses, changed && plain ? plain.senses(word) : null)}`;
  if (!changed) return `${name} has no stored senses${sayWhichHave(now)}`;
  const kept = plain && between(now.vectors(word), plain.vectors(word));
  return kept ? `the vector of ${name} has the cosine ${two(kept[SENSE_LAYER]!)} with what it was` : name;
}

/** Which word of a sentence has stored senses, or, where none of them has, which words of all. */
function sayWhichHave(reading: Reading): string {
  const stored = senseWords(); // none before the model is open
  const there = spellAll(reading).find((word) => stored.includes(word));
  if (there) return ` (“${there}” has)`;
  return stored.length ? ` (${stored.slice(0, -1).join(", ")} and ${stored.at(-1)} have)` : "";
}

// ---- The small form -----------------------------------------------------------------------------------------------

function Small({ state, write, reads }: Props) {
  const { head } = state;
  const heads = Object.keys(state.sentences[0]!.weights);
  const say = (name: string) => {
    const [first, second] = reads.map(({ now, word }) => sayLook(now, word, name.split(".").map(Number) as Head));
    const also = second ? `, and in the second sentence ${second}` : "";
    return `From “${spell(reads[0]!.now, reads[0]!.word)}”, head ${name} looks most ${first}${also}.`;
  };
  const sentences = heads.map(say);
  return (
    <>
      <Heading>{`“${spell(reads[0]!.now, reads[0]!.word)}” in a real model`}</Heading>
      {state.slots.map((_, place) => (
        <Picturing key={place} read={reads[place]!} head={head} off={[]} small />
      ))}
      <Choice
        name="head"
        label={`Some of its ${LAYERS * HEADS} heads`}
        options={heads.map((name) => ({ value: name, text: name }))}
        value={nameOfHead(head)}
        onChange={(name) => write({ head: name.split(".").map(Number) as Head })}
      />
      <Panel title="Real weights, recorded">
        <ReservedHeight longest={sentences}>{say(nameOfHead(head))}</ReservedHeight>
      </Panel>
      <p class="bw-quiet enc-licence">
        {state.link && (
          <>
            <a href={state.link} class="enc-link">
              <Words>Open the whole model</Words>
            </a>
            {" · "}
          </>
        )}
        <Licence card={state.card} />
      </p>
    </>
  );
}

export default defineWidget<State, null>({
  name: "encoder",
  label: "Encoder, interactive",
  settle,
  compute: () => null,
  View,
});
