/* Your turn: the answer to the question above it is typed or chosen, and told at once whether it is right. */

import { useRef } from "preact/hooks";
import { Button, Choice } from "../../kit/controls.tsx";
import "../../kit/kit.css";
import { defineWidget, useIds, type ViewProps, Words } from "../../kit/widget.tsx";
import { type Reply, reply, type State, wanted } from "./maths.ts";
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
  const id = useIds()("answer");
  const field = useRef<HTMLInputElement>(null);
  const send = () => write({ given: field.current!.value });
  const check = () => write({ given: field.current!.value || " " });
  return (
    <form
      class="bw-options"
      onSubmit={(event) => {
        event.preventDefault();
        check();
      }}
    >
      <label for={id}>{LABEL}</label>
      <input
        type="text"
        class="bw-entry"
        id={id}
        ref={field}
        autocomplete="off"
        placeholder={wanted(state)}
        value={state.given.trim()}
        onBlur={send}
      />
      <Button kind="main" onClick={check}>
        Check
      </Button>
    </form>
  );
}

export default defineWidget<State, Reply | null>({
  name: "your_turn",
  label: "Your turn",
  compute: reply,
  View,
});
