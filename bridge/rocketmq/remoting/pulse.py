"""Checks, within seconds, whether the servers that a client needs are alive.

A pull waits at its broker for 15 s, and times out after 30 s. Without these checks it would take that long to notice a
broker that is stopped, cut off or frozen. So a server that sent nothing for `QUIET` seconds gets a small request, and
any answer, even a refusal, is a sign of life. A connection that has brought nothing for `GIVE_UP` seconds is ended:
after a break of the network, TCP itself may wait for minutes until it sends again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import RequestCode
from bridge.rocketmq.remoting.errors import RemotingError
from exchange.partition.clients.rocketmq.queues import MASTER

LOOK_EVERY: Final = 0.5
"""Seconds between checks."""
QUIET: Final = 2.0
"""Seconds without a sign of life until a server gets a request."""
ANSWER: Final = 2.5
"""Seconds without an answer until it gets another request; a late answer is a sign of life, too."""
SILENT: Final = 5.0
"""Seconds without a sign of life until a server is reported as trouble."""
GIVE_UP: Final = 10.0
"""Seconds without a sign of life until a connection is ended."""

NAME_SERVERS: Final = ""
"""Key of the name servers in the table of watched servers, whose other keys are names of brokers."""


class WatchedServer(NamedTuple):
    """Servers of which at least one must be alive."""

    addresses: tuple[str, ...]
    topic: str
    """The topic for which they get requests."""


class Pulse:
    """Watches the name servers and the brokers of these topics: the master of each, or with ``replicas`` any server.

    With ``replicas``, which is for sources, a broker that is dead and has left the routes is trouble as well: its
    messages are not read. ``failed`` is called with the exception if watching ends with one, which should not happen.
    """

    def __init__(
        self, client: Client, topics: Iterable[str], *, replicas: bool, failed: Callable[[BaseException], None]
    ) -> None:
        self._client: Final = client
        self._name_servers: Final = client.settings.name_servers
        self._topics: Final = tuple(topics)
        self._replicas: Final = replicas
        self._failed: Final = failed
        self._watched: dict[str, WatchedServer] = {}
        self._heard: Final[dict[str, float]] = {}
        """Address -> time of the last answer to a probe, by the loop's clock."""
        self._reasons: Final[dict[str, str]] = {}
        """Address -> why the last probe failed."""
        self._probes: Final[dict[str, asyncio.Task[None]]] = {}
        """Address -> the request that is under way."""
        self._loop: Final = asyncio.get_running_loop()
        self._since = self._looked = self._loop.time()
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to watch."""
        self._task = self._loop.create_task(self._watch())
        self._task.add_done_callback(self._report)

    async def close(self) -> None:
        """Stop watching."""
        tasks = self.stop()
        await asyncio.gather(*tasks, return_exceptions=True)

    def stop(self) -> list[asyncio.Task[None]]:
        """Stop watching, but do not wait: return the tasks that are about to end."""
        tasks = [*self._probes.values(), *([] if self._task is None else [self._task])]
        for task in tasks:
            task.cancel()
        return tasks

    @property
    def trouble(self) -> str | None:
        """Servers that are silent, for how long, and why; None: there are none."""
        now = self._loop.time()
        silences = [text for name, watched in self._watched.items() if (text := self._silence(name, watched, now))]
        return "; ".join(silences) or None

    def _silence(self, name: str, watched: WatchedServer, now: float) -> str | None:
        heard = max([self._heard_from(address) for address in watched.addresses], default=self._since)
        if now - heard < SILENT:
            return None
        who = f"broker {name!r}" if name else "the name server" if len(watched.addresses) == 1 else "all name servers"
        reason = next((self._reasons[each] for each in watched.addresses if each in self._reasons), "")
        if not watched.addresses:
            reason = "it has no master"
        return f"no sign of life from {who} for {now - heard:.0f} s{f' ({reason})' if reason else ''}"

    def _heard_from(self, address: str) -> float:
        """Return when the last sign of life came, by the loop's clock."""
        channel = self._client.open_channel(address)
        heard = self._heard.get(address, self._since)
        return max(heard, self._since, self._since if channel is None else channel.heard_at)

    def _answers(self, address: str, now: float) -> bool:
        """Return whether a sign of life came lately; a connection alone is none, nor that this process was stopped."""
        channel = self._client.open_channel(address)
        heard = [self._heard.get(address), channel.heard_at if channel is not None and channel.has_heard else None]
        return any(at is not None and now - at < QUIET for at in heard)

    async def _watch(self) -> None:
        while True:
            now = self._loop.time()
            if now - self._looked > SILENT:  # this process was stopped, or blocked: servers may have answered
                self._since = now
            self._looked = now
            self._watched = self._to_watch()
            for name, watched in self._watched.items():
                for address in watched.addresses:
                    if address not in self._probes and now - self._heard_from(address) >= QUIET:
                        self._probe(name, address, watched.topic)
            await asyncio.sleep(LOOK_EVERY)

    def _to_watch(self) -> dict[str, WatchedServer]:
        """Return the servers to watch: name servers, brokers in the routes, and with ``replicas`` also silent brokers
        that have left the routes.
        """
        topic = self._topics[0] if self._topics else ""
        to_watch = {NAME_SERVERS: WatchedServer(self._name_servers, topic), **dict(self._in_routes())}
        if self._replicas:
            now = self._loop.time()
            for name, watched in self._watched.items():
                alive = any(self._answers(address, now) for address in watched.addresses)
                if name not in to_watch and not alive:
                    to_watch[name] = watched
        return to_watch

    def _in_routes(self) -> Iterator[tuple[str, WatchedServer]]:
        """Yield the brokers in the routes of the topics."""
        routes = self._client.routes()
        for topic in self._topics:
            route = routes.get(topic)
            if route is None:
                continue
            with_queues = {data.broker for data in route.queues}
            for data in route.brokers:
                if data.broker in with_queues:
                    servers: Mapping[int, str] = dict(data.addresses)
                    needed = [servers[at] for at in sorted(servers) if self._replicas or at == MASTER]
                    yield data.broker, WatchedServer(tuple(needed), topic)

    def _probe(self, name: str, address: str, topic: str) -> None:
        task = self._probes[address] = self._loop.create_task(self._ask(name, address, topic))
        task.add_done_callback(lambda done: self._end_probe(address, done))

    async def _ask(self, name: str, address: str, topic: str) -> None:
        code, fields = RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic, "acceptStandardJsonOnly": "true"}
        if name:
            # The request must be for a queue that the broker has: for any other the broker would create files.
            code, fields = RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": "0", "bname": name}
        try:
            await self._client.invoke(address, code, fields, timeout=ANSWER)
        except RemotingError as error:
            self._reasons[address] = str(error)
            channel = self._client.open_channel(address)
            if channel is not None and self._loop.time() - self._heard_from(address) >= GIVE_UP:
                channel.abort(f"nothing came for {GIVE_UP:g} s")
            # A refused connection fails at once: it need not be tried twice a second.
            await asyncio.sleep(LOOK_EVERY)
        else:
            self._heard[address] = self._loop.time()
            self._reasons.pop(address, None)

    def _end_probe(self, address: str, probe: asyncio.Task[None]) -> None:
        del self._probes[address]
        self._report(probe)

    def _report(self, task: asyncio.Task[None]) -> None:
        """Report the exception of a task that has ended, if there is one."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)
