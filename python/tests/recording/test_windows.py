"""One recorder, many windows: nested, overlapping, on several threads, read while open."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time

import pytest
import torch
from torch import nn

import floodmark
from floodmark import _core
from floodmark.recording import recorder as recorder_module
from floodmark_compat.gpu_optimizer import MemoryTracer
from floodmark_compat.memory_tracker import MemoryTracker


@pytest.fixture(autouse=True)
def no_recorder_is_left():
    # Another file of tests may have left one that waits.
    _core.disarm()
    yield
    assert not floodmark.is_recording()
    _core.disarm()


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))


def train(layers, rows=16):
    layers(torch.zeros(rows, 64)).sum().backward()
    layers.zero_grad()


def counts(trace):
    """What a trace has, without times and addresses."""
    found = trace.summary()
    return {key: found[key] for key in ("events", "steps", "losses")} | {
        "peaks": [(row["device"], row["peak"]) for row in found["devices"]]
    }


def rows_by_line(trace):
    return [(row["bytes"], row["count"], row["location"]) for row in trace.peak("cpu").by_line()]


def test_an_inner_window_does_not_disturb_the_outer_one(tmp_path):
    layers = model()

    def program(has_inner):
        kept = torch.zeros(1000)
        train(layers)
        if has_inner:
            with floodmark.trace(tmp_path / "inner.flood") as inner:
                train(layers)
            assert not inner.failure
            with floodmark.trace(stacks=False, ops=True):
                train(layers)
        else:
            train(layers)
            train(layers)
        train(layers)
        return kept

    found = []
    for has_inner in (True, False):
        with floodmark.trace(tmp_path / "outer.flood", devices="cpu") as outer:
            program(has_inner)
        found.append((counts(outer.trace), outer.trace.header["recorded"], tables(outer.trace)))
    assert found[0] == found[1]


def tables(trace):
    """The rows of the peak by category and by module, and the bytes of each tensor at the end."""
    peak = trace.peak("cpu")
    return [
        [(row["bytes"], row["count"]) for row in peak.by_category()],
        [(row["bytes"], row["count"], row["location"]) for row in peak.by_module()],
        sorted(row["bytes"] for row in trace.end("cpu").by_tensor()),
    ]


def test_a_window_inside_another_has_the_tables_that_it_has_alone():
    layers = model()

    def window():
        with floodmark.trace(devices="cpu") as one:
            train(layers)
        return tables(one.trace)

    alone = window()
    _core.disarm()
    alone_again = window()
    _core.disarm()
    with floodmark.trace(devices="cpu"):
        train(layers)
        inside = window()
    assert alone == alone_again == inside


def test_windows_that_overlap_each_have_their_events(tmp_path):
    one = floodmark.trace(tmp_path / "one.flood", devices="cpu").start()
    first = torch.zeros(1001)
    two = floodmark.trace(tmp_path / "two.flood", devices="cpu").start()
    second = torch.zeros(1002)
    one.stop()
    third = torch.zeros(1003)
    three = floodmark.trace(devices="cpu").start()
    two.stop()
    fourth = torch.zeros(1004)
    three.stop()
    assert made_in(one) == {1001, 1002}
    assert made_in(two) == {1002, 1003}
    assert made_in(three) == {1004}
    # What was live when a window opened is in it, as memory from before.
    assert live_in(three) >= {1001, 1002, 1003, 1004}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.flood", "two.flood"]
    del first, second, third, fourth


def made_in(recorder):
    found = recorder.trace.end("cpu").by_tensor(top=None)
    made = {row["bytes"] // 4 for row in found if row["location"] != "before recording"}
    return {size for size in made if 1000 < size < 3000}


def live_in(recorder):
    return {row["bytes"] // 4 for row in recorder.trace.end("cpu").by_tensor(top=None)}


def test_threads_open_and_close_windows_of_their_own():
    failures = []

    def work(number):
        for at in range(20):
            size = 5000 + 100 * number + at
            with floodmark.trace(devices="cpu") as window:
                kept = torch.zeros(size, dtype=torch.uint8)
            found = {row["bytes"] for row in window.trace.end("cpu").by_tensor(top=None)}
            if size not in found or window.failure:
                failures.append((number, at, window.failure))
            del kept

    with floodmark.trace(devices="cpu") as outer:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    assert outer.trace.summary()["events"] >= 4 * 20 * 2


def test_each_window_has_its_own_options(tmp_path):
    layers = model()
    with (
        floodmark.trace(tmp_path / "plain.flood", devices="cpu", stacks=False) as plain,
        floodmark.trace(devices="cpu", ops=True) as full,
        floodmark.trace(devices="cuda") as cuda,
    ):
        train(layers)
    asked = {"ops", "stacks"}
    assert not asked.intersection(plain.trace.header["recorded"])
    assert asked <= set(full.trace.header["recorded"])
    assert all(row["file"] is None for row in plain.peak("cpu").by_line())
    assert any(row["file"] == __file__ for row in full.peak("cpu").by_line())
    assert any("aten::" in row["location"] for row in full.peak("cpu").by_op())
    assert not any("aten::" in row["location"] for row in plain.peak("cpu").by_op())
    assert [row["device"] for row in cuda.trace.summary()["devices"]] == []


def test_steps_and_phases_of_one_window_are_not_in_another():
    with floodmark.trace(devices="cpu") as outer:
        with floodmark.phase("outside"), floodmark.trace(devices="cpu") as inner:
            with inner.phase("inside"):
                kept = torch.zeros(100_000)
            inner.step()
            floodmark.step()
            inner.step()
        floodmark.step()
    assert inner.trace.summary()["steps"] == 3
    assert outer.trace.summary()["steps"] == 2
    assert next(iter(inner.peak("cpu").by_phase()))["location"] == "inside"
    assert next(iter(outer.peak("cpu").by_phase()))["location"] == "outside"
    del kept


@pytest.mark.parametrize("has_file", [True, False])
def test_what_is_read_while_a_window_is_open_is_what_it_has_when_closed(tmp_path, has_file):
    layers = model()
    window = floodmark.trace(tmp_path / "a.flood" if has_file else None, devices="cpu").start()
    seen = []
    for number in range(3):
        train(layers, rows=16 * (number + 1))
        floodmark.step()
        trace = window.trace
        assert window.is_open
        seen.append(counts(trace))
        assert trace.summary()["losses"] == []
    open_tables = [*tables(window.trace), rows_by_line(window.trace)]
    open_counts = counts(window.trace)
    window.stop()
    assert [*tables(window.trace), rows_by_line(window.trace)] == open_tables
    assert counts(window.trace) == open_counts == seen[-1]
    assert [one["steps"] for one in seen] == [1, 2, 3]
    assert seen[0]["events"] < seen[1]["events"] < seen[2]["events"]


def test_a_window_without_a_file_gets_one_when_its_path_is_read(tmp_path):
    with floodmark.trace(devices="cpu") as window:
        kept = torch.zeros(4321)
    read = floodmark.Trace.open(window.path)
    assert counts(read) == counts(window.trace)
    assert rows_by_line(read) == rows_by_line(window.trace)
    del kept


def test_a_recorder_that_waits_knows_what_was_made_and_freed_meanwhile():
    with floodmark.trace(devices="cpu"):
        kept = torch.zeros(2001)
        freed = torch.zeros(2002)
    del freed
    made = torch.zeros(2003)
    with floodmark.trace(devices="cpu") as window:
        inside = torch.zeros(2004)
    live = live_in(window)
    assert {2001, 2003, 2004} <= live
    assert 2002 not in live
    assert made_in(window) == {2004}
    del kept, made, inside


def test_windows_with_a_file_follow_each_other_without_a_search(tmp_path):
    """The recorder waits: the next window has the tables that it has after a search."""
    layers = model()
    kept = [torch.zeros(2001)]

    def window(name):
        with floodmark.trace(tmp_path / name, devices="cpu") as one:
            train(layers)
        return one

    found = []
    for number in range(3):
        one = window("same.flood")
        assert not one.failure
        assert one._core.is_renewed == (number > 0)
        kept.append(torch.zeros(3000 + number))
        freed = torch.zeros(4000 + number)
        del freed
        found.append(one)
    waited = window("last.flood")
    _core.disarm()
    searched = window("last.flood")
    assert waited._core.is_renewed
    assert not searched._core.is_renewed
    assert live_in(waited) >= {2001, 3000, 3001, 3002}
    assert not live_in(waited) & {4000, 4001, 4002}
    assert tables(waited.trace) == tables(searched.trace)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["last.flood", "same.flood"]


@contextlib.contextmanager
def replaced_blocks():
    """Fifty blocks that a thread replaces one after the other, until the end of this context."""
    blocks: dict[int, torch.Tensor] = {}
    stop = threading.Event()

    def work():
        number = 0
        while not stop.is_set():
            number += 1
            blocks[number % 50] = torch.zeros(10_000 + number % 50, dtype=torch.uint8)

    thread = threading.Thread(target=work)
    thread.start()
    while len(blocks) < 50:
        stop.wait(0.001)
    try:
        yield blocks
    finally:
        stop.set()
        thread.join()


def test_no_event_is_missed_while_one_recorder_follows_another(tmp_path):
    """A thread allocates and frees while windows with files come and go."""
    with contextlib.ExitStack() as thread:
        with floodmark.trace(devices="cpu"):
            blocks = thread.enter_context(replaced_blocks())
        for _ in range(20):
            with floodmark.trace(tmp_path / "one.flood", devices="cpu"):
                pass
    with floodmark.trace(tmp_path / "one.flood", devices="cpu") as last:
        pass
    live = [row["bytes"] for row in last.trace.end("cpu").by_tensor(top=None)]
    assert sorted(size for size in live if 10_000 <= size < 10_050) == sorted(
        block.numel() for block in blocks.values()
    )
    assert last.trace.summary()["losses"] == []


def test_a_block_freed_during_the_search_is_not_live():
    """Blocks from before a recording are listed while another thread allocates and frees."""
    # The search takes longer where there is more to search.
    others = [torch.zeros(1) for _ in range(20_000)]
    windows = []
    with replaced_blocks():
        for _ in range(5):
            # The recorder forgets what is live, and searches for it again.
            _core.disarm()
            windows.append(floodmark.trace(devices="cpu").start())
            windows[-1].stop()
    for window in windows:
        live = [row["bytes"] for row in window.trace.end("cpu").by_tensor(top=None)]
        ours = [size for size in live if 10_000 <= size < 10_050]
        # At any time there are 50, and one that replaces another.
        assert 50 <= len(ours) <= 51
        assert len(set(ours)) == 50
    assert len(others) == 20_000


def test_a_short_window_beside_another_leaves_its_file_alone(tmp_path):
    theirs = tmp_path / "theirs.flood"
    theirs.write_text("not a trace")
    with floodmark.trace(devices="cpu"):
        for number in range(5):
            with floodmark.trace(tmp_path / "short.flood", devices="cpu") as short:
                kept = torch.zeros(6000 + number)
            assert not short.failure
            read = floodmark.Trace.open(tmp_path / "short.flood")
            assert read.summary()["losses"] == []
            assert 6000 + number in live_in(short)
            del kept
        # What cannot be done is said at the start, as everywhere.
        for path in (theirs, tmp_path / "missing" / "a.flood"):
            refused = floodmark.trace(path).start()
            assert not refused.is_open
            assert refused.failure
        one = floodmark.trace(tmp_path / "same.flood").start()
        other = floodmark.trace(tmp_path / "same.flood").start()
        assert one.is_open
        assert "is recording into it" in other.failure
        one.stop()
        assert not one.failure
    assert theirs.read_text() == "not a trace"
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["same.flood", "short.flood", "theirs.flood"]


def test_a_window_that_stays_open_owns_its_names(tmp_path):
    path = tmp_path / "held.flood"
    with floodmark.trace(devices="cpu"), floodmark.trace(path, devices="cpu") as held:
        assert held.trace is not None  # The file is there then, and so is its lock.
        assert (tmp_path / "held.flood.journal" / "state").exists()
        assert _core.is_being_recorded(str(path))
    assert not _core.is_being_recorded(str(path))
    assert [each.name for each in tmp_path.iterdir()] == ["held.flood"]


def test_a_limit_of_events_bounds_what_is_on_disk(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(recorder_module, "_temporary", (os.getpid(), tmp_path))
    many = [torch.zeros(1) for _ in range(1000)]

    def window(most):
        """Events, what is missing, and the bytes on disk of a window with about 900,000 events."""
        with floodmark.Recorder(devices="cpu", stacks=False, max_events=most) as one:
            for _ in range(150):
                torch._foreach_add(many, 1)
            late = torch.zeros(8001)
        with floodmark.trace(devices="cpu") as after:
            pass
        # What was allocated after the limit was reached is live all the same.
        assert 8001 in live_in(after)
        del late
        found = one.trace.summary()
        files = list(tmp_path.iterdir())
        on_disk = sum(path.stat().st_size for path in files)
        for path in files:
            path.unlink()
        return found["events"], found["losses"], on_disk

    events, losses, on_disk = window(1000)
    assert on_disk == 0
    assert events >= 1000
    assert "may have 1000 (`max_events`)" in losses[0]
    most = 600_000
    limited, losses, limited_on_disk = window(most)
    # The limit is looked at after each flush, of at most 65,536 events.
    assert most <= limited <= most + 65_536
    assert "(`max_events`)" in losses[0]
    every, losses, all_on_disk = window(None)
    assert losses == []
    assert every > limited
    assert 0 < limited_on_disk < all_on_disk
    assert capsys.readouterr().err.count("recording stopped early") == 2


def test_a_limit_of_events_stops_a_recording_with_a_file(tmp_path, capsys):
    many = [torch.zeros(1) for _ in range(1000)]
    most = 100_000
    path = tmp_path / "limited.flood"
    with floodmark.trace(path, devices="cpu", stacks=False, max_events=most) as one:
        for _ in range(150):
            torch._foreach_add(many, 1)
    found = floodmark.Trace.open(path).summary()
    assert most <= found["events"] <= most + 65_536
    assert f"may have {most} (`max_events`)" in found["losses"][0]
    assert "recording stopped early" in capsys.readouterr().err
    assert one.failure


def test_a_limit_of_time_stops_a_recording_and_not_the_program(tmp_path, capsys):
    path = tmp_path / "limited.flood"
    with floodmark.trace(path, devices="cpu", max_seconds=1) as one:
        early = torch.zeros(8001)
        deadline = time.monotonic() + 60
        losses = []
        while not any("stopped" in loss for loss in losses) and time.monotonic() < deadline:
            torch.zeros(1)
            time.sleep(0.1)
            losses = floodmark.Trace.open(path).summary()["losses"]
        late = torch.zeros(8002)
    losses = floodmark.Trace.open(path).summary()["losses"]
    assert any("may be for 1 s (`max_seconds`)" in loss for loss in losses), losses
    assert 8001 in live_in(one)
    assert 8002 not in live_in(one)
    assert "recording stopped early" in capsys.readouterr().err
    del early, late


def test_two_compat_objects_at_once_inside_a_recording():
    layers = model()
    alone = []
    for is_nested in (False, True):
        tracer, tracker = MemoryTracer(device="cpu"), MemoryTracker()
        outer = floodmark.trace(devices="cpu") if is_nested else None
        if outer is not None:
            outer.start()
        tracker.start_monitor(layers)
        with tracer.trace(layers):
            train(layers)
        tracker.stop()
        if outer is not None:
            outer.stop()
            assert outer.trace.summary()["steps"] == 0
        layers_seen = {
            name: (stats.peak_allocated, stats.total_allocations, stats.total_deallocations)
            for name, stats in tracer.get_layer_stats().items()
        }
        alone.append((layers_seen, dict(tracker.memories_allocated)))
        _core.disarm()
    assert alone[0] == alone[1]


def test_a_killed_process_keeps_what_was_live_before_its_window(programs):
    """The recorder waited, so what was live is in no search, and must be in the file."""
    source = """
        import os, signal
        import torch, floodmark

        with floodmark.trace(devices="cpu"):
            kept = [torch.zeros(7001)]
        kept.append(torch.zeros(7002))
        window = floodmark.trace("killed.flood", devices="cpu").start()
        assert window._core.is_renewed
        kept.append(torch.zeros(7003))
        print("ready", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    done = programs.python(programs.write(source))
    assert done.stdout == "ready\n"
    trace = floodmark.Trace.open(programs.folder / "killed.flood")
    rows = {row["bytes"] // 4: row["location"] for row in trace.end("cpu").by_tensor(top=None)}
    assert {7001, 7002, 7003} <= set(rows)
    assert rows[7001] == rows[7002] == "before recording"
    assert rows[7003] != "before recording"


def test_a_killed_process_keeps_the_outer_window_and_what_the_inner_one_flushed(programs):
    source = """
        import os, signal
        import torch, floodmark

        outer = floodmark.trace("outer.flood", devices="cpu").start()
        kept = [torch.zeros(3001)]
        inner = floodmark.trace("inner.flood", devices="cpu", stacks=False).start()
        kept.append(torch.zeros(3002))
        inner.trace  # Flushed up to here.
        kept.append(torch.zeros(3003))
        print("ready", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    done = programs.python(programs.write(source))
    assert done.stdout == "ready\n"
    outer = floodmark.Trace.open(programs.folder / "outer.flood")
    inner = floodmark.Trace.open(programs.folder / "inner.flood")

    def sizes(trace):
        return {row["bytes"] // 4 for row in trace.end("cpu").by_tensor(top=None)}

    assert {3001, 3002, 3003} <= sizes(outer)
    # The last one is there only where the writer flushed once more before the end.
    assert {3001, 3002} <= sizes(inner)
    assert "not finished" in json.dumps(inner.summary()["losses"])
    assert "not finished" not in json.dumps(outer.summary()["losses"])
