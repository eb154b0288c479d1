"""What a replay, and an undo, do with each message of a queue, by what the ledger knows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from bridge.dead.held import Chooser, Chosen
from bridge.dead.ledger import Ledger, Sent
from bridge.dead.restoring import REPLAY, To, digest, restore, stamp
from exchange.amqp import ContentHeader, build_lazy_message, get_content
from exchange.errors import InputError
from exchange.selector import Selector, properties_of
from exchange.values.message import Message

Edit = Callable[[Message], Message | None]
Kind: TypeAlias = Literal["exchange", "queue", "topic"]


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be published again, of which queue, and where to."""

    url: str
    queue: str
    limit: int
    """Maximum number of dead letters that are looked at."""
    to: To = "queue"
    target: str = ""
    """Where it is published, if that is another broker or cluster."""
    login: Path | None = None
    """The file that has how to log in where it is published."""
    where: Selector | None = None
    edit: Edit | None = None
    """Returns the message to publish in place of one; None: it stays a dead letter."""
    rate: float | None = None
    """Maximum number of messages a second."""
    is_rehearsal: bool = False
    """Whether nothing is published, and all that would be is counted."""


@dataclass(slots=True)
class Outcome:
    """What has become of dead letters, or of messages that are taken back."""

    moved: int = 0
    """Number of messages that the broker has confirmed."""
    done_before: int = 0
    """Number of those that an earlier run had moved, and that only left their queue now."""
    again: int = 0
    """Number of those moved that may have been moved before, by a run that was killed."""
    left: Counter[str] = field(default_factory=Counter)
    """Reason -> number of selected messages that stay where they are."""
    missing: int = 0
    """Number of messages that are to be taken back and were not found."""
    is_stopped: bool = False
    """Whether a signal ended it before all were looked at."""
    goes: Counter[tuple[Kind, str]] = field(default_factory=Counter)
    """Of a rehearsal: what a message would be published to -> number of messages."""
    unread: int = 0
    """Number of offsets of a topic that were not read."""

    @property
    def topics(self) -> list[str]:
        """Topics that something would be published to."""
        return [name for place, name in self.goes if place == "topic"]

    def note_going(self, message: Message | None, *, is_topic: bool = False) -> None:
        """Count a message that would be published."""
        if message is not None and is_topic:
            self.goes["topic", message.exchange] += 1
        elif message is not None:
            self.goes["exchange" if message.exchange else "queue", message.exchange or message.routing_key] += 1


class Choices(Chooser, ABC):
    """What becomes of the messages of a queue, by the ledger."""

    def __init__(self, order: Order, ledger: Ledger, outcome: Outcome) -> None:
        self._order: Final = order
        self._ledger: Final = ledger
        self._outcome: Final = outcome
        self._sent: Final[dict[str, Sent]] = {}
        self._moved: Counter[str] = Counter()
        """Digest -> number of messages that were moved before the queue was opened, and are still in it."""

    @abstractmethod
    def identify(self, message: Message) -> str | None:
        """Return the digest of a message; None for one that is not selected."""

    @abstractmethod
    def build(self, message: Message, identifier: str) -> Message | None:
        """Return what is to be published in place of a message; None if another one stands for it."""

    def choose(self, message: Message) -> Chosen | None:
        identifier = self.identify(message)
        if identifier is None:
            return None
        is_moved = self._moved[identifier] > 0
        self._moved[identifier] -= is_moved
        chosen = Chosen(identifier, None if is_moved else self.build(message, identifier))
        self._outcome.done_before += chosen.message is None
        return chosen

    def note_sent(self, digests: Sequence[str]) -> None:
        """Take note of messages that are about to be published."""

    @abstractmethod
    def note_moved(self, digests: Sequence[str]) -> None:
        """Take note of messages that are published and confirmed."""


class Again(Choices):
    """Dead letters that are to be published again."""

    def begin(self) -> None:
        self._unsure = frozenset(self._ledger.unsure)
        self._moved = Counter(self._ledger.held)

    def choose(self, message: Message) -> Chosen | None:
        chosen = super().choose(message)
        if chosen is None or not self._order.is_rehearsal:
            return chosen
        self._outcome.note_going(chosen.message)
        return None

    def identify(self, message: Message) -> str | None:
        where = self._order.where
        return digest(message) if where is None or where(properties_of(message, where.names)) else None

    def build(self, message: Message, identifier: str) -> Message | None:
        restored = restore(message, self._order.to)
        if self._order.edit is not None:
            restored = edit_message(self._order.edit, restored)
        queue = "" if restored.exchange else restored.routing_key
        body = None if restored.body == message.body else message.body
        stamped = stamp(restored, identifier)
        self._sent[identifier] = Sent(identifier, queue, get_content(message).raw, body)
        return stamped

    def note_sent(self, digests: Sequence[str]) -> None:
        self._ledger.note_sent([self._sent[each] for each in digests])

    def note_moved(self, digests: Sequence[str]) -> None:
        self._outcome.again += len([each for each in digests if each in self._unsure])
        self._ledger.note("done", digests)

    def let_go(self, digests: Sequence[str]) -> None:
        self._ledger.note("gone", digests)


class Back(Choices):
    """Messages of a queue that are to be dead letters again."""

    def __init__(self, order: Order, ledger: Ledger, outcome: Outcome, queue: str) -> None:
        super().__init__(order, ledger, outcome)
        self._queue: Final = queue

    def begin(self) -> None:
        kept, done = (self._of_queue(counts) for counts in (self._ledger.kept, self._ledger.done))
        self._moved, self._room = kept, done

    def _of_queue(self, counts: Counter[tuple[str, str]]) -> Counter[str]:
        return Counter({identifier: count for (identifier, queue), count in counts.items() if queue == self._queue})

    def identify(self, message: Message) -> str | None:
        identifier = get_content(message).header(REPLAY)
        if isinstance(identifier, str) and (identifier, self._queue) in self._ledger.done:
            return identifier
        return None

    def build(self, message: Message, identifier: str) -> Message | None:
        if not self._room[identifier]:  # published once more than was known, by a run that was killed
            return None
        self._room[identifier] -= 1
        before = self._ledger.sent[identifier]
        body = message.body if before.body is None else before.body
        return build_lazy_message("", self._order.queue, ContentHeader(before.header), body)

    def note_moved(self, digests: Sequence[str]) -> None:
        self._ledger.note("undone", digests, self._queue)

    def let_go(self, digests: Sequence[str]) -> None:
        self._ledger.note("taken", digests, self._queue)


def edit_message(edit: Edit, message: Message) -> Message:
    """Return what a function makes of a message. Raises InputError if it raises, or returns no message."""
    try:
        edited = edit(message)
    except Exception as error:
        raise InputError(f"--edit raised {type(error).__name__}: {error}") from error
    if not isinstance(edited, Message):
        raise InputError(f"--edit returned {'None' if edited is None else type(edited).__name__}")
    return edited
