// A button that copies a text to the clipboard, and shows whether that worked.

import { useState } from "preact/hooks";
import { copyText } from "./save";

export function CopyButton({ text, hint = "Copy" }: { text: string; hint?: string }) {
  const [said, setSaid] = useState<string | null>(null);
  const copy = async () => {
    setSaid((await copyText(text)) ? "Copied" : "Not allowed: select it and copy");
    setTimeout(() => setSaid(null), 1500);
  };
  return (
    <button type="button" class="copy" onClick={copy} aria-label={`${hint}: ${text}`}>
      <span aria-live="polite">{said ?? hint}</span>
    </button>
  );
}
