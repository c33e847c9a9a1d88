// The part of the address after `#`: the state of the page as names and values.

export type Fields = Readonly<Record<string, string>>;

/** Reads `#view=peak&at=1.5`. Ignores parts without `=`; the last of equal names wins. */
export function parseHash(hash: string): Fields {
  const fields: Record<string, string> = Object.create(null);
  for (const [name, value] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (name !== "") fields[name] = value;
  }
  return fields;
}

/** Writes fields in the order given; empty values are left out. Colons, commas and slashes stay readable. */
export function formatHash(fields: Readonly<Record<string, string | undefined>>): string {
  const pairs: string[] = [];
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined || value === "") continue;
    pairs.push(`${encoded(name)}=${encoded(value)}`);
  }
  return `#${pairs.join("&")}`;
}

function encoded(text: string): string {
  return encodeURIComponent(text).replace(/%3A/g, ":").replace(/%2C/g, ",").replace(/%2F/g, "/");
}
