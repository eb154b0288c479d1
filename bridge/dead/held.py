"""A queue of dead letters as a source that takes what is chosen, and leaves the rest where it is.

Messages are got with basic.get, which needs no consumer: so no queue is deleted that goes with its last one. Each is a
lane of its own: it leaves the queue when it is settled, whatever becomes of others. What is not settled is given back
when the source is closed.

Messages are got in pages, each on a channel of its own, and given back page by page. A broker takes each message of a
basic.get back by itself (`rabbit_channel:foreach_per_queue`), so that one basic.nack for all would take

- a classic queue the time of the square of their number, as each is put behind those that are back
  (`rabbit_variable_queue:requeue_merge`); the last page is therefore given back first;
- a quorum queue their order: beyond 32 under way in one channel, they are sent in the order of a hash map
  (``SOFT_LIMIT`` of `rabbit_fifo_client`).

A broker ends a connection that opens more channels than its user or a node may have, and its messages come back in any
order. So the channels are opened before anything is got; after a refusal, half as many as there were, on a new
connection, as others of this user want some, too.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from bridge.dead.letters import LetterSource
from bridge.endpoint import Delivery, Disconnected, EndOfStream
from bridge.endpoints.rabbitmq.addresses import find_broker
from bridge.endpoints.rabbitmq.connection import Channel, Connection
from bridge.endpoints.rabbitmq.consumer.deliveries import FIXED_BYTES
from bridge.endpoints.rabbitmq.frames import Arrived, Event, NothingLeft, encode_ack, encode_gets, encode_return_all
from bridge.endpoints.rabbitmq.refusals import NOT_ALLOWED, NOT_FOUND, Refused, explain_refusal, refuses_argument
from exchange.amqp import ContentHeader, build_lazy_message
from exchange.amqp.streams import STREAM_OFFSET
from exchange.errors import (
    BrokerError,
    HashstarError,
    InputError,
    NotAllowed,
    NotImplementedByBroker,
    ResourceLocked,
)
from exchange.values.message import Message

PAGE: Final = 256
"""Minimum number of messages of a page, but for the last one."""
QUORUM_PAGE: Final = 32
"""Number of messages of a page of a quorum queue."""
PAGES: Final = 1_000
"""Number of pages that others than quorum queues are divided into where there would be more."""
AT_ONCE: Final = 64
"""Number of channels that are opened without waiting for each."""
TRIES: Final = 6
"""Maximum number of connections that are made to find out how many channels there may be."""
FORGETTING: Final = 1.0
"""Seconds until a broker has noticed that the channels of an ended connection are closed."""
FINAL: Final = NOT_ALLOWED | {NOT_FOUND, NotImplementedByBroker.code, ResourceLocked.code}
"""Reply codes after which no other try goes better."""


class Chosen(NamedTuple):
    """A message that is to leave the queue."""

    digest: str
    message: Message | None
    """What is to be published in its place before; None if that was done earlier."""


class Chooser:
    """Decides what becomes of the messages of a queue; this one leaves all where they are."""

    def begin(self) -> None:
        """Take note that no message is held: those that have not left the queue come once more."""

    def choose(self, message: Message) -> Chosen | None:
        """Return what is to be done with a message; None: it stays, and is not counted.

        Raises HashstarError or ValueError for one that was to leave, and cannot.
        """

    def let_go(self, digests: Sequence[str]) -> None:
        """Take note of messages that are about to leave the queue. An InputError ends it."""


@dataclass(slots=True)
class _Page:
    """Messages that were got on one channel."""

    channel: Channel
    held: int = 0
    """Number of those that are not settled."""


class HeldQueue(LetterSource):
    """The first ``limit`` messages of a queue."""

    def __init__(self, url: str, queue: str, limit: int, chooser: Chooser) -> None:
        super().__init__(f"queue {queue}")
        self._url: Final = url
        self._queue: Final = queue
        self._limit: Final = limit
        self._chooser: Final = chooser
        self._connection: Connection | None = None
        self._most_pages = 1 << 16
        """Maximum number of pages, as far as is known."""
        self._reset()

    def _reset(self) -> None:
        self._arrived: deque[tuple[_Page, Arrived]] = deque()
        self._pages: list[_Page] = []
        self._spare: list[_Page] = []
        """Pages that were opened in advance."""
        self._places: dict[int, tuple[_Page, int]] = {}
        """Position of what is to be settled -> its page, and its tag there."""
        self._acks: list[tuple[int, str]] = []
        self._news = asyncio.Event()
        self._trouble: Disconnected | None = None
        self._is_empty = self._has_all_channels = self._is_quorum = False
        self._asked = self._got = self._judged = 0

    @property
    def lost(self) -> Disconnected | None:
        return self._trouble

    async def open(self) -> None:
        self.epoch += 1
        self.is_settled = False
        self.left.clear()
        self._chooser.begin()
        for tries in range(1, TRIES + 1):
            try:
                self._connection = await self._connect()
            except Refused as error:
                opened = len(self._spare) or (self._most_pages if tries > 1 else 0)
                if self.fault is None:
                    raise
                if error.code != NotAllowed.code or opened < 2 or tries == TRIES:
                    return
                self.fault, self._most_pages = None, opened // 2
                await asyncio.sleep(FORGETTING)
            else:
                return

    async def _connect(self) -> Connection | None:
        """Return a connection with a channel for each page, None if there is a fault. Raises Disconnected."""
        self._reset()
        connection = await Connection.open(find_broker(self._url, "hashstar dead"), self._lose)
        try:
            declared = await connection.look("queue", self._queue)
            self._is_quorum = await find_type(connection, self._queue) == "quorum"
            await self._open_pages(connection, min(self._limit, int(declared.method.message_count)))
        except BrokerError as error:
            await connection.close()
            self.fault, self.is_missing = explain_refusal(error, f"queue '{self._queue}'"), error.code == NOT_FOUND
            return None
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _open_pages(self, connection: Connection, messages: int) -> None:
        """Open a channel for each page of these messages, fewer if the broker refuses more. Raises Disconnected.

        One more is opened, and closed, so that what is published again always finds one, also after a lost connection.
        """
        wanted = min(self._most_pages, -(-messages // self._page_size)) + 1
        while len(self._spare) < wanted and not self._has_all_channels:
            count = min(AT_ONCE, wanted - len(self._spare))
            opened = await asyncio.gather(*[self._open_page(connection) for _ in range(count)], return_exceptions=True)
            self._spare += [each for each in opened if isinstance(each, _Page)]
            for error in opened:
                if isinstance(error, BaseException):
                    if self._trouble is not None or not self._spare:
                        raise error
                    self._has_all_channels = True
        if not self._has_all_channels:
            self._spare.pop().channel.close()

    async def _open_page(self, connection: Connection) -> _Page:
        page = _Page(await connection.channel())
        page.channel.on_events = partial(self._take, page)
        return page

    @property
    def _page_size(self) -> int:
        return QUORUM_PAGE if self._is_quorum else max(PAGE, -(-self._limit // min(PAGES, self._most_pages)))

    def _lose(self, error: Disconnected) -> None:
        if isinstance(error, Refused) and error.code in FINAL:
            self.fault = f"queue '{self._queue}': {error}"
        self._trouble = error
        self._news.set()

    def _take(self, page: _Page, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, NothingLeft):
                self._is_empty = True
            elif isinstance(event, Arrived):
                self._got += 1
                page.held += 1
                self._arrived.append((page, event))
        self._news.set()

    async def read(self, limit: int) -> Sequence[Delivery]:
        while True:
            if self.fault is not None:
                raise EndOfStream
            if self._trouble is not None:
                raise self._trouble
            if self._arrived:
                count = min(limit, len(self._arrived))
                if deliveries := [*filter(None, [self._judge(*self._arrived.popleft()) for _ in range(count)])]:
                    return deliveries
                continue
            if self._is_empty or self._got >= self._limit:
                raise EndOfStream
            self._news.clear()
            if self._asked == self._got and self._connection is not None:
                await self._ask(self._connection)
            await self._news.wait()

    async def _ask(self, connection: Connection) -> None:
        """Ask for a page of messages. Raises Disconnected."""
        page = await self._turn_page(connection)
        count = min(self._page_size, self._limit - self._asked)
        self._asked += count
        name = self._queue.encode("utf-8", "surrogateescape")
        connection.write(encode_gets(page.channel.number, name, count))

    async def _turn_page(self, connection: Connection) -> _Page:
        """Return a page that is empty; the last one if there is no channel for another."""
        page = next((each for each in self._pages if not each.held), None)
        if page is None and self._spare:
            page = self._spare.pop()
        elif page is None and not self._has_all_channels and len(self._pages) < self._most_pages:
            try:
                page = await self._open_page(connection)
            except Disconnected:
                if self._trouble is not None or not self._pages:
                    raise
                self._has_all_channels = True
        elif page is not None:
            self._pages.remove(page)
        page = page or self._pages.pop()
        self._pages.append(page)
        return page

    def _judge(self, page: _Page, event: Arrived) -> Delivery | None:
        self._judged += 1
        position = self._judged
        exchange, key = (each.decode("utf-8", "surrogateescape") for each in (event.exchange, event.routing_key))
        try:
            chosen = self._chooser.choose(
                build_lazy_message(exchange, key, ContentHeader(event.properties), event.body)
            )
        except (HashstarError, ValueError) as error:
            self.left[position] = str(error)
            return None
        if chosen is None:
            return None
        self._places[position] = page, event.tag
        if chosen.message is None:
            self._ack(position, chosen.digest)
            return None
        size = len(event.body) + len(event.properties) + FIXED_BYTES
        lane = self.epoch, position
        return Delivery(chosen.message, lane, position, chosen.digest, size=size, origin=self.name)

    def settle(self, delivery: Delivery) -> None:
        if self.is_current(delivery) and delivery.position not in self.left:
            self._ack(delivery.position, delivery.identity or "")

    def _ack(self, position: int, digest: str) -> None:
        if not self._acks:
            asyncio.get_running_loop().call_soon(self._write_acks)
        self._acks.append((position, digest))

    def _write_acks(self) -> None:
        acks, self._acks = self._acks, []
        if not acks or self._connection is None or self._trouble is not None or self.fault is not None:
            return
        try:
            self._chooser.let_go([digest for _, digest in acks])
        except InputError as error:
            self.fault = str(error)
            self._news.set()
            return
        frames = []
        for position, _ in acks:
            page, tag = self._places.pop(position)
            page.held -= 1
            frames.append(encode_ack(page.channel.number, tag, multiple=False))
        self._connection.write(b"".join(frames))

    async def close(self) -> None:
        self._write_acks()
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._trouble is None:
            with suppress(Disconnected, BrokerError):
                for page in self._pages if self._is_quorum else reversed(self._pages):
                    connection.write(encode_return_all(page.channel.number))
                    await page.channel.ask("basic_qos", prefetch_count=0)  # is answered after what was written before
                self.is_settled = True  # the broker has taken all acknowledgements, and has the rest back
        await connection.close()


async def find_type(connection: Connection, queue: str) -> str:
    """Return the type of a queue: classic, quorum or stream. Raises BrokerError, Disconnected.

    Only streams take an argument of a consumer where to begin; the refusal of others has their types.
    """
    channel = await connection.channel(apart=True)
    try:
        await channel.consume(queue, exclusive=False, arguments={STREAM_OFFSET: "next"}, prefetch=1)
    except BrokerError as error:
        if not refuses_argument(error, STREAM_OFFSET):
            raise
        return "quorum" if "rabbit_quorum_queue" in error.text else "classic"
    channel.close()
    return "stream"
