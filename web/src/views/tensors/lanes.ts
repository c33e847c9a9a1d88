// The layout of lifetimes: a group of lanes for each module; bars of a lane do not overlap. Tensors
// of similar size share lanes, so a lane has one height, and large tensors are higher. No drawing.

/** The facts about a tensor that determine its position. */
export interface Life {
  readonly id: number;
  readonly name: string | null;
  readonly bytes: number;
  readonly category: string;
  readonly phase: string | null;
  readonly allocated_seconds: number | null;
  readonly freed_seconds: number | null;
  /** The number of tensors in the bar; 1 by default. */
  readonly count?: number;
}

export interface ModuleLives<T extends Life> {
  readonly module: string | null;
  readonly tensors: readonly T[];
}

export interface LifeBar<T extends Life> {
  readonly tensor: T;
  readonly from: number;
  readonly to: number;
  readonly y: number;
  readonly height: number;
}

/** The lanes of all tensors with one name, in a module that is open. */
export interface NameLanes {
  readonly name: string;
  readonly bytes: number;
  readonly count: number;
  readonly y: number;
  readonly height: number;
}

export interface ModuleLanes<T extends Life> {
  readonly module: string | null;
  /** Lanes by name, if the module is open; empty if its tensors share lanes. */
  readonly names: readonly NameLanes[];
  readonly bytes: number;
  readonly count: number;
  readonly y: number;
  readonly height: number;
  readonly bars: readonly LifeBar<T>[];
}

export interface Lanes<T extends Life> {
  readonly modules: readonly ModuleLanes<T>[];
  readonly height: number;
}

export type Sort = "time" | "bytes";

const LOWEST = 5;
const HIGHEST = 17;
const SIZE_CLASSES = 5;
const LANE_GAP = 1;
const MODULE_PADDING = 4;
/** The smallest height of a module, for its name. */
const LEAST_MODULE_HEIGHT = 20;
/** The height of an open module's name above its lanes, and of a lane with a name. */
const OPEN_HEAD = 20;
const NAMED_LANE = 16;

/** Moves modules that are deeper in the tree than `depth` into their ancestor's row. */
export function foldModules<T extends Life>(
  rows: readonly ModuleLives<T>[],
  depth: number,
): ModuleLives<T>[] {
  const folded = new Map<string | null, T[]>();
  for (const row of rows) {
    const module = row.module === null ? null : row.module.split(".").slice(0, depth).join(".");
    const tensors = folded.get(module);
    if (tensors) tensors.push(...row.tensors);
    else folded.set(module, [...row.tensors]);
  }
  return [...folded].map(([module, tensors]) => ({ module, tensors }));
}

/**
 * The last share of a recording: long-lived tensors that are freed in it were freed by the
 * program's end.
 */
const END_SHARE = 0.03;
const LONG_SHARE = 0.2;

/** Whether a tensor is live through a window, or until the program ends. */
export function stays(
  tensor: Life,
  window: { readonly from: number; readonly to: number },
  seconds: number,
): boolean {
  if (tensor.freed_seconds === null) return true;
  const allocated = tensor.allocated_seconds ?? 0;
  if (allocated <= window.from && tensor.freed_seconds >= window.to) return true;
  const isLong = tensor.freed_seconds - allocated >= seconds * LONG_SHARE;
  return isLong && tensor.freed_seconds >= seconds * (1 - END_SHARE);
}

/**
 * Merges lasting tensors into one bar for each module and category: parameters live as long as the
 * program, and a lane for each would hide the others. `together` creates the merged tensor.
 */
export function foldStaying<T extends Life>(
  rows: readonly ModuleLives<T>[],
  isStaying: (tensor: T) => boolean,
  together: (tensors: readonly T[], index: number) => T,
  isOpen: (module: string | null) => boolean = () => false,
): ModuleLives<T>[] {
  let index = 0;
  return rows.map(({ module, tensors }) => {
    if (isOpen(module)) return { module, tensors };
    const staying = new Map<string, T[]>();
    const others: T[] = [];
    for (const tensor of tensors) {
      if (!isStaying(tensor)) others.push(tensor);
      else staying.set(tensor.category, [...(staying.get(tensor.category) ?? []), tensor]);
    }
    const folded = [...staying.values()].map((group) => {
      const [only, second] = group;
      index += 1;
      return only && !second ? only : together(group, index);
    });
    return { module, tensors: [...folded, ...others] };
  });
}

/** Keeps the tensors that lived in a window. */
export function livesWithin<R extends ModuleLives<Life>>(
  rows: readonly R[],
  window: { readonly from: number; readonly to: number },
): R[] {
  return rows.flatMap((row) => {
    const kept = row.tensors.filter(
      (tensor) =>
        (tensor.allocated_seconds ?? 0) <= window.to &&
        (tensor.freed_seconds ?? window.to) >= window.from,
    );
    return kept.length > 0 ? [{ ...row, tensors: kept }] : [];
  });
}

/** Keeps the tensors with every word of `filter` in the name, module, category or phase. */
export function filterLives<T extends Life>(
  rows: readonly ModuleLives<T>[],
  filter: string,
): ModuleLives<T>[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [...rows];
  return rows.flatMap(({ module, tensors }) => {
    const kept = tensors.filter((tensor) => {
      const text = [module, tensor.name, tensor.category, tensor.phase].join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    });
    return kept.length > 0 ? [{ module, tensors: kept }] : [];
  });
}

export interface LaneOptions {
  readonly end: number;
  readonly gap: number;
  readonly sort: Sort;
  /** Whether the tensors of a module have a lane for each name. */
  readonly isOpen?: (module: string | null) => boolean;
}

