"""Topics as a target: an idempotent producer, which keeps the order of each partition whatever its brokers do.

It tries again for ever (``message.timeout.ms`` is 0). When the connection ends, messages that are not confirmed are
purged before the next producer is made: the pump sends them again, and no old copy may arrive after the new ones.

A producer of batches stops for good at a batch that is refused (``enable.gapless.guarantee``), and gives back all that
is not written. The next one writes each message alone (see `batches`), with one request under way to each broker, as
librdkafka takes 0.1 s for a refusal where more are. It needs no idempotence to keep the order, and so starts at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from bridge.endpoint import Disconnected, Failure, Outgoing, Receiver
from bridge.endpoints.kafka.cluster.calls import Calls, take_back
from bridge.endpoints.kafka.cluster.errors import PURGED, REFUSALS, Reasons, to_disconnected, to_failure
from bridge.endpoints.kafka.producer.batches import ONE_BY_ONE
from bridge.endpoints.kafka.producer.target import CLOSING, POLL_EVERY, Connection, TopicTarget, find_pause
from bridge.endpoints.kafka.producer.writer import RecordWriter
from bridge.pump.order import by_number

IDLE_POLL: Final = 1.0
"""Seconds between polls for errors and logs while no messages are under way."""

BATCHES: Final[Mapping[str, Any]] = {"enable.gapless.guarantee": True}
"""Settings of a producer of batches."""

ALONE: Final[Mapping[str, Any]] = {
    **ONE_BY_ONE, "enable.gapless.guarantee": False, "enable.idempotence": False, "acks": -1,
    "max.in.flight.requests.per.connection": 1,
}  # fmt: skip
"""Settings of a producer that writes each message alone."""

STOPPED: Final = frozenset({
    KafkaError._FATAL, KafkaError._GAPLESS_GUARANTEE, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
})  # fmt: skip
"""Errors of messages that a producer has not written because it has stopped."""


class Producing(Connection):
    """A producer that writes messages as they come."""

    stalls_after = 7.0
    stall_text = "the brokers confirm nothing"

    def __init__(self, receiver: Receiver, writer: RecordWriter, reasons: Reasons) -> None:
        super().__init__(receiver, writer, reasons)
        self.under_way = 0
        self.trouble: Disconnected | None = None
        self._confirmed: list[Outgoing] = []
        self._failed: list[tuple[Outgoing, Failure]] = []
        self._polling: asyncio.TimerHandle | None = None
        self.news_at = self.moved
        """When messages last came, from the pump or with their reports, by the loop's clock."""
        self._stopping = False
        """Whether the producer is given nothing more, as another one is made once it has given all its reports."""
        self._renewing: asyncio.Task[None] | None = None
        self._returned: list[Outgoing] = []
        """Messages that a producer of batches has given back."""
        self._opened: set[tuple[str, int]] = set()
        """Partitions to which the producer has written a message."""
        self._behind: dict[tuple[str, int], list[Outgoing]] = {}
        """Partition -> messages that wait for the report of its first one."""

    @property
    def is_busy(self) -> bool:
        return bool(self.under_way or self.waiting)

    def produce(self) -> None:
        """Give the producer the messages that wait, as many as its queue takes.

        The first of each partition is written before all others: a broker that has nothing of a producer takes any of
        its batches as the first, also one behind a batch that it has refused.
        """
        waiting, produce, make_record = self.waiting, self.producer.produce, self.writer.make_record
        alone, opened, report = self.batching.alone, self._opened, self._on_delivery
        if not self.under_way:
            self.moved = asyncio.get_running_loop().time()
        while waiting and self.trouble is None and not self._stopping:
            outgoing = waiting[0]
            try:
                (topic, key, value, headers, timestamp, *_), number = make_record(outgoing)
                is_first = not alone and (topic, number) not in opened
                if is_first and (behind := self._behind.get((topic, number))) is not None:
                    behind.append(waiting.popleft())
                    continue
                produce(
                    topic, value, key, number, partial(self._on_first if is_first else report, outgoing),
                    timestamp=timestamp or 0,
                    headers=headers,  # type: ignore[arg-type]  # a list of pairs
                )  # fmt: skip
            except BufferError:
                return
            except Disconnected as error:
                self.trouble = error
                return
            except KafkaException as error:
                # Of a fatal error polling raises why.
                if error.args[0].code() == KafkaError._FATAL or self.is_outgrown(error.args[0]):
                    self._stopping = True
                    return
                self._note_failure(outgoing, error.args[0])
            except Exception as error:  # noqa: BLE001  whatever is wrong is wrong with this message only
                self._failed.append((outgoing, Failure(f"unmappable: {error}", final=True)))
            else:
                self.under_way += 1
                if is_first:
                    self._behind[topic, number] = []
            waiting.popleft()

    def _on_first(self, outgoing: Outgoing, error: KafkaError | None, message: Any) -> None:
        partition = message.topic(), message.partition()
        if error is None:
            self._opened.add(partition)
        self.waiting.extendleft(reversed(self._behind.pop(partition)))
        self._on_delivery(outgoing, error, message)

    def _on_delivery(self, outgoing: Outgoing, error: KafkaError | None, _: Any) -> None:
        self.under_way -= 1
        batching = self.batching
        if batching.alone:
            batching.clear(outgoing)
        if error is None:
            self._confirmed.append(outgoing)
        elif batching.alone:
            self._note_failure(outgoing, error)
        elif error.code() in REFUSALS:
            self._stopping = True
            batching.suspect(outgoing, error)
            self._returned.append(outgoing)
        elif error.code() in PURGED or (self._stopping and error.code() in STOPPED):
            self._returned.append(outgoing)
        else:
            self._note_failure(outgoing, error)

    def _note_failure(self, outgoing: Outgoing, error: KafkaError) -> None:
        if error.code() in REFUSALS and not error.fatal():
            self._failed.append((outgoing, to_failure(error)))
            self.batching.note_refusal(asyncio.get_running_loop().time())
        elif self.trouble is None:
            self.trouble = to_disconnected(error)

    def poll(self) -> None:
        """Take delivery reports, and answer to the pump; do it again soon while messages are under way."""
        self._polling = None
        if self.closed:
            return
        try:
            self.producer.poll(0)
        except KafkaException as error:  # fatal errors are not reported to `error_cb`, but raised here, once
            if error.args[0].code() == KafkaError._GAPLESS_GUARANTEE:
                self._stopping = True
            else:
                self.trouble = self.trouble or to_disconnected(error.args[0])
        self._change_producer()
        self.produce()
        try:
            self._answer()
        finally:  # even if the pump raises: reports of what is still under way must be taken
            trouble = self.trouble or self.reasons.trouble
            if trouble is not None:
                self.lose(trouble)
            elif self.is_busy:
                self.poll_soon(find_pause(asyncio.get_running_loop().time() - self.news_at))

    def _change_producer(self) -> None:
        """Have messages go alone after the refusal of a batch, and in batches again when that is over."""
        batching, now = self.batching, asyncio.get_running_loop().time()
        self._stopping = self._stopping or batching.may_join(now)
        if not self._stopping or self.trouble is not None or self._renewing is not None:
            return
        if self.under_way:
            if not batching.alone:  # librdkafka takes back what had left behind the refused batch, and keeps it
                take_back(self.producer, in_flight=False)
            return
        returned, self._returned = self._returned, []
        self.waiting.extendleft(sorted(returned, key=by_number, reverse=True))
        if self.outgrown and (batching.alone or not batching.suspects):
            self._renewing = asyncio.create_task(self._take_limits(ALONE if batching.alone else {}))
        else:
            if not batching.alone:
                batching.part(now)
            changes = batching.join() if batching.may_join(now) else ALONE
            self._renewing = asyncio.create_task(self.renew(changes))
        self._renewing.add_done_callback(self._on_renewed)

    async def _take_limits(self, changes: Mapping[str, Any]) -> None:
        """Go on with the limits of now."""
        if await self.ask_limits():
            await self.renew(changes)

    def _on_renewed(self, task: asyncio.Task[None]) -> None:
        self._renewing = None
        if self.closed or task.cancelled():
            return
        problem = task.exception()
        if isinstance(problem, KafkaException):  # as when a file of a certificate is gone
            self.trouble = to_disconnected(problem.args[0])
        elif problem is not None:
            self.trouble = problem if isinstance(problem, Disconnected) else Disconnected(repr(problem))
        else:
            self._stopping = False
            self._opened.clear()
        self.poll_soon(0)

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
            self.moved = self.news_at = asyncio.get_running_loop().time()
        if confirmed:
            self.receiver.confirmed(confirmed)
        for outgoing, failure in failed:
            self.receiver.failed(outgoing, failure)

    def poll_soon(self, seconds: float) -> None:
        """Poll after ``seconds``, unless a poll is due by then, or soon, anyway."""
        loop = asyncio.get_running_loop()
        if self._polling is not None and self._polling.when() > loop.time() + max(seconds, POLL_EVERY):
            self._polling.cancel()
            self._polling = None
        if self._polling is None and not self.closed:
            self._polling = loop.call_later(seconds, self.poll)


class KafkaTarget(TopicTarget[Producing]):
    """Topics, written at least once."""

    def producer_settings(self, given: Mapping[str, Any], limits: Mapping[str, Any]) -> dict[str, Any]:
        return {**super().producer_settings(given, limits), **BATCHES}

    def _connect(self, receiver: Receiver, writer: RecordWriter, reasons: Reasons) -> Producing:
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
        connection.news_at = asyncio.get_running_loop().time()
        connection.produce()
        connection.poll_soon(0)

    def _end(self, producer: Producer) -> None:
        end_producer(producer)


def end_producer(producer: Producer) -> None:
    """Forget what was not written, and end the producer."""
    with suppress(KafkaException, SystemError):  # a fatal error that was not reported yet; `flush` has no text for it
        take_back(producer)
        producer.flush(CLOSING)
