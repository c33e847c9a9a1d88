// What grew, as an icicle of both recordings: each frame or module as wide as the larger side.

import type { DiffNode, DiffTree } from "../../api/types.gen";
import { formatBytes, formatChange } from "../../base/bytes";
import type { Inks } from "../../base/colours";
import { inks } from "../../model/theme";
import { Flame, mixed, TipTitle, widestWay } from "../../render/flame";
import { Answered } from "../../render/notices";
import { TipRows } from "../../render/tooltip";
import { TreeTools, treeBy, treeQuery } from "../../render/tree_tools";
import { useDiffAnswer } from "./sides";

const KINDS = ["new", "grown", "same", "shrunk", "gone"] as const;

export function Tree() {
  const answer = useDiffAnswer("diff/tree", treeQuery);
  return (
    <div class="table-box">
      <TreeTools>
        <Legend />
      </TreeTools>
      <Answered asked={answer.value}>{(value) => <Icicle tree={value} />}</Answered>
    </div>
  );
}

function Icicle({ tree }: { tree: DiffTree }) {
  const { root } = tree;
  return (
    <Flame
      root={root}
      name={`diff-by-${treeBy.value}`}
      label={
        `What changed from ${formatBytes(tree.allocated.a)} to ${formatBytes(tree.allocated.b)}, ` +
        `by ${treeBy.value}, as wide as the larger side. The widest: ${widestWay(root)}.`
      }
      words=""
      colour={(node, _, inks) => kindColour(node, inks)}
      text={(node) => (node.change === 0 ? "" : formatChange(node.change))}
      tip={(node) => <Tip node={node} />}
      hint={(node) =>
        `${node.name}: ${node.kind}, ${formatBytes(node.a)} to ${formatBytes(node.b)}`
      }
    />
  );
}

/**
 * New and removed nodes have the full colour; the colour of others grows with the share that
 * changed.
 */
export function kindColour(node: DiffNode, inks: Inks): string {
  const share = Math.abs(node.change) / Math.max(1, node.a, node.b);
  const part = (colour: string) => mixed(colour, inks.edge, 0.75 * (1 - share));
  switch (node.kind) {
    case "new":
      return inks.grew;
    case "gone":
      return inks.shrank;
    case "grown":
      return part(inks.grew);
    case "shrunk":
      return part(inks.shrank);
    case "same":
      return inks.edge;
  }
}

function Legend() {
  const node = { name: "", file: null, line: null, own_change: 0, bytes: 1, children: [] };
  const half = { new: [0, 2], grown: [1, 2], same: [1, 1], shrunk: [2, 1], gone: [2, 0] } as const;
  return (
    <span class="kinds" role="img" aria-label="Colours: new, grown, same, shrunk, gone">
      {KINDS.map((kind) => {
        const [a, b] = half[kind];
        const colour = kindColour({ ...node, kind, a, b, change: b - a }, inks.value);
        return (
          <span key={kind}>
            <i class="swatch" style={{ background: colour }} />
            {kind}
          </span>
        );
      })}
    </span>
  );
}

function Tip({ node }: { node: DiffNode }) {
  return (
    <>
      <TipTitle node={node} />
      <TipRows
        rows={[
          [node.kind, formatChange(node.change)],
          ["from", formatBytes(node.a)],
          ["to", formatBytes(node.b)],
          ["its own", formatChange(node.own_change)],
        ]}
      />
    </>
  );
}
