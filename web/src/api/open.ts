// Chooses the source of answers: those stored in the page, or else the server that sent it.

import { HttpSource } from "./http";
import type { Source } from "./source";
import { type Stored, StoredSource } from "./stored";

/** The element of a saved page with its answers: JSON, compressed with gzip, as Base64. */
const ANSWERS = "floodmark-answers";

export async function openSource(page: Document): Promise<Source> {
  const packed = page.getElementById(ANSWERS)?.textContent;
  return packed ? new StoredSource(await unpacked(packed)) : new HttpSource();
}

export async function unpacked(packed: string): Promise<Stored> {
  const bytes = Uint8Array.from(atob(packed.trim()), (letter) => letter.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return (await new Response(plain).json()) as Stored;
}
