// A location: file, line and function, then its module and its folders, which may be cut off.

import type { ComponentChildren } from "preact";
import { splitLocation } from "../base/paths";

interface LocationProps {
  readonly text: string;
  readonly module?: string | null | undefined;
  /** Content behind the function. */
  readonly children?: ComponentChildren;
}

export function LocationText({ text, module, children }: LocationProps) {
  const { name, folder } = splitLocation(text);
  const after = [module, folder].filter(Boolean).join(" · ");
  return (
    <>
      {name}
      {children}
      {after && <span class="quiet"> {after}</span>}
    </>
  );
}
