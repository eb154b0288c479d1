r"""Policies from the highest priority down, of which only those are asked whose pattern a name can match.

Brokers with thousands of queues have thousands of policies, one for each family of names: ``^billing\.``. Asking each
policy about each name takes a time of queues times policies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from exchange.entities.entities import Policy
from exchange.limits import SHORTSTR_BYTES
from exchange.patterns.pcre import expression

__all__ = ["Ranked"]


class Ranked:
    """Policies from the highest priority down; those of one priority in the order in which they are given."""

    __slots__ = ("_by_prefix", "_lengths", "_policies")

    def __init__(self, policies: Iterable[Policy]) -> None:
        self._policies: Final = sorted(policies, key=lambda policy: -policy.priority)
        self._by_prefix: Final[dict[bytes, list[int]]] = {}
        for number, policy in enumerate(self._policies):
            self._by_prefix.setdefault(expression(policy.pattern).prefix, []).append(number)
        self._lengths: Final = sorted({len(prefix) for prefix in self._by_prefix})

    def near(self, name: str) -> list[Policy]:
        """Return the policies whose pattern may be found in a name; it is certainly found in no other one's."""
        data = name.encode("utf-8", "surrogatepass")
        if len(data) > SHORTSTR_BYTES:  # no pattern has an answer for these
            return self._policies
        numbers = [number for length in self._lengths for number in self._by_prefix.get(data[:length], ())]
        return [self._policies[number] for number in sorted(numbers)]
