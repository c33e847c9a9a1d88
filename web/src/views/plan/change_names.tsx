// The names of several changes, as `a + b=1`. A line ends between two of them, not inside one.

import { Fragment } from "preact";

export function ChangeNames({ changes }: { readonly changes: readonly string[] }) {
  return (
    <>
      {changes.map((change, at) => (
        <Fragment key={change}>
          {at > 0 && " + "}
          <span class="plan-change">
            <Breakable text={change} />
          </span>
        </Fragment>
      ))}
    </>
  );
}

/** Allows a line break after `=`: a setting that is wider than its column is not broken inside a word. */
function Breakable({ text }: { text: string }) {
  const [first, ...rest] = text.split("=");
  return (
    <>
      {first}
      {rest.map((part) => (
        <Fragment key={part}>
          =<wbr />
          {part}
        </Fragment>
      ))}
    </>
  );
}
