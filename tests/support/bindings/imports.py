"""Random definitions of all that a file can have, right and wrong; names of virtual hosts, users, globals are fresh.

What a release makes of a file is left to the release: nothing here knows what is valid. `random_definitions` draws most
values from those that are, so that about half of the files are imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from exchange.entities.releases import find_profile
from tests.recorders.rabbitmq_arguments import DEFINITIONS, VALUES

ABSENT: Final = object()
"""The value of a field that an entry does not have."""
NOWHERE: Final = "hashstar-nowhere"
"""A name that nothing has."""
Values = tuple[Sequence[Any], Sequence[Any]]
"""Values that are mostly taken, and others, of which several are refused."""

ODD_NAMES: Final = ("a b", "é", "日本", "q.1", "q/1", 'say "q"', "line\nbreak", "%2F", "q" * 255, "😀")
BAD_NAMES: Final = ("", "é" * 128, "q" * 256, "amq.q", "nul\0")
PATTERNS: Final[Values] = (
    (".*", "^q", "", "^(q0|x0)$", "^x", "é", "[a-z]+", "^amq\\.", "(?i)Q", "q\\d", "^.*$", "\\.dlq$", "q{1,2}"),
    ("[", "a(", "*", "a{2,1}", "(?<n>a)\\k<n>", "\\", "(?P<1>a)", 1, None, ABSENT, "a" * 2000),
)
FLAGS: Final[Values] = ((True, False), (ABSENT, None, 1, "true"))
TYPED_VALUES: Final[tuple[Any, ...]] = (
    5,
    2**40,
    2**63,
    -(2**70),
    1.5,
    1e300,
    True,
    "t",
    "",
    "é",
    [1, "a"],
    [],
    {"k": "v"},
    {},
    {"k": [{}]},
)
"""A value of each type that a JSON text can give an argument."""

USUAL: Final = {
    kind: frozenset(find_profile("4.0").settings.arguments(str(kind))) - {"x-queue-type"}
    for kind in ("classic", "quorum", "stream")
}
"""Type of a queue -> arguments that most releases take."""
QUEUE_TYPES: Final[tuple[Any, ...]] = (ABSENT, ABSENT, "classic", "classic", "quorum", "quorum", "stream")
ARGUMENTS: Final[tuple[tuple[str, Any], ...]] = (
    ("x-max-length", 5), ("x-max-length-bytes", 5000), ("x-message-ttl", 1000), ("x-expires", 600_000),
    ("x-dead-letter-exchange", "x0"), ("x-dead-letter-exchange", ""), ("x-max-priority", 5),
    ("x-overflow", "reject-publish"), ("x-overflow", "drop-head"), ("x-single-active-consumer", True),
    ("x-delivery-limit", 3), ("x-max-age", "1D"), ("x-queue-leader-locator", "balanced"), ("x-queue-mode", "lazy"),
    ("x-queue-version", 2), ("x-stream-max-segment-size-bytes", 500_000), ("x-quorum-initial-group-size", 1),
    ("x-initial-cluster-size", 1), ("x-stream-filter-size-bytes", 32), ("x-dead-letter-strategy", "at-least-once"),
    ("x-consumer-timeout", 60_000), ("x-queue-master-locator", "min-masters"), ("x-match", "any"), ("owner", "team"),
    ("x-max-in-memory-length", 5), ("x-delayed-retry-type", "all"), ("x-delayed-retry-min", 5),
)  # fmt: skip
WRONG_ARGUMENTS: Final = tuple(
    (name, value)
    for name, values in VALUES.items()
    for value in values
    if (value is None or isinstance(value, bool | int | float | str)) and (name, value) != ("x-expires", 1)
)
"""A queue that expires within a millisecond may be gone before it is bound."""
EXCHANGE_TYPES: Final[Values] = (
    ("topic", "direct", "fanout", "headers", "x-consistent-hash", "x-random", "x-recent-history", "x-modulus-hash",
     "x-jms-topic"),
    ("x-local-random", "x-delayed-message", "nope", "", "Topic", ABSENT, 5),
)  # fmt: skip
EXCHANGE_ARGUMENTS: Final[Values] = (
    ({"alternate-exchange": "x0"}, {"alternate-exchange": NOWHERE}, [], {"owner": "team"}, {"hash-header": "h"},
     {"x-recent-history-length": 5}, {"hash-property": "message_id"}, {"x-message-ttl": 5}),
    ({"alternate-exchange": 5}, {"hash-header": 5}, {"hash-header": "h", "hash-property": "message_id"},
     {"hash-property": "nope"}, {"x-recent-history-length": -1}, {"x-recent-history-length": "x"}, {"a": None},
     {"x-delayed-type": "topic"}, "x", 5, None, ABSENT, ["a"]),
)  # fmt: skip
KEYS: Final[Values] = (
    ("a", "a.b", "#", "*.b", "", "1", "é", "a.#.b"), (5, None, ABSENT, "k" * 255, "k" * 256, "#.#.#", "#.a.#.b.#", "x"),
)  # fmt: skip
BINDING_ARGUMENTS: Final[Values] = (
    ({"x-match": "all", "h": 1}, {"x-match": "any", "h": "v"}, {"h": True}, []),
    ({"x-match": "any-with-x"}, {"x-match": "all-with-x", "x-h": 1}, {"x-match": "nope"}, {"x-match": 5}, {"a": None},
     {"rabbitmq_jms_topic_selector": "a = 1"}, {"rabbitmq_jms_topic_selector": "("}, "x", 5, ABSENT),
)  # fmt: skip
DEFAULT_TYPES: Final[Values] = (("classic", "quorum", "stream", "undefined"), ("nope", "", None, 5))
PARAMETERS: Final[tuple[tuple[str, Values, Values], ...]] = (
    ("vhost-limits", (("limits",), ("nope",)),
     (({"max-queues": 100}, {"max-connections": 5}, {}, [], {"max-queues": -1}, {"max-queues": 1}, {"max-queues": 0},
       {"max-queues": 2, "max-connections": 0}), (5, {"a": 1}, {"max-queues": "1"}, {"max-queues": 1.5}, "x", None))),
    ("nope", (("n",), ("n",)), ((1,), (1,))),
    ("policy", (("p",), ("p",)), (({"pattern": "", "definition": {"max-length": 5}},), (5,))),
)  # fmt: skip
"""Component, names and values of runtime parameters."""


class _Drawing:
    """Draws values, of which a share are wrong."""

    def __init__(self, rng: Random, wrong: float) -> None:
        self.rng = rng
        self.wrong = wrong

    def one(self, values: Values) -> Any:
        """Return one of the values."""
        common, others = values
        return self.rng.choice(others if self.happens(self.wrong) else common)

    def happens(self, share: float) -> bool:
        """Return whether what happens in a share of the cases happens in this one."""
        return self.rng.random() < share

    def some(self, least: int, most: int) -> range:
        """Return a number of times."""
        return range(self.rng.randint(least, most))

    def name(self, usual: str) -> Any:
        """Return a name, mostly the usual one."""
        if self.happens(0.06):
            return self.rng.choice(ODD_NAMES)
        return self.rng.choice((*BAD_NAMES, 5, None)) if self.happens(self.wrong / 3) else usual


def random_definitions(rng: Random, prefix: str) -> dict[str, Any]:
    """Return definitions of one or two virtual hosts; all of their names begin with the prefix."""
    draw = _Drawing(rng, rng.choice((0, 0, 0, 0.02, 0.1)))
    vhosts, users = [f"{prefix}-v"], [f"{prefix}-u"]
    if draw.happens(0.3):
        vhosts.append(f"{prefix}-w{rng.choice(('', '', '/é', ' b', '%2F'))}")
    document = {"users": [_user(draw, user) for user in users], "vhosts": [_vhost(draw, vhost) for vhost in vhosts]}
    document |= _permissions(draw, users, vhosts)
    document["exchanges"] = [_exchange(draw, vhosts, f"x{index}") for index in draw.some(1, 3)]
    document["queues"] = [_queue(draw, vhosts, f"q{index}") for index in draw.some(0, 3)]
    document["policies"] = [_policy(draw, vhosts, f"p{index}") for index in draw.some(0, 2)]
    document["bindings"] = [_binding(draw, document, vhosts) for _ in draw.some(0, 3)]
    document["parameters"] = [_parameter(draw, vhosts) for _ in draw.some(0, 2)]
    document["global_parameters"] = [
        {"name": f"{prefix}-g{index}", "value": draw.one((({"a": 1}, "text", 5, [1]), (None, True, ABSENT)))}
        for index in draw.some(0, 1)
    ]
    entries = [entry for section in document.values() for entry in section]
    for entry in entries:
        for field in [field for field, value in entry.items() if value is ABSENT]:
            del entry[field]
    _repeat(draw, document)
    sections: list[tuple[str, Any]] = [*document.items()]
    rng.shuffle(sections)
    if draw.happens(draw.wrong):
        sections.append(rng.choice((
            ("rabbit_version", "3.6.5"), ("rabbitmq_version", "4.1.0"), ("operator_policies", [{"name": "p"}]),
            ("rabbitmq_definition_format", "cluster"), ("explanation", "of this"), ("product_name", "RabbitMQ"),
        )))  # fmt: skip
    return dict(sections)


def _repeat(draw: _Drawing, document: dict[str, Any]) -> None:
    """Add an entry again, as it is or with another field."""
    section = draw.rng.choice([name for name, entries in document.items() if entries])
    if not draw.happens(0.1) or (section == "users" and not draw.happens(draw.wrong)):
        return
    again = dict(draw.rng.choice(document[section]))
    if section == "exchanges" and draw.happens(0.5):
        again["type"] = "fanout"
    if section == "queues" and draw.happens(0.5):
        again["arguments"] = {"x-max-length": 7}
    document[section].insert(draw.rng.randint(0, len(document[section])), again)


def _user(draw: _Drawing, name: str) -> dict[str, Any]:
    secret = draw.one((
        ({"password_hash": ""}, {"password": "secret"}, {"password_hash": "aGFzaA=="}, {}),
        ({"password_hash": "!"}, {"password_hash": 5}, {"password": 5}, {"password": "a", "password_hash": ""},
         {"password": ""}, {"password_hash": None}),
    ))  # fmt: skip
    return {
        "name": name, **secret,
        "hashing_algorithm": draw.one((
            ("rabbit_password_hashing_sha256", "rabbit_password_hashing_sha512", ABSENT), ("nope", 5, None, ""))),
        "tags": draw.one((("", "monitoring", ["management"], "a, b", []), (ABSENT, 5, None, [5], {"a": 1}))),
        "limits": draw.one((
            ({}, {"max-channels": 3}, ABSENT), (5, {"x": 1}, {"max-channels": "1"}, {"max-connections": -1}, []))),
    }  # fmt: skip


def _vhost(draw: _Drawing, name: str) -> dict[str, Any]:
    metadata: Any = {
        "description": draw.one((("d", "", "é"), (5, None))),
        "tags": draw.one((([], ["t"], "t"), (5, None))),
    }
    if draw.happens(0.25):
        metadata["default_queue_type"] = draw.one(DEFAULT_TYPES)
    metadata = draw.one(((metadata, metadata, ABSENT, {}), (5, None, [], "x")))
    vhost = {"name": name, "metadata": metadata, "tracing": draw.one(((ABSENT, False, True), (None, 1, "x")))}
    if draw.happens(0.2):
        vhost |= {"description": draw.one((("d",), (5, None))), "tags": draw.one((([], "a,b"), (5, [5], None)))}
    if draw.happens(0.1):
        vhost |= draw.rng.choice((
            {"limits": []}, {"default_queue_type": draw.one(DEFAULT_TYPES)}, {"protected_from_deletion": True},
            {"cluster_state": {}},
        ))  # fmt: skip
    return vhost


def _permissions(draw: _Drawing, users: list[str], vhosts: list[str]) -> dict[str, Any]:
    def entry(**more: Any) -> dict[str, Any]:
        user = draw.one((users, (NOWHERE, None, ABSENT, "guest")))
        vhost = draw.one((vhosts, (NOWHERE, None, ABSENT)))
        return {"user": user, "vhost": vhost, "write": draw.one(PATTERNS), "read": draw.one(PATTERNS), **more}

    exchanges: Values = (("amq.topic", "x0", ""), (NOWHERE, None, 5, ABSENT))
    return {
        "permissions": [entry(configure=draw.one(PATTERNS)) for _ in draw.some(0, 1 + draw.happens(0.1))],
        "topic_permissions": [entry(exchange=draw.one(exchanges)) for _ in draw.some(0, 1)],
    }


def _at(draw: _Drawing, vhosts: list[str]) -> Any:
    return draw.one((vhosts, (NOWHERE, NOWHERE, None, 5)))


def _exchange(draw: _Drawing, vhosts: list[str], name: str) -> dict[str, Any]:
    kind = draw.one(EXCHANGE_TYPES)
    return {
        "vhost": _at(draw, vhosts), "name": draw.name(name), "type": kind,
        "durable": True if draw.happens(0.9) else draw.one(FLAGS),
        "auto_delete": False if draw.happens(0.8) else draw.one(FLAGS),
        "internal": False if draw.happens(0.8) else draw.one(FLAGS),
        "arguments": {} if draw.happens(0.6) else draw.one(EXCHANGE_ARGUMENTS),
    }  # fmt: skip


def _queue(draw: _Drawing, vhosts: list[str], name: str) -> dict[str, Any]:
    kind = draw.rng.choice(QUEUE_TYPES)
    arguments: Any = {} if kind is ABSENT else {"x-queue-type": kind}
    for _ in draw.some(0, 3):
        usual = USUAL["classic" if kind is ABSENT else kind] | {"x-match", "owner"}
        known = [each for each in ARGUMENTS if each[0] in usual]
        argument, value = draw.one((known, WRONG_ARGUMENTS))
        arguments[argument] = value
    if "x-dead-letter-exchange" in arguments and draw.happens(0.5):
        arguments["x-dead-letter-routing-key"] = draw.one((("k", ""), (5, "k" * 256)))
    if draw.happens(0.05):
        arguments[draw.rng.choice(("owner", "x-unknown", "é"))] = draw.rng.choice(TYPED_VALUES)
    if draw.happens(draw.wrong):
        arguments = draw.rng.choice((
            {**arguments, "a": None}, {**arguments, "x-dead-letter-routing-key": "k"}, [], "x", 5, None, ABSENT,
            {**arguments, "x-queue-type": draw.rng.choice(("nope", "", "undefined", 5, "Quorum", "MQTT-QoS-0"))},
        ))  # fmt: skip
    return {
        "vhost": _at(draw, vhosts), "name": draw.name(name),
        "durable": True if draw.happens(0.95) else draw.one(FLAGS),
        "auto_delete": False if draw.happens(0.95) else draw.one(FLAGS),
        "arguments": arguments,
        **draw.one((({},), ({"type": "quorum"}, {"exclusive": True}, {"exclusive": False}))),
    }  # fmt: skip


def _binding(draw: _Drawing, document: dict[str, Any], vhosts: list[str]) -> dict[str, Any]:
    """Return a binding whose ends mostly exist, of a queue or of an exchange."""
    exchanges, queues = document["exchanges"], document["queues"]
    source = draw.rng.choice(exchanges)
    vhost = source["vhost"]
    name = (
        source["name"]
        if draw.happens(0.8)
        else draw.one((("amq.topic", "amq.headers", "amq.fanout"), (NOWHERE, "", 5)))
    )
    ends = [("queue", each) for each in queues if each["vhost"] == vhost]
    ends += [("exchange", each) for each in exchanges if each["vhost"] == vhost]
    kind, end = draw.rng.choice(ends)
    destination = end["name"] if draw.happens(0.95) else draw.one((("amq.direct",), (NOWHERE, "amq.q", "", None)))
    if destination == "amq.direct":
        kind = "exchange"
    arguments: Any = {} if draw.happens(0.6) else draw.one(BINDING_ARGUMENTS)
    if source["type"] == "x-jms-topic" and draw.happens(0.9):
        arguments = {"rjms_erlang_selector": "true."}
    is_hash = source["type"] == "x-consistent-hash" and draw.happens(0.9)
    routing_key = "1" if is_hash else destination if name == "" and draw.happens(0.7) else draw.one(KEYS)
    return {
        "vhost": vhost if draw.happens(0.98) else _at(draw, vhosts), "source": name, "destination": destination,
        "destination_type": kind if not draw.happens(draw.wrong / 4) else draw.rng.choice((ABSENT, "nope", None, 5)),
        "routing_key": routing_key,
        "arguments": arguments,
        **({"properties_key": "~"} if draw.happens(0.1) else {}),
    }  # fmt: skip


GOOD_DEFINITIONS: Final = (
    {"max-length": 5}, {"expires": 600_000}, {"message-ttl": 5, "max-length": 1}, {"max-length-bytes": 500},
    {"overflow": "reject-publish", "max-length": 3}, {"dead-letter-exchange": "x0"}, {"alternate-exchange": "x0"},
    {"dead-letter-exchange": "x0", "dead-letter-routing-key": "k"}, {"delivery-limit": 5}, {"queue-mode": "lazy"},
    {"max-age": "1D"}, {"dead-letter-strategy": "at-least-once"}, {"queue-version": 2}, {"max-in-memory-length": 5},
    {"queue-leader-locator": "balanced"}, {"stream-max-segment-size-bytes": 500_000}, {"initial-cluster-size": 1},
)  # fmt: skip


def _policy(draw: _Drawing, vhosts: list[str], name: str) -> dict[str, Any]:
    definition = draw.one((GOOD_DEFINITIONS, (*DEFINITIONS, *DEFINITIONS, *DEFINITIONS, [], 5, None, ABSENT, "x")))
    if isinstance(definition, dict) and draw.happens(0.3):
        definition = {**definition, **draw.rng.choice(GOOD_DEFINITIONS)}
    apply_to: Values = (
        ("all", "queues", "exchanges", ABSENT),
        ("classic_queues", "quorum_queues", "streams", "nope", 5, None),
    )
    return {
        "vhost": _at(draw, vhosts), "name": draw.name(name), "pattern": draw.one(PATTERNS),
        "apply-to": draw.one(apply_to), "definition": definition,
        "priority": draw.one(((0, 1, 2, -5, 1.5, ABSENT), ("1", None, True, 10**30))),
    }  # fmt: skip


def _parameter(draw: _Drawing, vhosts: list[str]) -> dict[str, Any]:
    if draw.happens(0.6):
        policy = _policy(draw, vhosts, "o")
        known = (
            {"max-length": 5},
            {"expires": 600_000},
            {"message-ttl": 500},
            {"max-length-bytes": 5},
            {"delivery-limit": 2},
        )
        if draw.happens(0.9) and policy["definition"] is not ABSENT:
            policy["definition"] = draw.one((known, (*DEFINITIONS, *GOOD_DEFINITIONS)))
        if policy["priority"] is ABSENT and draw.happens(0.9):
            policy["priority"] = 0
        vhost, name = policy.pop("vhost"), policy.pop("name")
        value: Any = {key: value for key, value in policy.items() if value is not ABSENT}
        if draw.happens(draw.wrong):
            value = draw.rng.choice((5, [], "x", None, {**value, "nope": 1}, {**value, "name": "o"}))
        return {"vhost": vhost, "component": "operator_policy", "name": name, "value": value}
    component, names, values = PARAMETERS[0] if draw.happens(1 - draw.wrong / 2) else draw.rng.choice(PARAMETERS)
    return {"vhost": _at(draw, vhosts), "component": component, "name": draw.one(names), "value": draw.one(values)}
