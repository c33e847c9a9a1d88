// The whole page: the bar, warnings about lost events, the view.

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
  // Different elements before and after the list of recordings arrives, so that nothing moves.
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

/** Recordings whose notice about derived values was dismissed. */
const dismissed = signal<ReadonlySet<number>>(new Set());

/** Warnings about lost events come before any number. A notice about derived values is dimmed. */
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
      hint: `${view.title}: ${view.hint}`,
      run: () => go({ view: view.name }),
    })),
    {
      keys: ["/"],
      hint: "Go to the filter box",
      run: () => document.querySelector<HTMLInputElement>("input[type=search]")?.focus(),
    },
    { keys: ["T"], hint: "Theme: system, light, dark", run: switchTheme },
    {
      keys: ["?"],
      hint: "Show these keys",
      run: () => {
        helpIsOpen.value = !helpIsOpen.peek();
      },
    },
  ]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      // While the help is open, keys do nothing; Escape closes it.
      if (!helpIsOpen.peek() || event.key === "?") press(event);
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
}
