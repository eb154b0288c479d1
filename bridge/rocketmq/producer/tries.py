"""The tries of a message: to which broker, over which connection, and what comes after each outcome.

What comes is `exchange.partition.clients.rocketmq.send`'s to say, and which broker is kept away from
`exchange.partition.clients.rocketmq.faults`'; here are the sockets and clocks for it. A message that is sent
asynchronously costs no task and no timer, unless it is tried again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, Final, cast

from bridge.rocketmq.producer.publishing import Place, ProducerSettings, Publishing, Request, SendResult, result_of
from bridge.rocketmq.remoting.channel import Answer, Channel
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import SerializeType, now_ms
from bridge.rocketmq.remoting.errors import BrokerError, ClientError, RemotingError, TooMuchRequest
from exchange.partition.clients.rocketmq.faults import DETECTOR_PERIOD, Faults, Memory, probe, probes_due
from exchange.partition.clients.rocketmq.message_queue import MessageQueue
from exchange.partition.clients.rocketmq.round_robin import RoundRobin, Turn
from exchange.partition.clients.rocketmq.send import (
    Fault,
    Next,
    Outcome,
    Sending,
    Sent,
    Thrown,
    begin,
    proceed,
    proceed_async,
)
from exchange.partition.partitioner import Draw, Inputs

__all__ = ["Flight", "Tries", "frame"]

LOG: Final = logging.getLogger(__name__)

DETECT_SECONDS: Final = 0.2
"""``detectTimeout``: so long a broker that is probed may take to answer."""

HANDED_OVER: Final = Fault(isolated=False)
ASYNC: Final = Sending("async")
ASYNC_SELECTED: Final = Sending("async", selected=True)


class Tries:
    """What the sends of one producer share: its table of faults, and where it stands in each topic's queues."""

    def __init__(self, client: Client, settings: ProducerSettings, draw: Draw) -> None:
        self.client: Final = client
        self.settings: Final = settings
        self.faults: Faults = {}
        """Broker name -> what is known of it; empty while the strategy is off."""
        self.under_way = 0
        """Messages that were sent asynchronously, and are not answered."""
        self.bytes_under_way = 0
        self._draw: Final = draw
        self._memories: Final[dict[str, Memory]] = {}
        self._turns: Final[dict[str, Turn]] = {}
        self._round_robin: Final = RoundRobin(settings.faults.version)
        self._inputs: Final = Inputs(draw)
        self._channels: Final[dict[str, Channel]] = {}
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._news: asyncio.Future[None] | None = None

    # Where a message goes.

    def select(self, publishing: Publishing, topic: str, last_broker: str | None, *, reset: bool = False) -> Place:
        """The queue of the next try where none was chosen (`selectOneMessageQueue`)."""
        if not self.settings.faults.enabled:  # what the strategy does then, without what it needs to do more
            choice, self._turns[topic] = self._round_robin.choose_again(
                last_broker, publishing.partitions, self._turns.get(topic), self._inputs
            )
            return publishing.places[cast("int", choice.partition)]
        selection = self.settings.faults.select(
            last_broker, publishing.partitions, self.faults, self._memories.get(topic, Memory()),
            Inputs(self._draw, now_ms()), reset_index=reset,
        )  # fmt: skip
        self._memories[topic], self.faults = selection.memory, selection.faults
        return publishing.place(selection.queue)

    def open_channel(self, broker: str) -> Channel | None:
        """The connection to a broker, if it is there and takes what is written."""
        channel = self._channels.get(broker)
        return channel if channel is not None and channel.is_usable and channel.is_writable else None

    async def channel(self, broker: str) -> Channel:
        """The connection to a broker. Raises ClientError, ConnectError."""
        channel = self._channels[broker] = await self.client.broker(broker)
        if not channel.is_writable:
            await channel.writable()
        return channel

    def forget_channels(self) -> None:
        """Look again where brokers are."""
        self._channels.clear()

    def note(self, broker: str, fault: Fault | None, took: int) -> None:
        """Put into the table of faults what a try of so many milliseconds has shown of a broker."""
        if fault is not None and self.settings.faults.enabled:
            latency = took if fault.latency is None else fault.latency
            self.faults = self.settings.faults.update(
                self.faults, broker, latency, now_ms(), isolated=fault.isolated, reachable=fault.reachable
            )

    # One that is waited for.

    async def send(
        self, request: Request, publishing: Publishing, chosen: Place | None, timeout_ms: int | None
    ) -> SendResult:
        """Try until it is stored, or it may not be tried again. Raises as `Producer.send`."""
        settings = self.settings.sending
        if timeout_ms is not None:
            settings = replace(settings, send_msg_timeout=timeout_ms)
        began = time.monotonic()
        step = begin(settings, Sending("sync", selected=chosen is not None))
        tried: list[str] = []
        error: RemotingError | None = None
        result: SendResult | None = None
        while step.action == "try":
            last = tried[-1] if tried else None
            place = chosen or self.select(publishing, request.topic, last, reset=step.reset_index)
            broker = place.queue.broker
            tried.append(broker)
            start = time.monotonic()
            try:
                result = await self._once(request, place, step.timeout / 1000)
                outcome: Outcome = Sent(result.status)
            except RemotingError as failed:
                error, outcome = failed, _thrown(failed)
            now = time.monotonic()
            step = proceed(settings, step.sending, outcome, int((now - began) * 1000))
            self.note(broker, step.fault, int((now - start) * 1000))
        if step.action == "return" and result is not None:
            return result
        raise _failure(step, error, tried, request.topic, int((time.monotonic() - began) * 1000))

    async def _once(self, request: Request, place: Place, seconds: float) -> SendResult:
        broker = place.queue.broker
        channel = self.open_channel(broker) or await self.channel(broker)
        answer = await channel.invoke_with(lambda opaque: frame(channel, place, request, opaque), seconds)
        if answer.code == ResponseCode.GO_AWAY:
            self.client.leave(channel)
        return result_of(answer, request, place.queue, channel.address)

    # Those that are not.

    @property
    def is_full(self) -> bool:
        """Whether as much is under way as the settings allow."""
        settings = self.settings
        return self.under_way >= settings.async_send_num or self.bytes_under_way > settings.async_send_size

    async def room(self) -> None:
        """Wait until it is not full."""
        while self.is_full and self.under_way:
            await self._change()

    async def flush(self) -> None:
        """Wait until nothing is under way."""
        while self.under_way:
            await self._change()

    async def _change(self) -> None:
        if self._news is None:
            self._news = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._news)

    def landed(self, size: int) -> None:
        """One less is under way."""
        self.under_way -= 1
        self.bytes_under_way -= size
        if self._news is not None:
            self._news.set_result(None)
            self._news = None

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Have it done, unless the producer closes first."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            LOG.error("in the background of a producer", exc_info=error)
            for listener in tuple(self.client.on_broken):
                listener(error)

    async def close(self) -> None:
        """End what was started."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Whether brokers that failed are there again.

    async def detect(self) -> None:
        """Probe brokers in the table of faults, for ever (`LatencyFaultToleranceImpl.startDetector`)."""
        while True:
            await asyncio.sleep(DETECTOR_PERIOD / 1000)
            for broker in probes_due(self.faults, now_ms()):
                answered = await self._answers(broker)
                if broker in self.faults:
                    self.faults = probe(self.faults, broker, now_ms(), answered=answered)

    async def _answers(self, broker: str) -> bool | None:
        fields = {"topic": next(iter(self._memories), ""), "queueId": "0", "committed": "true"}
        try:
            address = self.client.address(broker)
        except ClientError:
            return None
        try:
            await self.client.ask(address, RequestCode.GET_MAX_OFFSET, fields, timeout=DETECT_SECONDS)
        except RemotingError:
            return False
        return True


class Flight:
    """A message that was sent asynchronously, from its first try until `landed` tells what became of it."""

    __slots__ = (
        "_broker", "_channel", "_place", "_publishing", "_request", "_sending", "_start", "_timeout", "_tries",
        "landed",
    )  # fmt: skip

    def __init__(
        self, tries: Tries, publishing: Publishing, request: Request, chosen: Place | None, timeout_ms: int | None
    ) -> None:
        self.landed: Final[asyncio.Future[SendResult]] = asyncio.get_running_loop().create_future()
        self._tries = tries
        self._publishing = publishing
        self._request = request
        self._place = chosen or tries.select(publishing, request.topic, None)
        self._broker = self._place.queue.broker
        self._channel: Channel | None = None
        self._sending = ASYNC if chosen is None else ASYNC_SELECTED
        self._timeout = timeout_ms or tries.settings.sending.send_msg_timeout
        self._start = time.monotonic()

    def take_off(self) -> bool:
        """Hand the message over, if there is a connection; what fails is tried again, and told by `landed`."""
        tries = self._tries
        channel = tries.open_channel(self._broker)
        if channel is None:
            return False
        tries.under_way += 1
        tries.bytes_under_way += len(self._request.body)
        self._write(channel)
        if tries.settings.faults.enabled and not self._sending.selected:
            tries.note(self._broker, HANDED_OVER, 0)
        return True

    async def connect_and_take_off(self) -> None:
        """`take_off`, with a connection that is made for it; one that cannot be had counts as a try."""
        while not self.take_off():
            try:
                await self._tries.channel(self._broker)
            except RemotingError as error:
                self._tries.under_way += 1
                self._tries.bytes_under_way += len(self._request.body)
                self._failed(error)
                return

    def _write(self, channel: Channel) -> None:
        self._channel = channel
        try:
            opaque = channel.expect(self._answered, self._timeout / 1000)
            channel.write(frame(channel, self._place, self._request, opaque))
        except RemotingError as error:
            self._failed(error, at_once=True)

    def _answered(self, answer: Answer) -> None:
        channel = self._channel
        if channel is None or isinstance(answer, RemotingError):
            self._failed(answer if isinstance(answer, RemotingError) else RemotingError("no connection"))
            return
        try:
            result = result_of(answer, self._request, self._place.queue, channel.address)
        except RemotingError as error:
            if answer.code == ResponseCode.GO_AWAY and channel.is_usable:
                self._tries.client.leave(channel)
                self._tries.start(self._again(self._broker))
            else:
                self._failed(error)
            return
        if self._broker != self._place.queue.broker:
            result = result._replace(queue=MessageQueue(self._broker, result.queue.queue_id))
        tries = self._tries
        if tries.settings.faults.enabled:
            tries.note(self._broker, HANDED_OVER, self._took())
        tries.landed(len(self._request.body))
        if not self.landed.done():
            self.landed.set_result(result)

    def _failed(self, error: RemotingError, *, at_once: bool = False) -> None:
        took = self._took()
        remaining = self._timeout - took
        settings = self._tries.settings.sending
        step = proceed_async(settings, self._sending, _thrown(error), remaining, at_once=at_once)
        self._sending = step.sending
        self._tries.note(self._broker, step.fault, took)
        if step.action == "try":
            self._timeout = step.timeout
            broker = self._broker
            if step.another_broker:
                broker = self._tries.select(self._publishing, self._request.topic, broker).queue.broker
            self._tries.start(self._again(broker))
            return
        self._tries.landed(len(self._request.body))
        if not self.landed.done():
            self.landed.set_exception(error)

    async def _again(self, broker: str) -> None:
        """Send to another broker what was to go to a queue of the first: the request, its queueId too, stays."""
        self._broker = broker
        self._start = time.monotonic()
        try:
            channel = await self._tries.channel(broker)
        except RemotingError as error:
            self._failed(error)
        except asyncio.CancelledError:
            self._tries.landed(len(self._request.body))
            self.landed.cancel()
            raise
        except Exception as error:  # noqa: BLE001  who waits for it is to hear of it, whatever it is
            self._tries.landed(len(self._request.body))
            if not self.landed.done():
                self.landed.set_exception(error)
        else:
            self._write(channel)

    def _took(self) -> int:
        return int((time.monotonic() - self._start) * 1000)


def frame(channel: Channel, place: Place, request: Request, opaque: int, flag: int = 0) -> bytes:
    """The frame of a request to this place, as the connection's settings want it. Raises CommandError."""
    born = now_ms()
    settings = channel.settings
    if settings.credentials is None and settings.serialize_type is SerializeType.ROCKETMQ:
        return place.frame(request, born, opaque, flag)
    return channel.encoded(place.command(request, born)._replace(opaque=opaque, flag=flag))


def _thrown(error: RemotingError) -> Thrown:
    return Thrown(error.exception, error.code if isinstance(error, BrokerError | ClientError) else -1)


def _failure(step: Next, error: RemotingError | None, tried: list[str], topic: str, elapsed: int) -> RemotingError:
    """What the caller of a send is told."""
    thrown = step.outcome
    if error is None or (isinstance(thrown, Thrown) and thrown.exception == TooMuchRequest.exception):
        late = TooMuchRequest(f"sendDefaultImpl call timeout: {elapsed} ms are over; brokers tried: {', '.join(tried)}")
        late.__cause__ = error
        return late
    if step.sending.selected or not isinstance(thrown, Thrown) or thrown.exception == error.exception:
        return error
    told = f"Send [{len(tried)}] times, still failed, cost [{elapsed}]ms, Topic: {topic}, BrokersSent: {tried}: {error}"
    failure = ClientError(told, thrown.code)
    failure.__cause__ = error
    return failure
