// What is looked for in the icicle; a row of the table that is picked is looked for too.

import { field, go } from "../../model/address";

/** A drag asks for no more moments than it rests at for so long. */
export const DRAG_MILLIS = 70;

/** `find_tree` in the address. */
export const words = field("find_tree");

export function search(text: string): void {
  go({ find_tree: text }, { replaces: true });
}
