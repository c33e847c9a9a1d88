// The page in a real browser, on the real program. `FLOODMARK_PROGRAM` and `CHROMIUM` say where they are.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["tests/**/*.test.ts"],
    environment: "node",
    // Tests wait for a state, never for a time: these limits only end what hangs, also on a busy machine.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 240_000 } },
    // Two browsers at a time; nothing is timed here (bench/page.mjs does that).
    maxWorkers: 2,
  },
});
