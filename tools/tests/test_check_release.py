"""What `check_release` must refuse, and what it must let pass."""

from __future__ import annotations

from pathlib import Path

import check_release
import pytest

ROOT = Path(check_release.__file__).parent.parent
CHANGELOG = """# Changelog

## [Unreleased]

### Added

- something new

## [1.2.0] - 2030-01-02

- the second

## 1.1.0

- the first
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "Cargo.toml").write_text(
        '[workspace.package]\nversion = "1.2.0"\n\n[workspace.dependencies]\n'
        'floodmark-trace = { path = "crates/floodmark-trace", version = "1.2.0" }\n'
    )
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    crate = tmp_path / "crates" / "floodmark-trace"
    crate.mkdir(parents=True)
    (crate / "Cargo.toml").write_text("[package]\npublish.workspace = true\n")
    return tmp_path


def test_this_checkout_agrees_with_itself():
    assert list(check_release.problems(ROOT, None)) == []


def test_a_release_that_agrees_passes(checkout):
    assert list(check_release.problems(checkout, "v1.2.0")) == []


def test_another_tag_is_refused(checkout):
    assert list(check_release.problems(checkout, "v1.3.0")) == [
        "the tag is `v1.3.0`, and Cargo.toml has version 1.2.0"
    ]


def test_a_version_without_notes_is_refused(checkout):
    (checkout / "CHANGELOG.md").write_text(CHANGELOG.replace("1.2.0", "1.1.5"))
    assert list(check_release.problems(checkout, "v1.2.0")) == [
        "CHANGELOG.md has nothing about 1.2.0: move what is under Unreleased to it"
    ]


def test_a_crate_of_another_version_and_one_that_could_be_published_are_refused(checkout):
    manifest = checkout / "Cargo.toml"
    manifest.write_text(manifest.read_text().replace('version = "1.2.0" }', 'version = "1.1.0" }'))
    (checkout / "crates/floodmark-trace/Cargo.toml").write_text("[package]\n")
    assert list(check_release.problems(checkout, None)) == [
        "Cargo.toml names `floodmark-trace` 1.1.0, and the version is 1.2.0",
        "`crates/floodmark-trace/Cargo.toml` lacks `publish.workspace = true`",
    ]


def test_notes_end_where_the_next_version_begins():
    assert check_release.notes_of(CHANGELOG, "1.2.0") == "- the second"
    assert check_release.notes_of(CHANGELOG, "1.1.0") == "- the first"
    assert check_release.notes_of(CHANGELOG, "2.0.0") == ""
