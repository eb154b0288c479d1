"""The alternate exchange of an exchange: from its argument, or from the policy in force.

Who asks for many exchanges gives the policies as `Ranked`, which is built once.
"""

from __future__ import annotations

from collections.abc import Mapping

from exchange.entities.entities import PREDECLARED, Exchange, Policy, Ranked
from exchange.entities.in_force import find_possible_policies
from exchange.values.field_values import resolve_type

__all__ = ["find_alternate", "find_alternates_in_effect", "find_policy_in_force", "find_possible_alternates"]


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


def _alternate_of(policy: Policy | None) -> str | None:
    value = policy.definition.get("alternate-exchange") if policy is not None else None
    return value if isinstance(value, str) else None
