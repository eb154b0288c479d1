"""headers: a message takes the bindings whose arguments match its headers, all of them or any of them.

RabbitMQ checks every binding of the exchange. Here, bindings that require all their arguments are conjunctions, which
one search finds; bindings that require any argument are listed under each of their arguments. `normalise_value` defines
which values are equal, `list_conditions` which arguments count.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Any, Final

from exchange.entities.entities import Binding, Exchange
from exchange.entities.indexes import Tables
from exchange.entities.profile import Profile
from exchange.errors import PreconditionFailed
from exchange.kinds.condition import HeaderRules
from exchange.kinds.condition import HeadersCondition as Condition
from exchange.kinds.kind import Choose, Decider, Kind, Reads
from exchange.kinds.misses import MATCH, Miss
from exchange.patterns.conjunctions import PRESENT, Conjunctions
from exchange.values.erlang_terms import show_field
from exchange.values.field_values import INTEGER_TYPES, resolve_type
from exchange.values.message import Message

MODES: Final = ("all", "any", "all-with-x", "any-with-x")

NUMBERS: Final = INTEGER_TYPES | {"float", "double", "timestamp"}
"""Types of values that releases compare in different ways."""
NOT_EQUAL_TO_ANYTHING: Final = ("void",)
"""The value of a void header of a message: it is present, but equals no argument."""


NONE: Final[dict[Binding, None]] = {}


class HeadersExchange(Kind):
    """`rabbit_exchange_type_headers.erl`."""

    routes_as = "headers"
    decider = Decider.HEADERS

    def __init__(self, exchange: Exchange, profile: Profile, choose: Choose) -> None:
        super().__init__(exchange, profile, choose)
        self._profile = profile
        self._all: Conjunctions[Binding] = Conjunctions()
        self._any: dict[str, dict[Hashable, dict[Binding, None]]] = {}  # by name, then by value or PRESENT

    def bind(self, binding: Binding) -> None:
        conditions = list_conditions(binding, self._profile)
        if match_mode(binding).startswith("all"):
            self._all.add(conditions, binding)
        else:
            for name, value in conditions:
                self._any.setdefault(name, {}).setdefault(value, {})[binding] = None

    def unbind(self, binding: Binding) -> None:
        conditions = list_conditions(binding, self._profile)
        if match_mode(binding).startswith("all"):
            self._all.remove(conditions, binding)
            return
        for name, value in conditions:
            by_value = self._any[name]
            del by_value[value][binding]
            if not by_value[value]:
                del by_value[value]
            if not by_value:
                del self._any[name]

    def match(self, message: Message, keys: Sequence[str]) -> Collection[Binding]:
        headers = normalise_headers(message, self._profile)
        matching_all = self._all.search(frozenset(headers), headers.items())  # no repeats: each has one conjunction
        if not self._any:
            return matching_all
        matching_any: dict[Binding, None] = {}
        for name, value in headers.items():
            by_value = self._any.get(name)
            if by_value is not None:
                matching_any.update(by_value.get(value, NONE))
                matching_any.update(by_value.get(PRESENT, NONE))
        return (*matching_all, *matching_any)

    @classmethod
    def condition(cls, binding: Binding, profile: Profile) -> Condition:
        wanted = list_conditions(binding, profile)
        # With a single argument, "any" means the same as "all".
        is_any = match_mode(binding).startswith("any") and len(wanted) != 1
        return Condition(
            "any" if is_any else "all", frozenset(wanted), _rules_for(wanted, binding, profile), binding.arguments
        )

    @classmethod
    def reads(cls, exchange: Exchange, bindings: Collection[Binding], profile: Profile) -> Reads:
        return Reads(frozenset([name for binding in bindings for name, _ in list_conditions(binding, profile)]))

    @classmethod
    def miss(cls, binding: Binding, message: Message, profile: Profile) -> Miss:
        from exchange.values.notation import write_value  # needed only to explain

        headers = normalise_headers(message, profile)
        failed: list[str] = []
        conditions = list_conditions(binding, profile)
        for name, wanted in conditions:
            if name not in headers:
                failed.append(f"header '{name}' is not there")
            elif wanted is not PRESENT and headers[name] != wanted:
                is_, wants = message.headers[name], binding.arguments[name]
                hint = " (of another type)" if str(is_) == str(wants) else ""
                failed.append(f"header '{name}' is {write_value(is_)}, it wants {write_value(wants)}{hint}")
        if not match_mode(binding).startswith("any"):
            return Miss(float(len(failed)), "; ".join(failed))
        if not conditions:
            return Miss(2.0, "it asks for any of no headers, which never matches")
        return Miss(1.0, "; ".join(failed)) if len(failed) == len(conditions) else MATCH

    @classmethod
    def check_binding(cls, exchange: Exchange, binding: Binding, tables: Tables, profile: Profile) -> None:
        if "x-match" not in binding.arguments:
            return
        kind, value = resolve_type(binding.arguments["x-match"])
        expected = "expected all, any, all-with-x, or any-with-x"
        if kind != "longstr":
            raise PreconditionFailed(f"Invalid x-match field type {kind} (value {show_field(value)}); expected longstr")
        if value.decode("utf-8", "replace") not in MODES:
            raise PreconditionFailed(f"Invalid x-match field value {show_field(value)}; {expected}")


def match_mode(binding: Binding) -> str:
    """Return ``all``, ``any``, ``all-with-x`` or ``any-with-x``: ``all`` if x-match is absent or anything else."""
    kind, value = resolve_type(binding.arguments.get("x-match", "all"))
    mode = value.decode("utf-8", "replace") if kind == "longstr" else "all"
    return mode if mode in MODES else "all"


def list_conditions(binding: Binding, profile: Profile) -> tuple[tuple[str, Hashable], ...]:
    """Return the headers that the binding requires: their names, with the value that each must equal or ``PRESENT``.

    Names that start with ``x-`` count only in the modes with ``-with-x``, and ``x-match`` never does.
    """
    with_x = match_mode(binding).endswith("-with-x")
    return tuple(
        (name, PRESENT if resolve_type(value)[0] == "void" else normalise_value(value, profile, from_message=False))
        for name, value in sorted(binding.arguments.items())
        if name != "x-match" and (with_x or not name.startswith("x-"))
    )


def find_rules(profile: Profile) -> HeaderRules:
    """Return how a release compares headers with arguments."""
    return HeaderRules(*[getattr(profile, name) for name in HeaderRules._fields])


def _rules_for(conditions: Collection[tuple[str, Hashable]], binding: Binding, profile: Profile) -> HeaderRules:
    """Return the rules of the profile that decide which values equal the arguments of a binding; the others False."""
    values = [resolve_type(binding.arguments[name]) for name, _ in conditions]
    numbers = any(kind in NUMBERS for kind, _ in values)
    return HeaderRules(
        profile.integers_equal_floats and numbers,
        profile.timestamps_in_milliseconds and numbers,
        profile.signed_zeros_differ and any(_has_zero(value) for _, value in values),
    )


def _has_zero(decoded: Any) -> bool:
    """Return whether a value is a zero with a sign, or has one in it."""
    return any(map(_has_zero, decoded)) if isinstance(decoded, tuple) else isinstance(decoded, float) and decoded == 0


def normalise_headers(message: Message, profile: Profile | HeaderRules) -> dict[str, Hashable]:
    """Return the headers that can match, each as ``normalise_value``. The broker removes BCC before it routes."""
    return {
        name: value if type(value) is str else normalise_value(value, profile, from_message=True)
        for name, value in message.headers.items()
        if name != "BCC"
    }


def normalise_value(value: Any, profile: Profile | HeaderRules, *, from_message: bool) -> Hashable:
    """Return the value that RabbitMQ compares: two results are equal when it holds header and argument for equal.

    Types count only if decoded values differ: all integer types are alike, strings equal binaries, an empty array
    equals an empty table. Booleans, integers, floats and strings differ. Inside arrays and tables, all types count.
    """
    kind, decoded = resolve_type(value)
    if kind == "void":
        return NOT_EQUAL_TO_ANYTHING
    if kind in ("longstr", "binary"):
        return str(decoded.decode("utf-8", "surrogateescape"))
    if kind == "timestamp" and from_message and profile.timestamps_in_milliseconds:
        return int(decoded) * 1000
    if kind in ("array", "table"):
        return "list", repr(decoded if profile.signed_zeros_differ else _without_signed_zeros(decoded))
    if kind == "decimal":
        return "decimal", *decoded
    if kind == "bool":
        return "bool", decoded
    if kind in ("float", "double"):
        if profile.integers_equal_floats:
            return float(decoded)  # Python's == between int and float is exact, as Erlang's
        return "float", repr(decoded if profile.signed_zeros_differ else decoded + 0.0)
    return int(decoded)


def _without_signed_zeros(decoded: Any) -> Any:
    if isinstance(decoded, tuple):
        return tuple(map(_without_signed_zeros, decoded))
    return decoded + 0.0 if isinstance(decoded, float) else decoded
