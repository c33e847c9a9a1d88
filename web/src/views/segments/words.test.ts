import { expect, it } from "vitest";
import type { SegmentBlock } from "../../api/types.gen";
import { blockAddress, groupName, type Segment } from "./words";

function segment(more: Partial<Segment>): Segment {
  return {
    address: "0x7f0000000000",
    bytes: 1024,
    pool: 0,
    stream: "0x0",
    kind: "large",
    blocks: [],
    ...more,
  };
}

it("names a pool and a stream where they are not the default ones", () => {
  expect(groupName(segment({}))).toBe("large");
  expect(groupName(segment({ pool: 3, stream: "0x7f" }))).toBe("large · pool 3 · stream 0x7f");
});

it("adds to addresses that are larger than numbers are exact", () => {
  const block: SegmentBlock = {
    offset: 513,
    bytes: 1,
    state: "live",
    category: 0,
    allocation: 0,
    owner: null,
  };
  expect(blockAddress(segment({ address: "0xfffffffffffff000" }), block)).toBe(
    "0xfffffffffffff201",
  );
});
