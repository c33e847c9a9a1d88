// The whole page: bar, what is missing from the recording, the view.

import { useEffect } from "preact/hooks";
import { press } from "../base/keys";
import { idle } from "../base/pending";
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

/** What is missing must be seen before any number. */
function Losses() {
  const losses = card.value?.summary.losses ?? [];
  if (losses.length === 0) return null;
  const [first, ...others] = losses;
  return (
    <details class="losses">
      <summary>
        <b aria-hidden="true">!</b> {first}
        {others.length > 0 && <span class="more"> and {others.length} more</span>}
      </summary>
      {others.length > 0 && (
        <ul>
          {others.map((loss) => (
            <li key={loss}>{loss}</li>
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
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);
}
