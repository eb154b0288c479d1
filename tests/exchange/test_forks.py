"""A process that forks while its threads route, match and edit has a child that can."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from exchange import Binding, Dispatcher, Exchange, Matcher, Message, Pattern, Queue, Router, Topology
from tests.support.tiers import scale

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    # Forking a process with threads is what is tested.
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning"),
]

CHILDREN = scale(40)
SECONDS = 20.0


@contextmanager
def busy(*work: Callable[[int], object]) -> Iterator[None]:
    """Run each of these in a thread without end, so that locks are held while the process forks."""
    stop = Event()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)

    def run(each: Callable[[int], object]) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            each(number)

    threads = [Thread(target=run, args=(each,)) for each in work]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)


def answers_in_a_child(question: Callable[[], bool]) -> bool:
    """Return whether a forked child answers yes; it is killed if it does not answer in time."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, b"y" if question() else b"n")
        finally:
            os._exit(0)
    os.close(writing)
    try:
        answered, _, _ = select.select([reading], [], [], SECONDS)
        if not answered:
            os.kill(child, signal.SIGKILL)
        return bool(answered) and os.read(reading, 1) == b"y"
    finally:
        os.close(reading)
        os.waitpid(child, 0)


def test_a_child_forked_while_threads_route_and_edit_can_route() -> None:
    """No lock is held for ever there, and the route is one that the topology allows."""
    topology = Topology().declare_exchange(Exchange("t", "topic")).declare_queue(Queue("q")).declare_queue(Queue("r"))
    router = Router(topology.bind(Binding.to_queue("t", "q", "a.#")), cache=0)
    flicker = Binding.to_queue("t", "r", "a.*")

    def edit(number: int) -> None:
        (router.bind if number % 2 else router.unbind)(flicker)

    def ask() -> bool:
        bound = flicker in router.topology.bindings
        return router.route(Message("t", "a.b")).queues == (("q", "r") if bound else ("q",))

    def route(number: int) -> None:
        router.route(Message("t", f"a.{number}"))

    with busy(route, route, edit):
        assert all(answers_in_a_child(ask) for _ in range(CHILDREN))


def test_a_child_forked_while_threads_match_and_dispatch_can_match() -> None:
    """Likewise for matchers and dispatchers of one's own."""
    matcher: Matcher[str] = Matcher(cache=0)
    matcher.bind(Pattern("a.*.#"), "v")
    dispatcher: Dispatcher[Message] = Dispatcher(cache=0)
    dispatcher.add("a.#", lambda _: None)

    def add(number: int) -> None:
        dispatcher.add(f"b.{number % 7}.*", print)
        dispatcher.remove(f"b.{number % 7}.*", print)

    def ask() -> bool:
        return matcher.match("a.b") == ("v",) and dispatcher.dispatch(Message("", "a.b")) == 1

    with busy(lambda number: matcher.match(f"a.{number}"), lambda n: dispatcher.handlers(f"a.{n}"), add):
        assert all(answers_in_a_child(ask) for _ in range(CHILDREN))


def test_a_process_forks_while_threads_make_and_drop_matchers() -> None:
    """A lock that is made during a fork is free in the child, and one that is dropped is no error."""

    def ask() -> bool:
        matcher: Matcher[str] = Matcher()
        matcher.bind(Pattern("a.*"), "v")
        return matcher.match("a.b") == ("v",)

    with busy(lambda _: Matcher(), lambda _: Dispatcher()):
        assert all(answers_in_a_child(ask) for _ in range(CHILDREN))


def test_choose_may_call_the_router_that_calls_it() -> None:
    """The function that chooses for random exchanges can route, and can fork."""
    topology = (
        Topology().declare_exchange(Exchange("r", "x-random")).declare_queue(Queue("a")).declare_queue(Queue("b"))
    )
    topology = topology.bind(Binding.to_queue("r", "a")).bind(Binding.to_queue("r", "b"))

    def choose(n: int) -> int:
        assert router.route(Message("", "a")).queues == ("a",)
        assert answers_in_a_child(lambda: router.route(Message("", "b")).queues == ("b",))
        return 1

    router = Router(topology, choose=choose)
    assert router.route(Message("r", "k")).queues == ("b",)
