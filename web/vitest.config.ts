// Units. A test that needs a document says so in its first line.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    environment: "node",
    reporters: ["dot"],
    include: ["src/**/*.test.ts", "src/**/*.test.tsx"],
  },
});
