/* Sliders, switches, menus and buttons. Each takes a `name`, which is its id within the widget. */

import type { ComponentChildren, TargetedMouseEvent } from "preact";
import { withPlace } from "./maths.ts";
import { named } from "./text.ts";
import { useIds, Words } from "./widget.tsx";

interface SliderProps {
  name: string;
  label: ComponentChildren;
  min: number;
  max: number;
  value: number;
  /** Say a position as text. */
  say?: (position: number) => string;
  onChange: (position: number) => void;
}

/** A slider with its label and its value in words. */
export function Slider({ name, label, min, max, value, say = String, onChange }: SliderProps) {
  const id = useIds()(name);
  const said = say(value);
  return (
    <label class="bw-slider" for={id}>
      <span>
        <span>
          <Words>{label}</Words>
        </span>
        <output for={id}>{said}</output>
      </span>
      <input
        type="range"
        id={id}
        min={min}
        max={max}
        step={1}
        value={value}
        aria-valuetext={said}
        onInput={(event) => onChange(Number(event.currentTarget.value))}
      />
    </label>
  );
}

interface ToggleProps {
  name: string;
  label: ComponentChildren;
  on: boolean;
  onChange: (on: boolean) => void;
}

/** A switch: a box to tick, with its label. */
export function Toggle({ name, label, on, onChange }: ToggleProps) {
  const id = useIds()(name);
  return (
    <label class="bw-toggle" for={id}>
      <input type="checkbox" id={id} checked={on} onChange={(event) => onChange(event.currentTarget.checked)} />
      <span>{label}</span>
    </label>
  );
}

interface MenuProps<T extends string> {
  name: string;
  label: ComponentChildren;
  options: readonly (readonly [value: T, text: string])[];
  value: T;
  onChange: (value: T) => void;
}

/** A menu with its label. */
export function Menu<T extends string>({ name, label, options, value, onChange }: MenuProps<T>) {
  const id = useIds()(name);
  return (
    <label class="bw-field" for={id}>
      <span>
        <Words>{label}</Words>
      </span>
      <select id={id} value={value} onChange={(event) => onChange(event.currentTarget.value as T)}>
        {options.map(([one, text]) => (
          <option key={one} value={one} selected={one === value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

interface ButtonProps {
  name?: string;
  kind?: "main" | "plain";
  /** Where it is one of a choice: whether it is chosen. */
  pressed?: boolean;
  disabled?: boolean;
  /** What a screen reader says, where the letters on the button say too little. */
  label?: string;
  onClick: (event: TargetedMouseEvent<HTMLButtonElement>) => void;
  children: ComponentChildren;
  [data: `data-${string}`]: string | number;
}

/** A button; `pressed` makes it one of a choice. One that is disabled keeps the focus, which else would fall to the page. */
export function Button({ name, kind, pressed, disabled = false, label, onClick, children, ...data }: ButtonProps) {
  const id = useIds();
  return (
    <button
      type="button"
      class={`bw-button${kind ? ` bw-${kind}` : ""}`}
      id={name === undefined ? undefined : id(name)}
      aria-pressed={pressed === undefined ? undefined : pressed}
      aria-label={label}
      aria-disabled={disabled || undefined}
      onClick={disabled ? undefined : onClick}
      {...data}
    >
      {children}
    </button>
  );
}

interface ChoiceProps<T extends string> {
  name: string;
  /** What is chosen, written above or before the buttons; `hidden` says it to a screen reader only. */
  label: string;
  hidden?: boolean;
  options: readonly { value: T; text: ComponentChildren; label?: string }[];
  value: T | null;
  onChange: (value: T) => void;
}

/** Buttons of which one is pressed. */
export function Choice<T extends string>({ name, label, hidden = false, options, value, onChange }: ChoiceProps<T>) {
  const id = useIds();
  const named = hidden ? { "aria-label": label } : { "aria-labelledby": id(`${name}-label`) };
  return (
    <div class="bw-choice" role="group" {...named}>
      {!hidden && (
        <span id={id(`${name}-label`)}>
          <Words>{label}</Words>
        </span>
      )}
      <div>
        {options.map((option) => (
          <Button
            key={option.value}
            name={`${name}-${option.value}`}
            pressed={option.value === value}
            {...(option.label ? { label: option.label } : {})}
            onClick={() => onChange(option.value)}
          >
            {option.text}
          </Button>
        ))}
      </div>
    </div>
  );
}

interface PaddingProps {
  words: readonly string[];
  padding: readonly number[];
  /** What stands beside the box of a key that is padding. */
  say?: (word: string) => string;
  onChange: (padding: number[]) => void;
}

/** A box for each key, ticked where it is padding. */
export function Padding({ words, padding, say = String, onChange }: PaddingProps) {
  return (
    <Boxes legend="Which keys are padding?">
      {named(words).map((word, j) => (
        <Toggle
          key={word}
          name={`padding-${j}`}
          label={padding.includes(j) ? say(word) : word}
          on={padding.includes(j)}
          onChange={(on) => onChange(withPlace(padding, j, on))}
        />
      ))}
    </Boxes>
  );
}

/** Boxes to tick under a common name. */
export function Boxes({ legend, children }: { legend: string; children: ComponentChildren }) {
  return (
    <fieldset class="bw-boxes">
      <legend>
        <Words>{legend}</Words>
      </legend>
      {children}
    </fieldset>
  );
}
