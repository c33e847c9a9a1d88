// A location as text, `model.py:118 (forward)`, and its parts.

export interface Location {
  readonly file: string;
  readonly line: number;
}

/** The file and the line of a location; null for other texts. */
export function parseLocation(text: string): Location | null {
  const found = /^([^<].*?):(\d+)(?: \(.*\))?$/s.exec(text);
  const [, file = "", line = ""] = found ?? [];
  return file === "" ? null : { file, line: Number(line) };
}
