// The icicle of live bytes by stack or by module, or one function between its callers and its
// callees.

import { computed } from "@preact/signals";
import type { Icicle, IcicleNode, Sandwich } from "../../api/types.gen";
import { formatBytes, formatCount, formatShare } from "../../base/bytes";
import { categoryColour, type Inks } from "../../base/colours";
import { shortPath } from "../../base/paths";
import { cursor, field, go } from "../../model/address";
import { inks } from "../../model/theme";
import { useDeviceAnswer } from "../../model/use_answer";
import { Choices } from "../../render/choices";
import { Chooser } from "../../render/chooser";
import { Flame, mixed, TipTitle, widestWay } from "../../render/flame";
import { framesQuery } from "../../render/frames_toggle";
import { Answered } from "../../render/notices";
import { TipRows } from "../../render/tooltip";
import { TreeTools, treeBy, treeQuery } from "../../render/tree_tools";
import { DRAG_MILLIS, search, words } from "./search";

/** The node of blocks from before the recording, which has no frame and its own colour. */
const BEFORE_RECORDING = "before recording";

/** The order of siblings, by size or by first allocation; `order` in the address. */
const orderField = field("order");
const isInTime = computed(() => orderField.value === "time");
/** The function of the sandwich: its name and its file. */
const functionField = field("function");

export function Tree() {
  const by = treeBy.value;
  return (
    <div class="table-box">
      <TreeTools
        others={[["sandwich", "Sandwich"]]}
        // The search text is a name of the other tree.
        onChoose={() => search("")}
        before={by !== "sandwich" && <Order />}
      >
        {by !== "sandwich" && (
          <input
            type="search"
            placeholder="Find in the icicle"
            aria-label="Find in the icicle"
            value={words.value}
            onInput={(event) => search(event.currentTarget.value)}
          />
        )}
      </TreeTools>
      {by === "sandwich" ? <SandwichTree /> : <IcicleTree />}
    </div>
  );
}

function Order() {
  return (
    <Choices
      label="Order"
      all={[
        ["heavy", "Largest first"],
        ["time", "First allocated first"],
      ]}
      chosen={isInTime.value ? "time" : "heavy"}
      onChoose={(order) => go({ order: order === "time" ? "time" : null })}
    />
  );
}

function IcicleTree() {
  const icicle = useDeviceAnswer("icicle", () => ({ at: cursor.value, ...treeQuery() }), {
    delayMillis: DRAG_MILLIS,
  });
  return (
    <Answered asked={icicle.value}>
      {(value) => (
        <>
          <CategoryLegend roots={[value.root]} />
          <Part
            root={isInTime.value ? inTime(value.root) : value.root}
            total={value.total}
            name={`peak-by-${treeBy.value}`}
            label={description(value, treeBy.value, isInTime.value)}
            words={words.value}
          />
        </>
      )}
    </Answered>
  );
}

interface PartProps {
  readonly root: IcicleNode;
  readonly total: number;
  readonly name: string;
  readonly label: string;
  readonly words: string;
  readonly isFlipped?: boolean;
  readonly focus?: string;
  readonly rootName?: string;
}

function Part(props: PartProps) {
  const { total } = props;
  return (
    <Flame
      {...props}
      colour={nodeColour}
      tip={(node) => <Tip node={node} total={total} />}
      hint={(node) =>
        `${node.name}: ${formatBytes(node.bytes)}, ${formatShare(node.bytes, total)}, mostly ${node.category}`
      }
    />
  );
}

/** The colour of the category with the most bytes; lighter for frames of frameworks. */
export function nodeColour(node: IcicleNode, depth: number, inks: Inks): string {
  if (depth === 0 || node.name === "smaller") return inks.edge;
  if (node.name === BEFORE_RECORDING) return inks.before;
  const colour = categoryColour(inks, node.category);
  return node.framework ? mixed(colour, inks.panel, 0.55) : colour;
}

