// The help: the currently active keys.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { keyGroups, shownKey } from "../base/keys";
import { traces } from "../model/recording";

export const helpIsOpen = signal(false);

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  const isOpen = helpIsOpen.value;
  useEffect(() => {
    if (isOpen) {
      dialog.current?.showModal();
      // The browser would focus the first button, which is at the end of the dialog.
      dialog.current?.focus();
      dialog.current?.scrollTo?.(0, 0);
    } else dialog.current?.close();
  }, [isOpen]);
  const close = () => {
    helpIsOpen.value = false;
  };
  return (
    <dialog
      ref={dialog}
      class="help"
      tabIndex={-1}
      aria-labelledby="help-title"
      onClose={close}
      onClick={(event) => event.target === dialog.current && close()}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        // The views behind the dialog also handle this key.
        event.stopPropagation();
        close();
      }}
    >
      <div class="help-inside">
        <h2 id="help-title">Keys</h2>
        {[...keyGroups.value].reverse().map((group) => (
          <section key={group.title}>
            <h3>{group.title}</h3>
            <dl>
              {group.keys.map((key) => (
                <div key={key.hint}>
                  <dt>
                    {key.keys.map((one) => (
                      <kbd key={one}>{shownKey(one)}</kbd>
                    ))}
                  </dt>
                  <dd>{key.hint}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
        <p class="quiet">floodmark {traces.value?.floodmark}</p>
        <button type="button" onClick={close}>
          Close
        </button>
      </div>
    </dialog>
  );
}
