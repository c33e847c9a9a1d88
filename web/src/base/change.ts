// What an advice says to do, taken apart into words and what can be typed.

export interface Piece {
  readonly text: string;
  readonly isCode: boolean;
}

/** Settings of the environment are code as a whole; elsewhere code stands in backticks. */
export function changePieces(change: string): Piece[] {
  if (/^(export|unset) /.test(change)) return [{ text: change, isCode: true }];
  return change
    .split("`")
    .map((text, index) => ({ text, isCode: index % 2 === 1 }))
    .filter((piece) => piece.text !== "");
}

/** What to type for settings of the allocator; the empty ones are torch's own. */
export function settingsCommand(conf: string): string {
  return conf === "" ? "unset PYTORCH_CUDA_ALLOC_CONF" : `export PYTORCH_CUDA_ALLOC_CONF=${conf}`;
}
