// Takes the pictures of the documentation: views of the page, of a program on a simulated GPU.
//
//     node take_pictures.mjs FOLDER
//
// FLOODMARK_PROGRAM is the program, CHROMIUM the browser.
import { join, resolve } from "node:path";
import { floodmark, withCamera } from "./camera.mjs";

const TRAINING = ["examples/train_gpt.py", "--device", "cuda", "--batch", "64"];
/** Seconds before and after the peak that the timeline and the tensors show. */
const AROUND = 0.25;

await withCamera(async (folder, take) => {
  const trace = join(folder, "train_gpt.flood");
  const saved = join(folder, "page.html");
  floodmark("estimate", "--gpu", "rtx4090", "--steps", "4", "-o", trace, ...TRAINING);
  floodmark("export", trace, "--to", "html", "-o", saved);
  const peak = JSON.parse(floodmark("report", trace, "--json")).at.seconds;
  const near = `&from=${peak - AROUND}&to=${peak + AROUND}`;
  const views = {
    page: `view=timeline${near}`,
    peak: "view=peak",
    segments: "view=segments",
    steps: "view=steps",
    tensors: `view=tensors${near}`,
    advice: "view=advice",
  };
  for (const [name, hash] of Object.entries(views)) {
    await take(saved, hash, join(resolve(process.argv[2]), `${name}.png`));
  }
});
