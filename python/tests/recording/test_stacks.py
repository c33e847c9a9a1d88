"""The Python lines of an allocation are the right ones, however the code came to run."""

from __future__ import annotations

import asyncio
import functools
import sys
import threading

import pytest
import torch
from support.flood_file import line_of

#: Sizes that nothing else allocates tell allocations apart.
BASE = 100_000


def block(number):
    return torch.empty(BASE + number, dtype=torch.uint8)


def stack_of(recorded, number, depth=3):
    """Names and lines of the innermost frames of the one allocation with this number."""
    (event,) = recorded.file.allocations(BASE + number)
    assert event.frames[0].name == "block"
    return [(frame.name, frame.line) for frame in event.frames[1 : 1 + depth]]


def plain():
    return block(1)  # plain


def outer():
    def inner():
        return block(2)  # inner

    return inner()  # outer


def generator():
    yield block(3)  # first
    yield block(4)  # second


def delegating():
    yield from generator()  # delegate


async def coroutine():
    await asyncio.sleep(0)
    return block(5)  # awaited


async def gather():
    return await asyncio.gather(coroutine())  # gather


async def asynchronous_generator():
    yield block(6)  # asynchronous


async def consume():
    return [item async for item in asynchronous_generator()]  # consume


def comprehension():
    return [block(7) for _ in range(1)]  # comprehension


def generator_expression():
    return list(block(8) for _ in range(1))  # noqa: C400  # expression


def shift(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)  # wrapper

    return wrapper


@shift
def decorated():
    return block(9)  # decorated


def multiline():
    return torch.stack(
        [
            block(10),  # element
            block(10),
        ]
    )


class Meta(type):
    def __call__(cls, *args):
        return super().__call__(*args)  # metaclass


class Thing(metaclass=Meta):
    def __init__(self):
        self.held = block(11)  # constructor

    @property
    def value(self):
        return block(12)  # property

    def __del__(self):
        block(13)  # finaliser


def test_plain_and_nested_functions_and_comprehensions(record):
    with record() as recorded:
        plain()
        outer()
        list(delegating())
        comprehension()
        generator_expression()
        decorated()
        (lambda: block(14))()  # lambda
    assert stack_of(recorded, 1, 1) == [("plain", line_of(plain, "plain"))]
    assert stack_of(recorded, 2, 2) == [
        ("inner", line_of(outer, "inner")),
        ("outer", line_of(outer, "outer")),
    ]
    for number, mark in ((3, "first"), (4, "second")):
        assert stack_of(recorded, number, 2) == [
            ("generator", line_of(generator, mark)),
            ("delegating", line_of(delegating, "delegate")),
        ]
    # From 3.12 on a comprehension has no frame of its own.
    place = line_of(comprehension, "comprehension")
    name = "comprehension" if sys.version_info >= (3, 12) else "<listcomp>"
    assert stack_of(recorded, 7, 1) == [(name, place)]
    place = line_of(generator_expression, "expression")
    assert stack_of(recorded, 8, 2) == [("<genexpr>", place), ("generator_expression", place)]
    assert [name for name, _ in stack_of(recorded, 9, 2)] == ["decorated", "wrapper"]
    here = test_plain_and_nested_functions_and_comprehensions
    assert stack_of(recorded, 14, 2) == [
        ("<lambda>", line_of(here, "lambda")),
        (here.__name__, line_of(here, "lambda")),
    ]


def test_coroutines_and_asynchronous_generators(record):
    with record() as recorded:
        asyncio.run(gather())
        asyncio.run(consume())
    assert stack_of(recorded, 5, 1) == [("coroutine", line_of(coroutine, "awaited"))]
    (event,) = recorded.file.allocations(BASE + 6)
    frames = [(frame.name, frame.line) for frame in event.frames]
    assert ("asynchronous_generator", line_of(asynchronous_generator, "asynchronous")) in frames
    assert line_of(consume, "consume") in [line for _, line in frames]


def test_methods_constructors_properties_and_finalisers(record):
    with record() as recorded:
        thing = Thing()
        _ = thing.value
        del thing
    assert stack_of(recorded, 11, 2) == [
        ("__init__", line_of(Thing.__init__, "constructor")),
        ("__call__", line_of(Meta.__call__, "metaclass")),
    ]
    assert stack_of(recorded, 12, 1) == [("value", line_of(Thing.value.fget, "property"))]
    assert stack_of(recorded, 13, 1) == [("__del__", line_of(Thing.__del__, "finaliser"))]


