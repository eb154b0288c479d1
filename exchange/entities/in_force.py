"""The settings in force for a queue or an exchange: its arguments, its policy and its operator policy, merged.

RabbitMQ merges key by key, in two steps. First the operator policy with the policy (`rabbit_policies.erl`): the lower
of two numbers, else the operator's value. Then the result with the argument ``x-KEY``, where the type of the queue and
the release decide about a key that both have: the lower number, the argument, or the policy. A policy applies to a
queue only if the queue's type supports *all* of its keys; with one that it does not support, the whole policy is as
good as absent, and one of a lower priority may apply. Live servers of 3.10, 4.0 and 4.3 are the oracle of the tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from exchange.entities.effects import NoEffect, explain_name, explain_values, is_default
from exchange.entities.entities import PREDECLARED, Exchange, Policy, Queue, Ranked
from exchange.entities.merging import OF_OPERATORS, find_merge_rules, prefer_argument, prefer_policy
from exchange.entities.profile import Profile
from exchange.entities.releases import LATEST_PROFILE
from exchange.values.field_values import EMPTY, INTEGER_TYPES, resolve_type

Overflow: TypeAlias = Literal["drop-head", "reject-publish", "reject-publish-dlx"]
Source: TypeAlias = Literal["argument", "policy", "operator policy", "default"]
_POLICY: Final[Source] = "policy"
_OPERATOR_POLICY: Final[Source] = "operator policy"


class Setting(NamedTuple):
    """The value in force of one setting, and where it comes from."""

    value: Any
    """A str, bool, int or float; arrays and tables as `exchange.values.field_values.resolve_type` returns them."""
    source: Source
    """``default`` where the release decides, if two releases are compared."""
    policy: str | None = None
    """Name of the policy or operator policy; None for an argument, and for the default of a release."""

    def __str__(self) -> str:
        return self.source if self.policy is None else f"{self.source} '{self.policy}'"


class DeadLetters(NamedTuple):
    """Where a queue sends messages that are rejected, expire or exceed a limit."""

    exchange: str | None
    """Name of the dead letter exchange, which need not exist; None if the queue drops such messages."""
    routing_key: str | None = None
    """The key that they get; None if each keeps the keys that it was published with."""
    at_least_once: bool = False
    """Whether a message stays in the queue until all queues that its dead letter is routed to have confirmed it."""


NO_DEAD_LETTERS: Final = DeadLetters(None)


@dataclass(frozen=True, slots=True)
class SettingsInForce:
    """The settings in force for one queue or exchange.

    ``values`` has those with an effect. Keys are those of policies: ``max-length``, for the argument ``x-max-length``.
    Arguments that no policy can set, such as ``x-max-priority``, are there, too. `Policies` computes them.
    """

    values: Mapping[str, Setting]
    policy: Policy | None = None
    operator_policy: Policy | None = None
    without_effect: Mapping[str, tuple[Setting, NoEffect]] = EMPTY
    """What is given and has no effect (`exchange.entities.effects`): an argument by its own name, as ``x-max-lenght``,
    a key of a policy by its own."""
    only_hides: Mapping[str, tuple[Setting, NoEffect]] = EMPTY
    """As `without_effect`, but it keeps another value of the same setting out of force: without it, that one counts."""

    def get(self, name: str) -> Any:
        """Return the value of a setting; None if nothing sets it."""
        setting = self.values.get(name)
        return None if setting is None else setting.value

    def integer(self, name: str) -> int | None:
        """Return the value of a setting that is a number, such as max-length; None if nothing sets it to an integer."""
        value = self.get(name)
        return value if type(value) is int else None

    def text(self, name: str) -> str | None:
        """Return the value of a setting that is a text, such as overflow; None if nothing sets it to a text."""
        value = self.get(name)
        return value if isinstance(value, str) else None

    @property
    def dead_letters(self) -> DeadLetters:
        """Return where the dead letters of a queue go with these settings."""
        exchange = self.text("dead-letter-exchange")
        if exchange is None:
            return NO_DEAD_LETTERS
        sure = self.get("dead-letter-strategy") == "at-least-once"
        return DeadLetters(exchange, self.text("dead-letter-routing-key"), sure)

    @property
    def overflow(self) -> Overflow:
        """Return what a queue does at its maximum length with these settings."""
        overflow = self.text("overflow")
        if overflow == "reject-publish":
            return "reject-publish"
        return "reject-publish-dlx" if overflow == "reject-publish-dlx" else "drop-head"

    @property
    def policy_definition(self) -> dict[str, Any]:
        """Policy and operator policy merged, without arguments: the management API's effective_policy_definition."""
        return {name: setting.value for name, setting in _merge_policies(self.policy, self.operator_policy).items()}


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies and operator policies of a virtual host, under the rules of a release.

    >>> policies = {"p": Policy("p", "^jobs", {"max-length": 10, "overflow": "reject-publish"}, "queues")}
    >>> [settings] = Policies(policies).possible_settings(Queue("jobs", arguments={"x-max-length": 50}))
    >>> settings.get("max-length"), settings.values["max-length"].source
    (10, 'policy')
    """

    policies: Mapping[str, Policy]
    operator_policies: Mapping[str, Policy] = EMPTY
    profile: Profile = LATEST_PROFILE
    _ranked: list[Ranked] = field(default_factory=list, init=False, repr=False, compare=False)
    """Both, as names are looked up in them; filled at the first question."""
    _merged: dict[Any, tuple[SettingsInForce, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Type and arguments, and the policies that may be in force -> the settings: many queues are alike in these."""

    def settings_of(self, part: Queue | Exchange) -> SettingsInForce | None:
        """Return the settings in force; None if it is not known which policy is (see `possible_settings`)."""
        possible = self.possible_settings(part)
        return possible[0] if len(possible) == 1 else None

    def possible_settings(self, part: Queue | Exchange) -> tuple[SettingsInForce, ...]:
        """Return the settings that may be in force; exactly one element if they are known.

        There are several if RabbitMQ does not define which of several policies of one priority is in force and their
        definitions differ, or if it is not known here whether a pattern matches (`exchange.patterns.pcre`).
        """
        ours, operators = (find_possible_policies(part, ranked, self.profile) for ranked in self._rank())
        alike = type(part), part.type, part.arguments, tuple(map(id, ours)), tuple(map(id, operators))
        known = self._merged.get(alike)
        if known is None:
            known = self._merged[alike] = self._merge_each(part, ours, operators)
        return known

    def find_names(self, part: Queue | Exchange, *, operator: bool) -> frozenset[str | None]:
        """Return the names of the policies, or operator policies, that may be in force in a part; None for none."""
        possible = find_possible_policies(part, self._rank()[operator], self.profile)
        return frozenset([None if policy is None else policy.name for policy in possible])

    def _rank(self) -> list[Ranked]:
        if not self._ranked:
            self._ranked[:] = Ranked(self.policies.values()), Ranked(self.operator_policies.values())
        return self._ranked

    def _merge_each(
        self, part: Queue | Exchange, ours: Sequence[Policy | None], operators: Sequence[Policy | None]
    ) -> tuple[SettingsInForce, ...]:
        chosen: dict[tuple[Any, Any], SettingsInForce] = {}
        for policy in ours:
            for operator_policy in operators:
                settings = self._merge(part, policy, operator_policy)
                definitions = (policy and policy.definition, operator_policy and operator_policy.definition)
                chosen[definitions] = settings
        return tuple(chosen.values())

    def _merge(self, part: Queue | Exchange, policy: Policy | None, operator: Policy | None) -> SettingsInForce:
        without: dict[str, tuple[Setting, NoEffect]] = {}
        hides: dict[str, tuple[Setting, NoEffect]] = {}
        values = {}
        for name, setting in _merge_policies(policy, operator).items():
            why = explain_name(part, name, self.profile, policy=True)
            if why is None or is_default(name, setting.value):
                values[name] = setting
            else:
                without[name] = setting, why
        rules = find_merge_rules(part.type, self.profile) if isinstance(part, Queue) else {}
        for argument, given in part.arguments.items():
            # Among the arguments of exchanges, only the alternate exchange has a policy's setting beside it.
            name = argument.removeprefix("x-") if isinstance(part, Queue) else argument
            setting = Setting(_read_argument(given), "argument")
            why = explain_name(part, argument, self.profile)
            if why is not None and not is_default(name, setting.value):
                without[argument] = setting, why
            elif isinstance(part, Exchange) or name != argument:
                ours = values.get(name)
                if ours is None or not rules.get(name, prefer_argument)(ours.value, setting.value):
                    values[name] = setting
        if isinstance(part, Queue) and values:
            plain = {name: setting.value for name, setting in values.items()}
            found = [(values.pop(name), name, why) for name, why in explain_values(part, plain, self.profile).items()]
            for setting, name, reason in found:
                is_hiding = self._hides(part, policy, operator, name, setting, values)
                key = f"x-{name}" if setting.source == "argument" else name
                (hides if is_hiding else without)[key] = setting, reason
        return SettingsInForce(values, policy, operator, without, hides)

    def _hides(
        self, queue: Queue, policy: Policy | None, operator: Policy | None, name: str, setting: Setting,
        values: Mapping[str, Setting],
    ) -> bool:  # fmt: skip
        """Return whether other settings than ``values`` are in force in a queue if a setting is not given."""
        if len(list_given_settings(queue, policy, operator, name)) == 1:
            return False
        if setting.source == "argument":
            queue = replace(queue, arguments=_leave_out(queue.arguments, f"x-{name}"))
        elif setting.source == "policy" and policy is not None:
            policy = replace(policy, definition=_leave_out(policy.definition, name))
        elif operator is not None:
            operator = replace(operator, definition=_leave_out(operator.definition, name))
        other = self._merge(queue, policy, operator).values
        return _without_defaults(other) != _without_defaults(values)


