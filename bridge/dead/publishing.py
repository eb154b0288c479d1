"""Where a replay publishes: the ledger knows what is about to be published, and what is confirmed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final

from bridge.dead.choices import Choices
from bridge.dead.letters import LetterSource
from bridge.endpoint import Disconnected, Failure, Outgoing, Receiver, Target
from bridge.endpoints.rabbitmq.addresses import find_broker
from bridge.endpoints.rabbitmq.routes import PublishAddress, PublishRoute
from bridge.endpoints.rabbitmq.target import RabbitmqTarget
from bridge.interop.marks import USER_ID
from exchange.amqp import get_content
from exchange.errors import InputError

ALL: Final = "replay"
"""Name of the queue that all messages pass in the pump: they are published as they say themselves."""


class _AsPublished(PublishRoute):
    """Publishes each message to the exchange, and with the key, that its delivery names; nothing is added."""

    def __init__(self) -> None:
        super().__init__(ALL, PublishAddress())

    def address(self, outgoing: Outgoing) -> tuple[bytes, bytes, bytes]:
        message = outgoing.delivery.message
        exchange, key = (text.encode("utf-8", "surrogateescape") for text in (message.exchange, message.routing_key))
        return exchange, key, b""

    def header(self, outgoing: Outgoing, marks: bytes, user: str) -> bytes:
        content = get_content(outgoing.message)
        other = content.property("user_id")
        if other is not None and other != user:  # the broker would refuse it
            content = content.with_property("user_id", None).with_header(USER_ID, other)
        return content.raw


class BrokerTarget(RabbitmqTarget):
    """Exchanges and queues of a broker, as each message names them."""

    def __init__(self, url: str) -> None:
        super().__init__("the broker", find_broker(url, "hashstar dead"), {})
        self._routes = {ALL: _AsPublished()}


class NotedTarget(Target):
    """A target of which the ledger knows what is about to be published, and what is confirmed; an error there ends the
    run.
    """

    def __init__(self, target: Target, source: LetterSource, choices: Choices) -> None:
        self.name = target.name
        self.fault: str | None = None
        """Why nothing more is published; None if nothing is wrong."""
        self.stop: Callable[[], None] = lambda: None
        self._target: Final = target
        self._source: Final = source
        self._choices: Final = choices

    def key_of(self, outgoing: Outgoing) -> Hashable:
        message = outgoing.delivery.message
        return message.exchange, message.routing_key

    @property
    def trouble(self) -> str | None:
        return self._target.trouble

    async def open(self, receiver: Receiver) -> None:
        await self._target.open(_Noting(receiver, self))

    def send(self, messages: Sequence[Outgoing]) -> None:
        if self._note(self._choices.note_sent, messages):
            self._target.send(messages)

    async def close(self) -> None:
        await self._target.close()

    def note_confirmed(self, messages: Sequence[Outgoing]) -> None:
        """Take note of messages that the broker has."""
        self._note(self._choices.note_moved, messages)
        late = [each for each in messages if not self._source.is_current(each.delivery)]
        if late:  # they have come once more since, and are published once more
            self._note(self._choices.let_go, late)

    def _note(self, write: Callable[[Sequence[str]], None], messages: Sequence[Outgoing]) -> bool:
        """Write to the ledger; return False, and stop, if that fails, or has failed."""
        if self.fault is None:
            try:
                write([outgoing.delivery.identity or "" for outgoing in messages])
            except InputError as error:
                self.fault = str(error)
                self.stop()
        return self.fault is None


class _Noting(Receiver):
    """Takes note of what is confirmed before the pump does, and lets what is returned stay where it is."""

    def __init__(self, receiver: Receiver, publisher: NotedTarget) -> None:
        self._receiver: Final = receiver
        self._publisher: Final = publisher

    def confirmed(self, messages: Sequence[Outgoing]) -> None:
        self._publisher.note_confirmed(messages)
        self._receiver.confirmed(messages)

    def failed(self, message: Outgoing, failure: Failure) -> None:
        waits = failure.reason.startswith("returned:") and (failure.waits or failure.busy)
        self._receiver.failed(message, Failure(failure.reason, final=True) if waits else failure)

    def lost(self, error: Disconnected) -> None:
        self._receiver.lost(error)
