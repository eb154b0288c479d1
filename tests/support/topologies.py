"""Random topologies, messages and edits, for property tests and for the comparison with live brokers.

Everything comes from one ``random.Random``, so a seed reproduces a case. Names and keys are drawn from few, odd words:
a small alphabet is what makes patterns meet keys, and the odd ones are where matchers differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any

from exchange import Binding, Destination, Exchange, Message, Policy, Queue, Topology, Typed
from exchange.entities.profile import Profile
from exchange.errors import BrokerError

WORDS = ("a", "b", "ab", "A", "", "*", "#", "a#", "##", "é", "日本", " ", "x-y", "0")
PATTERN_WORDS = (*WORDS, "*", "*", "*", "#", "#", "a", "b")
HEADERS = ("h", "k", "H", "x-h", "é", "CC", "BCC")

FAMILIES: tuple[tuple[Any, ...], ...] = (
    (1, 1.0, True, "1", Typed("byte", 1), Typed("unsignedbyte", 1), Typed("short", 1), Typed("unsignedshort", 1),
     Typed("signedint", 1), Typed("unsignedint", 1), Typed("float", 1.0), Decimal(1), Typed("timestamp", 1)),
    (0, 0.0, -0.0, False, "", b"", Typed("float", -0.0), Decimal(0), [], {}, None),
    (0.1, Typed("float", 0.1), 1.5, Typed("float", 1.5), Decimal("1.5"), Decimal(15), Decimal("0.10")),
    (5, 5000, Typed("timestamp", 5), datetime(1970, 1, 1, 1, 23, 20, tzinfo=UTC), Typed("timestamp", 5000)),
    (-1, Decimal(-1), -1.0, 2**32 - 1),
    ("a", b"a", "true", True, b"\xff", "A"),
    ([1], [Typed("signedint", 1)], [1.0], [True], [0.0], [-0.0], ["a"], [b"a"], [[]], [{}]),
    ({"a": 1}, {"a": Typed("short", 1)}, {"b": 1}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": [-0.0]}),
)  # fmt: skip
"""Field values of all types; those that could be confused stand together."""

WEIGHTS = ("1", "1", "2", "3", "10", "+2", "007", "0", "a")
"""Binding keys of x-consistent-hash, two of which are invalid."""

VALUES = tuple(value for family in FAMILIES for value in family)


@dataclass(frozen=True)
class Kinds:
    """The names and types that a random topology is made of."""

    types: tuple[str, ...] = ("direct", "fanout", "topic", "topic", "headers", "x-random", "x-local-random",
                              "x-recent-history", "x-consistent-hash", "x-modulus-hash")  # fmt: skip
    most_random: int = 2
    """Maximum number of exchanges that choose at random: with more, there are too many possible routes to list."""
    policies: bool = True


def words(rng: Random, pool: tuple[str, ...], most: int = 5) -> str:
    """Make a key or pattern: mostly short, sometimes without any word."""
    return ".".join(rng.choice(pool) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 3, 4, most))))


def topology(rng: Random, profile: Profile, kinds: Kinds | None = None, prefix: str = "") -> Topology:
    """Make a topology that RabbitMQ of this profile accepts, with cycles, alternates and bindings of all kinds."""
    kinds = kinds or Kinds()
    result = Topology(profile=profile)
    types = [kind for kind in kinds.types if profile.local_random or kind != "x-local-random"]
    randoms = 0
    for i in range(rng.randint(2, 7)):
        kind = rng.choice(types)
        randoms += kind.endswith("random")
        if kind.endswith("random") and randoms > kinds.most_random:
            kind = "topic"
        arguments = {}
        if rng.random() < 0.4:
            arguments["alternate-exchange"] = rng.choice((f"{prefix}x{rng.randint(0, 7)}", "amq.fanout", "", "nowhere"))
        if kind == "x-consistent-hash" and rng.random() < 0.7:
            arguments |= rng.choice((
                {"hash-header": rng.choice(HEADERS)},
                {"hash-property": rng.choice(("message_id", "correlation_id", "timestamp"))},
            ))  # fmt: skip
        name = f"{prefix}x{i}"
        result = result.declare_exchange(Exchange(name, kind, internal=rng.random() < 0.1, arguments=arguments))
    for i in range(rng.randint(2, 7)):
        result = result.declare_queue(Queue(f"{prefix}q{i}" if i else f"{prefix}a.b"))
    if kinds.policies and rng.random() < 0.3:
        for i in range(rng.randint(1, 2)):
            result = result.set_policy(policy(rng, prefix, i))
    for _ in range(rng.randint(3, 40)):
        result = edit(rng, result, prefix)
    return result


def policy(rng: Random, prefix: str, number: int) -> Policy:
    """Make a policy for some of the prefix's exchanges, with or without an alternate exchange."""
    definition = {"alternate-exchange": f"{prefix}x{rng.randint(0, 7)}"} if rng.random() < 0.8 else {"expires": 1000}
    apply_to = "exchanges" if "alternate-exchange" in definition else "queues"
    # The default exchange has a policy too, where a pattern matches the empty name.
    pattern = rng.choice(
        (f"^{prefix}x", f"^{prefix}x[0-3]$", f"{prefix}x1", f"{prefix}x1" if prefix else "^(x[4-7])?$")
    )
    return Policy(f"{prefix}p{number}", pattern, definition, apply_to, priority=number)


