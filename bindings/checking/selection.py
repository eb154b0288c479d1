"""Which codes to report: prefixes to select and to ignore, of which the longer one decides."""

from __future__ import annotations

from collections.abc import Sequence

from bindings.checking.rules.table import RULES, Rule
from exchange.errors import InputError


class CodeSelection:
    """The codes to report: those with a longer prefix in ``select`` than in ``ignore``.

    Both are lists of codes and prefixes, in any case, with commas between them or one a text. Without ``select``, all
    codes are selected. Raises InputError for a prefix that no code has.
    """

    def __init__(self, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> None:
        self._select = _read_prefixes(select) or ["HS"]
        self._ignore = _read_prefixes(ignore)

    @property
    def optional(self) -> list[str]:
        """The selected codes of optional rules, which must be named in full."""
        return [code for code, rule in RULES.items() if rule.optional and code in self._select]

    @property
    def applied(self) -> tuple[str, ...]:
        """The codes of the rules that are applied, and whose findings are reported."""
        optional = self.optional
        return tuple(code for code, rule in RULES.items() if code in self and (not rule.optional or code in optional))

    def __contains__(self, code: object) -> bool:
        return isinstance(code, str) and _longest(self._select, code) > _longest(self._ignore, code)


def find_rules(prefix: str) -> list[Rule]:
    """Return the rules whose codes begin with a prefix, in any case. Raises InputError if there are none."""
    rules = [rule for rule in RULES.values() if rule.code.startswith(prefix.upper())]
    if not rules:
        raise InputError(f"no code begins with {prefix!r}; hashstar check --explain HS lists them all")
    return rules


def _longest(prefixes: Sequence[str], code: str) -> int:
    return max((len(prefix) for prefix in prefixes if code.startswith(prefix)), default=0)


def _read_prefixes(given: Sequence[str]) -> list[str]:
    prefixes = [prefix.strip().upper() for text in given for prefix in text.split(",") if prefix.strip()]
    for prefix in prefixes:
        find_rules(prefix)
    return prefixes
