// Splits the text of an advice into words and code.

export interface Piece {
  readonly text: string;
  readonly isCode: boolean;
}

/** An environment setting is one piece of code; in other texts code is in backticks. */
export function changePieces(change: string): Piece[] {
  if (/^(export|unset) /.test(change)) return [{ text: change, isCode: true }];
  return change
    .split("`")
    .map((text, index) => ({ text, isCode: index % 2 === 1 }))
    .filter((piece) => piece.text !== "");
}

/** The shell command for settings of the allocator; empty settings are torch's defaults. */
export function settingsCommand(conf: string): string {
  return conf === "" ? "unset PYTORCH_CUDA_ALLOC_CONF" : `export PYTORCH_CUDA_ALLOC_CONF=${conf}`;
}
