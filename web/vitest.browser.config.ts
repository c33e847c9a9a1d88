// The page in a real browser, on the real program. `FLOODMARK_PROGRAM` and `CHROMIUM` say where they are.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["tests/**/*.test.ts"],
    environment: "node",
    testTimeout: 60_000,
    hookTimeout: 90_000,
    // Two browsers at a time; nothing is timed here (bench/page.mjs does that).
    maxWorkers: 2,
    // A machine that others use too may starve a browser: there it gets one more try.
    retry: process.env.CI ? 1 : 0,
  },
});