/**
 * Lays out the lifetimes of each module; `end` is the end of tensors that were never freed, `gap`
 * the smallest distance of two bars of a lane, in seconds.
 */
export function lanes<T extends Life>(
  rows: readonly ModuleLives<T>[],
  options: LaneOptions,
): Lanes<T> {
  // A merged bar does not count for the scale of the heights.
  const single = rows.flatMap((row) => row.tensors.filter((tensor) => !tensor.count));
  const sizes = single.map((tensor) => tensor.bytes);
  const largest = sizes.reduce((most, bytes) => Math.max(most, bytes), 1);
  const withBytes = rows.map((row) => ({
    ...row,
    bytes: row.tensors.reduce((sum, tensor) => sum + tensor.bytes, 0),
    count: row.tensors.reduce((sum, tensor) => sum + (tensor.count ?? 1), 0),
  }));
  if (options.sort === "bytes") withBytes.sort((one, other) => other.bytes - one.bytes);
  const modules: ModuleLanes<T>[] = [];
  let y = 0;
  for (const { module, tensors, bytes, count } of withBytes) {
    const isOpen = options.isOpen?.(module) ?? false;
    const { bars, names, height } = isOpen
      ? namedLanes(tensors, y + OPEN_HEAD, options)
      : { ...moduleLanes(tensors, largest, y + MODULE_PADDING, options), names: [] };
    const whole = isOpen
      ? OPEN_HEAD + height + MODULE_PADDING
      : Math.max(LEAST_MODULE_HEIGHT, height + 2 * MODULE_PADDING);
    modules.push({ module, names, bytes, count, y, height: whole, bars });
    y += whole;
  }
  return { modules, height: y };
}

function moduleLanes<T extends Life>(
  tensors: readonly T[],
  largest: number,
  top: number,
  options: { readonly end: number; readonly gap: number },
): { bars: LifeBar<T>[]; height: number } {
  const classes = Array.from({ length: SIZE_CLASSES }, (): T[] => []);
  for (const tensor of tensors) classes[sizeClass(tensor.bytes, largest)]?.push(tensor);
  const bars: LifeBar<T>[] = [];
  let y = top;
  for (let size = SIZE_CLASSES - 1; size >= 0; size -= 1) {
    const members = classes[size] ?? [];
    const height = LOWEST + ((HIGHEST - LOWEST) * size) / (SIZE_CLASSES - 1);
    const ends: number[] = [];
    for (const tensor of [...members].sort(
      (one, other) => (one.allocated_seconds ?? 0) - (other.allocated_seconds ?? 0),
    )) {
      const [from, to] = [tensor.allocated_seconds ?? 0, tensor.freed_seconds ?? options.end];
      const free = ends.findIndex((end) => end + options.gap <= from);
      const lane = free < 0 ? ends.length : free;
      ends[lane] = Math.max(to, from);
      bars.push({ tensor, from, to, y: y + lane * (height + LANE_GAP), height });
    }
    y += ends.length * (height + LANE_GAP);
  }
  return { bars, height: y - top };
}

/** A lane for each name, in the order of the first allocations; more where tensors of one name are live at once. */
function namedLanes<T extends Life>(
  tensors: readonly T[],
  top: number,
  options: Pick<LaneOptions, "end" | "gap">,
): { bars: LifeBar<T>[]; names: NameLanes[]; height: number } {
  const byName = new Map<string, T[]>();
  const inTime = [...tensors].sort(
    (one, other) => (one.allocated_seconds ?? 0) - (other.allocated_seconds ?? 0),
  );
  for (const tensor of inTime) {
    const name = tensor.name ?? `unnamed ${tensor.category}`;
    const known = byName.get(name);
    if (known) known.push(tensor);
    else byName.set(name, [tensor]);
  }
  const bars: LifeBar<T>[] = [];
  const names: NameLanes[] = [];
  let y = top;
  for (const [name, members] of byName) {
    const ends: number[] = [];
    for (const tensor of members) {
      const [from, to] = [tensor.allocated_seconds ?? 0, tensor.freed_seconds ?? options.end];
      const free = ends.findIndex((end) => end + options.gap <= from);
      const lane = free < 0 ? ends.length : free;
      ends[lane] = Math.max(to, from);
      bars.push({ tensor, from, to, y: y + lane * (NAMED_LANE + LANE_GAP), height: NAMED_LANE });
    }
    const height = ends.length * (NAMED_LANE + LANE_GAP);
    const bytes = members.reduce((most, tensor) => Math.max(most, tensor.bytes), 0);
    names.push({ name, bytes, count: members.length, y, height });
    y += height;
  }
  return { bars, names, height: y - top };
}

/** The size class of a tensor: height grows with the square root of the bytes. */
function sizeClass(bytes: number, largest: number): number {
  return Math.min(SIZE_CLASSES - 1, Math.floor(Math.sqrt(bytes / largest) * SIZE_CLASSES));
}

/** The bar at a point, or else a bar near it. */
export function barAt<T extends Life>(
  layout: Lanes<T>,
  seconds: number,
  y: number,
  slack: number,
): LifeBar<T> | null {
  const module = layout.modules.find((each) => y >= each.y && y < each.y + each.height);
  if (!module) return null;
  let near: LifeBar<T> | null = null;
  for (const bar of module.bars) {
    if (y < bar.y || y >= bar.y + bar.height + LANE_GAP) continue;
    if (seconds >= bar.from && seconds <= bar.to) return bar;
    if (seconds >= bar.from - slack && seconds <= bar.to + slack) near = bar;
  }
  return near;
}
