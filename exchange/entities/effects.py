"""Which arguments of queues and exchanges, and which keys of policies, have an effect, and with which values.

RabbitMQ accepts arguments that nothing reads, and values that the type of a queue ignores; at best it logs that. The
table is of what its modules read (`rabbit_quorum_queue`, `rabbit_stream_queue`, `rabbit_amqqueue_process`,
`rabbit_queue_location`, the exchange types). What may be given is another matter: `exchange.entities.queue_arguments`
and `exchange.entities.policy_definitions`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from exchange.entities.entities import Exchange, Queue
from exchange.entities.odd_numbers import explain_odd_number
from exchange.entities.profile import Profile
from exchange.entities.queue_arguments import has_odd_timeout
from exchange.text.display import find_alike

QUEUE_TYPES: Final = ("classic", "quorum", "stream")


class NoEffect(NamedTuple):
    """An argument or a key of a policy that has no effect."""

    reason: str
    """Why, as a clause."""
    meant: str | None = None
    """The name or value that was probably meant, as it is written; None where that is not known."""
    is_known: bool = True
    """Whether RabbitMQ knows the name, or it is a misspelling of one that it knows."""
    is_by_value: bool = False
    """Whether the name has an effect on this type of queues, and the value has none."""

    def __str__(self) -> str:
        return self.reason if self.meant is None else f"{self.reason}; did you mean '{self.meant}'?"


AT_MOST_ONCE: Final = NoEffect("dead letters go at most once, since overflow is not reject-publish", is_by_value=True)


class Reach(NamedTuple):
    """Where a setting has an effect: the types of queues that read it in any release, and the forms that are read.

    `exchange.entities.profile.SettingRules.ignores` has the releases in which one of these types does not.
    """

    classic: bool = True
    quorum: bool = True
    stream: bool = False
    argument: bool = True
    """Whether the argument ``x-NAME`` is read."""
    policy: bool = True
    """Whether the key of policies is read."""


_HA: Final = Reach(quorum=False, argument=False)
_FEDERATION: Final = Reach(argument=False)
_JMS: Final = Reach(classic=False, quorum=False, argument=False)

OF_QUEUES: Final[Mapping[str, Reach]] = MappingProxyType({
    "queue-type": Reach(stream=True, policy=False),
    "expires": Reach(),
    "message-ttl": Reach(),
    "dead-letter-exchange": Reach(),
    "dead-letter-routing-key": Reach(),
    "dead-letter-strategy": Reach(classic=False),
    "max-length": Reach(),
    "max-length-bytes": Reach(stream=True),
    "overflow": Reach(),
    "max-priority": Reach(quorum=False, policy=False),
    "single-active-consumer": Reach(policy=False),
    "queue-mode": Reach(quorum=False),
    "queue-version": Reach(quorum=False),
    "queue-master-locator": Reach(quorum=False),
    "queue-leader-locator": Reach(stream=True),
    "consumer-timeout": Reach(stream=True),
    "consumer-disconnected-timeout": Reach(classic=False),
    "delayed-retry-type": Reach(classic=False),
    "delayed-retry-min": Reach(classic=False),
    "delayed-retry-max": Reach(classic=False),
    "delivery-limit": Reach(classic=False),
    "max-in-memory-length": Reach(classic=False, quorum=False),
    "max-in-memory-bytes": Reach(classic=False, quorum=False),
    "quorum-initial-group-size": Reach(classic=False, policy=False),
    "quorum-target-group-size": Reach(classic=False, policy=False),
    "target-group-size": Reach(classic=False, argument=False),
    "max-age": Reach(classic=False, quorum=False, stream=True),
    "stream-max-segment-size-bytes": Reach(classic=False, quorum=False, stream=True),
    "stream-filter-size-bytes": Reach(classic=False, quorum=False, stream=True),
    "stream-initial-offset": Reach(classic=False, quorum=False, stream=True, policy=False),
    "member-placement-tag": Reach(classic=False),
    "initial-cluster-size": Reach(classic=False, quorum=False, stream=True),
    **dict.fromkeys(
        ("ha-mode", "ha-params", "ha-sync-mode", "ha-sync-batch-size", "ha-promote-on-shutdown",
         "ha-promote-on-failure"), _HA),
    # Of plugins, which may be there or not.
    **dict.fromkeys(("federation-upstream", "federation-upstream-set", "federation-upstream-pattern"), _FEDERATION),
    **dict.fromkeys(("selector-fields", "selector-field-max-bytes"), _JMS),
    "message-deduplication": Reach(policy=False),
    "internal-purpose": Reach(stream=True, policy=False),
})  # fmt: skip
"""Setting of queues, as policies name it -> where it has an effect."""

_EVERYWHERE: Final = frozenset({"alternate-exchange", "x-internal-purpose"})
_OF_TYPES: Final[Mapping[str, frozenset[str]]] = MappingProxyType({
    "direct": frozenset({"x-super-stream"}),
    "topic": frozenset(),
    "fanout": frozenset(),
    "headers": frozenset(),
    "x-random": frozenset(),
    "x-local-random": frozenset(),
    "x-jms-topic": frozenset(),
    "x-modulus-hash": frozenset(),
    "x-recent-history": frozenset({"x-recent-history-length"}),
    "x-consistent-hash": frozenset({"hash-header", "hash-property"}),
    "x-delayed-message": frozenset({"x-delayed-type"}),
})  # fmt: skip
"""Exchange type -> its own arguments. Those of other types are not known."""
POLICIES_OF_EXCHANGES: Final = frozenset({
    "alternate-exchange", "federation-upstream", "federation-upstream-set", "federation-upstream-pattern",
    "shards-per-node", "routing-key",
})  # fmt: skip
"""Keys of policies that have an effect on exchanges; the last two on those of the type x-modulus-hash."""

NAMES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "exchange": _EVERYWHERE.union(*_OF_TYPES.values()),
        "queue": frozenset(f"x-{name}" for name, reach in OF_QUEUES.items() if reach.argument),
        "policy": POLICIES_OF_EXCHANGES | {name for name, reach in OF_QUEUES.items() if reach.policy},
    }
)
"""What has settings -> the names by which it is given them, in any release."""

_ELSEWHERE: Final[Mapping[str, str]] = MappingProxyType({
    "x-match": "it is an argument of bindings to headers exchanges",
    "x-priority": "it is an argument of consumers",
    "x-name-prefix": "it is for queues that the broker names, which since RabbitMQ 4.4 begin with it",
    "x-stream-offset": "it is an argument of consumers",
    "x-stream-filter": "it is an argument of consumers",
    "x-stream-match-unfiltered": "it is an argument of consumers",
    "x-cancel-on-ha-failover": "it was an argument of consumers",
    "x-delay": "it is a header of messages",
    "x-deduplication-header": "it is a header of messages",
    "x-ha-policy": "policies took its place in RabbitMQ 3.0",
    "x-ha-nodes": "policies took its place in RabbitMQ 3.0",
})  # fmt: skip
"""Argument that queues and exchanges do not have -> what it is."""
_SYNONYMS: Final[Mapping[str, str]] = MappingProxyType({
    "ttl": "message-ttl", "msg-ttl": "message-ttl", "expiration": "message-ttl", "message-expiration": "message-ttl",
    "expiry": "expires", "dlx": "dead-letter-exchange", "dl-exchange": "dead-letter-exchange",
    "dlk": "dead-letter-routing-key", "dead-letter-key": "dead-letter-routing-key", "ae": "alternate-exchange",
    "priority": "max-priority", "max-priorities": "max-priority", "max-len": "max-length", "max-size": "max-length",
    "max-bytes": "max-length-bytes", "sac": "single-active-consumer", "lazy": "queue-mode", "type": "queue-type",
    "max-deliveries": "delivery-limit", "delivery-count": "delivery-limit", "max-redeliveries": "delivery-limit",
})  # fmt: skip
"""Other words for settings, without ``x-`` -> the setting."""
LIKENESS: Final = 0.82
"""Minimum likeness, from 0 to 1, of a name to the one that it is taken for a misspelling of."""

_TEXTS: Final = {
    "delayed-retry-type": ("all", "failed", "returned", "disabled"),
    "queue-master-locator": ("min-masters", "client-local", "random", "balanced", "least-leaders"),
}
"""Setting whose argument RabbitMQ does not check -> values that it knows; it ignores others."""


def is_foreign(part: Queue | Exchange) -> bool:
    """Return whether the type of a queue or exchange belongs to an unknown plugin, which may read any argument."""
    return part.type not in (QUEUE_TYPES if isinstance(part, Queue) else _OF_TYPES)


def is_default(name: str, value: Any) -> bool:
    """Return whether a setting that nothing reads any more has the value by which all queues go."""
    return (name, value) in (("queue-mode", "default"), ("queue-version", 2))


def explain_name(part: Queue | Exchange, name: str, profile: Profile, *, policy: bool = False) -> NoEffect | None:
    """Return why an argument, or with ``policy`` a key of a policy, has no effect on a part; None if it has one."""
    if is_foreign(part):
        return None
    if isinstance(part, Exchange):
        return _why_of_exchange(part, name, policy=policy)
    setting = name if policy else name.removeprefix("x-")
    is_timeout = name == ("consumer-timeout" if policy else "x-consumer-timeout")
    if is_timeout and profile.settings.crashes_on_timeouts and has_odd_timeout(part):
        return None  # the argument crashes channels of any type of queues, and a policy with a lower one prevents it
    reach = OF_QUEUES.get(setting)
    if reach is not None and (policy or name != setting):
        if not (reach.policy if policy else reach.argument):
            return NoEffect("it is a key of policies, not an argument" if not policy else "it is no key of policies")
        queue_type = part.type
        if not getattr(reach, queue_type):
            return NoEffect(f"{queue_type} queues ignore it")
        is_ignored = setting in profile.settings.ignores(queue_type)
        return NoEffect(f"{queue_type} queues of {profile.name} ignore it") if is_ignored else None
    if policy:
        return NoEffect("it is for exchanges") if name in POLICIES_OF_EXCHANGES else None  # else HS707
    return _why_unknown(part, name, profile)


def _why_of_exchange(exchange: Exchange, name: str, *, policy: bool) -> NoEffect | None:
    if policy:
        if name in ("shards-per-node", "routing-key") and exchange.type != "x-modulus-hash":
            return NoEffect("it is for exchanges of the type x-modulus-hash")
        return None if name in POLICIES_OF_EXCHANGES else NoEffect("it is for queues")
    if name in _arguments_of(exchange):
        return None
    owners = sorted(kind for kind, names in _OF_TYPES.items() if name in names)
    if owners:
        return NoEffect(f"it is for exchanges of the type {' or '.join(owners)}")
    return _why_unknown(exchange, name, None)


def _arguments_of(exchange: Exchange) -> frozenset[str]:
    """Return the arguments that an exchange reads; a delayed one reads those of its inner type, too."""
    own = _EVERYWHERE | _OF_TYPES[exchange.type]
    inner = exchange.arguments.get("x-delayed-type") if exchange.type == "x-delayed-message" else None
    return own | _OF_TYPES.get(str(inner), frozenset())


def _why_unknown(part: Queue | Exchange, name: str, profile: Profile | None) -> NoEffect:
    if name in _ELSEWHERE:
        return NoEffect(_ELSEWHERE[name])
    known = (
        _arguments_of(part)
        if isinstance(part, Exchange)
        else [
            f"x-{setting}" for setting in OF_QUEUES if profile and explain_name(part, f"x-{setting}", profile) is None
        ]
    )
    meant = find_meant(name, known)
    if meant is None and isinstance(part, Queue) and _plain(name) == "alternate-exchange":
        return NoEffect("it is an argument of exchanges")
    if meant is None and isinstance(part, Exchange) and _plain(name) in OF_QUEUES:
        return NoEffect("it is an argument of queues")
    if meant is None and isinstance(part, Queue) and _plain(name) in OF_QUEUES:
        return NoEffect(f"{part.type} queues do not have it" if "x-" + _plain(name) == name else "no release knows it")
    # A queue cannot be given one name twice.
    free = None if meant in part.arguments else meant
    return NoEffect("no release of RabbitMQ knows it", free, meant is not None)


def _plain(name: str) -> str:
    """Return a name as policies write it: ``messageTTL``, ``X_Message_Ttl`` and ``x-message-ttl`` are one."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name.strip())
    plain = re.sub(r"[-_. ]+", "-", parted).lower().strip("-").removeprefix("x-")
    return _SYNONYMS.get(plain, plain)


