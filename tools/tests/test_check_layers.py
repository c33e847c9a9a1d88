"""What `check_layers` must refuse, and what it must let pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from layers import crates, python_rooms

ROOT_MANIFEST = """
[workspace.lints.rust]
unsafe_code = "deny"
"""


def workspace(*packages: tuple[str, list[tuple[str, str | None]]]) -> dict[str, Any]:
    """What cargo would say of crates with these dependencies, each with its kind."""
    return {
        "packages": [
            {
                "name": name,
                "manifest_path": f"/nowhere/{name}/Cargo.toml",
                "dependencies": [{"name": used, "kind": kind} for used, kind in dependencies],
            }
            for name, dependencies in packages
        ]
    }


def crate_on_disk(folder: Path, name: str, manifest: str, source: str) -> dict[str, Any]:
    (folder / "src").mkdir()
    (folder / "Cargo.toml").write_text(manifest)
    (folder / "src" / "lib.rs").write_text(source)
    metadata = workspace((name, []))
    metadata["packages"][0]["manifest_path"] = str(folder / "Cargo.toml")
    return metadata


def test_arrows_that_point_down_are_fine():
    metadata = workspace(
        ("floodmark-trace", [("serde", None)]),
        ("floodmark-analysis", [("floodmark-trace", None)]),
        ("floodmark", [("floodmark-trace", None), ("floodmark-analysis", None)]),
        ("floodmark-python", [("floodmark", None), ("floodmark-probe", None)]),
        ("floodmark-probe", [("floodmark-trace", None)]),
    )
    assert list(crates.layer_problems(metadata)) == []


def test_a_library_that_no_platform_links_may_be_named():
    metadata = workspace(("floodmark-python", [("floodmark-phantom", None)]))
    linked = ["`floodmark-python` links `floodmark-phantom`, which is a library of its own"]
    assert list(crates.layer_problems(metadata)) == linked
    metadata["packages"][0]["dependencies"][0]["target"] = "cfg(any())"
    assert list(crates.layer_problems(metadata)) == []


@pytest.mark.parametrize(
    ("user", "used", "kind", "where"),
    [
        ("floodmark-trace", "floodmark-analysis", None, "above"),
        ("floodmark-trace", "floodmark-analysis", "dev", "above"),
        ("floodmark-probe", "floodmark-snapshot", None, "beside"),
        ("floodmark-analysis", "floodmark", "build", "above"),
    ],
)
def test_an_arrow_that_does_not_point_down_is_refused(user, used, kind, where):
    metadata = workspace((user, [(used, kind)]), (used, []))
    (problem,) = crates.layer_problems(metadata)
    assert problem.startswith(f"`{user}`")
    assert f"uses `{used}`" in problem
    assert problem.endswith(f"stands {where} it")


def test_no_crate_links_the_phantom():
    metadata = workspace(("floodmark", [("floodmark-phantom", None)]), ("floodmark-phantom", []))
    (problem,) = crates.layer_problems(metadata)
    assert "`floodmark-phantom`" in problem


def test_every_crate_may_use_the_crate_for_tests_in_its_tests():
    testing = ("floodmark-testing", [("floodmark-trace", None)])
    metadata = workspace(("floodmark-trace", [("floodmark-testing", "dev")]), testing)
    assert list(crates.layer_problems(metadata)) == []
    rooms = (
        "| `crates/floodmark-trace` | x | nothing of ours | y |\n"
        "| `crates/floodmark-testing` | x | `trace` | y |\n"
    )
    assert list(crates.edge_problems(metadata, rooms)) == []


@pytest.mark.parametrize("kind", [None, "build"])
def test_what_is_shipped_does_not_use_the_crate_for_tests(kind):
    metadata = workspace(("floodmark", [("floodmark-testing", kind)]), ("floodmark-testing", []))
    (problem,) = crates.layer_problems(metadata)
    assert problem == "`floodmark` uses `floodmark-testing`, which only tests may use"


ROOMS = """
| room | in one sentence | may use | must never |
|---|---|---|---|
| `crates/floodmark-trace` | What an event is. | nothing of ours | know PyTorch |
| `crates/floodmark` | The program, for `people`. | `trace` | hold a rule |
| `crates/floodmark-python` | The boundary. | `floodmark`, `trace` | contain an `if` |
| `python/floodmark` | The front. | `_core` | compute |
"""


def three_crates(*of_python: str) -> dict[str, Any]:
    return workspace(
        ("floodmark-trace", [("serde", None)]),
        ("floodmark", [("floodmark-trace", None)]),
        ("floodmark-python", [(name, None) for name in of_python]),
    )


def test_edges_that_the_architecture_lists_are_fine():
    metadata = three_crates("floodmark", "floodmark-trace", "pyo3")
    assert list(crates.edge_problems(metadata, ROOMS)) == []


def test_an_edge_that_the_architecture_lacks_is_refused():
    rooms = ROOMS.replace("`floodmark`, `trace`", "`floodmark`")
    (problem,) = crates.edge_problems(three_crates("floodmark", "floodmark-trace"), rooms)
    assert problem.startswith("`floodmark-python` uses `floodmark-trace`, which its row")


def test_an_edge_that_no_crate_has_is_refused():
    (problem,) = crates.edge_problems(three_crates("floodmark"), ROOMS)
    assert problem.endswith("lists `floodmark-trace`, which it does not use")


def test_a_crate_without_a_row_and_a_row_without_a_crate_are_named():
    metadata = workspace(("floodmark-trace", []), ("floodmark-new", []))
    rooms = (
        "| `crates/floodmark-trace` | x | nothing of ours | y |\n"
        "| `crates/floodmark-old` | x | nothing of ours | y |\n"
    )
    without_row, without_crate = crates.edge_problems(metadata, rooms)
    assert without_row.startswith("`floodmark-new` has no row")
    assert "`floodmark-old`, which is no crate" in without_crate


def test_a_crate_without_a_floor_is_named():
    (problem,) = crates.layer_problems(workspace(("floodmark-misc", [])))
    assert problem.startswith("`floodmark-misc` has no floor")


@pytest.mark.parametrize(
    ("user", "library"),
    [
        ("floodmark-analysis", "arrow-array"),
        ("floodmark", "pyo3"),
        ("floodmark", "pyo3-arrow"),
        ("floodmark-trace", "anyhow"),
        ("floodmark-python", "clap"),
        ("floodmark-analysis", "tokio"),
    ],
)
def test_a_heavy_library_outside_its_room_is_refused(user, library):
    (problem,) = crates.room_problems(workspace((user, [(library, None)])))
    assert f"`{user}` uses `{library}`" in problem


def test_heavy_libraries_in_their_rooms_are_fine():
    metadata = workspace(
        ("floodmark-trace", [("arrow-ipc", None), ("zstd", None)]),
        ("floodmark-python", [("pyo3", None), ("arrow-array", None)]),
        ("floodmark", [("clap", None), ("anyhow", None), ("axum", None)]),
        # `arrowhead` only begins like `arrow-`.
        ("floodmark-analysis", [("arrowhead", None), ("tokio", "dev")]),
    )
    assert list(crates.room_problems(metadata)) == []


def test_a_crate_that_takes_the_lints_of_the_workspace_is_fine(tmp_path):
    metadata = crate_on_disk(tmp_path, "floodmark-trace", "[lints]\nworkspace = true\n", "")
    assert list(crates.unsafe_problems(metadata, ROOT_MANIFEST)) == []


@pytest.mark.parametrize("root", ["", '[workspace.lints.rust]\nunsafe_code = "warn"\n'])
def test_a_ban_that_the_workspace_does_not_have_is_missed(tmp_path, root):
    metadata = crate_on_disk(tmp_path, "floodmark-trace", "[lints]\nworkspace = true\n", "")
    (problem,) = crates.unsafe_problems(metadata, root)
    assert "does not deny `unsafe_code`" in problem


def test_a_crate_without_lints_is_refused(tmp_path):
    metadata = crate_on_disk(tmp_path, "floodmark-trace", "[package]\n", "")
    (problem,) = crates.unsafe_problems(metadata, ROOT_MANIFEST)
    assert "does not deny `unsafe_code`" in problem


def test_a_crate_may_forbid_by_itself(tmp_path):
    manifest = '[lints.rust]\nunsafe_code = { level = "forbid", priority = 1 }\n'
    metadata = crate_on_disk(tmp_path, "floodmark-trace", manifest, "")
    assert list(crates.unsafe_problems(metadata, "")) == []


@pytest.mark.parametrize(
    "source",
    ["#![allow(unsafe_code)]", '#[expect(dead_code, unsafe_code, reason = "…")]\nfn f() {}'],
)
def test_a_source_that_lifts_the_ban_is_found(tmp_path, source):
    metadata = crate_on_disk(tmp_path, "floodmark-trace", "[lints]\nworkspace = true\n", source)
    (problem,) = crates.unsafe_problems(metadata, ROOT_MANIFEST)
    assert problem.endswith("lib.rs")


def test_the_probe_may_be_unsafe(tmp_path):
    metadata = crate_on_disk(tmp_path, "floodmark-probe", "", "#![allow(unsafe_code)]")
    assert list(crates.unsafe_problems(metadata, "")) == []


PYTHON_ROWS = "".join(
    f"| `python/{room}` | x | {uses} | y |\n"
    for room, uses in {
        "floodmark": "`_core`",
        "floodmark/reports": "`_core`",
        "floodmark/recording": "`_core`, `reports`",
        "floodmark/world": "nothing of ours",
        "floodmark/plugins": "`world`",
        "floodmark/changes": "nothing of ours",
        "floodmark/estimate": "nothing of ours",
        "floodmark/integrations": "nothing of ours",
        "floodmark/doctor": "nothing of ours",
        "floodmark_compat": "`recording`",
    }.items()
)
ALLOWED = {
    "floodmark/__init__.py": "from floodmark.estimate.command import estimate",
    "floodmark/recording/window.py": (
        "from floodmark import _core\nfrom floodmark.reports.trace import Trace"
    ),
    "floodmark/startup/sitecustomize.py": "from floodmark.estimate import child_processes",
    "floodmark/plugins/distributed.py": "def late():\n    import floodmark.world.store",
    "floodmark/estimate/command.py": "import json, torch",
    "floodmark/integrations/ipython.py": "import floodmark",
    "floodmark_compat/one.py": "import floodmark\nfrom floodmark.recording import recorder",
    "floodmark_compat/two.py": "from floodmark import torch_private\nimport floodmark_compat.one",
}


def test_imports_of_rooms_below_are_fine():
    assert list(python_rooms.python_problems(ALLOWED, PYTHON_ROWS)) == []


@pytest.mark.parametrize(
    ("path", "source", "said"),
    [
        (
            "floodmark/recording/window.py",
            "from floodmark.reports import trace\nfrom floodmark.estimate.device import library",
            "`floodmark/estimate/device/library` of the room above it",
        ),
        (
            "floodmark/recording/run.py",
            "import floodmark.pytest_plugin",
            "`floodmark/pytest_plugin`, an entry point",
        ),
        ("floodmark/estimate/command.py", "import floodmark.reports", "its row does not list"),
        ("floodmark/plugins/distributed.py", "", "lists `world`, which it does not use"),
        (
            "floodmark/recording/run.py",
            "def late():\n    import floodmark_compat.one",
            "`floodmark_compat/one` of the room above it",
        ),
        (
            "floodmark/__init__.py",
            "import floodmark_compat",
            "`floodmark_compat` of the package above it",
        ),
        ("floodmark_compat/two.py", "import floodmark.reports", "its row does not list"),
    ],
)
def test_an_import_that_does_not_point_down_is_refused(path, source, said):
    found = list(python_rooms.python_problems({**ALLOWED, path: source}, PYTHON_ROWS))
    assert any(said in problem for problem in found)
