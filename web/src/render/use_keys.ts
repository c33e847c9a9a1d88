// Registers the keys of a view while it is shown; the help lists them.

import { useEffect, useRef } from "preact/hooks";
import { type Key, listen } from "../base/keys";

export function useKeys(title: string, keys: readonly Key[]): void {
  const latest = useRef(keys);
  latest.current = keys;
  const which = keys.map((key) => `${key.keys} ${key.hint}`).join();
  useEffect(() => {
    const steady = latest.current.map((key, at) => ({
      ...key,
      run: () => latest.current[at]?.run(),
    }));
    return listen({ title, keys: steady });
  }, [title, which]);
}