function CategoryLegend({ roots }: { roots: readonly IcicleNode[] }) {
  const bytes = new Map<string, number>();
  const add = (node: IcicleNode) => {
    const name = node.name === BEFORE_RECORDING ? BEFORE_RECORDING : node.category;
    if (node.own > 0 && node.name !== "smaller") bytes.set(name, (bytes.get(name) ?? 0) + node.own);
    node.children.forEach(add);
  };
  roots.forEach(add);
  const names = [...bytes].sort((one, other) => other[1] - one[1]).map(([name]) => name);
  return (
    <p class="category-legend" role="img" aria-label={`Colours: ${names.join(", ")}`}>
      {names.map((name) => (
        <span key={name}>
          <i class="swatch" style={{ background: legendColour(name) }} />
          {name}
        </span>
      ))}
    </p>
  );
}

function legendColour(name: string): string {
  return name === BEFORE_RECORDING ? inks.value.before : categoryColour(inks.value, name);
}

function SandwichTree() {
  const answer = useDeviceAnswer(
    "sandwich",
    () => {
      const [name, file] = functionField.value.split("\n");
      const chosen = name && file ? { function: name, file } : {};
      return { at: cursor.value, ...chosen, ...framesQuery() };
    },
    { delayMillis: DRAG_MILLIS },
  );
  return (
    <Answered asked={answer.value}>
      {(value) =>
        value.function ? (
          <Halves sandwich={value} />
        ) : (
          <p class="quiet hint">The trace has no Python frames.</p>
        )
      }
    </Answered>
  );
}

function Halves({ sandwich }: { sandwich: Sandwich }) {
  const { functions, function: chosen, callers, callees, total } = sandwich;
  if (!chosen) return null;
  const key = (one: { name: string; file: string }) => `${one.name}\n${one.file}`;
  const all: [string, string][] = functions.map((one) => [
    key(one),
    `${formatBytes(one.own)}  ${one.name}  ${shortPath(one.file)}`,
  ]);
  if (!all.some(([value]) => value === key(chosen))) all.unshift([key(chosen), chosen.name]);
  const figures =
    `${chosen.name}: ${formatBytes(chosen.bytes)} (${formatShare(chosen.bytes, total)}), ` +
    `its own ${formatBytes(chosen.own)}`;
  return (
    <div class="sandwich">
      <div class="sandwich-head">
        <Chooser
          label="Function"
          all={all}
          chosen={key(chosen)}
          onChoose={(value) => go({ function: value, focus: null, callers: null })}
        />
        <span class="quiet">{figures}</span>
      </div>
      <CategoryLegend roots={[callees]} />
      <Part
        root={callers}
        total={total}
        name="callers"
        label={`What called ${figures}. The widest way out: ${widestWay(callers)}.`}
        words=""
        focus="callers"
        rootName="Callers"
        isFlipped
      />
      <Part
        root={callees}
        total={total}
        name="callees"
        rootName="Callees"
        label={`What ${chosen.name} called. The widest way in: ${widestWay(callees)}.`}
        words=""
      />
    </div>
  );
}

function Tip({ node, total }: { node: IcicleNode; total: number }) {
  return (
    <>
      <TipTitle node={node} />
      <TipRows
        rows={[
          ["bytes", `${formatBytes(node.bytes)}  ${formatShare(node.bytes, total)}`],
          ["its own", formatBytes(node.own)],
          ["allocations", formatCount(node.count)],
          ["mostly", node.category, categoryColour(inks.value, node.category)],
        ]}
      />
    </>
  );
}

const ordered = new WeakMap<IcicleNode, IcicleNode>();

/**
 * The same tree with siblings in the order of their first allocations; nodes without one come
 * first.
 */
export function inTime(node: IcicleNode): IcicleNode {
  const known = ordered.get(node);
  if (known) return known;
  const first = (one: IcicleNode) => one.first_allocation ?? -1;
  const children = node.children
    .map(inTime)
    .sort((one, other) => first(one) - first(other) || other.bytes - one.bytes);
  const made = { ...node, children };
  ordered.set(node, made);
  return made;
}

/** A description for screen readers. */
function description(icicle: Icicle, by: string, isInTime: boolean): string {
  const order = isInTime ? ", in the order of allocation" : "";
  return `${formatBytes(icicle.total)} by ${by}${order}, outermost first. The largest: ${widestWay(icicle.root)}.`;
}
