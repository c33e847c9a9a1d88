// The whole page: bar, what is missing from the recording, the view.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { press } from "../base/keys";
import { idle } from "../base/pending";
import { capital } from "../base/sentences";
import { go } from "../model/address";
import { isFollowing } from "../model/growth";
import { card, failure, traces } from "../model/recording";
import { switchTheme } from "../model/theme";
import { Empty, Problem } from "../render/notices";
import { hideTip, Tooltip } from "../render/tooltip";
import { useKeys } from "../render/use_keys";
import { Bar } from "./bar";
import { Help, helpIsOpen } from "./help";
import { shownView, shownViews } from "./views";

export function Page() {
  useGlobalKeys();
  const view = shownView.value;
  useEffect(hideTip, [view.name]);
  useEffect(() => {
    document.title = [view.title, card.value?.name, "floodmark"].filter(Boolean).join(" · ");
  });
  // What is shown before and after the list of recordings has come are different elements: nothing moves.
  const isLoaded = traces.value !== null || failure.value !== null;
  return (
    <div class="page" data-idle={String(idle.value && isLoaded)} data-view={view.name}>
      <Bar isLoaded={isLoaded} />
      <Losses />
      <main key={String(isLoaded)}>
        <div id="view" role="tabpanel" aria-labelledby={`tab-${view.name}`}>
          <Shown />
        </div>
      </main>
      <Help />
      <Tooltip />
    </div>
  );
}

function Shown() {
  if (failure.value) return <Problem error={failure.value} />;
  if (!traces.value) return <Empty>Reading the recording…</Empty>;
  if (!card.value || card.value.summary.devices.length === 0)
    return (
      <Empty>
        {isFollowing.value
          ? "Nothing was allocated yet."
          : "Nothing was allocated in this recording."}
      </Empty>
    );
  const view = shownView.value;
  return <view.component key={view.name} />;
}

/** Recordings whose notice of what is derived was dismissed. */
const dismissed = signal<ReadonlySet<number>>(new Set());

/** What is missing must be seen before any number. Where something is derived, nothing is missing: that is quiet. */
function Losses() {
  const id = card.value?.id ?? 0;
  const derived = card.value?.derived ?? [];
  const lost = (card.value?.summary.losses ?? []).filter((loss) => !derived.includes(loss));
  return (
    <>
      {lost.length > 0 && <Notices all={lost} sign="!" />}
      {derived.length > 0 && !dismissed.value.has(id) && (
        <div class="derived">
          <Notices all={derived} sign="i" isQuiet />
          <button
            type="button"
            class="plain"
            aria-label="Dismiss"
            onClick={() => {
              dismissed.value = new Set([...dismissed.peek(), id]);
            }}
          >
            ✕
          </button>
        </div>
      )}
    </>
  );
}

function Notices({
  all,
  sign,
  isQuiet,
}: {
  all: readonly string[];
  sign: string;
  isQuiet?: boolean;
}) {
  const [first, ...others] = all;
  return (
    <details class={isQuiet ? "losses neutral" : "losses"}>
      <summary>
        <b aria-hidden="true">{sign}</b> {capital(first ?? "")}
        {others.length > 0 && <span class="more"> and {others.length} more</span>}
      </summary>
      {others.length > 0 && (
        <ul>
          {others.map((loss) => (
            <li key={loss}>{capital(loss)}</li>
          ))}
        </ul>
      )}
    </details>
  );
}

function useGlobalKeys(): void {
  useKeys("Everywhere", [
    ...shownViews.value.map((view) => ({
      keys: [view.key],
      says: `${view.title}: ${view.says}`,
      run: () => go({ view: view.name }),
    })),
    {
      keys: ["/"],
      says: "Go to the filter box",
      run: () => document.querySelector<HTMLInputElement>("input[type=search]")?.focus(),
    },
    { keys: ["T"], says: "Theme: system, light, dark", run: switchTheme },
    {
      keys: ["?"],
      says: "Show these keys",
      run: () => {
        helpIsOpen.value = !helpIsOpen.peek();
      },
    },
  ]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      // While the keys are listed, they do nothing; the dialog itself closes with Escape.
      if (!helpIsOpen.peek() || event.key === "?") press(event);
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
}