def test_an_expression_over_several_lines_shows_the_line_that_runs(record):
    with record() as recorded:
        multiline()
    first, second = recorded.file.allocations(BASE + 10)
    element = line_of(multiline, "element")
    assert [first.frames[1].line, second.frames[1].line] == [element, element + 1]


def call_a_thousand_functions(addresses):
    for number in range(1000):
        names = {"torch": torch, "BASE": BASE}
        blank = "\n" * (number % 7)
        body = f"return torch.empty(BASE + {number}, dtype=torch.uint8)"
        source = f"{blank}def made_{number}():\n    {body}\n"
        exec(compile(source, f"<made {number}>", "exec"), names)
        addresses.add(id(names[f"made_{number}"].__code__))
        names[f"made_{number}"]()
        del names


@pytest.mark.parametrize("on_main_thread", [True, False])
def test_a_thousand_short_lived_functions_are_never_confused(record, on_main_thread):
    """While the main thread waits nothing can keep them alive: they lie at the same addresses."""
    addresses = set()
    with record() as recorded:
        if on_main_thread:
            call_a_thousand_functions(addresses)
        else:
            thread = threading.Thread(target=call_a_thousand_functions, args=(addresses,))
            thread.start()
            thread.join()
    if not on_main_thread:
        assert len(addresses) < 1000, "no address was used twice: this test tests nothing"
    for number in range(1000):
        (event,) = recorded.file.allocations(BASE + number)
        frame = event.frames[0]
        assert (frame.name, frame.file, frame.line) == (
            f"made_{number}",
            f"<made {number}>",
            number % 7 + 2,
        )


def test_functions_that_differ_only_in_their_file_are_told_apart(record):
    with record() as recorded:
        for number in range(50):
            names = {"block": block}
            exec(compile("def same(n):\n    return block(n)", f"<file {number}>", "exec"), names)
            names["same"](number)
            del names
    files = [recorded.file.allocations(BASE + number)[0].frames[1].file for number in range(50)]
    assert files == [f"<file {number}>" for number in range(50)]


@pytest.mark.parametrize("depth", [500, 3000])
def test_recursion_is_shown_frame_by_frame(record, depth):
    def recurse(left):
        return block(20) if left == 0 else recurse(left - 1)  # recurse

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + 1000)
    try:
        with record() as recorded:
            recurse(depth)
    finally:
        sys.setrecursionlimit(limit)
    (event,) = recorded.file.allocations(BASE + 20)
    names = [frame.name for frame in event.frames]
    # A very deep stack keeps its innermost frames.
    kept = min(depth + 1, 2047)
    assert names[1 : 1 + kept] == ["recurse"] * kept
    if depth < 2000:
        assert names[1 + kept] == "test_recursion_is_shown_frame_by_frame"


def test_threads_show_their_own_stacks(record):
    def work(number):
        for _ in range(50):
            block(30 + number)  # work

    with record() as recorded:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    seen = []
    for number in range(6):
        events = recorded.file.allocations(BASE + 30 + number)
        assert len(events) == 50
        assert len({event.thread for event in events}) == 1
        seen.append(events[0].thread)
        for event in events:
            assert [frame.name for frame in event.frames[:3]] == ["block", "work", "run"]
            assert event.frames[1].line == line_of(work, "work")
    assert len(set(seen)) == 6


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_a_thread_without_python_has_no_stack(record):
    """`torch.jit.fork` runs on torch's own threads, which Python has never seen."""

    def task(size: int):
        return torch.zeros([size], dtype=torch.uint8)

    def forking(size: int):
        future = torch.jit.fork(task, size)
        return torch.jit.wait(future)

    task = torch.jit.script(task)
    forking = torch.jit.script(forking)
    with record() as recorded:
        forking(BASE + 40)
    (event,) = recorded.file.allocations(BASE + 40)
    assert event.frames == ()
    assert event.module is None
    rows = recorded.trace.report(by="line", at="peak", device="cpu").rows
    assert any(row["bytes"] == BASE + 40 and row["file"] is None for row in rows)
