/* Motion: what glides from one place to another, unless the reader asked for less of it. */

import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export const wantsLessMotion = (): boolean => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Numbers on their way to new ones, where `glides` says so; else they are there at once. Only pictures may follow
    them: what is read is true from the first moment. */
export function useGlide(to: readonly number[], glides: RefObject<boolean>, milliseconds = 500): readonly number[] {
  const shown = useRef(to);
  const [, redraw] = useState(0);
  const target = to.join();
  useEffect(() => {
    const from = shown.current;
    if (!glides.current || wantsLessMotion() || from.join() === target) return;
    let frame = 0;
    const begun = performance.now();
    const step = (now: number) => {
      const share = Math.min(Math.max((now - begun) / milliseconds, 0), 1);
      const eased = share * share * (3 - 2 * share);
      shown.current = to.map((number, i) => from[i]! + (number - from[i]!) * eased);
      if (share === 1) glides.current = false;
      else frame = requestAnimationFrame(step);
      redraw(now);
    };
    frame = requestAnimationFrame(step);
    return () => cancelAnimationFrame(frame);
  }, [target]);
  if (!glides.current || wantsLessMotion()) shown.current = to;
  return shown.current;
}
