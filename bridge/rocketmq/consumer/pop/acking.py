"""Acknowledgements of popped messages on their way to the brokers, in batches.

A message is acknowledged by the caller at once, and at its broker soon: acknowledgements that come while a request
is in flight are sent together in the next one. A request that fails is sent again as long as the messages' invisible
time is not over.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Final

from bridge.rocketmq.consumer.pop.handle import PopHandle
from bridge.rocketmq.consumer.pop.requests import PopRequests, TopicHandle
from bridge.rocketmq.remoting.codes import ResponseCode
from bridge.rocketmq.remoting.errors import BrokerError, RemotingError

LOG: Final = logging.getLogger(__name__)

BATCH: Final = 256
"""Maximum number of messages that are acknowledged in one request."""
AGAIN: Final = 0.5
"""Seconds until a request that failed is sent again."""

Start = Callable[[Coroutine[object, object, None]], asyncio.Task[None]]
"""Function that starts a task of the consumer."""


class Acking:
    """The acknowledgements of a member; ``failed`` is called with the broker's name and the error of each failure, and
    with None after the next success.
    """

    def __init__(
        self, group: str, requests: PopRequests, start: Start, failed: Callable[[str, RemotingError | None], None]
    ) -> None:
        self._group: Final = group
        self._requests: Final = requests
        self._start: Final = start
        self._failed: Final = failed
        self._pending: Final[dict[str, deque[tuple[str, PopHandle, float]]]] = {}
        """Broker -> topic, handle and deadline of the messages to acknowledge."""
        self._tasks: Final[dict[str, asyncio.Task[None]]] = {}
        self._singly: Final[set[str]] = set()
        """Brokers that do not know batches of acknowledgements (5.0)."""

    def add(self, topic: str, handle: PopHandle, deadline: float) -> None:
        """Queue an acknowledgement, which is tried until ``deadline``, in seconds of the loop's clock."""
        self._pending.setdefault(handle.broker, deque()).append((topic, handle, deadline))
        if handle.broker not in self._tasks:
            task = self._tasks[handle.broker] = self._start(self._send_all(handle.broker))
            task.add_done_callback(lambda _: self._end(handle.broker, task))

    async def flush(self) -> None:
        """Wait until all messages are acknowledged, or their deadlines have passed."""
        while self._tasks:
            await asyncio.wait(self._tasks.values())
            await asyncio.sleep(0)  # the callbacks of these tasks may start others

    def _end(self, broker: str, task: asyncio.Task[None]) -> None:
        """Forget a task that has ended; start another for what came meanwhile."""
        if self._tasks.get(broker) is task:
            del self._tasks[broker]
        if self._pending.get(broker) and not task.cancelled() and task.exception() is None:
            topic, handle, deadline = self._pending[broker].pop()
            self.add(topic, handle, deadline)

    async def _send_all(self, broker: str) -> None:
        """Send the acknowledgements for a broker until there are none."""
        loop, pending = asyncio.get_running_loop(), self._pending[broker]
        await asyncio.sleep(0)  # what is acknowledged in this turn of the loop goes together
        while pending:
            now, most = loop.time(), 1 if broker in self._singly else BATCH
            taken = [pending.popleft() for _ in range(min(most, len(pending)))]
            taken = [each for each in taken if each[2] > now]
            if not taken:
                continue
            handles: list[TopicHandle] = [(topic, handle) for topic, handle, _ in taken]
            try:
                await self._requests.ack_all(handles)
            except RemotingError as error:
                if isinstance(error, BrokerError) and error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    self._singly.add(broker)
                elif isinstance(error, BrokerError) and len(taken) == 1:
                    LOG.warning("group %s: %s is not acknowledged: %s", self._group, handles[0][1].text, error)
                    continue
                else:
                    self._failed(broker, error)
                    await asyncio.sleep(AGAIN)
                pending.extendleft(reversed(taken))
            else:
                self._failed(broker, None)
