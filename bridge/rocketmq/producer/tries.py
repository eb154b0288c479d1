"""The tries to send a message: to which broker, over which connection, and what follows each outcome.

`exchange.partition.clients.rocketmq.send` decides what follows an outcome, and
`exchange.partition.clients.rocketmq.faults` which broker is avoided; this module has the sockets and the clocks for
both. A message that is sent asynchronously needs no task and no timer of its own, unless it is tried again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, Final, cast

from bridge.rocketmq.producer.publishing import (
    ProducerSettings,
    PublishQueue,
    SendRequest,
    SendResult,
    SendTo,
    TopicPublishInfo,
    decode_result,
)
from bridge.rocketmq.remoting.channel import Answer, Channel
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import RequestCode, ResponseCode
from bridge.rocketmq.remoting.command import SerializeType, now_ms
from bridge.rocketmq.remoting.errors import BrokerError, ClientError, RemotingError, TooMuchRequest
from exchange.partition.clients.rocketmq.faults import DETECTOR_PERIOD, Faults, ThreadMemory, list_probes_due, probe
from exchange.partition.clients.rocketmq.queues import MessageQueue
from exchange.partition.clients.rocketmq.round_robin import RoundRobin, Turn
from exchange.partition.clients.rocketmq.send import (
    FaultUpdate,
    Next,
    Outcome,
    Sending,
    SuccessfulTry,
    Thrown,
    begin,
    proceed,
    proceed_async,
)
from exchange.partition.partitioner import Draw, Inputs

LOG: Final = logging.getLogger(__name__)

DETECT_SECONDS: Final = 0.2
"""``detectTimeout``: seconds until a broker that is probed must have answered."""

NO_FAULT: Final = FaultUpdate(isolated=False)
ASYNC: Final = Sending("async")
ASYNC_SELECTED: Final = Sending("async", selected=True)


class Tries:
    """State that all sends of one producer share: its table of faults, and the next queue of each topic."""

    def __init__(self, client: Client, settings: ProducerSettings, draw: Draw) -> None:
        self.client: Final = client
        self.settings: Final = settings
        self.faults: Faults = {}
        """The broker's name -> its last latency, and until when it is avoided; empty while the strategy is off."""
        self.under_way = 0
        """Number of messages that were sent asynchronously and are not answered yet."""
        self.bytes_under_way = 0
        """Size of their bodies together, in bytes."""
        self._draw: Final = draw
        self._memories: Final[dict[str, ThreadMemory]] = {}
        self._turns: Final[dict[str, Turn]] = {}
        self._round_robin: Final = RoundRobin(settings.faults.version)
        self._inputs: Final = Inputs(draw)
        self._channels: Final[dict[str, Channel]] = {}
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._ended_one: asyncio.Future[None] | None = None

    # Where a message goes.

    def select(
        self, publishing: TopicPublishInfo, topic: str, last_broker: str | None, *, reset: bool = False
    ) -> PublishQueue:
        """Choose the queue of the next try, if neither the caller nor a selector has (`selectOneMessageQueue`)."""
        if not self.settings.faults.enabled:  # the same choice as by the disabled strategy, without its tables
            choice, self._turns[topic] = self._round_robin.choose_again(
                last_broker, publishing.partitions, self._turns.get(topic), self._inputs
            )
            return publishing.queues[cast("int", choice.partition)]
        selection = self.settings.faults.select(
            last_broker, publishing.partitions, self.faults, self._memories.get(topic, ThreadMemory()),
            Inputs(self._draw, now_ms()), reset_index=reset,
        )  # fmt: skip
        self._memories[topic], self.faults = selection.memory, selection.faults
        return publishing.find(selection.queue)

    def first_queue(self, request: SendRequest, send_to: SendTo) -> PublishQueue:
        """Return the queue of the first try."""
        return send_to.chosen or self.select(send_to.publishing, request.topic, None)

    def open_channel(self, broker: str) -> Channel | None:
        """Return the connection to a broker, if it is open and its write buffer is not full."""
        channel = self._channels.get(broker)
        return channel if channel is not None and channel.is_usable and channel.is_writable else None

    async def channel(self, broker: str) -> Channel:
        """Return the connection to a broker; connect first if there is none. Raises ClientError, ConnectError."""
        channel = self._channels[broker] = await self.client.broker(broker)
        if not channel.is_writable:
            await channel.wait_until_writable()
        return channel

    def forget_channels(self) -> None:
        """Look up the connections to brokers again, as their addresses may have changed."""
        self._channels.clear()

    def note(self, broker: str, fault: FaultUpdate | None, took: int) -> None:
        """Put the outcome of a try into the table of faults; ``took`` is its duration in milliseconds."""
        if fault is not None and self.settings.faults.enabled:
            latency = took if fault.latency is None else fault.latency
            self.faults = self.settings.faults.update(
                self.faults, broker, latency, now_ms(), isolated=fault.isolated, reachable=fault.reachable
            )

    # Messages whose answer is awaited.

    async def send(self, request: SendRequest, send_to: SendTo, timeout_ms: int | None) -> SendResult:
        """Try until the message is stored, or may not be tried again. Raises as `Producer.send`."""
        publishing, chosen = send_to
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
            target = chosen or self.select(publishing, request.topic, last, reset=step.reset_index)
            broker = target.queue.broker
            tried.append(broker)
            start = time.monotonic()
            try:
                result = await self._once(request, target, step.timeout / 1000)
                outcome: Outcome = SuccessfulTry(result.status)
            except RemotingError as failed:
                error, outcome = failed, _outcome_of(failed)
            now = time.monotonic()
            step = proceed(settings, step.sending, outcome, int((now - began) * 1000))
            self.note(broker, step.fault, int((now - start) * 1000))
        if step.action == "return" and result is not None:
            return result
        raise _failure(step, error, tried, request.topic, int((time.monotonic() - began) * 1000))

    async def _once(self, request: SendRequest, target: PublishQueue, seconds: float) -> SendResult:
        """Send once, and wait ``seconds`` for the answer. After GO_AWAY, later requests use a new connection."""
        broker = target.queue.broker
        channel = self.open_channel(broker) or await self.channel(broker)
        answer = await channel.invoke_with(lambda opaque: encode_frame(channel, target, request, opaque), seconds)
        if answer.code == ResponseCode.GO_AWAY:
            self.client.leave(channel)
        return decode_result(answer, request, target.queue, channel.address)

    # Messages that are sent asynchronously.

    async def start(self, request: SendRequest, send_to: SendTo, timeout_ms: int | None) -> asyncio.Future[SendResult]:
        """Start to send a message once there is room for it, and return the future of its result."""
        while self._is_full() and self.under_way:
            await self._change()
        pending = PendingSend(self, request, send_to, timeout_ms)
        if not pending.start():
            await pending.connect_and_start()
        return pending.result

    def _is_full(self) -> bool:
        """Return whether the messages under way have reached a limit of the settings."""
        settings = self.settings
        return self.under_way >= settings.async_send_num or self.bytes_under_way > settings.async_send_size

    async def flush(self) -> None:
        """Wait until no message is under way."""
        while self.under_way:
            await self._change()

    async def _change(self) -> None:
        """Wait until the next message is no longer under way."""
        if self._ended_one is None:
            self._ended_one = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._ended_one)

    def count_start(self, request: SendRequest) -> None:
        """Count a message as under way."""
        self.under_way += 1
        self.bytes_under_way += len(request.body)

    def count_end(self, request: SendRequest) -> None:
        """Count a message as no longer under way."""
        self.under_way -= 1
        self.bytes_under_way -= len(request.body)
        if self._ended_one is not None:
            self._ended_one.set_result(None)
            self._ended_one = None

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task that ends with the producer at the latest."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            LOG.error("a background task of a producer failed", exc_info=error)
            for listener in tuple(self.client.on_broken):
                listener(error)

    async def close(self) -> None:
        """Cancel the background tasks, and wait for their end."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Looking whether brokers that failed are back.

    async def detect(self) -> None:
        """Probe the brokers in the table of faults, for ever (`LatencyFaultToleranceImpl.startDetector`)."""
        while True:
            await asyncio.sleep(DETECTOR_PERIOD / 1000)
            for broker in list_probes_due(self.faults, now_ms()):
                answered = await self._answers(broker)
                if broker in self.faults:
                    self.faults = probe(self.faults, broker, now_ms(), answered=answered)

    async def _answers(self, broker: str) -> bool | None:
        """Return whether a broker answers a small request; None if no route has its address."""
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


class PendingSend:
    """A message that is sent asynchronously, from its first try until `result` is done."""

    __slots__ = (
        "_broker", "_channel", "_publishing", "_request", "_sending", "_started", "_target", "_timeout", "_tries",
        "result",
    )  # fmt: skip

    def __init__(self, tries: Tries, request: SendRequest, send_to: SendTo, timeout_ms: int | None) -> None:
        self.result: Final[asyncio.Future[SendResult]] = asyncio.get_running_loop().create_future()
        self._tries = tries
        self._publishing = send_to.publishing
        self._request = request
        self._target = tries.first_queue(request, send_to)
        self._broker = self._target.queue.broker
        self._channel: Channel | None = None
        self._sending = ASYNC if send_to.chosen is None else ASYNC_SELECTED
        self._timeout = timeout_ms or tries.settings.sending.send_msg_timeout
        self._started = time.monotonic()

    def start(self) -> bool:
        """Make the first try if there is a connection, and return whether there is one.

        Once this has returned True, the message is under way: a failure leads to another try, or becomes the exception
        of `result`.
        """
        tries = self._tries
        channel = tries.open_channel(self._broker)
        if channel is None:
            return False
        tries.count_start(self._request)
        self._write(channel)
        if tries.settings.faults.enabled and not self._sending.selected:
            tries.note(self._broker, NO_FAULT, 0)
        return True

    async def connect_and_start(self) -> None:
        """Connect, then `start`; a connection that cannot be made counts as a try."""
        while not self.start():
            try:
                await self._tries.channel(self._broker)
            except RemotingError as error:
                self._tries.count_start(self._request)
                self._fail(error)
                return

    def _write(self, channel: Channel) -> None:
        self._channel = channel
        try:
            opaque = channel.expect(self._take_answer, self._timeout / 1000)
            channel.write(encode_frame(channel, self._target, self._request, opaque))
        except RemotingError as error:
            self._fail(error, at_once=True)

    def _take_answer(self, answer: Answer) -> None:
        channel = self._channel
        if channel is None or isinstance(answer, RemotingError):
            self._fail(answer if isinstance(answer, RemotingError) else RemotingError("no connection"))
            return
        try:
            result = decode_result(answer, self._request, self._target.queue, channel.address)
        except RemotingError as error:
            if answer.code == ResponseCode.GO_AWAY and channel.is_usable:
                # The broker will end this connection: the request goes to it again over a new one, as the same try.
                self._tries.client.leave(channel)
                self._tries.run_in_background(self._try_again(self._broker))
            else:
                self._fail(error)
            return
        if self._broker != self._target.queue.broker:  # another broker was tried; see `_try_again`
            result = result._replace(queue=MessageQueue(self._broker, result.queue.queue_id))
        tries = self._tries
        if tries.settings.faults.enabled:
            tries.note(self._broker, NO_FAULT, self._elapsed_ms())
        tries.count_end(self._request)
        if not self.result.done():
            self.result.set_result(result)

    def _fail(self, error: RemotingError, *, at_once: bool = False) -> None:
        """Try again after an error if that is permitted, else end with it; ``at_once``: the request was not written."""
        took = self._elapsed_ms()
        remaining = self._timeout - took
        settings = self._tries.settings.sending
        step = proceed_async(settings, self._sending, _outcome_of(error), remaining, at_once=at_once)
        self._sending = step.sending
        self._tries.note(self._broker, step.fault, took)
        if step.action == "try":
            self._timeout = step.timeout
            broker = self._broker
            if step.another_broker:
                broker = self._tries.select(self._publishing, self._request.topic, broker).queue.broker
            self._tries.run_in_background(self._try_again(broker))
            return
        self._end_with(error)

    async def _try_again(self, broker: str) -> None:
        """Send the message again, to this broker.

        As in Java the request stays the same, even when its queue is that of another broker: this broker then uses its
        own queue with the same queueId.
        """
        self._broker = broker
        self._started = time.monotonic()
        try:
            channel = await self._tries.channel(broker)
        except RemotingError as error:
            self._fail(error)
        except asyncio.CancelledError:
            self._tries.count_end(self._request)
            self.result.cancel()
            raise
        except Exception as error:  # noqa: BLE001  the caller must get it, whatever it is
            self._end_with(error)
        else:
            self._write(channel)

    def _end_with(self, error: Exception) -> None:
        self._tries.count_end(self._request)
        if not self.result.done():
            self.result.set_exception(error)

    def _elapsed_ms(self) -> int:
        """Return the milliseconds since this try began."""
        return int((time.monotonic() - self._started) * 1000)


def encode_frame(channel: Channel, target: PublishQueue, request: SendRequest, opaque: int, flag: int = 0) -> bytes:
    """Return the frame of a request to this queue, in the form that the connection is set to. Raises CommandError."""
    born = now_ms()
    settings = channel.settings
    if settings.credentials is None and settings.serialize_type is SerializeType.ROCKETMQ:
        return target.frame(request, born, opaque, flag)
    return channel.encode(target.command(request, born)._replace(opaque=opaque, flag=flag))


def _outcome_of(error: RemotingError) -> Thrown:
    return Thrown(error.exception, error.code if isinstance(error, BrokerError | ClientError) else -1)


def _failure(step: Next, error: RemotingError | None, tried: list[str], topic: str, elapsed: int) -> RemotingError:
    """Return the error that a send raises: of a chosen queue, that of its only try.

    Else it is TooMuchRequest when the time for all tries is over, the broker's refusal when that is final, and
    ClientError, which lists the brokers tried, when no try is left.
    """
    thrown = step.outcome
    if error is None or (isinstance(thrown, Thrown) and thrown.exception == TooMuchRequest.exception):
        late = TooMuchRequest(f"sendDefaultImpl call timeout: {elapsed} ms are over; brokers tried: {', '.join(tried)}")
        late.__cause__ = error
        return late
    if step.sending.selected or not isinstance(thrown, Thrown) or thrown.exception == error.exception:
        return error
    text = f"Send [{len(tried)}] times, still failed, cost [{elapsed}]ms, Topic: {topic}, BrokersSent: {tried}: {error}"
    failure = ClientError(text, thrown.code)
    failure.__cause__ = error
    return failure
