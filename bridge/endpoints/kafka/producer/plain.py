"""Topics as a target: an idempotent producer, which keeps the order of each partition whatever its brokers do.

It tries again for ever (``message.timeout.ms`` is 0). When the connection ends, messages that are not confirmed are
purged before the next producer is made: the pump sends them again, and no old copy may arrive after the new ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from bridge.endpoint import Disconnected, Failure, Outgoing, Receiver
from bridge.endpoints.kafka.cluster.calls import Calls
from bridge.endpoints.kafka.cluster.errors import REFUSALS, Reasons, failure_of, trouble_of
from bridge.endpoints.kafka.producer.target import CLOSING, Connection, TopicTarget
from bridge.endpoints.kafka.producer.writer import Writer

__all__ = ["KafkaTarget", "Producing", "end_producer"]

POLL_EVERY: Final = 0.002
"""Seconds between polls for delivery reports while messages are under way."""

IDLE_POLL: Final = 1.0
"""Seconds between polls for errors and logs while no messages are under way."""


class Producing(Connection):
    """A producer that writes messages as they come."""

    stalls_after = 7.0
    stall_text = "the brokers confirm nothing"

    def __init__(self, receiver: Receiver, writer: Writer, reasons: Reasons) -> None:
        super().__init__(receiver, writer, reasons)
        self.under_way = 0
        self.trouble: Disconnected | None = None
        self._confirmed: list[Outgoing] = []
        self._failed: list[tuple[Outgoing, Failure]] = []
        self._polling: asyncio.Handle | None = None

    @property
    def is_busy(self) -> bool:
        return bool(self.under_way or self.waiting)

    def produce(self) -> None:
        """Give the producer the messages that wait, as many as its queue takes."""
        waiting, produce, make_record = self.waiting, self.producer.produce, self.writer.make_record
        if not self.under_way:
            self.moved = asyncio.get_running_loop().time()
        while waiting and self.trouble is None:
            outgoing = waiting[0]
            try:
                (topic, key, value, headers, timestamp, *_), number = make_record(outgoing)
                produce(
                    topic, value, key, number, partial(self._on_delivery, outgoing), timestamp=timestamp or 0,
                    headers=headers,  # type: ignore[arg-type]  # a list of pairs
                )  # fmt: skip
            except BufferError:
                return
            except Disconnected as error:
                self.trouble = error
                return
            except KafkaException as error:
                self._note_failure(outgoing, error.args[0])
            except Exception as error:  # noqa: BLE001  whatever is wrong is wrong with this message only
                self._failed.append((outgoing, Failure(f"unmappable: {error}", final=True)))
            else:
                self.under_way += 1
            waiting.popleft()

    def _on_delivery(self, outgoing: Outgoing, error: KafkaError | None, _: Any) -> None:
        self.under_way -= 1
        if error is None:
            self._confirmed.append(outgoing)
        else:
            self._note_failure(outgoing, error)

    def _note_failure(self, outgoing: Outgoing, error: KafkaError) -> None:
        if error.code() in REFUSALS and not error.fatal():
            self._failed.append((outgoing, failure_of(error)))
        elif self.trouble is None:
            self.trouble = trouble_of(error)

    def poll(self) -> None:
        """Take delivery reports, and answer to the pump; do it again soon while messages are under way."""
        self._polling = None
        if self.closed:
            return
        try:
            self.producer.poll(0)
        except KafkaException as error:  # fatal errors are not reported to `error_cb`, but raised here, once
            self.trouble = self.trouble or trouble_of(error.args[0])
        self.produce()
        try:
            self._answer()
        finally:  # even if the pump raises: reports of what is still under way must be taken
            trouble = self.trouble or self.reasons.trouble
            if trouble is not None:
                self.lose(trouble)
            elif self.is_busy:
                self.poll_soon(POLL_EVERY)

    def lose(self, trouble: Disconnected) -> None:
        """Report the loss to the pump, unless the target was closed just now."""
        if not self.closed:
            self.closed = True
            self.receiver.lost(trouble)

    def _answer(self) -> None:
        """Report to the pump which messages were confirmed and refused."""
        confirmed, self._confirmed = self._confirmed, []
        failed, self._failed = self._failed, []
        if confirmed or failed:
            self.moved = asyncio.get_running_loop().time()
        if confirmed:
            self.receiver.confirmed(confirmed)
        for outgoing, failure in failed:
            self.receiver.failed(outgoing, failure)

    def poll_soon(self, seconds: float) -> None:
        """Poll after ``seconds``, unless a poll is due anyway."""
        if self._polling is None and not self.closed:
            self._polling = asyncio.get_running_loop().call_later(seconds, self.poll)


class KafkaTarget(TopicTarget[Producing]):
    """Topics, written at least once."""

    def _connect(self, receiver: Receiver, writer: Writer, reasons: Reasons) -> Producing:
        return Producing(receiver, writer, reasons)

    async def _work(self, connection: Producing, _: Calls) -> None:
        """Poll also while nothing is written: librdkafka reports errors only then."""
        while not connection.closed:
            await asyncio.sleep(IDLE_POLL)
            connection.poll_soon(0)

    def send(self, messages: Sequence[Outgoing]) -> None:
        connection = self._connection
        if connection is None:
            return
        connection.waiting += messages
        connection.produce()
        connection.poll_soon(0)

    def _end(self, producer: Producer) -> None:
        end_producer(producer)


def end_producer(producer: Producer) -> None:
    """Forget what was not written, and end the producer."""
    with suppress(KafkaException):  # a fatal error that was not reported yet
        producer.purge(blocking=False)
        producer.flush(CLOSING)
