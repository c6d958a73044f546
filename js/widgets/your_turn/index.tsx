/* Your turn: the answer to the question above it is typed or chosen, and told at once whether it is right. */

import { useRef } from "preact/hooks";
import { Button, Choice } from "../../kit/controls.tsx";
import "../../kit/kit.css";
import { defineWidget, useIds, type ViewProps, Words } from "../../kit/widget.tsx";
import { decimals, type Reply, reply, type State } from "./maths.ts";
import "./style.css";

export * from "./maths.ts";

const LABEL = "Your answer"; // the page asks the question, in the paragraph above

type Props = ViewProps<State, Reply | null>;

function View({ state, data, write }: Props) {
  return (
    <>
      {state.kind === "choice" ? (
        <Choice
          name="answer"
          label={LABEL}
          options={state.choices.map((choice) => ({ value: choice, text: choice }))}
          value={state.given}
          onChange={(given) => write({ given })}
        />
      ) : (
        <Field state={state} write={write} />
      )}
      <p class={{ true: "bw-good", false: "bw-bad", null: "" }[`${data?.right ?? null}`]} role="status">
        <Words>{data?.words}</Words>
      </p>
    </>
  );
}

function Field({ state, write }: Pick<Props, "state" | "write">) {
  const ids = useIds();
  const id = ids("answer");
  const field = useRef<HTMLInputElement>(null);
  const most = decimals(state);
  const send = () => write({ given: field.current!.value });
  const check = () => write({ given: field.current!.value || " " });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        check();
      }}
    >
      <label for={id}>{LABEL}</label>{" "}
      <span id={ids("decimals")} class="bw-quiet">
        {most > 0 && `Give ${most} decimals.`}
      </span>
      <div class="bw-options">
        <input
          type="text"
          class="bw-entry"
          id={id}
          ref={field}
          autocomplete="off"
          placeholder={{ number: "0.25", numbers: "0.25, 0.5, 0.25", shape: "3, 4", choice: "" }[state.kind]}
          aria-describedby={ids("decimals")}
          value={state.given.trim()}
          onBlur={send}
        />
        <Button kind="main" onClick={check}>
          Check
        </Button>
      </div>
    </form>
  );
}

export default defineWidget<State, Reply | null>({
  name: "your_turn",
  label: "Your turn",
  compute: reply,
  View,
});
