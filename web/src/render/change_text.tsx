// The text of an advice, with its code formatted as code.

import { changePieces } from "../base/change";

export function ChangeText({ text }: { readonly text: string }) {
  return (
    <>
      {changePieces(text).map((piece) =>
        piece.isCode ? (
          <code key={piece.text}>{piece.text}</code>
        ) : (
          <span key={piece.text}>{piece.text}</span>
        ),
      )}
    </>
  );
}
