"""Which files `check_sizes` refuses, and which it only mentions."""

from __future__ import annotations

import subprocess

from check_sizes import judge, tracked_lines


def test_short_files_are_fine():
    verdict = judge({"crates/a/src/lib.rs": 499, "python/a.py": 1})
    assert (verdict.errors, verdict.warnings) == ([], [])


def test_a_file_is_mentioned_from_five_hundred_lines_and_refused_from_eight_hundred():
    verdict = judge({"a.rs": 500, "b.py": 799, "c.ts": 800})
    assert [warning.split()[0] for warning in verdict.warnings] == ["a.rs", "b.py"]
    assert verdict.errors == ["c.ts has 800 lines; fewer than 800 are allowed"]


def test_other_kinds_of_files_do_not_count():
    verdict = judge({"Cargo.lock": 5000, "docs/trace-format.md": 900})
    assert (verdict.errors, verdict.warnings) == ([], [])


def test_generated_files_and_test_tables_are_exempt_by_name():
    verdict = judge(
        {"web/src/types.gen.ts": 5000, "crates/floodmark-allocator/tests/it/rules.rs": 5000}
    )
    assert verdict.errors == []


def test_the_boundary_stays_thin_in_all():
    files = {f"crates/floodmark-python/src/part{number}.rs": 351 for number in range(4)}
    (error,) = judge(files).errors
    assert error == "crates/floodmark-python/ has 1404 lines of .rs in all; 1400 are allowed"
    del files["crates/floodmark-python/src/part3.rs"]
    assert judge(files).errors == []


def test_what_git_ignores_does_not_count(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("ignored.py\n")
    (tmp_path / "ignored.py").write_text("\n" * 900)
    (tmp_path / "new.py").write_text("one\ntwo\n")
    assert tracked_lines(tmp_path) == {"new.py": 2}
