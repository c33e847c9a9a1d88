// Which source this page has: the answers stored in it, or else the server that it came from.

import { HttpSource } from "./http";
import type { Source } from "./source";
import { type Stored, StoredSource } from "./stored";

/** The element that a saved page has its answers in. */
const ANSWERS = "floodmark-answers";

export function openSource(page: Document): Source {
  const answers = page.getElementById(ANSWERS)?.textContent;
  return answers ? new StoredSource(JSON.parse(answers) as Stored) : new HttpSource();
}
