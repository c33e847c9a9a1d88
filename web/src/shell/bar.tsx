// The bar above everything: views, recordings, devices, groupings, theme, help.

import { useEffect } from "preact/hooks";
import { counted } from "../base/bytes";
import { go, grouping, hashAfter } from "../model/address";
import { isFollowing, isLost } from "../model/growth";
import { card, device, traces } from "../model/recording";
import { switchTheme, theme } from "../model/theme";
import type { View } from "../views/view";
import { helpIsOpen } from "./help";
import { shownView, shownViews } from "./views";

/** The tabs appear with the list of recordings, which decides which views there are. */
export function Bar({ isLoaded }: { isLoaded: boolean }) {
  return (
    <header class="top-bar">
      <span class="brand">
        <Mark />
        floodmark
      </span>
      {isLoaded && <Tabs />}
      <span class="gap" />
      <Groupings view={shownView.value} />
      <Choosers />
      {isFollowing.value && !isLost.value && (
        <span class="live" title="The recording is still growing, and the page with it">
          live
        </span>
      )}
      {isLost.value && (
        <span class="live" role="alert" title="Start it again, and open the address that it prints">
          `floodmark view` does not answer
        </span>
      )}
      <button
        type="button"
        class="plain"
        onClick={switchTheme}
        title="Theme: as the system, light or dark"
      >
        {{ system: "◐ System", light: "○ Light", dark: "● Dark" }[theme.value]}
      </button>
      <button
        type="button"
        class="plain"
        title="Keys (?)"
        aria-label="Help"
        onClick={() => {
          helpIsOpen.value = true;
        }}
      >
        ?
      </button>
    </header>
  );
}

function Mark() {
  return (
    <svg width="18" height="18" viewBox="0 0 18 18" aria-hidden="true">
      <path d="M2 2v14h14" fill="none" stroke="currentColor" stroke-width="1.6" />
      <path d="M2 12c2.5-3 4.5 1 7-1.500S13 5 16 6v10H2z" fill="var(--accent)" />
    </svg>
  );
}

function Tabs() {
  const here = shownView.value.name;
  // In a narrow window the tabs are wider than the page.
  useEffect(() => {
    const tab = document.getElementById(`tab-${here}`);
    tab?.scrollIntoView?.({ inline: "nearest", block: "nearest" });
  }, [here]);
  return (
    <div role="tablist" aria-label="Views" class="tabs" onKeyDown={moveAmongTabs}>
      {shownViews.value.map((view) => (
        <a
          key={view.name}
          role="tab"
          id={`tab-${view.name}`}
          href={hashAfter({ view: view.name })}
          aria-selected={view.name === here}
          aria-controls="view"
          tabIndex={view.name === here ? 0 : -1}
          title={`${view.hint} (${view.key})`}
          onClick={(event) => {
            if (event.ctrlKey || event.metaKey || event.shiftKey) return;
            event.preventDefault();
            go({ view: view.name });
          }}
        >
          {view.title}
        </a>
      ))}
    </div>
  );
}

function moveAmongTabs(event: KeyboardEvent): void {
  const views = shownViews.peek();
  const here = views.findIndex((view) => view.name === shownView.peek().name);
  const steps: Record<string, number> = {
    ArrowRight: here + 1,
    ArrowLeft: here - 1,
    Home: 0,
    End: views.length - 1,
  };
  const step = steps[event.key];
  if (step === undefined) return;
  const next = views[(step + views.length) % views.length];
  if (!next) return;
  event.preventDefault();
  go({ view: next.name });
  document.getElementById(`tab-${next.name}`)?.focus();
}

function Groupings({ view }: { view: View }) {
  // Shown together with its neighbours, so that nothing moves.
  if (!view.groupings || !traces.value) return null;
  return (
    <label class="chooser whole">
      by
      <select
        value={grouping.value}
        onChange={(event) => go({ by: event.currentTarget.value, off: null })}
      >
        {view.groupings.map((by) => (
          <option key={by} value={by}>
            {by}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Fields of the address that belong to one device of one recording. */
const ELSEWHERE = { at: null, allocation: null, off: null, focus: null };
/** Fields of the address that belong to two compared recordings. */
const NOT_COMPARED = { a: null, b: null, device_a: null, device_b: null, at_a: null, at_b: null };

function Choosers() {
  const all = traces.value?.traces ?? [];
  const here = card.value;
  const devices = here?.summary.devices ?? [];
  return (
    <>
      {all.length > 1 && (
        <label class="chooser">
          <span class="unseen">Recording</span>
          <select
            value={String(here?.id ?? 0)}
            onChange={(event) =>
              go({
                ...ELSEWHERE,
                trace: event.currentTarget.value,
                device: null,
                ...NOT_COMPARED,
                from: null,
                to: null,
              })
            }
          >
            {all.map((one) => (
              <option key={one.id} value={String(one.id)}>
                {one.rank === null ? one.name : `rank ${one.rank} · ${one.name}`}
              </option>
            ))}
          </select>
        </label>
      )}
      {all.length === 1 && here && (
        <span class="trace-name" title={`${here.name}: ${counted(here.summary.events, "event")}`}>
          {here.name}
        </span>
      )}
      {devices.length > 0 && (
        <label class="chooser whole">
          <span class="unseen">Device</span>
          <select
            value={device.value?.device ?? ""}
            onChange={(event) => go({ ...ELSEWHERE, device: event.currentTarget.value })}
            title={device.value?.name ?? ""}
          >
            {devices.map((one) => (
              <option key={one.device} value={one.device}>
                {one.device}
              </option>
            ))}
          </select>
        </label>
      )}
    </>
  );
}
