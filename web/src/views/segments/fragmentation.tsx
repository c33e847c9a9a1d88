// Wasted reserved memory: its three kinds, a remedy for each, and the sizes of the free blocks.

import type { ComponentChildren } from "preact";
import type { Segments } from "../../api/types.gen";
import { counted, formatBytes, formatShare, formatTick } from "../../base/bytes";
import { groupColour, type Inks } from "../../base/colours";
import { inks } from "../../model/theme";
import type { Pen, Size } from "../../render/pen";
import { Picture } from "../../render/picture";
import { type Bin, histogram } from "./histogram";
import { byCategory } from "./words";

export function Fragmentation({ answer }: { answer: Segments }) {
  const at = answer.fragmentation;
  const colours = inks.value;
  return (
    <section class="fragmentation" aria-label="Fragmentation">
      <dl class="figures">
        {byCategory(answer).map(({ index, name, bytes }) => (
          <Figure key={name} name={name} colour={groupColour(colours, name, index)}>
            {formatBytes(bytes)}
          </Figure>
        ))}
        <Figure name="free" isFree>
          {formatBytes(at.free)} <span class="quiet">{formatShare(at.free, at.reserved)}</span>
        </Figure>
      </dl>
      <Remedy title="Rounding" bytes={at.rounding} reserved={at.reserved}>
        Inside blocks, beyond the requested bytes. Fewer and larger tensors have less of it.
      </Remedy>
      <Remedy title="Split" bytes={at.split} reserved={at.reserved}>
        Free blocks of segments in use. <code>expandable_segments:True</code> can return them.
      </Remedy>
      <Remedy title="Unusable" bytes={at.unusable} reserved={at.reserved}>
        Free blocks smaller than the largest request. Allocate large tensors first.
      </Remedy>
      <h3>
        {counted(at.free_blocks, "free block")} by size, the largest {formatBytes(at.largest_free)}
      </h3>
      <FreeBlocks answer={answer} />
    </section>
  );
}

function Figure({
  name,
  colour,
  isFree,
  children,
}: {
  name: string;
  colour?: string;
  isFree?: boolean;
  children: ComponentChildren;
}) {
  return (
    <>
      <dt>
        <i
          class={`swatch ${isFree ? "free" : ""}`}
          {...(colour === undefined ? {} : { style: { background: colour } })}
        />
        {name}
      </dt>
      <dd>{children}</dd>
    </>
  );
}

function Remedy({
  title,
  bytes,
  reserved,
  children,
}: {
  title: string;
  bytes: number;
  reserved: number;
  children: ComponentChildren;
}) {
  return (
    <div class="cure">
      <h3>
        {title}
        <b>
          {formatBytes(bytes)} <span class="quiet">{formatShare(bytes, reserved)}</span>
        </b>
      </h3>
      <p class="quiet">{children}</p>
    </div>
  );
}

function FreeBlocks({ answer }: { answer: Segments }) {
  const sizes = answer.segments.flatMap((segment) =>
    segment.blocks.filter((block) => block.state === "free").map((block) => block.bytes),
  );
  const bins = histogram(sizes, answer.fragmentation.unusable);
  if (bins.length === 0) return <p class="quiet">Nothing is free.</p>;
  const label = bins
    .filter((bin) => bin.count > 0)
    .map((bin) => `${counted(bin.count, "block")} from ${formatTick(bin.from)}`)
    .join(", ");
  return (
    <div class="free-blocks">
      <Picture
        name="free-blocks"
        label={`Bytes in free blocks by size: ${label}`}
        draw={(pen, size, colours) => drawBins(pen, size, colours, bins)}
      />
    </div>
  );
}

/**
 * Draws bars of bytes with the number of blocks above; blocks that are too small for the largest
 * request are highlighted.
 */
export function drawBins(pen: Pen, size: Size, colours: Inks, bins: readonly Bin[]): void {
  const most = Math.max(1, ...bins.map((bin) => bin.bytes));
  const [top, bottom] = [18, 18];
  const room = size.height - top - bottom;
  const pitch = size.width / bins.length;
  const every = Math.max(1, Math.ceil(52 / pitch));
  pen.line([0, size.height - bottom + 0.5, size.width, size.height - bottom + 0.5], {
    stroke: colours.edge,
  });
  bins.forEach((bin, at) => {
    const height = bin.count > 0 ? Math.max(2, (bin.bytes / most) * room) : 0;
    const x = at * pitch;
    const y = size.height - bottom - height;
    const small = bin.bytes > 0 ? (height * bin.tooSmall) / bin.bytes : 0;
    pen.rect(x + 1, y, pitch - 2, height - small, colours.reserved);
    pen.rect(x + 1, y + height - small, pitch - 2, small, colours.grew);
    const middle = x + pitch / 2;
    if (bin.count > 0 && pitch > 11)
      pen.text(middle, y - 4, String(bin.count), {
        fill: colours.quiet,
        align: "middle",
        size: 10,
      });
    if (at % every !== 0) return;
    const text = formatTick(bin.from);
    const half = pen.measure(text, 10) / 2;
    // Keep the first and the last label inside the picture.
    const centre = Math.min(Math.max(middle, half), size.width - half);
    pen.text(centre, size.height - 5, text, { fill: colours.quiet, align: "middle", size: 10 });
  });
}
