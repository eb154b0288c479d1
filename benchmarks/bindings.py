"""What bindings cost: to load a million of each kind, to bind and unbind one among them, to search 10,000 by headers.

Memory is that of a process of its own: what the process grew by until all bindings were loaded, the bindings
themselves included, since who loads them keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from benchmarks.measure import Contestant, in_child, microseconds_per, resident_mb, run_rounds, show, time_call
from benchmarks.workloads import EXCHANGE, SEED, headers_bindings, headers_messages, million_keys
from exchange import Binding, Exchange, Matcher, Message, Pattern, Queue, Router, Topology
from exchange.kinds.headers import match_mode

SAMPLE: Final = 10_000


class Load(NamedTuple):
    """The cost of loading, and of one more binding and unbinding in microseconds, without and with a ``*``."""

    name: str
    seconds: float
    megabytes: float
    bind: float
    unbind: float
    bind_wild: float
    unbind_wild: float


def million(quick: bool) -> None:
    """Measure a million literal bindings over ten queues."""
    number = 100_000 if quick else 1_000_000
    print(f"\nmillion: {number:,} bindings test.qN.M over ten queues")
    print(f"  {'':<12}{'load s':>10}{'RSS +MB':>10}{'bind':>10}{'unbind':>11}{'bind *':>11}{'unbind *':>13}")
    for load in (in_child(load_dict, number), in_child(load_matcher, number), in_child(load_router, number)):
        figures = f"{load.seconds:>10.1f}{load.megabytes:>10.0f}{load.bind:>10.2f}{load.unbind:>11.2f}"
        print(f"  {load.name:<12}{figures}{load.bind_wild:>11.2f}{load.unbind_wild:>13.2f}")
    print("  bind and unbind in us; with a *, of patterns with one. The floor is a dict from key to a set of queues.")


WILD: Final[dict[str, Callable[[int], str]]] = {
    "test.qN.M, no wildcards": lambda number: f"test.q{number % 10}.{number // 10}",
    "a.N.*.bM": lambda number: f"a.{number // 1000}.*.b{number % 1000}",
    "aN.bM.#": lambda number: f"a{number // 1000}.b{number % 1000}.#",
    "#.aN.bM": lambda number: f"#.a{number // 1000}.b{number % 1000}",
    "#.aN.bM.#": lambda number: f"#.a{number // 1000}.b{number % 1000}.#",
    "four words, 30 % wild": lambda number: _mixed(number, 4, 4),
    "two to six words, 30 % wild": lambda number: _mixed(number, 2, 6),
}
"""Name of a kind of bindings -> the key of each; in the last two rows a word is a ``*`` (20 %), a ``#`` (10 %), or one
of a thousand."""


def _mixed(number: int, least: int, most: int) -> str:
    chance = Random(SEED + number)
    words = chance.choices(("*", "#", ""), (20, 10, 70), k=chance.randint(least, most))
    return ".".join([word or f"w{chance.randrange(1000)}" for word in words])


class WildLoad(NamedTuple):
    """The cost of loading a kind of bindings, up to the router, and of the first routes."""

    seconds: float
    megabytes: float
    first: float
    first_of_others: float
    each: float
    megabytes_after: float


def million_wild(quick: bool) -> None:
    """Measure a million bindings with wildcards of several kinds, over ten queues and over a thousand."""
    number = 100_000 if quick else 1_000_000
    print(f"\nmillion-wild: {number:,} bindings of one topic exchange, up to a router that is ready")
    head = f"{'load s':>9}{'RSS +MB':>9}{'first s':>9}{'others s':>10}{'then us':>9}{'RSS +MB':>9}"
    print(f"  {'':<36}{head}")
    for name in WILD:
        for queues in (10, 1_000):
            load = in_child(load_wild, name, number, queues)
            figures = f"{load.seconds:>9.1f}{load.megabytes:>9.0f}{load.first:>9.2f}{load.first_of_others:>10.2f}"
            figures += f"{load.each:>9.1f}{load.megabytes_after:>9.0f}"
            print(f"  {f'{name}; {queues:,} queues':<36}{figures}")
    print("  first: the first route; others: the longest first route of another number of words, up to nine.")


def load_wild(name: str, number: int, queues: int) -> WildLoad:
    """Load bindings of a kind into a router, and route keys that it has not seen."""
    key_of = WILD[name]
    keys = [key_of(number) for number in range(number)]  # not counted: the keys come from somewhere
    chance = Random(SEED)
    before = resident_mb()

    def load() -> Router:
        names = [f"q{place}" for place in range(queues)]
        bindings = (Binding.to_queue(EXCHANGE, names[at % queues], key) for at, key in enumerate(keys))
        return Router(Topology([Exchange(EXCHANGE, "topic")], map(Queue, names), bindings))

    def key_like(key: str) -> str:
        return key.replace("*", f"w{chance.randrange(1000)}").replace("#", f"w{chance.randrange(1000)}")

    seconds, router = time_call(load)
    loaded = resident_mb() - before
    first, _ = time_call(lambda: router.route(Message(EXCHANGE, key_like(keys[0]))))
    others = []
    for words in range(1, 10):
        key = ".".join(f"w{chance.randrange(1000)}" for _ in range(words))
        others.append(time_call(lambda key=key: router.route(Message(EXCHANGE, key)))[0])  # type: ignore[misc]
    messages = [Message(EXCHANGE, key_like(key)) for key in chance.sample(keys, SAMPLE)]
    for message in messages[SAMPLE // 2 :]:
        router.route(message)
    each = microseconds_per(router.route, messages[: SAMPLE // 2])
    return WildLoad(seconds, loaded, first, max(others), each, resident_mb() - before)


MORE: Final = [f"test.more.{number}" for number in range(SAMPLE)]
MORE_WILD: Final = [f"test.*.more{number}" for number in range(SAMPLE)]


def load_dict(number: int) -> Load:
    """Load the bindings into a dict: the floor of time and memory."""
    before = resident_mb()
    table: dict[str, set[str]] = {}

    def bind(key: str, queue: str = "q0") -> None:
        table.setdefault(key, set()).add(queue)

    def unbind(key: str) -> None:
        table[key].discard("q0")
        if not table[key]:
            del table[key]

    def load() -> None:
        for queue, key in million_keys(number):
            bind(key, queue)

    seconds, _ = time_call(load)
    return Load("dict", seconds, resident_mb() - before, *_changes(bind, unbind, MORE, MORE_WILD))


def load_matcher(number: int) -> Load:
    """Text to matcher: each pattern is made and bound."""
    before = resident_mb()
    matcher: Matcher[str] = Matcher()

    def bind(key: str, queue: str = "q0") -> None:
        matcher.bind(Pattern.of_binding_key(key), queue)

    def unbind(key: str) -> None:
        matcher.unbind(Pattern.of_binding_key(key), "q0")

    def load() -> None:
        for queue, key in million_keys(number):
            bind(key, queue)
        matcher.match("test.q0.1")

    seconds, _ = time_call(load)
    return Load("Matcher", seconds, resident_mb() - before, *_changes(bind, unbind, MORE, MORE_WILD))


def load_router(number: int) -> Load:
    """Text to router: bindings, a topology, a router, and a first route."""
    before = resident_mb()

    def load() -> Router:
        queues = [Queue(f"q{place}") for place in range(10)]
        bindings = (Binding.to_queue(EXCHANGE, queue, key) for queue, key in million_keys(number))
        router = Router(Topology([Exchange(EXCHANGE, "topic")], queues, bindings))
        assert router.route(Message(EXCHANGE, "test.q0.1")).queues == ("q0",)
        return router

    seconds, router = time_call(load)
    more, more_wild = ([Binding.to_queue(EXCHANGE, "q0", key) for key in keys] for keys in (MORE, MORE_WILD))
    return Load("Router", seconds, resident_mb() - before, *_changes(router.bind, router.unbind, more, more_wild))


def _changes(
    bind: Callable[[Any], object], unbind: Callable[[Any], object], literal: Sequence[Any], wild: Sequence[Any]
) -> list[float]:
    """Measure how long it takes to bind and unbind each of these, in microseconds."""
    rows = [
        Contestant("bind", lambda: microseconds_per(bind, literal)),
        Contestant("unbind", lambda: microseconds_per(unbind, literal)),
        Contestant("bind *", lambda: microseconds_per(bind, wild)),
        Contestant("unbind *", lambda: microseconds_per(unbind, wild)),
    ]
    return [row.cost or 0.0 for row in run_rounds(rows, 5)]


def headers(quick: bool) -> None:
    """10,000 bindings by headers; nothing is remembered between routes, since the key does not decide."""
    bindings = headers_bindings(1_000 if quick else 10_000)
    tables = headers_messages(2_000 if quick else 10_000)
    messages = [Message(EXCHANGE, f"key{number}", table) for number, table in enumerate(tables)]
    queues = [Queue(f"q{number}") for number in range(100)]
    router = Router(Topology([Exchange(EXCHANGE, "headers")], queues, bindings))
    floor = dict.fromkeys((message.routing_key for message in messages), ())
    keys = list(floor)
    scanned = messages[:20]
    wrong = sum(router.route(message).queues != _scan(bindings, message) for message in scanned)
    found = sum(len(router.route(message).queues) for message in messages) / len(messages)
    rows = [
        Contestant("dict.__getitem__", lambda: microseconds_per(floor.__getitem__, keys), "floor"),
        Contestant("Router.route", lambda: microseconds_per(router.route, messages), note=f"{found:.1f} queues each"),
        Contestant(
            "scan, as RabbitMQ does",
            lambda: microseconds_per(lambda message: _scan(bindings, message), scanned),
            "peer",
            f"in Python; differs on {wrong} of {len(scanned)}",
        ),
    ]
    about = f"{len(bindings):,} bindings of 2-3 conditions, all, any and with-x; messages with 4 headers"
    show("headers", about, run_rounds(rows, 5 if quick else 9))


def _scan(bindings: Sequence[Binding], message: Message) -> tuple[str, ...]:
    found = set()
    for binding in bindings:
        mode = match_mode(binding)
        wanted = [
            message.headers.get(name) == value
            for name, value in binding.arguments.items()
            if name != "x-match" and (mode.endswith("-with-x") or not name.startswith("x-"))
        ]
        if all(wanted) if mode.startswith("all") else any(wanted):
            found.add(binding.destination.name)
    return tuple(sorted(found))
