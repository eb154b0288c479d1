"""Generate an archive of messages: the same seed gives the same bytes.

There are two sources of messages: a company with orders, devices and deploys, which fits definitions.json and makes the
usual mistakes; and, for your own definitions, messages made from their bindings. Either is a pool of possible messages
with weights, a few of them common and most of them rare, from which the messages of each hour of a month are drawn.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import accumulate, groupby
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from exchange import Binding, InputError, Topology
from exchange.values.field_json import encode

VERSION: Final = 2
"""Version of the messages, a part of an archive's name: increase it when this module writes other messages."""

START: Final = 1_767_225_600
"""2026-01-01 00:00:00 UTC, as a Unix time."""
DAY: Final = 86_400
DAYS: Final = 30
HOURLY: Final = (2, 1, 1, 1, 1, 2, 3, 5, 8, 10, 11, 11, 10, 10, 11, 11, 10, 9, 8, 8, 7, 6, 4, 3)
"""Relative number of messages in each hour of a day."""


class Candidate(NamedTuple):
    """A message that may be drawn, with its weight relative to the others."""

    weight: float
    exchange: str
    routing_key: str
    headers: dict[str, Any]


def write_archive(
    path: Path, pool: Sequence[Candidate], messages: int, seed: int, step: Callable[[int, int], object]
) -> None:
    """Draw messages from the pool, in the order of their timestamps, and write a gzipped file of JSON lines a day.

    ``step`` is called with the number of messages written, and the total. The folder appears when it is complete.
    """
    heads = [_head(candidate) for candidate in pool]
    cumulated = list(accumulate(candidate.weight for candidate in pool))
    rng = Random(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as partial:
        complete = Path(partial) / path.name
        complete.mkdir()
        for day, hours in groupby(_hours(messages), lambda hour: (hour[0] - START) // DAY):
            name = datetime.fromtimestamp(START + day * DAY, UTC).strftime("%Y-%m-%d.jsonl.gz")
            # No name and no time in the gzip header, so that equal messages give equal bytes.
            with (complete / name).open("wb") as raw, gzip.GzipFile("", "wb", 1, raw, mtime=0) as file:
                for second, count in hours:
                    drawn = rng.choices(heads, cum_weights=cumulated, k=count)
                    lines = [f"{head}{second + 3600 * i // count}}}\n" for i, head in enumerate(drawn)]
                    file.write("".join(lines).encode())
                    written += count
                    step(written, messages)
        complete.rename(path)


def _head(candidate: Candidate) -> str:
    """Return the line of a message up to its timestamp, which comes last."""
    record: dict[str, Any] = {"exchange": candidate.exchange, "routing_key": candidate.routing_key}
    if candidate.headers:
        record["headers"] = candidate.headers
    return json.dumps(record, ensure_ascii=False)[:-1] + ', "timestamp": '


def _hours(messages: int) -> Iterator[tuple[int, int]]:
    """Yield the first second of each hour and the number of messages sent in it, if there are any."""
    total, passed, sent = sum(HOURLY) * DAYS, 0, 0
    for hour in range(24 * DAYS):
        passed += HOURLY[hour % 24]
        count = messages * passed // total - sent
        if count:
            yield START + 3600 * hour, count
        sent += count


def _zipf(count: int, exponent: float = 1.0) -> list[float]:
    """Return shares, 1 in total, of things of which the first is the most common."""
    weights = [1 / rank**exponent for rank in range(1, count + 1)]
    total = sum(weights)
    return [weight / total for weight in weights]


# The company.

REGIONS: Final = ("eu", "us", "uk", "jp", "br", "in", "au", "za")
EVENTS: Final = (
    ("created", 20), ("paid", 18), ("packed", 16), ("shipped", 16), ("delivered", 15), ("cancelled", 2),
    ("returned", 1), ("refunded", 1),
)  # fmt: skip
READINGS: Final = (
    ("temperature", 50), ("humidity", 25), ("status", 15), ("battery", 5), ("alarm.smoke", 0.1), ("alarm.leak", 0.4),
)  # fmt: skip
DEVICES: Final = 5_000
SERVICES: Final = (
    "web", "api", "search", "cart", "checkout", "payments", "mail", "login", "images", "stock", "prices", "reports",
    "gateway", "ledger", "labels", "returns", "reviews", "coupons", "devices", "alerts",
)  # fmt: skip
ENVIRONMENTS: Final = (("dev", 6), ("staging", 3), ("prod", 1))
STATUSES: Final = (("started", 100), ("succeeded", 92), ("failed", 7), ("rolled-back", 1))
SEVERITIES: Final = (("info", 90), ("warning", 9), ("critical", 1))


def company() -> list[Candidate]:
    """Return the messages that the company of definitions.json may send, most of which its bindings expect."""
    return [*_orders(), *_devices(), *_deploys(), *_jobs(), *_audit(), *_mistakes()]


def _orders() -> Iterator[Candidate]:
    rng = Random("orders")
    for region, share in zip(REGIONS, _zipf(len(REGIONS)), strict=True):
        for event, frequency in EVENTS:
            for _ in range(12):
                amount = round(rng.lognormvariate(4, 1.2), 2)
                priority = "high" if amount > 250 else "low" if amount < 20 else "normal"
                headers = {"region": region, "amount": amount, "priority": priority}
                yield Candidate(45 * share * frequency / 89 / 12, "orders", f"order.{region}.{event}", headers)


def _devices() -> Iterator[Candidate]:
    """Yield the readings of devices, as the MQTT plugin publishes the topics device/<id>/<reading>."""
    rng = Random("devices")
    ids = [f"{number:06x}" for number in rng.sample(range(16**6), DEVICES)]
    for device, share in zip(ids, _zipf(DEVICES, 0.7), strict=True):
        for reading, frequency in READINGS:
            yield Candidate(39 * share * frequency / 95.5, "amq.topic", f"device.{device}.{reading}", {})


def _deploys() -> Iterator[Candidate]:
    for service, share in zip(SERVICES, _zipf(len(SERVICES)), strict=True):
        for environment, often in ENVIRONMENTS:
            for status, frequency in STATUSES:
                weight = 6 * share * often / 10 * frequency / 200
                for by, part in (("pipeline", 0.95), ("person", 0.05)):
                    headers = {"env": environment, "by": by}
                    yield Candidate(weight * part, "deploys", f"deploy.{service}.{environment}.{status}", headers)


def _jobs() -> Iterator[Candidate]:
    yield Candidate(3, "jobs", "email", {})
    yield Candidate(1.5, "jobs", "thumbnail", {})
    yield Candidate(0.8, "jobs", "pdf", {})
    yield Candidate(0.4, "jobs", "pdf", {"CC": ["email"]})  # the same message is sent by mail, too
    yield Candidate(1, "", "replies", {})


def _audit() -> Iterator[Candidate]:
    for action, often in (("login", 6), ("logout", 3), ("password", 1)):
        for region, share in zip(REGIONS, _zipf(len(REGIONS)), strict=True):
            for severity, frequency in SEVERITIES:
                headers = {"action": action, "region": region, "severity": severity}
                yield Candidate(2 * often / 10 * share * frequency / 100, "audit", f"user.{action}", headers)


def _mistakes() -> Iterator[Candidate]:
    """Yield messages with mistakes, which their senders expect to arrive."""
    for region, share in zip(REGIONS, _zipf(len(REGIONS)), strict=True):
        for event, frequency in EVENTS:
            part = share * frequency / 89
            yield Candidate(0.6 * part, "orders", f"Order.{region}.{event}", {"region": region})
            yield Candidate(0.1 * part, "orders", f"orders.{region}.{event}", {"region": region})
    for event, frequency in EVENTS:
        yield Candidate(0.3 * frequency / 89, "orders", f"order.{event}", {})
    rng = Random("mistakes")
    for share in _zipf(200):
        device = f"{rng.randrange(16**6):06x}"
        yield Candidate(0.4 * share, "amq.topic", f"device.{device}.temperature.celsius", {})
        yield Candidate(0.2 * share, "amq.topic", f"device.{device[:3]}.{device[3:]}.humidity", {})
        yield Candidate(0.1 * share, "amq.topic", f"devices/{device}/status", {})
    yield Candidate(0.3, "jobs", "thumbnails", {})
    yield Candidate(0.05, "", "reply", {})


# Any other topology.

MAX_BINDINGS: Final = 2_000
"""Maximum number of bindings of a topology that get messages; drawn at random if there are more."""
NAMES: Final = ("north", "south", "a7", "b12", "42", "2026", "blue", "x1")


def build_pool(topology: Topology, seed: int) -> list[Candidate]:
    """Build messages for the bindings of a topology, a few of them with a mistake in the key or a header.

    Raises InputError if it has neither bindings nor queues.
    """
    rng = Random(seed)
    usable = [
        b for b in topology.bindings if b.source in topology.exchanges and not topology.exchanges[b.source].internal
    ]
    queues = sorted(topology.queues)
    if not usable and not queues:
        raise InputError("there are neither bindings nor queues to make messages for")
    bindings = rng.sample(usable, min(MAX_BINDINGS, len(usable)))
    pool: list[Candidate] = []
    for binding, share in zip(bindings, _zipf(len(bindings)), strict=True):
        for part in _zipf(20):
            pool.append(_make_matching(binding, 95 * share * part, rng))
            pool.append(_make_failing(binding, 5 * share * part, rng))
    names = rng.sample(queues, min(MAX_BINDINGS, len(queues)))
    pool += [Candidate(2 * share, "", name, {}) for name, share in zip(names, _zipf(len(names)), strict=True)]
    return pool


def _make_matching(binding: Binding, weight: float, rng: Random) -> Candidate:
    words: list[str] = []
    for word in binding.routing_key.split("."):
        words += rng.choices(NAMES, k=rng.choice((0, 1, 1, 2)) if word == "#" else 1) if word in ("*", "#") else [word]
    headers = {
        name: encode("any" if value is None else value)
        for name, value in binding.arguments.items()
        if not name.startswith("x-") and name not in ("CC", "BCC")  # these have to be lists of keys
    }
    return Candidate(weight, binding.source, ".".join(words), headers)


def _make_failing(binding: Binding, weight: float, rng: Random) -> Candidate:
    matching = _make_matching(binding, weight, rng)
    if matching.headers:
        name = rng.choice(sorted(matching.headers))
        return matching._replace(headers={**matching.headers, name: "something else"})
    words = matching.routing_key.split(".")
    index = rng.randrange(len(words))
    mistakes = (
        [*words[:index], words[index].capitalize(), *words[index + 1 :]],
        [*words[:index], *words[index + 1 :]],
        [*words, rng.choice(NAMES)],
    )
    return matching._replace(routing_key=".".join(rng.choice(mistakes)))
