// Makes the gallery of the documentation: a picture of each recording, and its saved page.
//
//     node take_gallery.mjs PICTURES PAGES
//
// Recordings of an H200 are those of `fixtures`; a program that is run here runs on this CPU or on a simulated GPU.
// FLOODMARK_PROGRAM is the program, CHROMIUM the browser.
import { mkdirSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { floodmark, withCamera } from "./camera.mjs";

const RECORDINGS = "fixtures/recordings";
/**
 * For each entry: the traces of a page, or the words of a command that records one, and the view with its window. With
 * `around`, the window is that many seconds on both sides of the peak.
 */
const ENTRIES = {
  "llama-step": { traces: ["gallery/llama.flood"], hash: "view=timeline", around: 0.12 },
  "llama-checkpoints": {
    traces: ["gallery/llama.flood", "gallery/checkpoints.flood"],
    hash: "view=diff",
  },
  resnet50: { traces: ["zoo/resnet50_amp_cl.pickle.gz"], hash: "view=peak" },
  lstm: { traces: ["zoo/lstm.pickle.gz"], hash: "view=timeline&from=3.8&to=3.98" },
  "out-of-memory": { traces: ["gallery/out-of-memory.flood"], hash: "" },
  fragmentation: { traces: ["gallery/fragmentation.flood"], hash: "view=segments" },
  "expandable-segments": {
    traces: ["allocator/expandable-varlen.pickle.gz"],
    hash: "view=segments",
  },
  "cuda-graph": { traces: ["allocator/default-graph.pickle.gz"], hash: "view=segments&at=end" },
  leak: { traces: ["gallery/leak.flood"], hash: "view=steps" },
  "fsdp-ranks": { traces: ["gallery/fsdp"], hash: "view=ranks" },
  "fsdp-rank": {
    words: ["estimate", "--gpu", "h100", "--world", "8", "--rank", "7"],
    program: ["examples/train_fsdp.py"],
    hash: "view=timeline",
    around: 0.4,
  },
};

const [pictures, pages] = process.argv.slice(2, 4).map((folder) => resolve(folder));
mkdirSync(pages, { recursive: true });
await withCamera(async (folder, take) => {
  for (const [name, entry] of Object.entries(ENTRIES)) {
    const saved = join(pages, `${name}.html`);
    const traces = tracesOf(name, entry, folder);
    floodmark("export", ...traces, "--to", "html", "--force", "-o", saved);
    const window = entry.around ? windowAt(traces[0], entry.around) : "";
    await take(saved, entry.hash + window, join(pictures, `${name}.png`));
    console.log(`${saved}: ${statSync(saved).size} bytes`);
  }
});

/** The traces of an entry, recorded into `folder` where it is a program. */
function tracesOf(name, { traces, words, program }, folder) {
  if (traces) {
    return traces.map((trace) => `${RECORDINGS}/${trace}`);
  }
  const trace = join(folder, `${name}.flood`);
  floodmark(...words, "-o", trace, ...program);
  return [trace];
}

/** The part of an address that shows the time around the peak. */
function windowAt(trace, around) {
  const peak = JSON.parse(floodmark("report", trace, "--json")).at.seconds;
  return `&from=${peak - around}&to=${peak + around}`;
}
