/* When a card is asked again: Leitner's boxes. A card that was known moves one box on and rests longer; one that was not
   known moves to box 0 and comes back after a few others. */

export interface Answered {
  box: number;
  /** The day, counted from 1970, from which on it is asked again. */
  due: number;
  /** How many answers there had been. */
  at: number;
}

export interface Kept {
  /** The chapter that is asked, "" for all. */
  chapter: string;
  count: number;
  answered: Record<string, Answered>;
}

/** For how many days a card rests in its box. */
const REST = [0, 1, 2, 4, 8, 16, 32, 64];
/** After how many other answers a card that was not known comes back. */
const SOON = 6;

const isCount = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 0;
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const isAnswered = (value: unknown): value is Answered =>
  isObject(value) && isCount(value.box) && value.box < REST.length && isCount(value.due) && isCount(value.at);

/** What was kept, as far as it can be understood: another version, an editor or a fault may have written it. */
export function understand(text: string | null): Kept {
  let found: unknown;
  try {
    found = JSON.parse(text ?? "");
  } catch {}
  const { chapter, count, answered } = isObject(found) ? found : {};
  return {
    chapter: typeof chapter === "string" ? chapter : "",
    count: isCount(count) ? count : 0,
    answered: isObject(answered)
      ? Object.fromEntries(
          Object.entries(answered).filter((entry): entry is [string, Answered] => isAnswered(entry[1])),
        )
      : {},
  };
}

/** Today, as a number of days, where the reader is. */
export const dayOf = (time: Date): number => Math.floor(time.getTime() / 86_400_000 - time.getTimezoneOffset() / 1440);

/** The cards that are to be asked today, first those that came back, then new ones, then those just missed. */
export function queue(cards: readonly string[], { answered, count }: Kept, today: number): string[] {
  const rank = (card: string): number => {
    const was = answered[card];
    if (!was) return 1;
    return was.box === 0 && was.due === today && count - was.at < SOON ? 2 : 0;
  };
  const place = (card: string) => answered[card]?.at ?? 0;
  return cards
    .filter((card) => (answered[card]?.due ?? 0) <= today)
    .sort((one, other) => rank(one) - rank(other) || place(one) - place(other));
}

/** What is kept when a card was answered. One that was asked before its time stays in its box if it was known. */
export function answer(kept: Kept, card: string, known: boolean, today: number): Kept {
  const was = kept.answered[card];
  const early = was !== undefined && was.due > today;
  const box = known ? Math.min((was?.box ?? 0) + (early ? 0 : 1), REST.length - 1) : 0;
  const due = known && early ? was.due : today + REST[box]!;
  const count = kept.count + 1;
  return { ...kept, count, answered: { ...kept.answered, [card]: { box, due, at: count } } };
}
