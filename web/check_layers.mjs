// Keeps the arrows of the page: a layer imports from itself and from those below it, a view from no other view.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";

const ROOT = resolve(import.meta.dirname, "src");
const LAYERS = ["base", "api", "model", "render", "views", "shell"];

function* files(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* files(path);
    else if (/\.tsx?$/.test(entry.name)) yield path;
  }
}

/** The layer of a file, and the view where it is inside one. */
function room(path) {
  const [layer, view, ...rest] = relative(ROOT, path).split(sep);
  return { layer, view: layer === "views" && rest.length > 0 ? view : null };
}

const wrong = [];
let count = 0;
for (const path of files(ROOT)) {
  const from = room(path);
  const name = relative(ROOT, path);
  if (!LAYERS.includes(from.layer) && name !== "main.tsx") wrong.push(`${name}: in no layer`);
  for (const [, target] of readFileSync(path, "utf8").matchAll(
    /(?:from|import)\s*\(?\s*"(\.[^"]+)"/g,
  )) {
    count += 1;
    const to = room(resolve(dirname(path), target));
    if (name !== "main.tsx" && LAYERS.indexOf(to.layer) > LAYERS.indexOf(from.layer)) {
      wrong.push(`${name}: ${from.layer} must not use ${to.layer} (${target})`);
    }
    if (from.view && to.view !== null && to.view !== from.view) {
      wrong.push(`${name}: the view ${from.view} must not use another (${target})`);
    }
  }
}
for (const line of wrong) console.error(line);
if (wrong.length > 0) process.exit(1);
console.log(`layers: ${count} imports point down`);
