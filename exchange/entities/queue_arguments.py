"""The arguments of a queue that RabbitMQ accepts, by the queue's type and the release.

The tables are those of `rabbit_amqqueue.erl` and of the queue types' capabilities. Refusals of live servers of 3.10,
4.0 and 4.3, with their texts, are recorded in ``tests/golden/rabbitmq-arguments-*.json``. An argument that no type
knows belongs to a plugin or an application and is accepted. Exclusive queues are not part of a topology.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from exchange.entities.entities import Queue
from exchange.entities.profile import Profile, SettingRules
from exchange.errors import BrokerError, PreconditionFailed
from exchange.values.erlang_terms import show_binary, show_string
from exchange.values.field_values import INTEGER_TYPES, resolve_type

MAX_EXPIRY: Final = 315_360_000_000
"""Maximum duration in milliseconds: ten years."""
MAX_PRIORITY: Final = 255
FILTER_BYTES: Final = range(16, 256)

Arguments = Mapping[str, tuple[str, Any]]
"""Name of an argument -> its AMQP type and value."""
Rule = Callable[[str, Any, Arguments], str | None]
"""AMQP type and value of an argument, and all arguments -> fault as Erlang prints it; None for a valid value."""


def _integer(kind: str, value: Any, arguments: Arguments) -> str | None:
    return None if kind in INTEGER_TYPES else show_string(f"expected integer, got {kind}")


def _not_negative(kind: str, value: Any, arguments: Arguments) -> str | None:
    return _integer(kind, value, arguments) or (f"{{value_negative,{value}}}" if value < 0 else None)


def _expiry(kind: str, value: Any, arguments: Arguments) -> str | None:
    return _not_negative(kind, value, arguments) or (f"{{value_too_large,{value}}}" if value > MAX_EXPIRY else None)


def _positive_expiry(kind: str, value: Any, arguments: Arguments) -> str | None:
    return f"{{value_zero,{value}}}" if kind in INTEGER_TYPES and value == 0 else _expiry(kind, value, arguments)


def _cluster_size(kind: str, value: Any, arguments: Arguments) -> str | None:
    return _not_negative(kind, value, arguments) or (f"{{value_zero,{value}}}" if value == 0 else None)


def _priority(kind: str, value: Any, arguments: Arguments) -> str | None:
    exceeded = f"{{max_value_exceeded,{value}}}"
    return _not_negative(kind, value, arguments) or (exceeded if value > MAX_PRIORITY else None)


def _version(*allowed: int) -> Rule:
    def rule(kind: str, value: Any, arguments: Arguments) -> str | None:
        unsupported = show_string(f"unsupported queue version '{value}'")
        return _not_negative(kind, value, arguments) or (None if value in allowed else unsupported)

    return rule


def _boolean(kind: str, value: Any, arguments: Arguments) -> str | None:
    return None if kind == "bool" else f"{{unacceptable_type,{kind}}}"


def _text(kind: str, value: Any, arguments: Arguments) -> str | None:
    return None if kind == "longstr" else f"{{unacceptable_type,{kind}}}"


def _dead_letter_key(kind: str, value: Any, arguments: Arguments) -> str | None:
    missing = None if "x-dead-letter-exchange" in arguments else "routing_key_but_no_dlx_defined"
    return _text(kind, value, arguments) or missing


def _one_of(error: str, *allowed: bytes) -> Rule:
    def rule(kind: str, value: Any, arguments: Arguments) -> str | None:
        return _text(kind, value, arguments) or (None if value in allowed else error)

    return rule


def _mode(kind: str, value: Any, arguments: Arguments) -> str | None:
    wrong = _text(kind, value, arguments)
    if wrong or value in (b"default", b"lazy"):
        return wrong
    return show_string(f"unsupported queue mode '{_decode(value)}'")


def _max_age(kind: str, value: Any, arguments: Arguments) -> str | None:
    return _text(kind, value, arguments) or ("invalid_max_age" if find_max_age(value) is None else None)


AGE: Final = re.compile(rb"([0-9]+)(.*)")
UNITS: Final = {b"Y": 31_536_000, b"M": 2_592_000, b"D": 86_400, b"h": 3_600, b"m": 60, b"s": 1}
"""Unit of a maximum age -> seconds."""
AGES: Final = ("x-max-age", "x-stream-offset")
"""Arguments that are a maximum age, or may be one."""


def find_max_age(value: bytes) -> int | None:
    """Return a maximum age of streams in milliseconds, which is a positive number and a unit; None if it is none.

    What follows a line feed is not looked at, as in the broker.
    """
    age = AGE.match(value)
    digits = b"" if age is None else age[1].lstrip(b"0")
    if age is None or age[2] not in UNITS or not digits:
        return None
    return int(digits[:20]) * UNITS[age[2]] * 1000  # 20 digits are longer than all time there is


def _refuse_age(name: str, kind: str, value: Any, settings: SettingRules) -> None:
    """Raise BrokerError for an age on which the channel of an older release crashes."""
    if name not in AGES or kind != "longstr" or not settings.crashes_on_ages:
        return
    if AGE.match(value) is None and not (name == "x-stream-offset" and value in NAMED_OFFSETS):
        raise BrokerError(f"the channel crashes on an {name} that begins with no digit")


def _tag(kind: str, value: Any, arguments: Arguments) -> str | None:
    return _text(kind, value, arguments) or (None if value else "invalid_member_placement_tag_arg")


LOCATORS: Final = (b"client-local", b"balanced", b"random", b"least-leaders")
OVERFLOWS: Final = (b"drop-head", b"reject-publish", b"reject-publish-dlx")

RULES: Final[Mapping[str, Rule]] = {
    "x-expires": _positive_expiry,
    "x-message-ttl": _expiry,
    "x-dead-letter-exchange": _text,
    "x-dead-letter-routing-key": _dead_letter_key,
    "x-dead-letter-strategy": _one_of("invalid_dlx_strategy", b"at-most-once", b"at-least-once"),
    "x-max-length": _not_negative,
    "x-max-length-bytes": _not_negative,
    "x-max-in-memory-length": _not_negative,
    "x-max-in-memory-bytes": _not_negative,
    "x-max-priority": _priority,
    "x-overflow": _one_of("invalid_overflow", *OVERFLOWS),
    "x-queue-version": _version(2),
    "x-single-active-consumer": _boolean,
    "x-quorum-initial-group-size": _cluster_size,
    "x-max-age": _max_age,
    "x-stream-max-segment-size-bytes": _not_negative,
    "x-stream-filter-size-bytes": _not_negative,
    "x-initial-cluster-size": _cluster_size,
    "x-queue-leader-locator": _one_of("invalid_queue_locator_arg", *LOCATORS),
    "x-consumer-timeout": _not_negative,
    "x-consumer-disconnected-timeout": _not_negative,
    "x-member-placement-tag": _tag,
    "x-stream-initial-offset": _not_negative,
}
"""Argument -> rule of its values, in the order in which the broker checks them."""

_RULES_WITH_VERSION_1: Final[Mapping[str, Rule]] = dict(
    rule
    for name, own in RULES.items()
    for rule in ([("x-queue-mode", _mode), (name, _version(1, 2))] if name == "x-queue-version" else [(name, own)])
)


def find_rules(settings: SettingRules) -> Mapping[str, Rule]:
    """Return argument -> rule of its values, in the order in which a release checks them."""
    return _RULES_WITH_VERSION_1 if settings.has_version_1 else RULES


COMMERCIAL_TYPES: Final = frozenset({"delayed", "jms"})
"""Queue types of Tanzu RabbitMQ, the commercial edition; RabbitMQ itself refuses them."""
PLUGIN_TYPES: Final = COMMERCIAL_TYPES | {"MQTT-QoS-0", "rabbit_mqtt_qos0_queue"}
"""Queue types that plugins and commercial editions add since 4.0."""
MODULES: Final = {"classic": "rabbit_classic_queue", "quorum": "rabbit_quorum_queue", "stream": "rabbit_stream_queue"}


def _stream_offset(kind: str, value: Any, arguments: Arguments) -> str | None:
    if kind in INTEGER_TYPES or kind == "timestamp" or value in NAMED_OFFSETS:
        return None
    if kind == "longstr":
        return None if find_max_age(value) else f"{{invalid_stream_offset_arg,{{longstr,{show_binary(value)}}}}}"
    raise BrokerError(f"the channel crashes on an x-stream-offset of the type {kind}")


NAMED_OFFSETS: Final = (b"first", b"last", b"next")
CONSUMER_RULES: Final[Mapping[str, Rule]] = {
    "x-priority": _integer,
    "x-consumer-timeout": _not_negative,
    "x-cancel-on-ha-failover": _boolean,
    "x-stream-offset": _stream_offset,
}
"""Argument of a consumer -> rule of its values, in the order in which the broker checks them."""


def refuse_consumer(queue: Queue, what: str, given: Mapping[str, Any], profile: Profile) -> None:
    """Raise BrokerError if a queue refuses the arguments of a consumer; ``what`` names the queue."""
    settings = profile.settings
    accepted = settings.consumer_arguments(queue.type)
    if accepted is None:
        return
    arguments = {name: resolve_type(value) for name, value in given.items()}
    for name, rule in CONSUMER_RULES.items():
        if name in arguments and name in accepted:
            if name in settings.unchecked_arguments:  # it is added to the time at which a message is delivered
                if not _is_read_as_integer(arguments[name][0]):
                    raise BrokerError(f"the queue crashes, for ever, on an {name} of the type {arguments[name][0]}")
                continue
            _refuse_age(name, *arguments[name], settings)
            wrong = rule(*arguments[name], arguments)
            if wrong is not None:
                raise PreconditionFailed(f"invalid arg '{name}' for {what}: {wrong}")
    for name in arguments:
        if name in settings.all_consumer_arguments and name not in accepted:
            raise PreconditionFailed(f"invalid arg '{name}' for {what} of queue type {MODULES[queue.type]}")


def _is_read_as_integer(kind: str) -> bool:
    return kind in INTEGER_TYPES or kind == "timestamp"


TIMEOUT: Final = "x-consumer-timeout"
DISCONNECTED: Final = "x-consumer-disconnected-timeout"


def has_odd_timeout(queue: Queue) -> bool:
    """Return whether x-consumer-timeout of a queue is given, and no integer; void is as good as none."""
    if TIMEOUT not in queue.arguments:
        return False
    kind, _ = resolve_type(queue.arguments[TIMEOUT])
    return kind != "void" and not _is_read_as_integer(kind)


def explain_crash(queue: Queue, by_policy: Any, profile: Profile) -> str:
    """Return why each channel crashes that consumes or gets from a queue, whatever its type; "" if none does.

    ``by_policy`` is the consumer-timeout of its policies, None for none. The lower of both counts, and in Erlang any
    number is lower than what is none.
    """
    if not profile.settings.crashes_on_timeouts or not has_odd_timeout(queue):
        return ""
    kind, value = resolve_type(queue.arguments[TIMEOUT])
    if isinstance(by_policy, int) and not (isinstance(value, float) and value < by_policy):
        return ""
    return f"the channel crashes on the queue's {TIMEOUT} of the type {kind}"


def takes_credit(queue_type: str, given: Mapping[str, Any], profile: Profile) -> bool:
    """Return whether a consumer gets as many messages as its x-credit says, and no more (3.10 to 3.13).

    It is how the plugin of AMQP 1.0 consumed; quorum queues crash when they deliver to others. Raises BrokerError for
    one on which the channel crashes, after all else was checked.
    """
    if "x-credit" not in given or queue_type == "stream" or "x-credit" not in profile.settings.all_consumer_arguments:
        return False
    kind, value = resolve_type(given["x-credit"])
    if kind != "table":
        raise BrokerError(f"the channel crashes on an x-credit of the type {kind}")
    types = {key: each for key, each, _ in value}
    return types.get("credit") == "long" and types.get("drain") == "bool"


NAME_PREFIX: Final = "x-name-prefix"
MAX_PREFIX_BYTES: Final = 64


def take_name_prefix(queue: Queue, profile: Profile) -> tuple[Queue, str]:
    """Return a queue as the broker keeps it, without x-name-prefix, and the prefix of the name that it gives it.

    The prefix is "" for the broker's own. Raises PreconditionFailed for one that is too long.
    """
    if not profile.names_queues_by_prefix or NAME_PREFIX not in queue.arguments:
        return queue, ""
    kind, value = resolve_type(queue.arguments[NAME_PREFIX])
    prefix = _decode(value) if kind == "longstr" else ""
    if not queue.name and prefix and len(value) > MAX_PREFIX_BYTES:
        raise PreconditionFailed(f"Queue name prefix '{prefix}' exceeds the {MAX_PREFIX_BYTES}-byte limit")
    arguments = {name: given for name, given in queue.arguments.items() if name != NAME_PREFIX}
    return replace(queue, arguments=arguments), prefix


class DeclareFlags(NamedTuple):
    """What a client asks of a new queue beside its properties."""

    is_exclusive: bool = False
    is_named_by_server: bool = False
    denies_transient: bool = False
    """Whether the broker denies queues that are neither durable nor exclusive."""


NO_FLAGS: Final = DeclareFlags()


def refuse_queue(queue: Queue, what: str, profile: Profile, flags: DeclareFlags = NO_FLAGS) -> None:
    """Raise BrokerError if the broker refuses a new queue; ``what`` names the queue as the broker's texts do.

    The code is 406, or 541 for a feature that the broker has dropped.
    """
    if flags.is_named_by_server and queue.type in ("quorum", "stream"):
        raise PreconditionFailed(f"Cannot declare a server-named queue for type {MODULES[queue.type]}")
    arguments = {name: resolve_type(value) for name, value in queue.arguments.items()}
    exchange = arguments.get("x-dead-letter-exchange")
    if exchange is not None and exchange[0] != "longstr":
        raise PreconditionFailed(f"invalid type '{exchange[0]}' for arg 'x-dead-letter-exchange' in {what}")
    kind = _type_of(arguments, what, profile)
    if kind is not None:
        _refuse_arguments(kind, arguments, what, profile.settings)
    if flags.denies_transient and not queue.durable and not flags.is_exclusive:
        raise BrokerError("Feature `transient_nonexcl_queues` is deprecated")
    if kind == "classic" and profile.settings.denies_master_locator and "x-queue-master-locator" in arguments:
        raise BrokerError("Feature `queue_master_locator` is deprecated")
    if kind in ("quorum", "stream"):
        for name, is_so in (
            ("auto-delete", queue.auto_delete), ("exclusive-owner", flags.is_exclusive),
            ("non-durable", not queue.durable),
        ):  # fmt: skip
            if is_so:
                raise PreconditionFailed(f"invalid property '{name}' for {what}")
    if kind == "stream":
        _refuse_stream(arguments, profile)
    given, _ = arguments.get(DISCONNECTED, ("void", None))
    is_unchecked = kind == "quorum" and DISCONNECTED in profile.settings.unchecked_arguments
    if is_unchecked and given != "void" and not _is_read_as_integer(given):
        raise BrokerError(f"the channel crashes on an {DISCONNECTED} of the type {given}")


def _refuse_arguments(kind: str, arguments: Arguments, what: str, settings: SettingRules) -> None:
    """Raise BrokerError for an argument with a wrong value, and for one that belongs to other types of queues."""
    accepted = settings.arguments(kind)
    for name, rule in find_rules(settings).items():
        if name in arguments and name in accepted and name not in settings.unchecked_arguments:
            _refuse_age(name, *arguments[name], settings)
            wrong = rule(*arguments[name], arguments)
            if wrong is not None:
                raise PreconditionFailed(f"invalid arg '{name}' for {what}: {wrong}")
    known = settings.all_arguments
    # The broker adds a missing type, and then checks the arguments sorted by name.
    is_sorted = settings.sorts_arguments and "x-queue-type" not in arguments
    for name in sorted(arguments) if is_sorted else arguments:
        if name in known and name not in accepted:
            raise PreconditionFailed(f"invalid arg '{name}' for {what} of queue type {MODULES[kind]}")


def _type_of(arguments: Arguments, what: str, profile: Profile) -> str | None:
    """Return the type of the queue, None for a plugin's type. Raises PreconditionFailed for an unknown one."""
    if "x-queue-type" not in arguments:
        return "classic"
    kind, value = arguments["x-queue-type"]
    wrong = _text(kind, value, arguments)
    if wrong is None:
        name = _decode(value)
        if name in MODULES:
            return name
        if name in profile.settings.texts_for_no_type:
            return "classic"
        if name in PLUGIN_TYPES and profile.settings.has_plugin_types:
            return None
        wrong = show_string(f"unsupported queue type '{name}'")
    raise PreconditionFailed(f"invalid arg 'x-queue-type' for {what}: {wrong}")


