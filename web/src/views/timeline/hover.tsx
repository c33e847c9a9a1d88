// A card beside the pointer with what is under it.

import { effect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Ribbon as Shape } from "../../api/types.gen";
import { positionOf } from "../../base/axis";
import { formatBytes, formatShare } from "../../base/bytes";
import { groupColour } from "../../base/colours";
import { nameTail, shortener } from "../../base/paths";
import { formatSeconds } from "../../base/seconds";
import { groupName, stepName } from "../../base/sentences";
import { hideTip, showTip, TipRows } from "../../render/tooltip";
import { bandAt } from "./bands";
import { type Frame, levelOf, xOf } from "./frame";
import { layout } from "./layout";
import { type Column, columnOf, groupAt, tileAt } from "./look_up";
import { shapeAt } from "./ribbons";
import { pointed } from "./state";

/** The number of groups that a card lists. */
const MOST_ROWS = 9;

export function useHover(
  canvas: { readonly current: HTMLCanvasElement | null },
  read: () => Frame,
): void {
  const latest = useRef(read);
  latest.current = read;
  useEffect(() => {
    const stop = effect(() => {
      const position = pointed.value;
      const element = canvas.current;
      if (!position || !element) return hideTip();
      const frame = latest.current();
      const { plot } = layout(frame.size, frame.bands);
      const corner = element.getBoundingClientRect();
      const x = corner.left + xOf(plot, frame)(position.seconds);
      const y = corner.top + plot.y + (1 - position.bytes / frame.highest) * plot.height;
      const level = levelOf(frame, plot.width);
      const column = columnOf(frame.stacks.now, level, frame.axis, position.seconds);
      if (column)
        showTip(x, y, <Card frame={frame} column={column} level={level} position={position} />);
    });
    return () => {
      stop();
      hideTip();
    };
  }, [canvas]);
}

interface CardProps {
  readonly frame: Frame;
  readonly column: Column;
  readonly level: number;
  readonly position: { readonly seconds: number; readonly bytes: number };
}

function Card({ frame, column, level, position }: CardProps) {
  const { tile, index } = column;
  const step = frame.bands && bandAt(frame.bands.steps, position.seconds);
  const phase = frame.bands && bandAt(frame.bands.stretches, position.seconds);
  const when = [formatSeconds(position.seconds), step && stepName(step), phase?.name]
    .filter(Boolean)
    .join(" · ");
  const allocated = tile.allocated[index] ?? 0;
  const totals: [string, string][] = [["allocated", formatBytes(allocated)]];
  if (tile.active && frame.lines.active)
    totals.push(["active", formatBytes(tile.active[index] ?? 0)]);
  if (tile.reserved) totals.push(["reserved", formatBytes(tile.reserved[index] ?? 0)]);
  return (
    <>
      <p class="title">{when}</p>
      <TipRows rows={totals} />
      <hr />
      {frame.ribbons ? (
        <Ribbon frame={frame} level={level} position={position} />
      ) : (
        <Groups frame={frame} column={column} position={position} allocated={allocated} />
      )}
    </>
  );
}

function Groups({
  frame,
  column,
  position,
  allocated,
}: {
  frame: Frame;
  column: Column;
  position: CardProps["position"];
  allocated: number;
}) {
  const here = groupAt(column, frame.timeline, frame.hidden, position.bytes)?.group;
  const all = frame.timeline.groups.map((group, index) => ({
    group,
    index,
    bytes: column.tile.groups[index]?.[column.index] ?? 0,
  }));
  const shown = all
    .filter((one) => one.bytes > 0 && !frame.hidden.has(one.group.name))
    .sort((one, other) => other.bytes - one.bytes);
  const shorten = shortener(frame.timeline.groups.map((group) => group.name));
  return (
    <dl class="tip-rows">
      {shown.slice(0, MOST_ROWS).map(({ group, index, bytes }) => (
        <div key={group.name} class={index === here ? "here" : ""}>
          <dt>
            <i class="swatch" style={{ background: groupColour(frame.inks, group.name, index) }} />
            {nameTail(shorten(groupName(frame.timeline.by, group.name)), 44)}
          </dt>
          <dd>
            {formatBytes(bytes)} <span class="quiet">{formatShare(bytes, allocated)}</span>
          </dd>
        </div>
      ))}
      {shown.length > MOST_ROWS && <div class="quiet">and {shown.length - MOST_ROWS} smaller</div>}
    </dl>
  );
}

function Ribbon({ frame, level, position }: Omit<CardProps, "column">) {
  const at = positionOf(frame.axis.knots, position.seconds);
  const tile = frame.ribbons?.now.around(tileAt(level, frame.axis.length, at));
  const shape: Shape | null = tile ? shapeAt(tile, at, position.bytes) : null;
  if (!tile || !shape) return <p class="quiet">allocations too small to be shown, or none</p>;
  const category = tile.categories[shape.category] ?? "unknown";
  return (
    <TipRows
      rows={[
        [category, formatBytes(shape.bytes), groupColour(frame.inks, category, shape.category)],
        ["click", "its stack and lifetime"],
      ]}
    />
  );
}
