// Shortens locations of the program without making them ambiguous.

const PACKAGES = ["/site-packages/", "/dist-packages/"];

/** A path, or a text that begins with one, relative to the folder of installed packages. */
export function shortPath(text: string): string {
  for (const packages of PACKAGES) {
    const at = text.lastIndexOf(packages);
    if (at >= 0 && text.startsWith("/")) return text.slice(at + packages.length);
  }
  return text;
}

/**
 * The text and shorter and shorter forms of it: a location loses its folders, then its class, then
 * its function; a module loses its outer names. The rule is that of the terminal
 * (`short_location.rs`), and `fixtures/locations.json` tests both.
 */
export function shorterForms(text: string): string[] {
  const short = shortPath(text);
  const forms = [short];
  const location = /^(.*?)(:\d+)(?:$|( \(.*)$)/s.exec(short);
  if (location) {
    const [, path = "", line = "", after = ""] = location;
    const file = path.slice(path.lastIndexOf("/") + 1) + line;
    forms.push(...withoutFolders(path, "/").map((inner) => inner + line + after));
    const called = /^ \(([^)]*)\)(.*)$/s.exec(after);
    if (called) {
      const [, name = "", mark = ""] = called;
      const inner = name.slice(name.lastIndexOf(".") + 1);
      forms.push(`${file} (${name})${mark}`, `${file} (${inner})${mark}`, file + mark);
    }
    forms.push(file);
  } else if (!short.includes(" ") || short.endsWith(")")) {
    const mark = short.includes("/") ? "/" : ".";
    forms.push(...withoutFolders(short, mark), short.slice(short.lastIndexOf(mark) + 1));
  }
  return forms.filter((form, at) => form !== forms[at - 1]);
}

/** `…/b/c`, then `…/c`. */
function withoutFolders(path: string, mark: string): string[] {
  const forms: string[] = [];
  for (let at = path.indexOf(mark, 1); at >= 0; at = path.indexOf(mark, at + 1))
    forms.push(`…${path.slice(at)}`);
  return forms;
}

/** A location without its folders, and the folders. Other texts stay whole. */
export function splitLocation(text: string): { name: string; folder: string } {
  const found = /^([^\s(]*\/)([^/\s]+(?::\d+|\.\w+)(?:$| .*$))/s.exec(text);
  if (!found) return { name: text, folder: "" };
  const [, folder = "", name = ""] = found;
  return { name, folder: folder.replace(/(?!^)\/$/, "") };
}

/** The longest form with at most this many letters, or the shortest form. */
export function nameTail(text: string, letters: number): string {
  const forms = shorterForms(text);
  return forms.find((form) => form.length <= letters) ?? forms.at(-1) ?? text;
}

/** The last `parts` of a path, for small spaces. */
export function pathTail(text: string, parts = 2): string {
  const folders = (form: string) => form.split("/").filter((one) => one !== "" && one !== "…");
  return shorterForms(text).find((form) => folders(form).length <= parts) ?? text;
}

/**
 * Shortens locations of one list: what is not in a package loses the folder that all such have in common, as the
 * terminal leaves out the folder that it is in.
 */
export function shortener(locations: readonly string[]): (location: string) => string {
  const own = locations.filter(
    (location) => location.startsWith("/") && shortPath(location) === location,
  );
  const folder = commonFolder(own);
  return (location) =>
    folder !== "" && location.startsWith(folder)
      ? location.slice(folder.length)
      : shortPath(location);
}

function commonFolder(paths: readonly string[]): string {
  const [first, ...others] = paths;
  if (first === undefined) return "";
  let end = first.lastIndexOf("/", first.indexOf(":") < 0 ? first.length : first.indexOf(":")) + 1;
  for (const other of others) {
    while (end > 0 && !other.startsWith(first.slice(0, end)))
      end = first.lastIndexOf("/", end - 2) + 1;
  }
  return first.slice(0, end);
}
