// Places of the program, as short as they can be without being wrong.

/** What is left of a path, or of a text that begins with one, below the folder of installed packages. */
export function shortPath(text: string): string {
  for (const packages of ["/site-packages/", "/dist-packages/"]) {
    const at = text.lastIndexOf(packages);
    if (at >= 0 && text.startsWith("/")) return text.slice(at + packages.length);
  }
  return text;
}

/** The last `parts` of a path: enough to recognise a file where room is short. */
export function pathTail(text: string, parts = 2): string {
  const pieces = shortPath(text).split("/");
  return pieces.length <= parts ? shortPath(text) : `…/${pieces.slice(-parts).join("/")}`;
}

/**
 * A name in about so many letters. Of a path the folders go first, of a module in modules the outer ones: the end
 * tells more than the beginning. What is still too long is shortened where it is shown.
 */
export function nameTail(text: string, letters: number): string {
  const short = shortPath(text);
  if (short.length <= letters) return short;
  // Of a location the file, the line and the function stay whole.
  const mark = short.includes("/") || /:\d+/.test(short) ? "/" : ".";
  const parts = short.split(mark);
  const before = parts.length;
  while (parts.length > 1 && parts.join(mark).length + 2 > letters) parts.shift();
  return parts.length === before ? short : `…${mark}${parts.join(mark)}`;
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
