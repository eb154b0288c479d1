"""Which value of each setting of a queue is in force, which values it overrides, and which policies are left out.

`exchange.entities.in_force` computes what is in force; here it is described for people.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from exchange.entities.entities import Policy, Queue
from exchange.entities.in_force import (
    Policies,
    Setting,
    SettingsInForce,
    find_possible_policies,
    find_unsupported_keys,
    is_for_type,
    list_given_settings,
)
from exchange.values.documents import document
from exchange.values.field_json import encode
from exchange.values.notation import write_json

Possible: TypeAlias = tuple[Setting | None, ...]
"""The values that a setting may have, None for none: exactly one where it is known which policy is in force."""


@document("PrecedenceJson")
class Precedence(NamedTuple):
    """A setting of a queue."""

    name: str
    """As policies name it, without ``x-``."""
    values: Possible
    """The value in force. More than one, None for none, where it is not known which of several policies is."""
    overridden: tuple[Setting, ...]
    """Values that are given and not in force; empty where it is not known which policy is in force."""


@document("LeftOutJson", "policy = policy.name, policy.operator, reason")
class LeftOut(NamedTuple):
    """A policy whose pattern matches the name of the queue and that is not in force."""

    policy: Policy
    reason: str


@document("WithoutEffectJson", "*setting, name, reason")
class WithoutEffect(NamedTuple):
    """An argument of the queue, or a setting of a policy in force, that has no effect."""

    name: str
    """As it is written, arguments with ``x-``."""
    setting: Setting
    reason: str


@document("AccountJson", "queue.type, settings, left_out, without_effect")
class InForceAccount(NamedTuple):
    """What is in force in a queue: its arguments, its policy and its operator policy, merged."""

    queue: Queue
    settings: tuple[Precedence, ...]
    """Sorted by name, without the type of the queue."""
    left_out: tuple[LeftOut, ...]
    without_effect: tuple[WithoutEffect, ...]


def build_account(queue: Queue, policies: Policies) -> InForceAccount:
    """Return which settings are in force in a queue, and what they override."""
    possible = policies.possible_settings(queue)
    names = sorted({name for settings in possible for name in settings.values} - {"queue-type"})
    is_known = len(possible) == 1
    settings = [
        Precedence(
            name, find_possible_values(possible, name), _overridden(possible[0], queue, name) if is_known else ()
        )
        for name in names
    ]
    ineffective = {
        WithoutEffect(name, setting, str(why)): None
        for each in possible
        for name, (setting, why) in each.without_effect.items()
    }
    for each in possible:
        for name, (setting, why) in each.only_hides.items():
            ineffective[WithoutEffect(name, setting, f"{why}; but it keeps another value out of force")] = None
    return InForceAccount(queue, tuple(settings), tuple(_left_out(queue, policies)), tuple(ineffective))


def find_possible_values(possible: Sequence[SettingsInForce], name: str) -> Possible:
    """Return the values that a setting may have; exactly one if all that may be in force agree."""
    return tuple(dict.fromkeys(settings.values.get(name) for settings in possible))


def _overridden(settings: SettingsInForce, queue: Queue, name: str) -> tuple[Setting, ...]:
    chosen = settings.values[name]
    given = list_given_settings(queue, settings.policy, settings.operator_policy, name)
    return tuple(setting for setting in given if setting.source != chosen.source)


def _left_out(queue: Queue, policies: Policies) -> Iterator[LeftOut]:
    for candidates in (policies.policies, policies.operator_policies):
        possible = find_possible_policies(queue, candidates, policies.profile)
        for policy in sorted(candidates.values(), key=lambda policy: (-policy.priority, policy.name)):
            if policy in possible or not policy.is_found_in(queue.name):
                continue
            keys = find_unsupported_keys(policy, queue.type, policies.profile)
            if not is_for_type(policy, queue.type):
                reason = f"it applies to {policy.apply_to.replace('_', ' ')} only"
            elif keys:
                reason = f"{queue.type} queues do not support {', '.join(keys)}, so it does not apply to them at all"
            else:
                reason = f"'{next(other.name for other in possible if other)}' has a higher priority"
            yield LeftOut(policy, reason)


def format_account(account: InForceAccount) -> Iterator[str]:
    """Yield what is in force in a queue as lines of text, which are not escaped; none if nothing is given."""
    if account.settings or account.left_out or account.without_effect:
        nothing = "" if account.settings else " nothing"
        yield f"in force in queue '{account.queue.name}' ({account.queue.type}):{nothing}"
    for setting in account.settings:
        text = " or ".join(["nothing" if value is None else write_setting(value) for value in setting.values])
        unknown = "; which policy is in force is not known here" if len(setting.values) > 1 else ""
        over = "".join([f", overrides {write_setting(value)}" for value in setting.overridden])
        yield f"  {setting.name}: {text}{over}{unknown}"
    for name, value, reason in account.without_effect:
        yield f"  without effect: {name}: {write_setting(value)}: {reason}"
    for policy, reason in account.left_out:
        kind = "operator policy" if policy.operator else "policy"
        yield f"  not in force: {kind} '{policy.name}': {reason}"


def encode_setting(value: Any) -> Any:
    """Return the value of a setting as a JSON value: as field values are encoded, but with integers of any size.

    A policy is JSON, and RabbitMQ reads any integer there.
    """
    if type(value) is int:
        return value
    if isinstance(value, (list, tuple)):
        return [encode_setting(item) for item in value]
    if isinstance(value, Mapping):
        table = {name: encode_setting(item) for name, item in value.items()}
        return {"!table": table} if len(table) == 1 and next(iter(table)).startswith("!") else table
    return encode(value)


def write_setting(setting: Setting) -> str:
    """Return a value with its source: ``10 (policy 'limits')``."""
    return f"{write_json(encode_setting(setting.value), typed=True)} ({setting})"


def _encode_value(setting: Setting) -> Any:
    """Encoded as field values are in messages: `{"!bytes": ...}` for bytes, and so on."""  # noqa: D401
    return encode_setting(setting.value)


document("ValueJson", "value, source, policy", value=_encode_value)(Setting)