def edit(rng: Random, old: Topology, prefix: str = "") -> Topology:
    """Add a binding, if RabbitMQ accepts it."""
    try:
        return old.bind(binding(rng, old, prefix))
    except BrokerError:
        return old


def binding(rng: Random, topology: Topology, prefix: str = "") -> Binding:
    """Make a binding within the topology, with the arguments that its source evaluates."""
    sources = [name for name in topology.exchanges if name.startswith(prefix or "x")]
    source = rng.choice([*sources, *sources, "amq.topic"])
    if topology.exchanges[source].type != "headers" and rng.random() < 0.3:
        # Headers have more ways to differ than keys.
        source = rng.choice([name for name in sources if topology.exchanges[name].type == "headers"] or [source])
    if rng.random() < 0.3:
        destination = Destination("exchange", rng.choice(sources))
    else:
        destination = Destination("queue", rng.choice(list(topology.queues)))
    kind = topology.exchanges[source].type
    key = words(rng, PATTERN_WORDS if kind == "topic" else WORDS)
    if kind == "x-local-random":
        key = ""
    if kind == "x-consistent-hash":
        key = rng.choice(WEIGHTS)
    arguments: dict[str, Any] = {}
    if kind == "headers":
        key = rng.choice(("", "a"))
        arguments = headers(rng, 3)
        if rng.random() < 0.8:
            arguments["x-match"] = rng.choice(("all", "any", "all-with-x", "any-with-x"))
    elif rng.random() < 0.1:
        arguments = {"note": rng.choice((1, "1", None))}
    return Binding(source, destination, key)._replace(arguments=Binding.to_queue("", "", "", arguments).arguments)


def headers(rng: Random, most: int) -> dict[str, Any]:
    """Make headers, or arguments of a headers binding."""
    return {name: rng.choice(VALUES) for name in rng.sample(HEADERS, rng.randint(0, most))}


def near(rng: Random, value: Any) -> Any:
    """Return the value itself, or one that could be confused with it."""
    families = [family for family in FAMILIES if any(type(value) is type(v) and value == v for v in family)]
    if rng.random() < 0.5 or not families:
        return value
    return rng.choice(rng.choice(families))


def message(rng: Random, topology: Topology, prefix: str = "") -> Message:
    """Make a message to an exchange that can be published to, with a key that often matches a binding."""
    names = [name for name, exchange in topology.exchanges.items() if not exchange.internal]
    name = rng.choice([name for name in names if name.startswith(prefix or "x") or name in ("", "amq.topic")] or [""])
    carried = headers(rng, 4) if rng.random() < 0.6 else {}
    aims = [b for b in topology.bindings if b.arguments and not topology.exchanges[b.source].internal]
    if aims and rng.random() < 0.4:
        aim = rng.choice(aims)
        name, asked = aim.source, aim.arguments.items()
        carried |= {name: near(rng, value) for name, value in asked if name != "x-match" and rng.random() < 0.9}
    for header in ("CC", "BCC"):
        carried.pop(header, None)  # what is no array is refused
        if rng.random() < 0.1:
            carried[header] = [key(rng, topology) for _ in range(rng.randint(0, 2))] + rng.choice(([], [1], [b"a"]))
    if not topology.profile.hashes_empty_arrays:
        hashed = {exchange.arguments.get("hash-header") for exchange in topology.exchanges.values()}
        # An empty array would crash the channel.
        carried = {name: value for name, value in carried.items() if name not in hashed or value not in ([], {})}
    return Message(name, key(rng, topology), carried, properties(rng))


def properties(rng: Random) -> dict[str, Any]:
    """Make some of the properties that an exchange may hash."""
    drawn = {"message_id": words(rng, WORDS), "correlation_id": rng.choice(WORDS), "timestamp": rng.randrange(5)}
    return {name: value for name, value in drawn.items() if rng.random() < 0.3}


def key(rng: Random, topology: Topology) -> str:
    """Make a routing key: random words, or a binding's key with its wildcards filled in, or the name of a queue."""
    chance = rng.random()
    if chance < 0.1:
        return rng.choice(list(topology.queues))
    bindings = topology.bindings
    if chance < 0.5 or not bindings:
        return words(rng, WORDS, 7)
    at = rng.randrange(len(bindings))
    pattern = next(b.routing_key for i, b in enumerate(bindings) if i == at)
    parts: list[str] = []
    for word in pattern.split("."):
        if word == "#":
            parts += [rng.choice(WORDS) for _ in range(rng.randint(0, 3))]
        else:
            parts.append(rng.choice(WORDS) if word == "*" else word)
    return ".".join(parts)[:80]
