/* The colours of weights, on a scale from 0 to 1. */

type Rgb = readonly [number, number, number];

// matplotlib's "Blues", as in the figures: 0 is nearly the page, 1 is dark
const ON_LIGHT: Rgb[] = [
  [247, 251, 255],
  [222, 235, 247],
  [198, 219, 239],
  [158, 202, 225],
  [107, 174, 214],
  [66, 146, 198],
  [33, 113, 181],
  [8, 81, 156],
  [8, 48, 107],
];
// The same on a dark page, the other way round: 0 is the ground of a cell, 1 is bright
const ON_DARK: Rgb[] = [[26, 32, 40], ...ON_LIGHT.slice(1).reverse()];

function between(stops: Rgb[], share: number): Rgb {
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const below = Math.min(Math.floor(place), stops.length - 2);
  const mix = (c: 0 | 1 | 2) => {
    const [from, to] = [stops[below]![c], stops[below + 1]![c]];
    return Math.round(from + (to - from) * (place - below));
  };
  return [mix(0), mix(1), mix(2)];
}

function luminance(colour: Rgb): number {
  const [r, g, b] = colour
    .map((c) => c / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)) as unknown as Rgb;
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** The colour of letters, white or black, that is easier to read on a ground. */
function inkOn(ground: Rgb): string {
  const light = luminance(ground);
  return 1.05 / (light + 0.05) > (light + 0.05) / 0.05 ? "#ffffff" : "#000000";
}

const written = (colour: Rgb) => `rgb(${colour.join(",")})`;

/** The ground of a weight and the ink that is easier to read on it: on a light page, on a dark one, and for CSS. */
export function weightColours(weight: number) {
  const [light, dark] = [between(ON_LIGHT, weight), between(ON_DARK, weight)];
  const onLight = { ground: written(light), ink: inkOn(light) };
  const onDark = { ground: written(dark), ink: inkOn(dark) };
  return {
    onLight,
    onDark,
    ground: `light-dark(${onLight.ground}, ${onDark.ground})`,
    ink: `light-dark(${onLight.ink}, ${onDark.ink})`,
  };
}

/** The style of a cell that shows a weight. */
export function weightStyle(weight: number) {
  const { ground, ink } = weightColours(weight);
  return { background: ground, color: ink };
}

const STEPS = 8;
const scale = (stops: Rgb[]) => Array.from({ length: STEPS + 1 }, (_, i) => written(between(stops, i / STEPS)));

/** The whole scale, from 0 on the left to 1 on the right, for CSS. */
export const RAMP = `linear-gradient(to right, ${scale(ON_LIGHT)
  .map((colour, i) => `light-dark(${colour}, ${scale(ON_DARK)[i]})`)
  .join(", ")})`;
