"""The schema of the JSON answers, as `docs/reference/schema.json` has it."""

from __future__ import annotations

import copy
import functools
import json
from typing import Any

import jsonschema

from support.checkout import ROOT

SCHEMA = json.loads((ROOT / "docs" / "reference" / "schema.json").read_text())


@functools.cache
def _strict() -> dict[str, Any]:
    """The definitions without room for other fields: what is written must be described."""
    definitions: dict[str, Any] = copy.deepcopy(SCHEMA["$defs"])
    for one in definitions.values():
        if "properties" in one:
            one["unevaluatedProperties"] = False
    return definitions


def check_answer(command: str, answer: object) -> None:
    """Raise unless this is what `floodmark COMMAND --json` may print."""
    schema = {**SCHEMA["properties"][command], "$defs": _strict()}
    jsonschema.Draft202012Validator(schema).validate(answer)
