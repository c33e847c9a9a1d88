// Keys on the picture itself: arrows move between allocations, Enter opens the card of one.

import { useMemo } from "preact/hooks";
import type { AllocationTile } from "../../api/types.gen";
import { secondsAt } from "../../base/axis";
import { formatBytes } from "../../base/bytes";
import { formatSeconds } from "../../base/seconds";
import { tilesIn } from "../../base/tiles";
import { secondsField } from "../../model/address";
import { type Frame, levelOf } from "./frame";
import { layout } from "./layout";
import { choose, walked } from "./state";
import { besides, ribbonsIn, stacked } from "./walk";
import { pan } from "./window";

/** The share by which the window moves beyond its last allocation. */
const NEXT_PART = 0.5;

/** Handlers of the canvas; none for stacked groups, which have no single allocations. */
export function useWalk(read: () => Frame) {
  return useMemo(
    () => ({
      onKeyDown: (event: KeyboardEvent) => {
        const frame = read();
        if (!frame.ribbons || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey)
          return;
        if (!step(event.key, frame)) return;
        event.preventDefault();
        event.stopPropagation();
      },
      onBlur: () => {
        walked.value = null;
      },
    }),
    [read],
  );
}

/** Handles a key; returns whether it did. */
function step(key: string, frame: Frame): boolean {
  const tiles = shownTiles(frame);
  const here = walked.peek();
  if (key === "ArrowLeft" || key === "ArrowRight") {
    const by = key === "ArrowRight" ? 1 : -1;
    const next = besides(ribbonsIn(tiles, frame.along, frame.hidden), here, by, frame.along);
    if (next) walked.value = next;
    else pan(by * NEXT_PART);
  } else if (key === "ArrowUp" || key === "ArrowDown") {
    if (!here) return false;
    walked.value = stacked(tiles, here, key === "ArrowUp" ? 1 : -1, frame.hidden) ?? here;
  } else if (key === "Enter") {
    if (!here) return false;
    choose(here.id, { at: secondsField(secondsAt(frame.axis.knots, here.at)) });
  } else return false;
  return true;
}

/** The chosen allocation as a sentence. */
export function walkedSentence(frame: Frame): string {
  const here = walked.value;
  if (!frame.ribbons || !here) return "";
  const all = ribbonsIn(shownTiles(frame), frame.along, frame.hidden);
  const at = all.findIndex((one) => one.id === here.id);
  const ribbon = all[at];
  if (!ribbon) return "";
  const [from, to] = [ribbon.from, ribbon.to].map((one) =>
    formatSeconds(secondsAt(frame.axis.knots, one)),
  );
  return (
    `${ribbon.category}, ${formatBytes(ribbon.bytes)}, from ${from} to ${to}; ` +
    `allocation ${at + 1} of ${all.length} that are shown. Enter opens its card.`
  );
}

function shownTiles(frame: Frame): AllocationTile[] {
  const { plot } = layout(frame.size, frame.bands);
  const names = tilesIn(
    levelOf(frame, plot.width),
    frame.axis.length,
    frame.along.from,
    frame.along.to,
  );
  const found = names.map((name) => frame.ribbons?.now.around(name));
  return [...new Set(found.filter((tile) => tile !== undefined))];
}
