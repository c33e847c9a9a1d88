// The map of blocks, under the pointer and the keys.

import { useMemo, useRef, useState } from "preact/hooks";
import type { Segments } from "../../api/types.gen";
import { formatBytes } from "../../base/bytes";
import { shortPath } from "../../base/paths";
import { inks } from "../../model/theme";
import { choose, chosenId } from "../../render/chosen_card";
import type { Size } from "../../render/pen";
import { ScrolledPicture } from "../../render/scrolled";
import { hideTip, showTip, TipRows } from "../../render/tooltip";
import { useKeys } from "../../render/use_keys";
import { type BlockPosition, blockColour, bytesAt, drawSegments } from "./draw";
import { chosenOwner, ownerName } from "./owners";
import { blockAt, type Order, rowOf, segmentAt, segmentRows } from "./rows";
import { blockAddress, groupName, segmentsSentence, stateName } from "./words";

interface MapProps {
  readonly answer: Segments;
  readonly order: Order;
  readonly wanted: number | null;
  /** Whether another map handles the keys. */
  readonly isQuiet?: boolean;
}

export function SegmentMap({ answer, order, wanted, isQuiet }: MapProps) {
  const [top, setTop] = useState(0);
  const [pointed, setPointed] = useState<BlockPosition | null>(null);
  const size = useRef<Size>({ width: 1, height: 1 });
  const layout = useMemo(() => {
    const extents = answer.segments.map((segment) => ({
      address: segment.address,
      bytes: segment.bytes,
      group: groupName(segment),
    }));
    return segmentRows(extents, order, wanted);
  }, [answer, order, wanted]);
  const find = (event: MouseEvent): BlockPosition | null => {
    const { width } = size.current;
    const found = segmentAt(layout, event.offsetY + top, (row) =>
      bytesAt(layout, row, width, event.offsetX),
    );
    const blocks = found && answer.segments[found.segment]?.blocks;
    const block = blocks && blockAt(blocks, found.offset);
    return block ? { segment: found.segment, block } : null;
  };
  useBlockKeys(answer, pointed, setPointed, isQuiet ?? false);
  const owner = chosenOwner(answer);
  return (
    <>
      <ScrolledPicture
        name="segments"
        label={segmentsSentence(answer)}
        height={layout.height + 16}
        top={top}
        onTop={setTop}
        reveals={pointed && rowOf(layout, pointed.segment, pointed.block.offset)}
        draw={(pen, now, colours) => {
          size.current = now;
          drawSegments(pen, now, colours, {
            answer,
            layout,
            top,
            pointed,
            chosen: chosenId.value,
            owner,
          });
        }}
        on={{
          onPointerMove: (event) => {
            const position = find(event);
            setPointed((old) => (old?.block === position?.block ? old : position));
            if (position)
              showTip(
                event.clientX,
                event.clientY,
                <BlockTip answer={answer} position={position} />,
              );
            else hideTip();
          },
          onPointerLeave: () => {
            setPointed(null);
            hideTip();
          },
          onClick: (event) => choose(find(event)?.block.allocation ?? null),
        }}
      />
      <p class="unseen" aria-live="polite">
        {pointed && blockSentence(answer, pointed)}
      </p>
    </>
  );
}

/** Keys that choose the next or previous block in the order of the answer, skipping free ones. */
function useBlockKeys(
  answer: Segments,
  pointed: BlockPosition | null,
  point: (position: BlockPosition | null) => void,
  isQuiet: boolean,
): void {
  const live = useMemo(
    () =>
      answer.segments.flatMap((segment, index) =>
        segment.blocks
          .filter((block) => block.allocation !== null)
          .map((block): BlockPosition => ({ segment: index, block })),
      ),
    [answer],
  );
  const move = (by: number) => {
    const here = live.findIndex(
      (one) => one.segment === pointed?.segment && one.block.offset === pointed.block.offset,
    );
    point(live[(here + by + live.length) % live.length] ?? null);
  };
  const keys = [
    { keys: ["n"], hint: "Next block in use", run: () => move(1) },
    { keys: ["p"], hint: "Previous block in use", run: () => move(-1) },
    {
      keys: ["Enter"],
      hint: "Open the card of the block",
      run: () => choose(pointed?.block.allocation ?? null),
    },
  ];
  useKeys("Segments", isQuiet ? [] : keys);
}

/** `4.000 MiB, in use, fc.weight · train.py:3 (main)`. */
function blockSentence(answer: Segments, { block }: BlockPosition): string {
  const owner = block.owner === null ? undefined : answer.owners[block.owner];
  const said = `${formatBytes(block.bytes)}, ${stateName(block)}`;
  return owner ? `${said}, ${ownerName(owner, shortPath)}` : said;
}

function BlockTip({ answer, position }: { answer: Segments; position: BlockPosition }) {
  const { block } = position;
  const segment = answer.segments[position.segment];
  if (!segment) return null;
  const category = block.category === null ? null : answer.categories[block.category];
  const rows: [string, string, string?][] = [
    ["Address", blockAddress(segment, block)],
    ["Segment", `${formatBytes(segment.bytes)}, ${groupName(segment)}`],
  ];
  const owner = block.owner === null ? undefined : answer.owners[block.owner];
  if (owner) rows.unshift(["Allocated by", shortPath(owner.location)]);
  if (owner?.name) rows.unshift(["Tensor", owner.name]);
  if (category) rows.unshift(["Category", category, blockColour(inks.value, answer, block)]);
  return (
    <>
      <p class="title">
        {formatBytes(block.bytes)}, {stateName(block)}
      </p>
      <TipRows rows={rows} />
      {block.allocation !== null && <p class="quiet">A click opens its card</p>}
    </>
  );
}
