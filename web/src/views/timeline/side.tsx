// Beside the picture: which groups and lines are shown, and the card of the chosen allocation.

import type { Timeline } from "../../api/types.gen";
import { formatBytes } from "../../base/bytes";
import { groupColour } from "../../base/colours";
import { nameTail, shortener } from "../../base/paths";
import { capital, groupName } from "../../base/sentences";
import { device, failed } from "../../model/recording";
import { inks } from "../../model/theme";
import {
  failure,
  fits,
  hidden,
  isRibbons,
  type LineName,
  lines,
  onlyGroup,
  stackedBy,
  toggleFit,
  toggleGroup,
  toggleLine,
} from "./state";

const BACKWARD = " (backward)";
/** The longest name of a group. */
const MOST_LETTERS = 26;

export function Legend({ timeline }: { timeline: Timeline }) {
  const off = hidden.value;
  const colours = inks.value;
  const shorten = shortener(timeline.groups.map((group) => group.name));
  return (
    <section class="legend" aria-label="Groups">
      <h3>{capital(isRibbons.value ? "category" : stackedBy.value)}, peak of each</h3>
      <ul>
        {upsideDown(timeline).map(([group, index]) => (
          <li key={group.name}>
            <label
              title={`${groupName(timeline.by, group.name)}: switch on or off; double click shows it alone`}
              onDblClick={() => onlyGroup(group.name)}
            >
              <input
                type="checkbox"
                checked={!off.has(group.name)}
                onChange={() => toggleGroup(group.name)}
              />
              <i class="swatch" style={{ background: groupColour(colours, group.name, index) }} />
              <span class="name">{legendName(shorten(group.name))}</span>
              <span class="quiet">{formatBytes(group.peak)}</span>
            </label>
          </li>
        ))}
        {isRibbons.value && (
          <li class="smaller">
            <i class="swatch" style={{ background: colours.edge }} />
            smaller allocations, added up
          </li>
        )}
      </ul>
    </section>
  );
}

/** The name of a group: allocations by the backward pass of a line are a group of their own. */
function legendName(name: string): string {
  const [forward, mark] = name.endsWith(BACKWARD)
    ? [name.slice(0, -BACKWARD.length), BACKWARD]
    : [name, ""];
  return nameTail(forward, MOST_LETTERS - mark.length) + mark;
}

/** The groups in the order of the picture, the uppermost first. */
function upsideDown({ groups }: Timeline) {
  return groups.map((group, index) => [group, index] as const).reverse();
}

const LINES: readonly (readonly [LineName, string])[] = [
  ["allocated", "Allocated"],
  ["active", "Active"],
  ["reserved", "Reserved"],
  ["capacity", "Whole GPU"],
  ["limit", "Limit"],
];

export function Lines({ timeline }: { timeline: Timeline }) {
  const colours = inks.value;
  const isThere: Record<LineName, boolean> = {
    allocated: !isRibbons.value,
    active: !isRibbons.value && timeline.peak.active !== null,
    reserved: !isRibbons.value && timeline.peak.reserved !== null,
    // If the limit equals the GPU's memory, there is only one line.
    capacity: timeline.total !== null && failure.value?.limit !== timeline.total,
    // Known before the reason arrives, so that nothing moves then.
    limit: failed.value !== null && failed.value.device === device.value?.device,
  };
  return (
    <fieldset class="lines" aria-label="Lines">
      {LINES.filter(([name]) => isThere[name]).map(([name, title]) => (
        <label key={name} title={lineHint(name, timeline)}>
          <input type="checkbox" checked={lines.value[name]} onChange={() => toggleLine(name)} />
          <i
            class={`dash ${name === "capacity" ? "dashed" : ""}`}
            style={{ color: colours[name] }}
          />
          {title}
        </label>
      ))}
      <label title="Scale the height to what is shown (f)">
        <input type="checkbox" checked={fits.value} onChange={toggleFit} />
        Fit height
      </label>
    </fieldset>
  );
}

function lineHint(name: LineName, timeline: Timeline): string {
  if (name === "capacity") return `The GPU has ${formatBytes(timeline.total ?? 0)}`;
  if (name === "limit") return "The failed request, and the most that torch could reserve";
  return `Line of ${name} bytes`;
}
