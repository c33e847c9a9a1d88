"""`-o` and `--force`: one rule with and without ranks, and nothing of the user's is removed."""

from __future__ import annotations

import pytest

from floodmark import _core
from floodmark.recording.output_path import output_path

TRACE = b"FLOD and so on"


@pytest.fixture
def where(tmp_path, monkeypatch, capsys):
    """`where("-o x", ranks=(0, 4))`: the path of the trace from here, or what stderr says."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")

    def found(options="", ranks=None, *, is_only_process=False):
        for name, value in zip(("RANK", "WORLD_SIZE"), ranks or (None, None), strict=True):
            if value is None:
                monkeypatch.delenv(name, raising=False)
            else:
                monkeypatch.setenv(name, str(value))
        plan = _core.main(["floodmark", "run", *options.split(), "train.py"], "python3")
        path = output_path(plan, is_only_process=is_only_process)
        return capsys.readouterr().err if path is None else str(path)

    return found


def test_the_name_alone_says_whether_it_is_a_file_or_a_folder(where):
    assert where("-o a.flood") == "a.flood"
    # A world of which the other ranks are simulated.
    assert where("-o a.flood", (3, 8), is_only_process=True) == "a.flood"
    assert where("-o b") == "b/rank-0000.flood"
    assert where("-o b", (3, 8), is_only_process=True) == "b/rank-0003.flood"
    assert where("-o b", (3, 8)) == "b/rank-0003.flood"
    refused = where("-o a.flood", (3, 8))
    assert "8 processes cannot write into one file" in refused
    assert "hint: name a folder: `-o a`" in refused
    assert where() == "floodmark-train.flood"
    assert where(ranks=(3, 8)) == "floodmark-train/rank-0003.flood"


def test_what_exists_is_replaced_only_when_asked(where, tmp_path):
    (tmp_path / "floodmark-train.flood").write_bytes(TRACE)
    assert where() == "floodmark-train-2.flood"
    assert where("--force") == "floodmark-train.flood"
    (tmp_path / "a.flood").write_bytes(TRACE)
    (tmp_path / "b").mkdir()
    for rank in (0, 3, 7):
        (tmp_path / f"b/rank-000{rank}.flood").write_bytes(TRACE)
    journal = tmp_path / "b/rank-0007.flood.journal"
    journal.mkdir()
    (journal / "0-0.chunk").write_bytes(b"")
    for options, ranks in (("-o a.flood", None), ("-o b", None), ("-o b", (3, 8))):
        assert "Caused by: the file exists" in where(options, ranks)
    # Another rank of the same world has its own file.
    assert where("-o b", (1, 8)) == "b/rank-0001.flood"
    assert where("-o a.flood --force") == "a.flood"
    assert where("-o b --force", (3, 8)) == "b/rank-0003.flood"
    assert len(list((tmp_path / "b").iterdir())) == 4
    # Ranks that the new world does not have are gone; the others are replaced by their own ranks.
    assert where("-o b --force", (3, 4)) == "b/rank-0003.flood"
    left = sorted(path.name for path in (tmp_path / "b").iterdir())
    assert left == ["rank-0000.flood", "rank-0003.flood"]


def test_a_file_takes_the_place_of_a_folder_and_the_other_way_round(where, tmp_path):
    (tmp_path / "a.flood").mkdir()
    (tmp_path / "a.flood/rank-0000.flood").write_bytes(TRACE)
    (tmp_path / "b").write_bytes(TRACE)
    assert "a folder has this name" in where("-o a.flood")
    assert "a file has this name" in where("-o b", (0, 2))
    assert where("-o a.flood --force") == "a.flood"
    assert where("-o b --force", (0, 2)) == "b/rank-0000.flood"
    assert not (tmp_path / "a.flood").exists()
    assert (tmp_path / "b").is_dir()


@pytest.mark.parametrize("name", ["notes.txt", "rank-0000.flood", "rank-0001.flood.journal/x.txt"])
def test_the_users_own_files_stay(where, tmp_path, name):
    for folder in ("b", "a.flood"):
        own = tmp_path / folder / name
        own.parent.mkdir(parents=True)
        own.write_text("my own words")
        (tmp_path / folder / "rank-0009.flood").write_bytes(TRACE)
    refused = {
        path: where(f"-o {path} --force", (0, 2), is_only_process=True) for path in ("b", "a.flood")
    }
    for path, said in refused.items():
        assert f"the folder has `{name.split('/')[0]}`, which is not a trace" in said
        assert (tmp_path / path / name).read_text() == "my own words"
        assert (tmp_path / path / "rank-0009.flood").exists()


def test_a_file_that_is_no_trace_is_refused(where, tmp_path):
    for name in ("notes.flood", "notes"):
        (tmp_path / name).write_text("my own words")
        refused = where(f"-o {name}")
        assert "it is not a trace, and is not replaced: choose another path" in refused
        assert "--force" not in refused
        assert "the file is not a trace" in where(f"-o {name} --force")
        assert (tmp_path / name).read_text() == "my own words"
    (tmp_path / "c.flood.journal").mkdir()
    (tmp_path / "c.flood.journal/diary.txt").write_text("my own words")
    assert "`c.flood.journal` beside it is not a journal" in where("-o c.flood --force")
    assert (tmp_path / "c.flood.journal/diary.txt").exists()
    # An empty file, as `mktemp` makes it.
    (tmp_path / "empty.flood").write_bytes(b"")
    assert where("-o empty.flood --force") == "empty.flood"


def test_a_simulated_world_writes_to_the_requested_path(programs):
    """End to end, without torch: a program that allocates nothing has a trace too."""
    programs.write("print('ran')", "program.py")
    words = ["estimate", "--engine", "fake", "--world", "4", "--rank", "2"]
    for path in ("a.flood", "b"):
        done = programs.floodmark(*words, "-o", path, "program.py")
        assert "ran" in done.stderr, done.stderr
    assert (programs.folder / "a.flood").is_file()
    assert (programs.folder / "b/rank-0002.flood").is_file()
