// Takes every view of one recording of each kind, light and dark, in two sizes, to be looked at: `make page-review`.
//
//     node review_page.mjs FOLDER [NAME…]
//
// FLOODMARK_PROGRAM is the program, CHROMIUM the browser. With names, only those recordings.
import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { floodmark, withCamera } from "./camera.mjs";

const FIXTURES = "fixtures";
const GALLERY = "fixtures/recordings/gallery";
const VIEWS = ["overview", "timeline", "peak", "segments", "steps", "tensors", "source", "advice"];

/** For each recording: its traces, and the views that only some have. */
const RECORDINGS = {
  llama: { traces: [`${GALLERY}/llama.flood`] },
  cpu: { traces: [`${FIXTURES}/page/hostile.flood`] },
  snapshot: { traces: [`${FIXTURES}/recordings/zoo/resnet18_fp32.pickle.gz`] },
  "oom-snapshot": {
    traces: [`${FIXTURES}/recordings/allocator/default-oom.pickle.gz`],
    views: ["oom"],
  },
  oom: { traces: [`${GALLERY}/out-of-memory.flood`], views: ["oom"] },
  leak: { traces: [`${GALLERY}/leak.flood`] },
  ranks: { traces: [`${GALLERY}/fsdp`], views: ["ranks", "diff"] },
  diff: { traces: [`${GALLERY}/llama.flood`, `${GALLERY}/checkpoints.flood`], views: ["diff"] },
  plan: { traces: [`${FIXTURES}/page/plan.flood`], views: ["plan"] },
};

const LOOKS = ["light", "dark"].flatMap((colorScheme) =>
  [
    [1280, 720],
    [1920, 1080],
  ].map(([width, height]) => ({ width, height, colorScheme })),
);

const [folder, ...names] = process.argv.slice(2);
const wanted = Object.entries(RECORDINGS).filter(
  ([name]) => names.length === 0 || names.includes(name),
);
let complaints = 0;
await withCamera(async (temporary, take) => {
  for (const [name, { traces, views = [] }] of wanted) {
    const saved = join(temporary, `${name}.html`);
    floodmark("export", ...traces, "--to", "html", "-o", saved);
    for (const look of LOOKS) {
      const to = join(resolve(folder), `${look.colorScheme}-${look.width}x${look.height}`);
      mkdirSync(to, { recursive: true });
      for (const view of [...views, ...VIEWS]) {
        const said = await take(saved, `view=${view}`, join(to, `${name}-${view}.png`), look);
        for (const complaint of said) console.error(`${name}, ${view}: ${complaint}`);
        complaints += said.length;
      }
    }
  }
});
process.exitCode = complaints > 0 ? 1 : 0;
