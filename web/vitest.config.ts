// Units. A test that needs a document says so in its first line.
import preact from "@preact/preset-vite";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [preact({ devToolsEnabled: false })],
  test: {
    environment: "node",
    reporters: ["dot"],
    include: ["src/**/*.test.ts", "src/**/*.test.tsx"],
  },
});
