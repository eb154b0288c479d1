"""Read the parameters of questions, and answer them within bounds: a number of them at once, and a time for each.

A question runs on a thread of its own. If it takes longer than it may, its asker gets `OutOfTime` and the thread goes
on to its end, which counts as one of the questions that may run at once. So slow questions never add up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from exchange.amqp.content import check_properties
from exchange.entities.entities import Destination
from exchange.entities.queue_arguments import read_expiration
from exchange.errors import HashstarError, InputError
from exchange.text.display import clip_line
from exchange.values.field_json import decode_message
from exchange.values.json_text import parse_line
from exchange.values.message import Message

Answer = TypeVar("Answer")


class OutOfTime(HashstarError):
    """A question was not answered within its time."""


class Busy(HashstarError):
    """As many questions are being answered as may be at once."""


class Questions:
    """Runs at most ``at_once`` questions, and waits for each at most ``seconds``."""

    def __init__(self, at_once: int, seconds: float) -> None:
        self.seconds: Final = seconds
        self._free: Final = threading.BoundedSemaphore(at_once)

    def answer(self, work: Callable[[], Answer]) -> Answer:
        """Return what ``work`` returns, or raise what it raises; else raise OutOfTime or Busy."""
        if not self._free.acquire(timeout=self.seconds / 4):
            raise Busy("too many questions are being answered: ask again in a second")
        answers: list[Answer] = []
        errors: list[BaseException] = []
        done = threading.Event()

        def run() -> None:
            try:
                answers.append(work())
            except BaseException as error:  # noqa: BLE001  raised again where the answer is awaited
                errors.append(error)
            finally:
                self._free.release()
                done.set()

        threading.Thread(target=run, name="hashstar-question", daemon=True).start()
        if not done.wait(self.seconds):
            raise OutOfTime(f"undecided: out of time after {self.seconds:g} s")
        if errors:
            raise errors[0]
        return answers[0]


class Parameters:
    """The fields of a JSON object. Each method returns one of them, and raises InputError if it is of another type."""

    def __init__(self, body: bytes) -> None:
        """Parse the body of a request. Raises InputError if it is no JSON object."""
        value = parse_line(body) if body.strip() else {}
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
        if value is None:
            return None
        message = decode_message(value)
        check_properties(message.properties)
        read_expiration(message.properties)
        return message

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
