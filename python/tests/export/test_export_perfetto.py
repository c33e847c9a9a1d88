"""Files for Perfetto, read again with Perfetto's own messages."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from support.checkout import FIXTURES

from floodmark.reports.trace import Trace

perfetto = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")

RECORDINGS = FIXTURES / "recordings"
EVENT = perfetto.TrackEvent


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Three training steps, recorded on a GPU."""
    return Trace.open(RECORDINGS / "zoo" / "bert_amp.pickle.gz")


def read(trace: Trace, folder: Path) -> list[perfetto.TracePacket]:
    trace.export(folder / "x.pftrace")
    file = perfetto.Trace()
    file.ParseFromString((folder / "x.pftrace").read_bytes())
    return list(file.packet)


@pytest.fixture(scope="module")
def packets(trace, tmp_path_factory) -> list[perfetto.TracePacket]:
    return read(trace, tmp_path_factory.mktemp("perfetto"))


def tracks(packets) -> dict[int, str]:
    described = [p.track_descriptor for p in packets if p.HasField("track_descriptor")]
    return {track.uuid: track.name for track in described}


def counters(packets) -> dict[str, list[tuple[int, int]]]:
    """Of each counter, its times in nanoseconds and values."""
    names = tracks(packets)
    found = defaultdict(list)
    for packet in packets:
        event = packet.track_event
        if event.type == EVENT.TYPE_COUNTER:
            found[names[event.track_uuid]].append((packet.timestamp, event.counter_value))
    return found


def test_counters_are_torchs_totals_at_the_same_times(trace, packets, tmp_path):
    """Each level of torch's snapshot, at its time."""
    import csv

    trace.export(tmp_path / "x.csv", device="cuda:0")
    with open(tmp_path / "x.csv", newline="") as file:
        events = [row for row in csv.DictReader(file) if row["device"] == "cuda:0"]
    for name in ("allocated", "active", "reserved"):
        actual = counters(packets)[f"cuda:0 {name}"]
        last = {}
        for row in events:
            if row[name]:
                last[round(float(row["seconds"]) * 1e9)] = int(row[name])
        known = dict(actual)
        level, compared = None, 0
        for time in sorted(last):
            level = known.get(time, level)
            assert level == last[time], (name, time)
            compared += 1
        assert compared > 500


def test_the_highest_counters_are_torchs_peaks(packets):
    measured = json.loads((RECORDINGS / "zoo" / "bert_amp.json").read_text())
    phases = [p for s in measured["steps"] for p in s.values() if isinstance(p, dict)]
    found = counters(packets)
    highest = {name: max(value for _, value in values) for name, values in found.items()}
    assert highest["cuda:0 allocated"] == max(phase["peak"] for phase in phases)
    assert highest["cuda:0 reserved"] == max(phase["peak_reserved"] for phase in phases)
    assert found["cuda:0 allocated"][-1][1] == measured["allocated"]


def test_a_recording_with_several_streams_reaches_torchs_active_peak(tmp_path):
    path = RECORDINGS / "allocator" / "default-streams"
    stats = json.loads(path.with_suffix(".json").read_text())["stats"]
    found = counters(read(Trace.open(path.with_suffix(".pickle.gz")), tmp_path))
    for name in ("allocated", "active", "reserved"):
        highest = max(value for _, value in found[f"cuda:0 {name}"])
        assert highest == stats[f"{name}_bytes.all.peak"]


def test_categories_add_up(packets):
    found = counters(packets)
    last = {name: values[-1][1] for name, values in found.items()}
    totals = ("cuda:0 allocated", "cuda:0 active", "cuda:0 reserved")
    parts = sum(v for name, v in last.items() if name.startswith("cuda:0") and name not in totals)
    assert parts == last["cuda:0 allocated"]


def test_time_never_goes_back_and_slices_are_nested(packets):
    times = [packet.timestamp for packet in packets if packet.HasField("track_event")]
    assert times == sorted(times)
    described = tracks(packets)
    names, open_slices, seen = {}, defaultdict(list), set()
    for packet in packets:
        names.update((new.iid, new.name) for new in packet.interned_data.event_names)
        event = packet.track_event
        if packet.HasField("track_event"):
            assert event.track_uuid in described
        if event.type == EVENT.TYPE_SLICE_BEGIN:
            open_slices[event.track_uuid].append(names[event.name_iid])
            seen.add(names[event.name_iid])
        elif event.type == EVENT.TYPE_SLICE_END:
            open_slices[event.track_uuid].pop()
    assert not any(open_slices.values())
    assert {"forward", "backward", "optimizer", "step 0", "step 2"} <= seen


def test_arrows_lead_from_allocations_to_their_frees(packets):
    begun, ended = defaultdict(int), set()
    for packet in packets:
        for flow in packet.track_event.flow_ids:
            begun[flow] += 1
        for flow in packet.track_event.terminating_flow_ids:
            assert flow in begun
            ended.add(flow)
    assert len(begun) > 500
    assert 0 < len(ended) <= len(begun)
    groups = [name for name in tracks(packets).values() if "largest" in name or "alloc" in name]
    assert groups


def test_chromes_json_tells_the_same(trace, packets, tmp_path):
    trace.export(tmp_path / "x.chrome.json")
    events = json.loads((tmp_path / "x.chrome.json").read_text())["traceEvents"]
    found = defaultdict(list)
    for event in events:
        if event["ph"] == "C":
            found[event["name"]].append((event["ts"] * 1000, event["args"]["bytes"]))
    assert found == counters(packets)
    kinds = [event["ph"] for event in events]
    assert kinds.count("B") == kinds.count("E") > 500
