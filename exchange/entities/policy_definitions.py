"""The policies that RabbitMQ accepts, by release: their patterns, what they apply to, and their settings.

The tables are those of `rabbit_policies.erl` and of the validators of queue types. Refusals of live servers of 3.10,
4.0 and 4.3 are recorded in ``tests/golden/rabbitmq-policies-*.json``. Settings of plugins are accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from exchange.entities.entities import Policy
from exchange.entities.profile import Profile
from exchange.entities.queue_arguments import FILTER_BYTES, LOCATORS, OVERFLOWS, find_max_age
from exchange.errors import BadRequest
from exchange.patterns.pcre import parse_expression
from exchange.values.erlang_terms import show_json
from exchange.values.field_values import to_bytes


class SettingRule(NamedTuple):
    """A setting of a definition: its valid values, and the broker's text about an invalid one: value, phrase, words."""

    is_valid: Callable[[Any], bool]
    words: str
    phrase: str = "is not a valid"


def _integer_from(least: int, most: float = float("inf")) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value <= most


def _one_of(*allowed: Any) -> Callable[[Any], bool]:
    return lambda value: any(type(value) is type(other) and value == other for other in allowed)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_integer(value: Any) -> bool:
    return type(value) is int


_LOCATORS: Final = tuple(locator.decode() for locator in LOCATORS)

_RETRIES: Final = ("all", "failed", "returned", "disabled")

SETTINGS: Final[Mapping[str, SettingRule]] = MappingProxyType({
    "alternate-exchange": SettingRule(_is_text, "alternate exchange name"),
    "dead-letter-exchange": SettingRule(_is_text, "dead letter exchange name"),
    "dead-letter-routing-key": SettingRule(_is_text, "dead letter routing key"),
    "dead-letter-strategy": SettingRule(_one_of("at-most-once", "at-least-once"), "dead letter strategy"),
    "message-ttl": SettingRule(_integer_from(0), "message TTL"),
    "expires": SettingRule(_integer_from(1), "queue expiry"),
    "max-length": SettingRule(_integer_from(0), "maximum length"),
    "max-length-bytes": SettingRule(_integer_from(0), "maximum length in bytes"),
    "max-in-memory-length": SettingRule(_integer_from(0), "maximum memory in bytes"),
    "max-in-memory-bytes": SettingRule(_integer_from(0), "maximum memory in bytes"),
    "queue-mode": SettingRule(_one_of("default", "lazy"), "queue-mode value"),
    "queue-version": SettingRule(_one_of(1, 2), "queue-version value"),
    "overflow": SettingRule(_one_of(*(mode.decode() for mode in OVERFLOWS)), "overflow value"),
    "max-age": SettingRule(lambda value: isinstance(value, str) and bool(find_max_age(to_bytes(value))), "max age"),
    "queue-leader-locator": SettingRule(_one_of(*_LOCATORS), "queue leader locator value"),
    "initial-cluster-size": SettingRule(_integer_from(0), "cluster size"),
    "stream-max-segment-size-bytes": SettingRule(_integer_from(0), "segment size"),
    "delivery-limit": SettingRule(_is_integer, "delivery limit"),
    "consumer-timeout": SettingRule(_integer_from(0), "consumer timeout"),
    "consumer-disconnected-timeout": SettingRule(_integer_from(0), "consumer disconnected timeout"),
    "stream-filter-size-bytes": SettingRule(_integer_from(FILTER_BYTES[0], FILTER_BYTES[-1]),
                                        "filter size. Valid range is 16-255"),
    "target-group-size": SettingRule(_integer_from(1), "qq target count value"),
    "queue-master-locator": SettingRule(_one_of("min-masters", *_LOCATORS), "master locator"),
    "member-placement-tag": SettingRule(lambda value: isinstance(value, str) and value != "",
                                    "member-placement-tag value. Must be a non-empty string"),
    "delayed-retry-type": SettingRule(_one_of(*_RETRIES), f"delayed retry type. Must be one of: {', '.join(_RETRIES)}"),
    "delayed-retry-min": SettingRule(_integer_from(1), "delayed retry minimum delay. Must be a positive integer"),
    "delayed-retry-max": SettingRule(_integer_from(1), "delayed retry maximum delay. Must be a positive integer"),
})  # fmt: skip
"""Name of a setting -> its rule; which of them a release knows is in its row of `exchange.entities.releases`."""
_OF_MIRRORING: Final[Mapping[str, SettingRule]] = {
    "ha-mode": SettingRule(_one_of("all", "exactly", "nodes"), "ha-mode value"),
    "queue-master-locator": SettingRule(
        _one_of("min-masters", "client-local", "random"), "queue-master-locator value", "invalid"
    ),
}
"""Rules of their own of releases that mirror queues."""
_NO_NEGATIVE_LIMIT: Final = SettingRule(_integer_from(0), "delivery limit")

COMMERCIAL_SETTINGS: Final = frozenset({"selector-fields", "selector-field-max-bytes"})
"""Settings of Tanzu RabbitMQ, the commercial edition; RabbitMQ itself refuses them."""
PLUGINS: Final = COMMERCIAL_SETTINGS | {
    "federation-upstream", "federation-upstream-set", "federation-upstream-pattern", "shards-per-node", "routing-key",
}  # fmt: skip
"""Settings that plugins and commercial editions add, whose values are not checked."""

_MIRRORING: Final = {
    "ha-sync-mode": ("manual", "automatic"),
    "ha-promote-on-shutdown": ("always", "when-synced"),
    "ha-promote-on-failure": ("always", "when-synced"),
}
"""Setting of mirrored queues, which 4.0 removed -> its valid values."""


