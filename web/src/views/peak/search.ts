// The search of the icicle; choosing a row of the table also searches.

import { field, go } from "../../model/address";

/** How long a drag must rest before its time is requested. */
export const DRAG_MILLIS = 70;

/** `find_tree` in the address. */
export const words = field("find_tree");

export function search(text: string): void {
  go({ find_tree: text }, { replaces: true });
}
