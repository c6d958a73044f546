/* Predict first: a question with options, a verdict behind it, and what stays covered until then. */

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Button } from "./controls.tsx";
import { useIds } from "./widget.tsx";

export interface Option {
  label: string;
  right: boolean;
}
export interface Question {
  text: string;
  options: Option[];
  /** Said behind the verdict. */
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
    // Only where the reader has just done something here: what was pressed is gone, and with it the focus.
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
      <b>{right ? `${opening}.` : `${opening}: ${rightAnswer(question)}.`}</b> {question.why}
    </p>
  );
}

/** What would give the answer away: it keeps its place, but is neither seen nor read nor reached until `when` is over. */
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
