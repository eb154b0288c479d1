"""Threads that share a matcher, a router or a dispatcher: how much more two of them do than one.

Made for a free-threaded CPython, on which threads run at the same time: ``python3.14t -m benchmarks.threads``. Each
thread has keys and messages of its own, as a consumer has, and meets the same routes as the other one. The ratio is the
time of one thread for its work, times two, divided by the time in which two threads have both done theirs: 2 at best.
The floor is the same work on a dict of each thread's own, so it shows what the machine allows; the other floor is one
dict that both threads read, as any cache that threads share.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any, Final

from benchmarks.workloads import EXCHANGE, dense_1k
from exchange import Binding, Dispatcher, Exchange, Matcher, Message, Pattern, Queue, Router, Topology

Work = Callable[[Any], object]
Make = Callable[[list[str]], tuple[Work, Sequence[Any]]]
"""Function from a thread's keys to its work: a call, and the arguments of all calls."""

THREADS: Final = 2


@dataclass
class _Row:
    name: str
    make: Make
    alone: list[float] = field(default_factory=list)
    together: list[float] = field(default_factory=list)


def threads(quick: bool) -> None:
    """Recurring keys, by one thread and by two."""
    topics = dense_1k(2_000)
    calls = 20_000 if quick else 200_000
    print(f"\nthreads: {topics.about}; {len(topics.keys):,} keys that recur, one thread and {THREADS}")
    if getattr(sys, "_is_gil_enabled", lambda: True)():
        print("  not measured: this Python has a global interpreter lock, with which threads take turns")
        return
    rows = [_Row(name, make) for name, make in _contestants(topics.patterns, topics.keys)]
    repeat = calls // len(topics.keys)
    for _ in range(3 if quick else 15):
        for row in rows:
            row.alone.append(_time_threads(row.make, topics.keys, 1, repeat))
            row.together.append(_time_threads(row.make, topics.keys, THREADS, repeat))
    print(f"  {'':<34}{'us, one':>11}{f'us, {THREADS}':>11}{f'{THREADS} do x':>11}{'best':>11}")
    per_call = 1e6 / (repeat * len(topics.keys))
    for row in rows:
        ratios = [THREADS * alone / both for alone, both in zip(row.alone, row.together, strict=True)]
        costs = f"{median(row.alone) * per_call:>11.3f}{median(row.together) * per_call:>11.3f}"
        print(f"  {row.name:<34}{costs}{median(ratios):>11.2f}{max(ratios):>11.2f}")


def _contestants(patterns: Sequence[str], keys: Sequence[str]) -> list[tuple[str, Make]]:
    shared = dict.fromkeys(keys, ())
    matcher: Matcher[str] = Matcher()
    dispatcher: Dispatcher[Message] = Dispatcher(matching="first")
    for pattern in [*patterns, "#"]:
        matcher.bind(Pattern.of_binding_key(pattern), pattern)
    for pattern in [*patterns[:100], "#"]:
        dispatcher.add(pattern, lambda _: None)
    bindings = [Binding.to_queue(EXCHANGE, "0", pattern) for pattern in patterns]
    router = Router(Topology([Exchange(EXCHANGE, "topic")], [Queue("0")], bindings))
    return [
        ("floor: a dict of each thread", lambda own: (dict.fromkeys(own, ()).__getitem__, own)),
        ("floor: one dict, one of its values", lambda own: (shared.__getitem__, own)),
        ("Matcher.match", lambda own: (matcher.match, own)),
        ("Router.route", lambda own: (router.route, _messages(own))),
        ("Dispatcher.dispatch", lambda own: (dispatcher.dispatch, _messages(own))),
    ]


def _messages(keys: Sequence[str]) -> list[Message]:
    return [Message(EXCHANGE, key) for key in keys]


def _time_threads(make: Make, keys: Sequence[str], count: int, repeat: int) -> float:
    """Return the seconds until all threads have made their calls; what they share is warm, and is not timed."""
    barrier = threading.Barrier(count)
    spans: list[tuple[float, float]] = []

    def run() -> None:
        own = [key[:1] + key[1:] for key in keys]  # equal to those of the other thread, but objects of its own
        call, arguments = make(own)
        deque(map(call, arguments), maxlen=0)
        barrier.wait()
        start = perf_counter()
        for _ in range(repeat):
            deque(map(call, arguments), maxlen=0)
        spans.append((start, perf_counter()))

    started = [threading.Thread(target=run) for _ in range(count)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return max(end for _, end in spans) - min(start for start, _ in spans)


if __name__ == "__main__":
    threads(quick="--quick" in sys.argv)
