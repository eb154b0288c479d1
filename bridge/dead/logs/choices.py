"""What a replay does with each letter of a topic, by what the ledger knows. What was published is passed by."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from bridge.dead.choices import Again, Order, Outcome, edit_message
from bridge.dead.ledger import Ledger, Sent
from bridge.dead.logs.log import Letter
from bridge.dead.logs.origins import find_goal
from bridge.dead.logs.source import Picked, Picker
from bridge.dead.restoring import restore, stamp
from exchange.errors import InputError
from exchange.selector import properties_of
from exchange.values.message import Message


class FromLog(Again, Picker):
    """Letters that are to be published again. ``topics`` are those that there are; None: it is not known."""

    def __init__(self, order: Order, ledger: Ledger, outcome: Outcome, topics: Collection[str] | None = None) -> None:
        super().__init__(order, ledger, outcome)
        self._topics: Final = topics
        self._earlier: Final = frozenset([identifier for identifier, count in ledger.held.items() if count])
        """Digests of letters that earlier runs have published."""

    def begin(self) -> None:
        super().begin()
        self._outcome.done_before = 0
        if self._order.is_rehearsal:
            self._outcome.goes.clear()

    def pick(self, letter: Letter) -> Picked | None:
        where = self._order.where
        if where is not None and not where(properties_of(letter.message, where.names)):
            return None
        identifier = letter.identify()
        if self._ledger.held[identifier]:
            is_earlier = identifier in self._earlier
            self._outcome.done_before += is_earlier
            return Picked(identifier, None, is_earlier=is_earlier)
        picked = self._build(letter, identifier)
        if self._order.is_rehearsal:
            self._outcome.note_going(picked.message, is_topic=picked.goal is not None)
            return None
        return picked

    def _build(self, letter: Letter, identifier: str) -> Picked:
        if letter.refusal is not None:
            raise InputError(letter.refusal)
        edit = self._order.edit
        if self._order.to != "topic":
            message = restore(letter.message, self._order.to)
            if edit is not None:
                message = edit_message(edit, message)
            queue = "" if message.exchange else message.routing_key
            self._sent[identifier] = Sent(identifier, queue, b"")
            return Picked(identifier, stamp(message, identifier))
        goal = find_goal(letter, None if edit is None else lambda message: edit_message(edit, message))
        topic, key = goal.stored.topic, goal.key
        if self._topics is not None and topic not in self._topics:
            raise InputError(describe_missing(topic))
        self._sent[identifier] = Sent(identifier, topic, b"")
        text = key.decode("utf-8", "surrogateescape") if isinstance(key, bytes) else key or ""
        return Picked(identifier, Message(topic, text, body=goal.body), goal.stamp(identifier))

    def note_moved(self, digests: Sequence[str]) -> None:
        super().note_moved(digests)
        for each in digests:
            self._sent.pop(each, None)

    def let_go(self, digests: Sequence[str]) -> None:
        """Do nothing: no letter leaves its topic."""


def describe_missing(topic: str) -> str:
    """Return why a letter stays whose topic is not there."""
    return f"there is no topic {topic!r}, or this user may not see it"
