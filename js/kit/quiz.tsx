/* Predict first: a question with options, its verdict, and what is covered until then. */

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Button } from "./controls.tsx";
import { useIds } from "./widget.tsx";

export interface Option {
  label: string;
  right: boolean;
}
export interface Question {
  text: string;
  options: Option[];
  /** Said after the verdict. */
  why: string;
}

/** What a reader replied: nothing yet, one of the options, or that the answer is to be shown. */
export type Reply = null | Option | "show me";

/** The labels of the right options, as a reader would say them. */
export function rightAnswer({ options }: Question): string {
  const rights = options.filter((option) => option.right).map((option) => option.label);
  return rights.length === options.length ? "all of them alike" : rights.join(" or ");
}

interface QuizProps {
  question: Question;
  /** "1 of 5", where there are several. */
  place?: string;
  reply: Reply;
  onReply: (reply: Option | "show me") => void;
  /** Offer to show the answer without one of the reader's own. */
  canShow?: boolean;
  /** The way on, once there is an answer. */
  next?: { label: string; onClick: () => void };
}

/** A question; once there is a reply, the verdict, which gets the focus so that a screen reader reads it. */
export function Quiz({ question, place, reply, onReply, canShow = false, next }: QuizProps) {
  const id = useIds()("asked");
  const box = useRef<HTMLDivElement>(null);
  const before = useRef({ question: question.text, reply });
  useLayoutEffect(() => {
    const was = before.current;
    before.current = { question: question.text, reply };
    // Only if the reader has just answered or gone on here: the button that had the focus is gone.
    if (was.reply === null && reply !== null) focus("[tabindex]");
    else if (was.reply !== null && reply === null && was.question !== question.text) focus("button");
  });
  const focus = (what: string) => box.current?.querySelector<HTMLElement>(what)?.focus({ preventScroll: true });

  return (
    <div class="bw-question" ref={box}>
      <p class="bw-asked" id={id}>
        <b>Predict first{place && `, ${place}`}. </b>
        {question.text}
      </p>
      {reply === null ? (
        <div class="bw-options" role="group" aria-labelledby={id}>
          {question.options.map((option) => (
            <Button key={option.label} onClick={() => onReply(option)}>
              {option.label}
            </Button>
          ))}
          {canShow && (
            <Button kind="plain" onClick={() => onReply("show me")}>
              Show me
            </Button>
          )}
        </div>
      ) : (
        <>
          <Verdict question={question} reply={reply} />
          {next && (
            <div class="bw-options">
              <Button kind="main" onClick={next.onClick}>
                {next.label}
              </Button>
            </div>
          )}
        </>
      )}
    </div>
  );
}

function Verdict({ question, reply }: { question: Question; reply: Option | "show me" }) {
  const right = reply !== "show me" && reply.right;
  const opening = right ? `Yes: ${reply.label}` : reply === "show me" ? "The answer" : "Not quite. The answer";
  return (
    <p class={right ? "bw-right" : "bw-wrong"} tabIndex={-1}>
      <b class={right ? "bw-good" : "bw-bad"}>{right ? `${opening}.` : `${opening}: ${rightAnswer(question)}.`}</b>{" "}
      {question.why}
    </p>
  );
}

/** A question with the state in which it is asked, and the state that shows the answer. */
export interface Staged<S> extends Question {
  before: Partial<S>;
  after: Partial<S>;
}

/** Several questions in turn: the current one, whether its answer is still covered, and a switch for all. */
export function useQuestions<S extends { predict: boolean }>(
  on: boolean,
  ask: () => readonly Staged<S>[],
  write: (change: Partial<S>) => void,
) {
  const [asked, setAsked] = useState({ place: 0, reply: null as Reply });
  const all = on ? ask() : [];
  const question = all[asked.place];
  const more = asked.place + 1 < all.length;

  function go(place: number) {
    setAsked({ place, reply: null });
    write(ask()[place]!.before);
  }
  function turn(on: boolean) {
    setAsked({ place: 0, reply: null });
    write({ ...(on && ask()[0]!.before), predict: on } as Partial<S>);
  }
  const quiz = question && (
    <Quiz
      question={question}
      place={`${asked.place + 1} of ${all.length}`}
      reply={asked.reply}
      onReply={(reply) => {
        setAsked({ place: asked.place, reply });
        write(question.after);
      }}
      next={{
        label: more ? "Next question" : "Once more from the first",
        onClick: () => go(more ? asked.place + 1 : 0),
      }}
    />
  );
  return { quiz, turn, covered: on && asked.reply === null };
}

/** Covers what would give the answer away: it keeps its place, but cannot be seen, read out or reached. */
export function Covered({ when, children }: { when: boolean; children: ComponentChildren }) {
  return (
    <div class={`bw-cover${when ? " bw-covered" : ""}`}>
      <div inert={when} aria-hidden={when || undefined}>
        {children}
      </div>
      {when && <p>Hidden until you predict.</p>}
    </div>
  );
}
