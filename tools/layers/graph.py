"""Directed graphs of names: their cycles."""

from __future__ import annotations

from collections.abc import Mapping, Set


def reachable(graph: Mapping[str, Set[str]], start: str) -> set[str]:
    """The nodes that a path of at least one edge leads to."""
    found: set[str] = set()
    stack = [start]
    while stack:
        new = graph.get(stack.pop(), set()) - found
        found |= new
        stack.extend(new)
    return found


def components(graph: Mapping[str, Set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one node, each sorted by name."""
    paths = {node: reachable(graph, node) for node in graph}
    found = []
    seen: set[str] = set()
    for node in sorted(graph):
        if node in seen:
            continue
        members = {other for other in paths[node] if node in paths.get(other, set())}
        seen |= members
        if len(members) > 1:
            found.append(sorted(members))
    return found