def refuse_policy(policy: Policy, profile: Profile) -> None:
    """Raise BadRequest, with the broker's text, if the management API refuses a policy."""
    wrong = [
        *_wrong_attributes(policy, profile),
        *find_wrong_settings(policy.definition, profile, operator=policy.operator),
    ]
    if wrong:
        raise BadRequest("Validation failed: " + "; ".join(wrong))


def _wrong_attributes(policy: Policy, profile: Profile) -> list[str]:
    wrong = []
    pattern: object = policy.pattern  # of any type: `Policy` does not check it
    if not isinstance(pattern, str):
        wrong.append(f"pattern should be a binary but was {show_json(pattern)}")
    elif _is_too_long(pattern, profile):
        wrong.append(f"pattern must not exceed {profile.max_regex_bytes} bytes")
    elif parse_expression(pattern).error:
        error = parse_expression(pattern).error
        wrong.append(f"pattern should be regular expression but is invalid: {error}")
    known = profile.settings.apply_to
    if policy.apply_to not in known:
        choice = f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}"
        wrong.append(f"apply-to '{policy.apply_to}' unrecognised; should be one of: {choice}")
    if isinstance(policy.priority, bool) or not isinstance(policy.priority, (int, float)):
        wrong.append(f"priority should be a number, actually was {show_json(policy.priority)}")
    return wrong


def _is_too_long(pattern: str, profile: Profile) -> bool:
    return profile.max_regex_bytes is not None and len(to_bytes(pattern)) > profile.max_regex_bytes


def find_wrong_pattern(pattern: str, profile: Profile) -> str:
    """Return why a release refuses a regular expression, of a policy or a permission; empty if it takes it."""
    if _is_too_long(pattern, profile):
        return f"it must not exceed {profile.max_regex_bytes:,} bytes (pattern_too_long)"
    return parse_expression(pattern).error


def find_wrong_settings(definition: Mapping[str, Any], profile: Profile, *, operator: bool = False) -> list[str]:
    """Return the broker's texts about the settings of a policy or operator policy that it refuses, if any."""
    if not definition:
        return ["no policy provided"]
    rules = profile.settings
    unknown, wrong = [], []
    for name, value in sorted(definition.items()):
        if operator and name not in rules.operator_settings:
            unknown.append(f"{{{show_json(name)},{show_json(value)}}}")
            continue
        if name == "queue-master-locator" and rules.denies_master_locator:
            wrong.append("use of deprecated queue-master-locator argument is not permitted")
        elif name in rules.policy_settings:
            setting = _setting(name, profile)
            if not setting.is_valid(value):
                wrong.append(f"{show_json(value)} {setting.phrase} {setting.words}")
        elif name not in PLUGINS and not (rules.mirrors_queues and name.startswith("ha-")):
            unknown.append(f"{{{show_json(name)},{show_json(value)}}}")
    wrong += _wrong_mirroring(definition) if rules.mirrors_queues else []
    wrong += _wrong_retries(definition) if not wrong and "delayed-retry-type" in rules.policy_settings else []
    return wrong or ([f"[{','.join(unknown)}] are not recognised policy settings"] if unknown else [])


def _setting(name: str, profile: Profile) -> SettingRule:
    """Return the rule of a setting that a release knows."""
    if name == "delivery-limit" and not profile.lives.negative_limit_is_none:
        return _NO_NEGATIVE_LIMIT
    most = profile.settings.max_segment_bytes
    if name == "stream-max-segment-size-bytes" and most is not None:
        return SETTINGS[name]._replace(is_valid=_integer_from(0, most))
    return (_OF_MIRRORING.get(name) if profile.settings.mirrors_queues else None) or SETTINGS[name]


def _wrong_mirroring(definition: Mapping[str, Any]) -> list[str]:
    given = {name: value for name, value in definition.items() if name.startswith("ha-")}
    if not given:
        return []
    if "ha-mode" not in given:
        return ["ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown"]
    mode, parameters = given["ha-mode"], given.get("ha-params")
    wrong = []
    if mode == "exactly" and not (type(parameters) is int and parameters > 0):
        received = show_json(parameters) if "ha-params" in given else "none"
        wrong.append(f'ha-mode="exactly" takes an integer, {received} given')
    if mode == "nodes" and not (
        isinstance(parameters, (list, tuple)) and parameters and all(isinstance(node, str) for node in parameters)
    ):
        empty = 'ha-mode="nodes" list must be non-empty'
        wrong.append(
            empty
            if parameters in ([], ())
            else f'ha-mode="nodes" takes a list of strings, {show_json(parameters)} given'
        )
    if mode == "all" and "ha-params" in given:
        wrong.append(f'ha-mode="all" does not take parameters, {show_json(parameters)} given')
    for name, allowed in _MIRRORING.items():
        if name in given and given[name] not in allowed:
            words = " or ".join([f'"{value}"' for value in allowed])
            wrong.append(f"{name} must be {words}, got {show_json(given[name])}")
    size = given.get("ha-sync-batch-size", 1)
    if not (type(size) is int and size > 0):
        wrong.append(f"ha-sync-batch-size takes an integer greater than 0, {show_json(size)} given")
    return wrong


def _wrong_retries(definition: Mapping[str, Any]) -> list[str]:
    kind, least, most = (definition.get(f"delayed-retry-{name}") for name in ("type", "min", "max"))
    if kind not in (None, "disabled") and least is None:
        return [f"delayed-retry-min is required when delayed-retry-type is {kind}"]
    if type(least) is int and type(most) is int and most < least:
        return [f"delayed-retry-max ({most}) must not be smaller than delayed-retry-min ({least})"]
    return []
