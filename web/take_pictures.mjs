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
  // The same program where it does not fit: the page opens on the reason.
  const failed = join(folder, "failed.flood");
  const failedPage = join(folder, "failed.html");
  const small = ["--gpu", "rtx4090", "--memory", "1230MiB", "--steps", "4"];
  try {
    floodmark("estimate", ...small, "-o", failed, ...TRAINING);
  } catch (error) {
    // That it does not fit is what is wanted, and has an exit status of its own.
    if (error.status !== 1) throw error;
  }
  floodmark("export", failed, "--to", "html", "-o", failedPage);
  await take(failedPage, "", join(resolve(process.argv[2]), "oom.png"));
  await take(saved, "", join(resolve(process.argv[2]), "overview.png"));
  const planPage = join(folder, "plan.html");
  floodmark("export", "fixtures/page/plan.flood", "--to", "html", "-o", planPage);
  await take(planPage, "", join(resolve(process.argv[2]), "plan.png"));
  for (const [name, hash] of Object.entries(views)) {
    await take(saved, hash, join(resolve(process.argv[2]), `${name}.png`));
  }
});
