// A button that puts a text on the clipboard, and says whether that worked.

import { useState } from "preact/hooks";
import { copyText } from "./save";

export function CopyButton({ text, says = "Copy" }: { text: string; says?: string }) {
  const [said, setSaid] = useState<string | null>(null);
  const copy = async () => {
    setSaid((await copyText(text)) ? "Copied" : "Not allowed: select it and copy");
    setTimeout(() => setSaid(null), 1500);
  };
  return (
    <button type="button" class="copy" onClick={copy} aria-label={`${says}: ${text}`}>
      <span aria-live="polite">{said ?? says}</span>
    </button>
  );
}
