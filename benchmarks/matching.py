"""What one key costs: the matcher and the router with and without their caches, a dict, kombu and RabbitMQ.

The floor is a dict from key to result, asked through its bound ``__getitem__``: no matcher that is called from Python
can be faster. ``first-seen`` means that the caches know none of the keys; they are made to forget by a bind and an
unbind, so that the indexes stay as they are. ``seen`` means that they know all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from kombu.transport.virtual.exchange import TopicExchange

from benchmarks import broker
from benchmarks.measure import Contestant, in_child, microseconds_per, resident_mb, run_rounds, show
from benchmarks.nats import time_gsl
from benchmarks.workloads import EXCHANGE, Topics, dense_1k, device_keys, device_patterns, sparse_100k
from exchange import Binding, Exchange, Matcher, Message, Pattern, Queue, Router, Topology

CHUNK: Final = 50_000
"""Keys that are made ahead of being matched, so that making them is not timed."""


def dense(quick: bool) -> None:
    """Few words, many wildcards."""
    _topics(dense_1k(10_000 if quick else 50_000), rounds=5 if quick else 11, kombu_keys=100, brokers=broker.images())


def sparse(quick: bool) -> None:
    """Many patterns, few of which a key meets."""
    images = [] if quick else broker.images()
    _topics(sparse_100k(10_000 if quick else 50_000), rounds=3 if quick else 7, kombu_keys=5, brokers=images)


def unique(quick: bool) -> None:
    """Keys with an id: none is seen twice, and memory stays as it is."""
    number = 200_000 if quick else 5_000_000
    print(f"\nunique-ids: {len(device_patterns())} patterns, {number:,} keys with an id, each once")
    print(f"  {'':<34}{'us':>11}{'x floor':>11}{'RSS +MB':>11}")
    floor = None
    for name in UNIQUE:
        cost, growth = in_child(unique_ids, name, number)
        floor = floor or cost
        print(f"  {name:<34}{cost:>11.3f}{cost / floor:>11.1f}{growth:>11.1f}")
    print("  The floor looks up the same keys in a dict of as many others; RSS is counted from 100,000 keys on.")


def _topics(topics: Topics, rounds: int, kombu_keys: int, brokers: Sequence[str]) -> None:
    keys = topics.keys
    cached, uncached = _matcher(topics.patterns), _matcher(topics.patterns, cache=0)
    router = _router(topics.patterns)
    messages = [Message(EXCHANGE, key) for key in keys]
    few = keys[:kombu_keys]
    kombu, wrong = _kombu(topics.patterns, few, uncached)
    floor = dict.fromkeys(keys, ())
    rows = [
        Contestant("dict.__getitem__", lambda: microseconds_per(floor.__getitem__, keys), "floor"),
        Contestant("Matcher, first-seen keys", lambda: _match_first(cached, keys)),
        Contestant("Matcher(cache=0)", lambda: microseconds_per(uncached.match, keys)),
        Contestant("Matcher, seen keys", lambda: _match_seen(cached.match, keys)),
        Contestant("Router.route, first-seen keys", lambda: _route_first(router, messages)),
        Contestant("Router.route, seen keys", lambda: _match_seen(router.route, messages)),
        Contestant("kombu", lambda: microseconds_per(kombu, few), "peer", f"wrong on {wrong} of {kombu_keys} keys"),
    ]
    peers = [*_brokers(topics, brokers), time_gsl(topics.patterns, keys, rounds)]
    show(topics.name, topics.about, [*run_rounds(rows, rounds), *peers])


def _matcher(patterns: Sequence[str], **options: Any) -> Matcher[str]:
    matcher: Matcher[str] = Matcher(**options)
    for pattern in patterns:
        matcher.bind(Pattern.of_binding_key(pattern), pattern)
    return matcher


def _router(patterns: Sequence[str]) -> Router:
    queues = [Queue("0")]
    bindings = [Binding.to_queue(EXCHANGE, "0", pattern) for pattern in patterns]
    return Router(Topology([Exchange(EXCHANGE, "topic")], queues, bindings))


NOWHERE: Final = "no.*.such.key"


def _match_first(matcher: Matcher[str], keys: Sequence[str]) -> float:
    pattern = Pattern.of_binding_key(NOWHERE)
    matcher.bind(pattern, "")
    matcher.unbind(pattern, "")
    return microseconds_per(matcher.match, keys)


def _route_first(router: Router, messages: Sequence[Message]) -> float:
    binding = Binding.to_queue(EXCHANGE, "0", NOWHERE)
    router.bind(binding)
    router.unbind(binding)
    return microseconds_per(router.route, messages)


def _match_seen(call: Callable[[Any], object], arguments: Sequence[Any]) -> float:
    microseconds_per(call, arguments)
    return microseconds_per(call, arguments)


def _kombu(patterns: Sequence[str], keys: Sequence[str], ours: Matcher[str]) -> tuple[Callable[[str], set[str]], int]:
    """Return kombu's lookup among these patterns, and the number of keys for which it is wrong."""
    topic: Any = TopicExchange(channel=None)
    table = [topic.prepare_bind(pattern, EXCHANGE, pattern, {}) for pattern in patterns]

    def lookup(key: str) -> set[str]:
        return set(topic.lookup(table, EXCHANGE, key, None))

    return lookup, sum(lookup(key) != set(ours.match(key)) for key in keys)


def _brokers(topics: Topics, images: Sequence[str]) -> Iterator[Contestant]:
    if not images:
        yield Contestant("RabbitMQ", None, "peer", f"not asked for: {broker.VARIABLE} names no image, or --quick")
    for image in images:
        timing = broker.time_inside(image, topics)
        ours: Matcher[int] = Matcher()
        for pattern, queue in broker.find_bound(topics.patterns).items():
            ours.bind(Pattern.of_binding_key(pattern), queue)
        differ = sum(set(ours.match(key)) != queues for key, queues in zip(topics.keys, timing.queues, strict=False))
        note = f"differs from ours on {differ} of {len(timing.queues)} keys"
        yield Contestant(f"RabbitMQ {timing.version}", None, "peer", note, timing.rounds)


UNIQUE: Final = ("dict.__getitem__", "Matcher", "Matcher(cache=0)", "Router.route")


def unique_ids(name: str, number: int) -> tuple[float, float]:
    """Microseconds a key, and how many MB the process grew after the first 100,000."""
    patterns = device_patterns()
    if name == "dict.__getitem__":
        call: Callable[[Any], object] = dict.fromkeys(islice(device_keys(), CHUNK), ()).get
    elif name == "Router.route":
        call = _router(patterns).route
    else:
        call = _matcher(patterns, **({"cache": 0} if "0" in name else {})).match
    keys = device_keys()
    spent, before = 0.0, 0.0
    for done in range(0, number, CHUNK):
        chunk: list[Any] = list(islice(keys, CHUNK))
        if name == "Router.route":
            chunk = [Message(EXCHANGE, key) for key in chunk]
        spent += microseconds_per(call, chunk) * len(chunk)
        if done == CHUNK:
            before = resident_mb()
    return spent / number, resident_mb() - before