def _refuse_stream(arguments: Arguments, profile: Profile) -> None:
    _, size = arguments.get("x-stream-max-segment-size-bytes", ("long", 0))
    most = profile.settings.max_segment_bytes
    if most is not None and size > most:
        raise PreconditionFailed("Exceeded max value for x-stream-max-segment-size-bytes")
    if "x-stream-filter-size-bytes" in arguments and profile.settings.filter_size_refusal is not None:
        _, size = arguments["x-stream-filter-size-bytes"]
        # In Erlang, a value that is no number is greater than all numbers.
        if not (isinstance(size, (int, float)) and FILTER_BYTES[0] <= size <= FILTER_BYTES[-1]):
            raise PreconditionFailed(profile.settings.filter_size_refusal)


def _decode(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def read_expiration(properties: Mapping[str, Any]) -> int | None:
    """Return the milliseconds of the property expiration, as `rabbit_basic.erl` reads it; None if there is none.

    Raises PreconditionFailed where the broker refuses the message for it.
    """
    if (given := properties.get("expiration")) is None:
        return None
    text = str(given)
    digits = text[1:] if text[:1] in ("+", "-") else text
    length = next((at for at, character in enumerate(digits) if character not in "0123456789"), len(digits))
    if not length or length > len(str(MAX_EXPIRY)):
        fault = "no_integer" if not length else f"{{value_too_large,{digits[:length]}}}"
    elif length < len(digits):
        fault = f"{{leftover_string,{show_string(digits[length:])}}}"
    else:
        value = int(text)
        if 0 <= value <= MAX_EXPIRY:
            return value
        fault = f"{{value_{'negative' if value < 0 else 'too_large'},{value}}}"
    raise PreconditionFailed(f"invalid expiration '{text}': {fault}")
