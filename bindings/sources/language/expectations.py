"""Expectations of a topology's owner: which queues must get a message, and whether they do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

from exchange.errors import BrokerError, InputError
from exchange.routing.router import Router
from exchange.values.field_json import decode_table, encode_table
from exchange.values.field_values import EMPTY, FieldTable
from exchange.values.message import Message
from exchange.values.notation import write_table

Relation: TypeAlias = Literal["exactly", "includes", "excludes"]
RELATIONS: Final[tuple[Relation, ...]] = get_args(Relation)


@dataclass(frozen=True, slots=True)
class Expectation:
    """Which queues must get a message: ``exactly`` these (none: unroutable), at least these, or none of these."""

    exchange: str
    routing_key: str
    queues: tuple[str, ...] = ()
    relation: Relation = "exactly"
    headers: FieldTable = EMPTY
    line: int | None = field(default=None, compare=False)
    """Line in its .bindings file, from 1, if it was read from one."""

    @property
    def message(self) -> Message:
        """The message that the expectation is about."""
        return Message(self.exchange, self.routing_key, dict(self.headers))

    def find_failure(self, router: Router) -> str | None:
        """Return why the expectation fails, in a sentence; None if it holds.

        It also fails if an exchange of unknown type may decide otherwise.
        """
        try:
            route = router.route(self.message)
        except BrokerError as error:
            return str(error)
        got, wanted = set(route.queues), set(self.queues)
        if self.relation == "excludes":
            unwanted, missing = got & wanted, set[str]()
        else:
            unwanted = got - wanted if self.relation == "exactly" else set[str]()
            missing = wanted - got
        reasons = []
        if missing:
            reasons.append(f"{_join(missing)} {'does' if len(missing) == 1 else 'do'} not get it")
        if unwanted:
            reasons.append(f"{_join(unwanted)} {'gets' if len(unwanted) == 1 else 'get'} it")
        if not reasons and route.undecided and self.relation != "includes":
            reasons.append(f"it is not known what {_join(route.undecided)} would do, whose type is unknown")
        return " and ".join(reasons) or None

    def to_json(self) -> dict[str, Any]:
        """Return the expectation as a JSON object, which `from_json` reads."""
        value: dict[str, Any] = {"exchange": self.exchange, "routing_key": self.routing_key}
        if self.headers:
            value["headers"] = encode_table(self.headers)
        return {**value, self.relation: list(self.queues)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Expectation:
        """Read an object that `to_json` wrote. Raises InputError, which explains what is wrong."""
        relation = next((name for name in RELATIONS if name in value), None)
        if relation is None:
            raise InputError(f"it has none of {', '.join(RELATIONS)}")
        queues = value[relation]
        texts = [value.get("exchange"), value.get("routing_key"), *(queues if isinstance(queues, list) else [None])]
        if not all(isinstance(text, str) for text in texts):
            raise InputError(f'"exchange" and "routing_key" are strings, "{relation}" is an array of strings')
        headers = decode_table(value.get("headers", {}), "headers")
        return cls(
            value["exchange"], value["routing_key"], tuple(queues), relation, FieldTable(headers) if headers else EMPTY
        )

    def __str__(self) -> str:
        headers = f" with {write_table(self.headers)}" if self.headers else ""
        text = f"{self.exchange!r} <- {self.routing_key!r}{headers}"
        if self.relation == "exactly" and not self.queues:
            return f"{text} is unroutable"
        return f"{text} reaches {RELATION_WORDS[self.relation]} {_join(self.queues)}"


RELATION_WORDS: Final[Mapping[Relation, str]] = {"exactly": "exactly", "includes": "at least", "excludes": "none of"}


def _join(names: Any) -> str:
    return ", ".join(map(repr, sorted(names)))
