// Builds the page into the program's folder, under fixed names: the program embeds these three files.
import { defineConfig } from "vite";

// Where `floodmark view --no-open` serves, token and all; `npm run dev` asks it for answers.
const served = process.env.FLOODMARK_URL;

export default defineConfig({
  base: "./",
  server: served
    ? {
        proxy: {
          "/api": { target: new URL(served).origin, rewrite: (path) => rooted(served) + path },
        },
      }
    : {},
  build: {
    outDir: "../crates/floodmark/page",
    emptyOutDir: true,
    target: "es2022",
    cssTarget: "chrome111",
    modulePreload: false,
    reportCompressedSize: true,
    rollupOptions: {
      output: {
        entryFileNames: "page.js",
        assetFileNames: (asset) =>
          asset.names.some((name) => name.endsWith(".css")) ? "page.css" : "[name][extname]",
        codeSplitting: false,
      },
    },
  },
});

function rooted(url: string): string {
  return new URL(url).pathname.replace(/\/$/, "");
}
