// Which source this page has: the answers stored in it, or else the server that it came from.

import { HttpSource } from "./http";
import type { Source } from "./source";
import { type Stored, StoredSource } from "./stored";

/** The element that a saved page has its answers in: gzip of JSON, as Base64. */
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
