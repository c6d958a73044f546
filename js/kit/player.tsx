/* What happens in time: played, paused, stepped and dragged. It never begins by itself. */

import type { RefObject } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Button, Slider } from "./controls.tsx";
import { wantsLessMotion } from "./motion.ts";

interface PlayerProps {
  /** The id of the slider. */
  name: string;
  label: string;
  first: number;
  last: number;
  at: number;
  /** Whether all is shown although `at` is not the last moment: then playing begins with the first. */
  whole?: boolean;
  /** Say a moment as text. */
  say: (at: number) => string;
  onMove: (at: number) => void;
  /** Milliseconds from one moment to the next. */
  pace?: number;
  /** What moves; it is brought into sight when it begins to. */
  stage?: RefObject<HTMLElement | null>;
}

/** Play or pause, a step back, a step on, and a slider for the moment. */
export function Player(props: PlayerProps) {
  const { name, label, first, last, at, whole = false, say, onMove, pace = 700, stage } = props;
  const [playing, play] = useState(false);
  useEffect(() => {
    if (!playing) return;
    if (at >= last) {
      play(false);
      return;
    }
    const timer = setTimeout(() => onMove(at + 1), pace);
    return () => clearTimeout(timer);
  }, [playing, at, last]);

  function go(to: number) {
    play(false);
    onMove(to);
  }
  function start() {
    if (!playing && (whole || at >= last)) onMove(first);
    if (!playing)
      stage?.current?.scrollIntoView({ block: "nearest", behavior: wantsLessMotion() ? "instant" : "smooth" });
    play(!playing);
  }
  return (
    <div class="bw-player" role="group" aria-label={label}>
      <span data-follows-eye>
        <Button name="play" kind="main" onClick={start}>
          {playing ? "Pause" : "Play"}
        </Button>
      </span>
      <Button name="back" label="One step back" disabled={at <= first} onClick={() => go(at - 1)}>
        ◀
      </Button>
      <Button name="next" label="One step on" disabled={at >= last} onClick={() => go(at + 1)}>
        ▶
      </Button>
      <Slider name={name} label={label} min={first} max={last} value={at} say={say} onChange={go} />
    </div>
  );
}