def _leave_out(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {other: value for other, value in given.items() if other != name}


_DEFAULTS: Final = (
    ("dead-letter-strategy", "at-most-once"), ("overflow", "drop-head"), ("delayed-retry-type", "disabled"),
)  # fmt: skip


def _without_defaults(values: Mapping[str, Setting]) -> dict[str, Any]:
    plain = {name: setting.value for name, setting in values.items()}
    return {name: value for name, value in plain.items() if (name, value) not in _DEFAULTS}


def find_possible_policies(
    part: Queue | Exchange, policies: Mapping[str, Policy] | Ranked, profile: Profile = LATEST_PROFILE
) -> list[Policy | None]:
    """Return the policies that may be in force, None for none.

    These are the policies that apply, or may apply, from the highest priority down to the first one at which a policy
    applies for certain; a policy may apply if its pattern is not understood. Which policy of several at one priority is
    in force depends on how the broker stores them.
    """
    possible: list[Policy | None] = []
    priority: float | None = None
    ranked = policies if isinstance(policies, Ranked) else Ranked(policies.values())
    for policy in ranked.near(part.name):
        if priority is not None and policy.priority < priority:
            return possible
        applies = applies_to(policy, part, profile)
        if applies is not False:
            possible.append(policy)
        if applies:
            priority = policy.priority
    return possible if priority is not None else [*possible, None]


def applies_to(policy: Policy, part: Queue | Exchange, profile: Profile = LATEST_PROFILE) -> bool | None:
    """Return whether the broker applies a policy, unless one of higher priority applies; None where that is unknown.

    A policy does not apply to a queue whose type does not support one of its keys.
    """
    if isinstance(part, Exchange):
        return policy.applies_to_exchange(part.name)
    queue_type = part.type
    if not is_for_type(policy, queue_type):
        return False
    found = policy.is_found_in(part.name)
    return False if found is not False and find_unsupported_keys(policy, queue_type, profile) else found


def list_given_settings(queue: Queue, policy: Policy | None, operator: Policy | None, name: str) -> list[Setting]:
    """Return each value that is given for a setting of a queue, by its argument, its policy and its operator policy."""
    given = [
        Setting(one.definition[name], source, one.name)
        for one, source in ((policy, _POLICY), (operator, _OPERATOR_POLICY))
        if one is not None and name in one.definition
    ]
    argument = f"x-{name}"
    if argument not in queue.arguments:
        return given
    return [Setting(_read_argument(queue.arguments[argument]), "argument"), *given]


def is_for_type(policy: Policy, queue_type: str) -> bool:
    """Return whether what a policy applies to includes queues of a type, whatever its keys are."""
    return QUEUES.get(policy.apply_to, "") in (None, queue_type)


def find_unsupported_keys(policy: Policy, queue_type: str, profile: Profile = LATEST_PROFILE) -> list[str]:
    """Return the keys of a policy that a type of queues does not support, sorted; with one, it applies to none."""
    return sorted(profile.settings.unsupported(queue_type).intersection(policy.definition))


QUEUES: Final[Mapping[str, str | None]] = {
    "all": None, "queues": None, "classic_queues": "classic", "quorum_queues": "quorum", "streams": "stream",
}  # fmt: skip
"""``apply-to`` of a policy -> the type of the queues that it applies to, None for any."""


def find_alternate(exchange: Exchange, policies: Mapping[str, Policy] | Ranked) -> str | None:
    """Return the name of the alternate exchange in force: from the argument, else from the policy in force.

    None stands for no alternate exchange, and for an unknown one: if several policies of the same priority apply,
    RabbitMQ does not define which one is in force, and some patterns are not understood here.
    `find_possible_alternates` then returns more than one.
    """
    possible = find_possible_alternates(exchange, policies)
    return possible[0] if len(possible) == 1 else None


def find_possible_alternates(exchange: Exchange, policies: Mapping[str, Policy] | Ranked) -> tuple[str | None, ...]:
    """Return the alternate exchanges that may be in force, with None for none; exactly one element if it is known."""
    if "alternate-exchange" in exchange.arguments:
        kind, value = resolve_type(exchange.arguments["alternate-exchange"])
        return (value.decode("utf-8", "surrogateescape") if kind in ("longstr", "binary") else None,)
    alternates = [_alternate_of(policy) for policy in find_possible_policies(exchange, policies)]
    return tuple(dict.fromkeys(alternates))


def find_alternates_in_effect(exchange: Exchange, policies: Mapping[str, Policy] | Ranked) -> tuple[str | None, ...]:
    """Return the alternate exchanges that may route a message, None for none; exactly one element if it is known.

    They are `find_possible_alternates`. But the default exchange routes nothing that reaches it as an alternate: in its
    place, its own alternate routes the message, which a policy can set. A message published to the default exchange
    never goes to that alternate.
    """
    possible = find_possible_alternates(exchange, policies)
    if "" not in possible:
        return possible
    behind = [name or "" for name in find_possible_alternates(PREDECLARED[0], policies)]
    return tuple(dict.fromkeys([*(name for name in possible if name != ""), *behind]))


def find_policy_in_force(exchange: Exchange, policies: Mapping[str, Policy] | Ranked) -> Policy | None:
    """Return the policy that RabbitMQ applies to an exchange; None if there is none or it is unknown.

    If several policies of the same priority apply and have the same alternate exchange, the result is one of them.
    """
    possible = find_possible_policies(exchange, policies)
    return possible[-1] if len({_alternate_of(policy) for policy in possible}) == 1 else None


def _merge_policies(policy: Policy | None, operator: Policy | None) -> dict[str, Setting]:
    """Return the definitions of both, merged key by key, sorted by key as the broker does."""
    users: Mapping[str, Any] = {} if policy is None else policy.definition
    operators: Mapping[str, Any] = {} if operator is None else operator.definition
    values: dict[str, Setting] = {}
    for name in sorted({*users, *operators}):
        theirs = operators.get(name)
        if name in operators and (name not in users or OF_OPERATORS.get(name, prefer_policy)(theirs, users[name])):
            values[name] = Setting(theirs, "operator policy", operator.name if operator else None)
        else:
            values[name] = Setting(users[name], "policy", policy.name if policy else None)
    return values


def _read_argument(given: Any) -> Any:
    kind, value = resolve_type(given)
    if kind in ("longstr", "binary"):
        return value.decode("utf-8", "surrogateescape")
    return int(value) if kind in INTEGER_TYPES else value


def _alternate_of(policy: Policy | None) -> str | None:
    value = policy.definition.get("alternate-exchange") if policy is not None else None
    return value if isinstance(value, str) else None
