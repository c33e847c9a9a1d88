"""The source distribution has all that a build needs."""

from __future__ import annotations

from pathlib import Path

import check_sdist

ROOT = Path(check_sdist.__file__).parent.parent


def test_the_source_distribution_of_this_checkout_is_complete():
    packed = check_sdist.packed_files(ROOT)
    manifests = {f"crates/{crate.name}/Cargo.toml" for crate in (ROOT / "crates").iterdir()}
    assert manifests <= set(packed)
    assert {
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "crates/floodmark/page/index.html",
        "crates/floodmark-phantom/symbols/cudart.txt",
        "crates/floodmark-phantom-macros/src/lib.rs",
        "python/floodmark/_core.pyi",
        "python/floodmark_compat/py.typed",
    } <= set(packed)
    assert check_sdist.missing_files(packed, check_sdist.tracked_files(ROOT)) == []


def test_a_crate_that_no_manifest_names_is_missed():
    packed = [*check_sdist.FILES, "crates/one/Cargo.toml"]
    tracked = ["crates/one/Cargo.toml", "crates/two/Cargo.toml", "docs/README.md", "Makefile"]
    assert check_sdist.missing_files(packed, tracked) == ["crates/two/Cargo.toml"]
    assert "PKG-INFO" in check_sdist.missing_files([], [])
