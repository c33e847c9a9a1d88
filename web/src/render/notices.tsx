// Notices in place of a picture or a table: an error, no content, or waiting.

import type { ComponentChildren } from "preact";
import { type ApiError, NotSaved } from "../api/source";
import { capital } from "../base/sentences";
import type { Asked } from "../model/answer";
import { ChangeText } from "./change_text";

export function Problem({ error }: { error: ApiError }) {
  const kind = error instanceof NotSaved ? "quiet" : "problem";
  return (
    <div class={`notice ${kind}`} role="alert">
      <p>{capital(error.message)}</p>
      {error.hint && (
        <p class="quiet">
          <ChangeText text={capital(error.hint)} />
        </p>
      )}
    </div>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <div class="notice quiet">{children}</div>;
}

/** Shows an answer, the old one until the new one arrives, or an error. */
export function Answered<T>({
  asked,
  children,
}: {
  asked: Asked<T>;
  children: (value: T) => ComponentChildren;
}) {
  if (asked.error) return <Problem error={asked.error} />;
  if (asked.value === null) return <div class="notice quiet waiting">Reading…</div>;
  return (
    <div class="answered" data-old={asked.isOld} aria-busy={asked.isOld}>
      {children(asked.value)}
    </div>
  );
}