def find_meant(name: str, known: Iterable[str]) -> str | None:
    """Return the one of the names that are known which a misspelt name was probably meant to be; None for none.

    >>> find_meant("x-max-lenght", ["x-max-length", "x-max-length-bytes"]), find_meant("owner", ["x-overflow"])
    ('x-max-length', None)
    """
    plain = {_plain(other): other for other in sorted(known)}
    near = find_alike(_plain(name), plain, LIKENESS)
    return None if near is None else plain[near]


def explain_values(queue: Queue, values: Mapping[str, Any], profile: Profile) -> dict[str, NoEffect]:
    """Return the settings of a queue whose values have no effect together, although their names have, each with why.

    One that is in force may still keep another value of the same setting out of force.
    """
    if is_foreign(queue):
        return {}
    why, queue_type = {}, queue.type
    for name in ("dead-letter-strategy", "dead-letter-routing-key"):
        if name in values and not isinstance(values.get("dead-letter-exchange"), str):
            why[name] = NoEffect("dead-lettering is disabled: there is no dead letter exchange", is_by_value=True)
    overflow = values.get("overflow")
    if overflow == "reject-publish-dlx" and queue_type == "quorum":
        ignored = "quorum queues ignore this value and drop their oldest messages"
        why["overflow"] = NoEffect(ignored, "reject-publish", is_by_value=True)
    if (
        values.get("dead-letter-strategy") == "at-least-once"
        and "dead-letter-strategy" not in why
        and overflow != "reject-publish"
    ):
        why["dead-letter-strategy"] = AT_MOST_ONCE
    for name, texts in _TEXTS.items():
        if name in values and values[name] not in texts:
            near = find_alike(str(values[name]), texts)
            why[name] = NoEffect("RabbitMQ does not know this value", near, is_by_value=True)
    for name, value in values.items():
        odd = explain_odd_number(name, value, queue_type, profile)
        if odd is not None and odd.is_unset:
            why[name] = NoEffect(odd.text, is_by_value=True)
    return {**why, **_why_retries(values, why)}


def _why_retries(values: Mapping[str, Any], why: Mapping[str, NoEffect]) -> dict[str, NoEffect]:
    """Return which settings of delayed retries have no effect: the type needs a least delay, and delays a type."""
    kind, least, most = "delayed-retry-type", "delayed-retry-min", "delayed-retry-max"
    has_kind = kind in values and kind not in why and values[kind] != "disabled"
    has_least = least in values and least not in why
    found = {}
    if has_kind and not has_least:
        found[kind] = NoEffect("retries are not delayed: there is no delayed-retry-min", is_by_value=True)
    for name in (least, most):
        if name in values and name not in why and not (has_kind and has_least):
            missing = "no delayed-retry-min" if has_kind else "no delayed-retry-type but disabled"
            found[name] = NoEffect(f"retries are not delayed: there is {missing}", is_by_value=True)
    return found
