"""Messages in memory: for tests, and for programs that embed the bridge.

When the source is opened again, it delivers again all messages that were not settled, in order, as a broker does. The
connections of both can be broken on purpose, so that the pump's promises are tested without a broker.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from bridge.endpoint import Delivery, Disconnected, EndOfStream, Failure, Outgoing, Receiver, Source, Target
from exchange.values.message import Message


class MemorySource(Source):
    """A queue in this process. ``put`` adds messages; after ``end`` the stream ends when all are read.

    >>> source = MemorySource([Message("orders", "order.eu.created")])
    >>> source.put(Message("orders", "order.eu.paid"))
    >>> source.unsettled
    2
    """

    def __init__(self, messages: Iterable[Message] = (), name: str = "memory") -> None:
        self.name = name
        self._waiting: deque[tuple[int, Message]] = deque(enumerate(messages))
        self._count = len(self._waiting)
        self._unsettled: deque[tuple[int, Message]] = deque()
        self._ended = False
        self._broken = False
        self._epoch = 0
        self._news = asyncio.Event()

    def put(self, message: Message) -> None:
        """Add a message; on the event loop's thread."""
        self._waiting.append((self._count, message))
        self._count += 1
        self._news.set()

    def end(self) -> None:
        """End the stream when all messages are read; no more are put."""
        self._ended = True
        self._news.set()

    def break_connection(self) -> None:
        """Break the connection: the next read raises Disconnected."""
        self._broken = True
        self._news.set()

    @property
    def unsettled(self) -> int:
        """Number of messages that are not settled, read or not."""
        return len(self._waiting) + len(self._unsettled)

    @property
    def lag(self) -> int:
        return len(self._waiting)

    async def open(self) -> None:
        self._waiting.extendleft(reversed(self._unsettled))
        self._unsettled.clear()
        self._broken = False
        self._epoch += 1

    async def read(self, limit: int) -> Sequence[Delivery]:
        while not self._waiting or self._broken:
            if self._broken:
                raise Disconnected("the connection is broken")
            if self._ended:
                raise EndOfStream
            self._news.clear()
            await self._news.wait()
        taken = [self._waiting.popleft() for _ in range(min(limit, len(self._waiting)))]
        self._unsettled += taken
        return [
            Delivery(message, self._epoch, n, f"{self.name}:{n}", size=len(message.body), origin=self.name)
            for n, message in taken
        ]

    def settle(self, delivery: Delivery) -> None:
        if delivery.lane != self._epoch:
            return
        while self._unsettled and self._unsettled[0][0] <= delivery.position:
            self._unsettled.popleft()
        self._news.set()

    async def close(self) -> None:
        self._epoch += 1


class MemoryTarget(Target):
    """Keeps the messages that it is sent, and confirms them on the loop's next turn.

    ``fault`` returns None for a message to confirm, a `Failure` for one to refuse, or a `Disconnected`, which ends the
    connection.

    >>> MemoryTarget("billing").messages
    []
    """

    def __init__(
        self, name: str = "memory", fault: Callable[[Outgoing], Failure | Disconnected | None] = lambda _: None
    ) -> None:
        self.name = name
        self.messages: list[Outgoing] = []
        self._fault = fault
        self._receiver: Receiver | None = None
        self._sent: deque[Outgoing] = deque()

    async def open(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._sent.clear()

    def send(self, messages: Sequence[Outgoing]) -> None:
        if not self._sent:
            asyncio.get_running_loop().call_soon(self._answer)
        self._sent += messages

    def _answer(self) -> None:
        """Report on all messages sent; at a `Disconnected`, confirm those before it, and drop the others."""
        confirmed: list[Outgoing] = []
        while self._sent and self._receiver is not None:
            outgoing = self._sent.popleft()
            fault = self._fault(outgoing)
            if fault is None:
                confirmed.append(outgoing)
                self.messages.append(outgoing)
            elif isinstance(fault, Failure):
                self._receiver.failed(outgoing, fault)
            else:
                self._receiver.confirmed(confirmed)
                receiver, self._receiver = self._receiver, None
                self._sent.clear()
                receiver.lost(fault)
                return
        if self._receiver is not None:
            self._receiver.confirmed(confirmed)

    async def close(self) -> None:
        self._receiver = None
