// The lines and tensors of the blocks: a list beside the map. The chosen one is highlighted in the
// map.

import type { Segments } from "../../api/types.gen";
import { counted, formatBytes, formatShare } from "../../base/bytes";
import { shortener } from "../../base/paths";
import { field, go } from "../../model/address";

type Owner = Segments["owners"][number];

const ownerField = field("owner");

/** The number of listed owners; the map shows all. */
const MOST_OWNERS = 12;

/** The name of an owner: its tensor, if that has a name, and its line. */
export function ownerName(owner: Owner, short = (text: string) => text): string {
  return owner.name ? `${owner.name} · ${short(owner.location)}` : short(owner.location);
}

/**
 * The index of the chosen owner in an answer; null if none is chosen or it has no block at this
 * time.
 */
export function chosenOwner(answer: Segments): number | null {
  if (ownerField.value === "") return null;
  const found = answer.owners.findIndex((owner) => ownerName(owner) === ownerField.value);
  return found < 0 ? null : found;
}

export function Owners({ answer }: { answer: Segments }) {
  const sorted = [...answer.owners].sort((one, other) => other.bytes - one.bytes);
  const short = shortener(sorted.map((owner) => owner.location));
  const all = sorted.reduce((sum, owner) => sum + owner.bytes, 0);
  const shown = sorted.slice(0, MOST_OWNERS);
  const picked = ownerField.value;
  const isListed = shown.some((owner) => ownerName(owner) === picked);
  const chosen = sorted.find((owner) => ownerName(owner) === picked);
  return (
    <section class="owners" aria-label="Owners of the blocks">
      <h3>Blocks in use by owner</h3>
      <ul>
        {[...(chosen && !isListed ? [chosen] : []), ...shown].map((owner) => {
          const name = ownerName(owner);
          return (
            <li key={name}>
              <button
                type="button"
                class="plain"
                aria-pressed={name === picked}
                title={`${name}: ${counted(owner.blocks, "block")}`}
                onClick={() => go({ owner: name === picked ? null : name })}
              >
                <span class="owner-bytes">
                  {formatBytes(owner.bytes)}{" "}
                  <span class="quiet">{formatShare(owner.bytes, all)}</span>
                </span>
                <span class="owner-name">
                  <bdi>{ownerName(owner, short)}</bdi>
                </span>
              </button>
            </li>
          );
        })}
      </ul>
      {sorted.length > shown.length && (
        <p class="quiet">{counted(sorted.length - shown.length, "more owner")} with less</p>
      )}
    </section>
  );
}
