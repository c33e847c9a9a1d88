// Handles a click: moves the cursor to the time there, and chooses the allocation under the
// pointer.

import { positionOf } from "../../base/axis";
import { during } from "../../base/pending";
import { secondsField } from "../../model/address";
import { asApiError, ask } from "../../model/answer";
import { type Subject, source } from "../../model/recording";
import { type Frame, levelOf } from "./frame";
import { layout } from "./layout";
import { columnOf, groupAt, highestMoment, tileAt } from "./look_up";
import { shapeAt } from "./ribbons";
import { choose, missed, stackedBy } from "./state";

export async function onPress(
  frame: Frame,
  about: Subject,
  seconds: number,
  bytes: number,
): Promise<void> {
  const { plot } = layout(frame.size, frame.bands);
  const level = levelOf(frame, plot.width);
  if (frame.ribbons) {
    const position = positionOf(frame.axis.knots, seconds);
    const tile = frame.ribbons.now.around(tileAt(level, frame.axis.length, position));
    const shape = tile && shapeAt(tile, position, bytes);
    choose(shape?.id ?? null, { at: secondsField(seconds) });
    return;
  }
  const column = columnOf(frame.stacks.now, level, frame.axis, seconds);
  if (!column) return;
  await during(chooseAt(frame, about, column, seconds, bytes));
}

async function chooseAt(
  frame: Frame,
  about: Subject,
  column: NonNullable<ReturnType<typeof columnOf>>,
  seconds: number,
  bytes: number,
): Promise<void> {
  const at = secondsField(seconds);
  try {
    const moment = await highestMoment(column, frame.timeline, about, seconds);
    const under = groupAt(column, frame.timeline, frame.hidden, bytes);
    const exact = secondsField(moment);
    if (!under) return choose(null, { at: exact });
    const { trace, device, revision } = about;
    const query = {
      trace,
      device,
      by: stackedBy.peek(),
      seconds: Number(exact),
      bytes: Math.floor(under.bytes),
    };
    const hit = await ask({ path: "hit", query, revision });
    choose(hit.allocation, { at: exact });
    missed.value = hit.allocation === null ? "No recorded allocation is at this point." : null;
  } catch (error) {
    // A saved page has no answer for the point; the time is chosen nevertheless.
    choose(null, { at });
    missed.value = source().isStored
      ? "A saved page cannot look this up: *By allocation* opens the largest ones."
      : asApiError(error).message;
  }
}
