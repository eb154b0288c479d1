"""Read the parameters of a question: the fields of one JSON object, each checked when it is read."""

from __future__ import annotations

from typing import Any, Final

from exchange.entities.entities import Destination
from exchange.errors import InputError
from exchange.text.display import clip_line
from exchange.values.field_json import message_from_json
from exchange.values.json_text import value_from_line
from exchange.values.message import Message

__all__ = ["Parameters"]


class Parameters:
    """The fields of a JSON object. Each method returns one of them, and raises InputError if it is of another type."""

    def __init__(self, body: bytes) -> None:
        """Parse the body of a request. Raises InputError if it is no JSON object."""
        value = value_from_line(body) if body.strip() else {}
        if not isinstance(value, dict):
            raise InputError("the body of the request: a JSON object is wanted")
        self._fields: Final[dict[str, Any]] = value

    def value(self, name: str) -> Any:
        """Return any value; None if the field is missing."""
        return self._fields.get(name)

    def text(self, name: str) -> str | None:
        """Return a text; None if the field is null or missing."""
        value = self._fields.get(name)
        return None if value is None else self._expect(name, value, str, "a text")

    def texts(self, name: str, most: int) -> list[str]:
        """Return a list of at most ``most`` texts; empty if the field is null or missing."""
        values = self._list(name, most)
        return [self._expect(f"{name}[{number}]", value, str, "a text") for number, value in enumerate(values)]

    def number(self, name: str, default: int, most: int) -> int:
        """Return an integer from 1 to ``most``."""
        value = self._fields.get(name)
        if value is None:
            return default
        if type(value) is not int or not 1 <= value <= most:
            raise InputError(f"{name}: a number from 1 to {most:,} is wanted, not {_show(value)}")
        return value

    def message(self, name: str = "message") -> Message | None:
        """Return a message, as `hashstar route` takes it; None if the field is null or missing."""
        value = self._fields.get(name)
        return None if value is None else message_from_json(value)

    def part(self, name: str) -> Destination | None:
        """Return an exchange or a queue, ``{"kind": "queue", "name": "billing"}``; None if it is null or missing."""
        value = self._fields.get(name)
        return None if value is None else _part(name, value)

    def parts(self, name: str, most: int) -> list[Destination]:
        """Return a list of at most ``most`` exchanges and queues."""
        return [_part(f"{name}[{number}]", value) for number, value in enumerate(self._list(name, most))]

    def _list(self, name: str, most: int) -> list[Any]:
        value = self._fields.get(name)
        values: list[Any] = [] if value is None else self._expect(name, value, list, "a list")
        if len(values) > most:
            raise InputError(f"{name}: at most {most:,} are read, not {len(values):,}")
        return values

    @staticmethod
    def _expect(name: str, value: Any, kind: type, wanted: str) -> Any:
        if type(value) is not kind:
            raise InputError(f"{name}: {wanted} is wanted, not {_show(value)}")
        return value


def _part(name: str, value: Any) -> Destination:
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind not in ("exchange", "queue") or not isinstance(value.get("name"), str):
        raise InputError(f'{name}: {{"kind": "exchange" or "queue", "name": ...}} is wanted, not {_show(value)}')
    return Destination(kind, value["name"])


def _show(value: Any) -> str:
    return clip_line(repr(value), 60)
