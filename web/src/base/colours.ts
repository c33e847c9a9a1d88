// The colours of both themes. CSS and canvases read the same values.
//
// Groups differ in lightness as well as in hue, light beside dark in the order of the list, so that
// neighbours of a stack can be distinguished without seeing hues. Text has a contrast of 4.5 or more.

export interface Inks {
  readonly isDark: boolean;
  /** Backgrounds of the page and of its panels. */
  readonly ground: string;
  readonly panel: string;
  readonly raised: string;
  /** Text, quieter text, and text on `accent`. */
  readonly ink: string;
  readonly quiet: string;
  readonly onAccent: string;
  /** Borders, and grid lines. */
  readonly edge: string;
  readonly grid: string;
  /** Controls, the selection, errors, growth and shrinkage. */
  readonly accent: string;
  readonly chosen: string;
  readonly alarm: string;
  readonly alarmGround: string;
  readonly grew: string;
  readonly shrank: string;
  /** Lines of a timeline. */
  readonly allocated: string;
  readonly active: string;
  readonly reserved: string;
  readonly capacity: string;
  readonly limit: string;
  /** Bars in cells of tables, free memory. */
  readonly bar: string;
  readonly free: string;
  /** Parts of a bar that must differ from the panel: memory in use, and free memory. */
  readonly fill: string;
  readonly freeFill: string;
  /** Groups, in order; `rest` is the sum of all others. */
  readonly groups: readonly string[];
  readonly rest: string;
  /** Blocks from before the recording. */
  readonly before: string;
  /** Phases above a timeline: greys, which no category has. */
  readonly phases: Readonly<Record<"forward" | "backward" | "optimizer" | "other", string>>;
}

/**
 * Derived from the hues of Okabe and Ito: each has a contrast of 3:1 to its panel, and every two
 * differ by 17 or more (CIE76), and by 10 with any kind of colour blindness. A group has about the
 * same hue in both themes.
 */
const LIGHT_GROUPS: readonly string[] = [
  "#1057b6",
  "#469ace",
  "#137569",
  "#5aa464",
  "#a6242b",
  "#be7f05",
  "#4b4485",
  "#2777be",
  "#830037",
  "#b1839d",
  "#5a7006",
  "#9b943d",
  "#264868",
];

const DARK_GROUPS: readonly string[] = [
  "#9599cf",
  "#9bd6ff",
  "#1b987d",
  "#96d195",
  "#e54822",
  "#e5c365",
  "#5a64bb",
  "#76bafd",
  "#bc3459",
  "#db9eb1",
  "#6d7c1b",
  "#bab42e",
  "#4685be",
];

export const LIGHT: Inks = {
  isDark: false,
  ground: "#f5f6f8",
  panel: "#ffffff",
  raised: "#eceff3",
  ink: "#16202b",
  quiet: "#55616f",
  onAccent: "#ffffff",
  edge: "#d3d9e0",
  grid: "#e6eaee",
  accent: "#0b62b8",
  chosen: "#dcebfa",
  alarm: "#a32a12",
  alarmGround: "#fdeee9",
  grew: "#b3400f",
  shrank: "#11706b",
  allocated: "#16202b",
  active: "#8a4a00",
  reserved: "#6b7684",
  capacity: "#6a3fb0",
  limit: "#a32a12",
  bar: "#cfe1f4",
  free: "#eef1f5",
  fill: "#2f74b8",
  freeFill: "#86929f",
  groups: LIGHT_GROUPS,
  rest: "#8b95a1",
  before: "#626d7a",
  phases: { forward: "#c9d0d8", backward: "#8e99a6", optimizer: "#5f6b79", other: "#e3e7ec" },
};

export const DARK: Inks = {
  isDark: true,
  ground: "#0f141a",
  panel: "#171d25",
  raised: "#212933",
  ink: "#e8edf3",
  quiet: "#a3afbd",
  onAccent: "#08121d",
  edge: "#323c48",
  grid: "#252d37",
  accent: "#6cb6ff",
  chosen: "#1d3a57",
  alarm: "#ffb4a1",
  alarmGround: "#3c1d16",
  grew: "#ff9d6e",
  shrank: "#5fd3c4",
  allocated: "#f4f7fa",
  active: "#ffc46b",
  reserved: "#96a3b2",
  capacity: "#c4a5ff",
  limit: "#ffb4a1",
  bar: "#24486b",
  free: "#1d242d",
  fill: "#4f8fd6",
  freeFill: "#6f7c8a",
  groups: DARK_GROUPS,
  rest: "#7f8a97",
  before: "#a4aebb",
  phases: { forward: "#4b5663", backward: "#7d8a98", optimizer: "#b3bdc8", other: "#2f3843" },
};

/** Categories have colours of their own, the same in every view and every recording. */
const CATEGORIES: Readonly<Record<string, number>> = {
  parameter: 0,
  activation: 1,
  buffer: 2,
  gradient: 4,
  temporary: 5,
  "optimizer state": 6,
  input: 11,
  workspace: 9,
  communication: 8,
  "KV cache": 10,
};

/** Colours of the phases of a training, also fixed. */
const PHASES: Readonly<Record<string, number>> = { forward: 1, backward: 5, optimizer: 6 };

/** The colour of a group: by its name where it is a category, else by its index in the order. */
export function groupColour(inks: Inks, name: string, index: number): string {
  if (name === "other" || name === "unknown") return inks.rest;
  if (name === "before recording") return inks.before;
  if (name === "outside" || name.startsWith("(no ")) return inks.rest;
  const known = [CATEGORIES, PHASES].find((names) => Object.hasOwn(names, name))?.[name];
  // There are fewer colours than groups: the smallest group gets that of the rest.
  return inks.groups[known ?? index] ?? inks.before;
}

/** The colour of a category, the same in every view. */
export function categoryColour(inks: Inks, name: string): string {
  return groupColour(inks, name, Number.POSITIVE_INFINITY);
}

/** The grey of a phase in the row above a timeline. */
export function phaseGrey(inks: Inks, name: string): string {
  const { phases } = inks;
  if (name === "forward" || name === "backward" || name === "optimizer") return phases[name];
  return phases.other;
}

/** The colour of a phase; phases that the user named share one. */
export function phaseColour(inks: Inks, name: string): string {
  return groupColour(inks, name, 3);
}

/** The dark or the light text colour, whichever has more contrast on a colour. */
export function readableOn(colour: string): string {
  return contrast(colour, "#ffffff") >= contrast(colour, "#10161d") ? "#ffffff" : "#10161d";
}

/** The contrast ratio of two colours, 1 to 21 (WCAG 2). */
export function contrast(one: string, other: string): number {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

function luminance(colour: string): number {
  const [red, green, blue] = channels(colour).map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** `#rrggbb` as three numbers. */
export function channels(colour: string): [number, number, number] {
  const value = Number.parseInt(colour.slice(1), 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}
