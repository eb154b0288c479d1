"""Random definitions, valid or with entries that RabbitMQ's import refuses, all of whose names are fresh."""

from __future__ import annotations

from random import Random
from typing import Any, Final

__all__ = ["random_definitions"]

ABSENT: Final = object()
"""The value of a field that is taken away."""
NOWHERE: Final = "hashstar-nowhere"
"""A name that nothing has."""
FAULTS: Final[tuple[tuple[str, str, tuple[Any, ...]], ...]] = (
    ("vhosts", "tracing", (None, 1)),
    ("vhosts", "metadata", ({"default_queue_type": "nope"},)),
    ("users", "tags", (ABSENT, 5)),
    ("users", "password_hash", ("x", "!", 5)),
    ("users", "limits", (5, {"x": 1}, {"max-channels": "1"})),
    ("permissions", "user", (NOWHERE,)),
    ("permissions", "vhost", (NOWHERE,)),
    ("permissions", "read", ("a(", "[", 1, None)),
    ("topic_permissions", "exchange", (NOWHERE,)),
    ("topic_permissions", "write", ("*",)),
    ("exchanges", "vhost", (NOWHERE,)),
    ("exchanges", "type", ("nope",)),
    ("exchanges", "durable", (ABSENT,)),
    ("exchanges", "arguments", ({"a": None},)),
    ("queues", "vhost", (NOWHERE,)),
    ("queues", "durable", (ABSENT,)),
    ("queues", "auto_delete", (ABSENT,)),
    ("queues", "arguments", (
        {"x-max-length": -1}, {"x-max-length": "x"}, {"x-expires": 0}, {"x-queue-type": "nope"}, {"x-message-ttl": -1},
        {"x-dead-letter-exchange": 5}, {"x-max-priority": None}, {"x-queue-type": "stream", "x-max-age": "D"},
        {"x-dead-letter-routing-key": "k"}, {"x-overflow": "nope"},
    )),
    ("bindings", "source", (NOWHERE,)),
    ("bindings", "destination", (NOWHERE,)),
    ("bindings", "vhost", (NOWHERE,)),
    ("bindings", "arguments", ({"a": None},)),
    ("policies", "vhost", (NOWHERE,)),
    ("policies", "pattern", ("[", "a(")),
    ("policies", "apply-to", ("nope",)),
    ("policies", "definition", ({}, {"nope": 1}, {"max-length": -1}, {"expires": "x"}, {"overflow": "nope"})),
    ("policies", "priority", ("1", None)),
    ("parameters", "component", ("nope",)),
    ("parameters", "name", ("nope",)),
    ("parameters", "vhost", (NOWHERE,)),
    ("parameters", "value", (5, {"a": 1}, {"max-queues": "1"})),
)  # fmt: skip
"""Section, field and values that at least one release refuses."""


def random_definitions(rng: Random, prefix: str) -> dict[str, Any]:
    """Return definitions of two virtual hosts, half of them with one fault or several."""
    document = _valid(rng, prefix)
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
        section, field, values = rng.choice([each for each in FAULTS if document[each[0]]])
        entry, value = rng.choice(document[section]), rng.choice(values)
        entry[field] = value
        if value is ABSENT:
            del entry[field]
    return document


def _valid(rng: Random, prefix: str) -> dict[str, Any]:
    vhosts, users = [f"{prefix}-v", f"{prefix}-w"], [f"{prefix}-u"]

    def some(least: int, most: int) -> range:
        return range(rng.randint(least, most))

    def at(**fields: Any) -> dict[str, Any]:
        return {"vhost": rng.choice(vhosts), **fields}

    regex = (".*", "^a", "", "^(a|b)$")
    exchanges = [
        at(name=f"x{index}", type=rng.choice(("topic", "direct", "fanout", "headers")), durable=True,
           auto_delete=rng.random() < 0.2, internal=rng.random() < 0.1,
           arguments=rng.choice(({}, {}, {"alternate-exchange": "x0"}, [])))
        for index in some(1, 3)
    ]  # fmt: skip
    queues = [
        at(name=f"q{index}", durable=True, auto_delete=False, arguments=rng.choice((
            {}, {}, {"x-queue-type": "classic"}, {"x-queue-type": "quorum"}, {"x-max-length": 5},
            {"x-message-ttl": 1000}, {"x-expires": 60000}, {"x-queue-type": "stream", "x-max-age": "1D"},
            {"x-dead-letter-exchange": "x0"}, {"x-max-priority": 5}, {"x-queue-type": "quorum", "x-delivery-limit": 3},
        )))
        for index in some(1, 3)
    ]  # fmt: skip
    ends = [(source, queue) for source in exchanges for queue in queues if source["vhost"] == queue["vhost"]]
    bindings = [
        {"vhost": source["vhost"], "source": source["name"], "destination": queue["name"], "destination_type": "queue",
         "routing_key": rng.choice(("a", "#", "a.*", "")),
         "arguments": rng.choice(({}, {}, {"x-match": "any", "h": 1}))}
        for source, queue in ends
    ]  # fmt: skip
    policies = [
        at(name=f"p{index}", pattern=rng.choice(("^q", "", "^x")), priority=rng.randint(0, 2),
           **{"apply-to": rng.choice(("all", "queues"))},
           definition=rng.choice(({"max-length": 5}, {"expires": 60000}, {"message-ttl": 5, "max-length": 1})))
        for index in some(0, 2)
    ]  # fmt: skip
    names = [(of["vhost"], of["name"]) for of in exchanges]
    vhost, name = rng.choice(names)
    return {
        "vhosts": [{"name": each, "metadata": {"description": "d", "tags": []}} for each in vhosts],
        "users": [
            {"name": user, "password_hash": "", "hashing_algorithm": "rabbit_password_hashing_sha256",
             "tags": rng.choice(("", "monitoring", ["management"])), "limits": rng.choice(({}, {"max-channels": 3}))}
            for user in users
        ],
        "permissions": [
            at(user=user, configure=rng.choice(regex), write=rng.choice(regex), read=rng.choice(regex))
            for user in users
        ],
        "topic_permissions": [
            {"user": user, "vhost": vhost, "exchange": name, "write": rng.choice(regex), "read": rng.choice(regex)}
            for user in users
        ],
        "exchanges": exchanges,
        "queues": queues,
        "bindings": bindings,
        "policies": policies,
        "parameters": [at(component="vhost-limits", name="limits", value={"max-queues": 100}) for _ in some(0, 1)],
    }  # fmt: skip
