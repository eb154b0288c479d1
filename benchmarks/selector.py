"""What it costs to ask a SQL92 filter about a message: ours, Python written by hand, and RocketMQ's own evaluator.

The floor says the same of the same properties in an expression of Python, which neither knows what is unknown nor what
fails. The peer is `rocketmq-filter` on this machine's Java, warmed up, where Maven and Java are there: the classes that
a broker filters with.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from benchmarks.measure import Contestant, microseconds_per, run_rounds, show
from benchmarks.workloads import SEED
from exchange.selector import Selector
from exchange.selector.meaning import evaluate
from tests.recorders.jvm import ask, find_classpath

MESSAGES: Final = 20_000
VERSION: Final = "5.5.0"

FILTERS: Final[Mapping[str, tuple[str, Callable[[dict[str, str]], bool]]]] = {
    "two comparisons": ("region = 'eu' AND price > 10", lambda p: p.get("region") == "eu" and int(p["price"]) > 10),
    "five comparisons": (
        "(region IN ('eu', 'us') OR vip = TRUE) AND price BETWEEN 10 AND 500 AND NOT (kind CONTAINS 'test')",
        lambda p: (
            (p.get("region") in ("eu", "us") or p.get("vip") == "true")
            and 10 <= int(p["price"]) <= 500
            and "test" not in p["kind"]
        ),
    ),
}
"""Name -> the filter, and the same in Python."""


def selector(quick: bool) -> None:
    """Measure filters of two sizes, each over messages of which some match."""
    rounds = 5 if quick else 9
    messages = _messages(random.Random(SEED))
    for name, (text, by_hand) in FILTERS.items():
        ours = Selector.parse(text)
        matching = sum(map(ours, messages))
        assert matching == sum(map(by_hand, messages))
        rows = [
            Contestant("Python by hand", _ask(by_hand, messages), "floor"),
            Contestant("Selector", _ask(ours, messages)),
            Contestant("the definition", _ask(_define(ours), messages), "peer"),
            _java(text, messages, rounds, matching),
        ]
        about = f"{len(messages):,} messages, {matching / len(messages):.0%} match"
        show(f"selector, {name}", about, run_rounds(rows, rounds))
        print("  million evaluations/s: " + ", ".join(f"{row.name} {1 / row.cost:.2f}" for row in rows if row.cost))
    parse = Contestant("Selector.parse", lambda: microseconds_per(Selector.parse, [text] * 200))
    show("selector, parsing", f"{len(text)} characters", run_rounds([parse], rounds))


def _messages(chance: random.Random) -> list[dict[str, str]]:
    made = []
    for number in range(MESSAGES):
        properties = {
            "UNIQ_KEY": f"{chance.getrandbits(128):032X}", "KEYS": f"order-{number}", "kind": chance.choice(KINDS),
            "region": chance.choice(("eu", "us", "apac")), "price": str(chance.randrange(1000)),
        }  # fmt: skip
        if number % 5 == 0:
            properties["vip"] = "true"
        made.append(properties)
    return made


KINDS: Final = ("order", "invoice", "test-order")


def _ask(question: Callable[[dict[str, str]], object], messages: Sequence[dict[str, str]]) -> Callable[[], float]:
    return lambda: microseconds_per(question, messages)


def _define(ours: Selector) -> Callable[[dict[str, str]], object]:
    return lambda properties: evaluate(ours.expression, properties)


def _java(text: str, messages: list[dict[str, str]], rounds: int, matching: int) -> Contestant:
    """Java measures all its rounds at once: a JVM that starts for each would not be warm."""
    name = f"rocketmq-filter {VERSION}"
    if shutil.which("mvn") is None or shutil.which("java") is None:
        return Contestant(name, None, "peer", "needs Maven and Java")
    try:
        question = {"expression": text, "properties": messages, "rounds": rounds}
        answer: dict[str, Any] = ask(Path(__file__).parent / "SelectorSpeed.java", _jars(), question)
    except (OSError, subprocess.SubprocessError, json.JSONDecodeError) as error:
        return Contestant(name, None, "peer", f"cannot be asked: {type(error).__name__}")
    assert answer["matching"] == matching
    costs = iter([nanoseconds / len(messages) / 1000 for nanoseconds in answer["nanoseconds"]])
    return Contestant(name, lambda: next(costs), "peer", "the processor's time of its thread")


@cache
def _jars() -> str:
    return find_classpath(f"org.apache.rocketmq:rocketmq-filter:{VERSION}")
