"""Threads that read while another one edits: each answer is that of the topology before or after an edit.

The tests run with one cache for all threads and with one for each, whichever this Python uses.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import count
from random import Random
from threading import Barrier, Thread
from typing import Any

import pytest

from exchange import Binding, Dispatcher, Exchange, Matcher, Message, Pattern, Policy, Queue, Router, Topology
from exchange.concurrency import threads
from exchange.errors import BrokerError
from tests.support.threads import reading
from tests.support.tiers import scale

READERS = 3
EDITS = scale(300)
KEYS = ["a", "b", "a.b", "a.c", "b.c", "a.b.c", "c.b.a", "q0", "q1", "", "a.x9", "x9.b"]

Edit = tuple[str, Any]
"""The name of a method of both `Router` and `Topology`, and its argument."""


@pytest.fixture(params=[False, True], ids=["one cache", "a cache for each thread"], autouse=True)
def free_threaded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the caches of either kind of Python."""
    monkeypatch.setattr(threads, "FREE_THREADED", request.param)
    yield
    gc.collect()


def agree(answer: Callable[[int], object], expected: Sequence[Sequence[object]], edit: Callable[[int], object]) -> None:
    """Make all edits, while threads compare their answers with those expected before and after the edits meanwhile.

    ``expected[n][k]`` is the answer for the key of number k when n edits are made.
    """
    begun, made, wrong, numbers = [0], [0], list[object](), count()

    def read() -> None:
        key = next(numbers) % len(KEYS)
        before = made[0]
        found = answer(key)
        possible = [expected[version][key] for version in range(before, begun[0] + 1)]
        if found not in possible:
            wrong.append((KEYS[key], found, possible))

    with reading(read, READERS):
        for number in range(EDITS):
            begun[0] = number + 1
            edit(number)
            made[0] = number + 1
            time.sleep(0.001)
    assert not wrong, wrong[:3]
    assert [answer(key) for key in range(len(KEYS))] == list(expected[EDITS])


def edits_of(topology: Topology, rng: Random) -> tuple[list[Edit], list[Topology]]:
    """Return random edits that the topology allows, and the topologies before the first and after each."""
    names, patterns = ["t", "d", "f"], ["a.*", "#", "*.b.#", "a.b", "a", "b", "#.c", "a.x9"]
    edits: list[Edit] = []
    versions = [topology]
    while len(edits) < EDITS:
        source, pattern = rng.choice(names), rng.choice(patterns)
        queue = f"q{rng.randrange(3)}"
        target = Binding.to_queue(source, queue, pattern)
        if rng.random() < 0.3:
            target = Binding.to_exchange(source, rng.choice(names), pattern)
        edit: Edit = rng.choice([
            ("bind", target), ("bind", target), ("bind", target), ("unbind", target),
            ("delete_queue", queue), ("declare_queue", Queue(queue)), ("declare_queue", Queue(queue)),
            ("set_policy", Policy("p", "t", {"alternate-exchange": "f"})), ("clear_policy", "p"),
        ])  # fmt: skip
        try:
            after = getattr(versions[-1], edit[0])(edit[1])
        except BrokerError:
            continue
        edits.append(edit)
        versions.append(after)
    return edits, versions


@pytest.mark.parametrize("seed", [1, 2])
def test_a_route_is_that_before_or_after_an_edit(seed: int) -> None:
    """Whatever is edited: bindings of all kinds, exchanges behind exchanges, queues with their bindings, policies."""
    exchanges = [Exchange("t", "topic"), Exchange("d", "direct"), Exchange("f", "fanout")]
    edits, versions = edits_of(Topology(exchanges, [Queue("q0")]), Random(seed))
    messages = [Message(("t", "d", "f", "")[at % 4], key) for at, key in enumerate(KEYS)]
    expected = []
    for version in versions:
        fresh = Router(version, cache=0)
        expected.append([fresh.route(message) for message in messages])
    router = Router(versions[0], cache=8)
    agree(
        lambda key: router.route(Message(messages[key].exchange, KEYS[key])),
        expected,
        lambda number: getattr(router, edits[number][0])(edits[number][1]),
    )
    assert router.topology == versions[-1]


def test_a_match_is_that_before_or_after_an_edit() -> None:
    """Values of patterns with and without wildcards; the answer of each key by each pattern alone."""
    rng = Random(3)
    patterns = [Pattern(text) for text in ("a.*", "#", "*.b.#", "a.b", "a", "#.c", "*.*", "a.#.c", "x9.b")]
    bound: set[Pattern] = set()
    toggled = rng.choices(patterns, k=EDITS)
    expected = [[frozenset[str]() for _ in KEYS]]
    for pattern in toggled:
        bound ^= {pattern}
        expected.append([frozenset(each.text for each in bound if each.matches(key)) for key in KEYS])
    matcher: Matcher[str] = Matcher(cache=8)

    def toggle(number: int) -> None:
        pattern = toggled[number]
        if not matcher.bind(pattern, pattern.text):
            matcher.unbind(pattern, pattern.text)

    agree(lambda key: frozenset(matcher.match(KEYS[key])), expected, toggle)


def test_the_handlers_of_a_message_are_those_before_or_after_an_edit() -> None:
    """In the order of their registration, too."""
    rng = Random(4)
    handlers = {text: (lambda _, text=text: None) for text in ("a.*", "#", "*.b.#", "a.b", "#.c")}
    toggled = rng.choices(list(handlers), k=EDITS)
    registered: list[str] = []
    expected: list[list[list[object]]] = [[[] for _ in KEYS]]
    for text in toggled:
        if text in registered:
            registered.remove(text)
        else:
            registered.append(text)
        expected.append([[handlers[t] for t in registered if Pattern(t).matches(key)] for key in KEYS])
    dispatcher: Dispatcher[Message] = Dispatcher(cache=8)

    def toggle(number: int) -> None:
        text = toggled[number]
        if not dispatcher.add(text, handlers[text]):
            dispatcher.remove(text, handlers[text])

    agree(lambda key: list(dispatcher.handlers(KEYS[key])), expected, toggle)


def test_a_thread_that_ends_takes_its_cache_along() -> None:
    """Threads may come and go for ever: what they remembered is freed."""
    router = Router(Topology([Exchange("t", "topic")], [Queue("q")], [Binding.to_queue("t", "q", "#")]))
    done = Barrier(4)

    def work() -> None:
        for number in range(10):
            assert router.route(Message("t", f"{number}")).queues == ("q",)
        done.wait()  # all are there at once
        done.wait()

    started = [Thread(target=work) for _ in range(3)]
    for thread in started:
        thread.start()
    done.wait()
    assert len(router._remembered.all()) == (4 if threads.FREE_THREADED else 1)
    router.unbind(Binding.to_queue("t", "q", "#"))
    assert not any(each.by_exchange for each in router._remembered.all())
    done.wait()
    for thread in started:
        thread.join()
    del thread, started
    gc.collect()
    assert len(router._remembered.all()) == 1


@pytest.mark.skipif(getattr(sys, "_is_gil_enabled", lambda: True)(), reason="this Python has a global interpreter lock")
def test_nothing_that_the_engine_imports_brings_the_lock_back() -> None:
    """A module of C that is not made for free threading would: then all threads of the process take turns again."""
    for name in (
        "exchange.lifecycle.possible",
        "exchange.selector",
        "exchange.partition.partitioning.strategies",
        "bindings",
    ):
        import_module(name)
    assert not sys._is_gil_enabled()  # type: ignore[attr-defined]
