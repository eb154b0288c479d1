"""Every error that the project raises on purpose.

They are one family, so a caller needs only ``except HashstarError``. An error about a text carries the text and the
span that is wrong, and draws a caret under it. An error that a broker would answer carries the AMQP reply code and
RabbitMQ's words.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from exchange.text.display import escape_line, underline


class HashstarError(Exception):
    """The base class of all errors.

    Every error can be copied and pickled, whatever its constructor takes: a worker of `multiprocessing` can raise it.
    """

    exit_code: ClassVar[int] = 2
    """Exit code of a command that this error ends."""

    def __reduce__(self) -> tuple[Any, ...]:
        # By default, unpickling calls the class with ``args``. A constructor with other parameters fails then, and with
        # it the thread of a multiprocessing.Pool that reads results: the parent waits for ever.
        return _restore, (type(self), self.args), self.__dict__


class InputError(HashstarError):
    """A file, a line or an option the user gave cannot be used; the message names the place and the way out."""

    drawing: str = ""
    """Two lines for behind the message, the text and a caret, each after a line break; empty where there are none."""


class TextError(HashstarError):
    """A text in one of the project's languages is wrong at ``span``, a half-open range of characters of ``source``."""

    def __init__(self, message: str, source: str, span: tuple[int, int]) -> None:
        super().__init__(message)
        self.message = message
        self.source = source
        self.span = span

    def __str__(self) -> str:
        # The source may contain newlines and control characters but must fit on one line, with the caret under the
        # right characters. So both are built from the escaped text.
        source, caret = underline(self.source, *self.span)
        return f"{escape_line(self.message)}\n    {source}\n    {caret}"


class PatternError(TextError):
    """A pattern that its dialect does not allow."""


class UnknownReleaseWarning(UserWarning):
    """A named release of RabbitMQ is newer than all that are known here: the rules of an older one are applied."""


class BrokerError(HashstarError):
    """A refusal by RabbitMQ; ``code`` is the AMQP 0-9-1 reply code."""

    code = 541
    name = "INTERNAL_ERROR"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return escape_line(f"{self.code} {self.name} - {self.text}")


class BadRequest(BrokerError):
    """400: the management API refuses a policy. AMQP itself has no policies."""

    code, name = 400, "BAD_REQUEST"


class AccessRefused(BrokerError):
    """403: the operation is not permitted to any user."""

    code, name = 403, "ACCESS_REFUSED"


class NotFound(BrokerError):
    """404: the exchange or queue does not exist."""

    code, name = 404, "NOT_FOUND"


class ResourceLocked(BrokerError):
    """405: the queue is exclusive to another connection, or its single active consumer alone may read it."""

    code, name = 405, "RESOURCE_LOCKED"


class PreconditionFailed(BrokerError):
    """406: the request contradicts what exists, or an argument is not allowed."""

    code, name = 406, "PRECONDITION_FAILED"


class NotAllowed(BrokerError):
    """530: the operation is not allowed in this state. It closes the connection, as all codes from 500 on."""

    code, name = 530, "NOT_ALLOWED"


class NotImplementedByBroker(BrokerError):
    """540: the broker, or the type of the queue, does not have the method."""

    code, name = 540, "NOT_IMPLEMENTED"


class CommandInvalid(BrokerError):
    """503: the exchange type is unknown. RabbitMQ up to 3.13.2 answers this and closes the connection."""

    code, name = 503, "COMMAND_INVALID"


@contextmanager
def name_os_errors(what: object, verb: str = "read") -> Iterator[None]:
    """Turn an OSError of the block into an InputError: ``a.log: cannot be read: Permission denied``."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{escape_line(str(what))}: cannot be {verb}: {error.strerror or error}") from None


def _restore(kind: type[HashstarError], args: tuple[Any, ...]) -> HashstarError:
    """Build an error without calling its constructor; pickle sets the attributes from its state."""
    return kind.__new__(kind, *args)
