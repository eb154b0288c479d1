"""Exchanges and queues as a target: what must be there, the connection, and what a lost one leaves to the next.

A missing permission is no fault of a message, which waits (`bridge.endpoints.rabbitmq.permissions`); or, where the
broker does not name the exchange, the connection is made again until the permission is granted. How messages are
published, and which of them ended a connection, is in `bridge.endpoints.rabbitmq.publishing`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import pika

from bindings.sources.address import name_cluster
from bridge.endpoint import BridgeLayout, Disconnected, Finding, Outgoing, Place, Receiver, Target
from bridge.endpoints.rabbitmq.addresses import read_cluster_name
from bridge.endpoints.rabbitmq.connection import Connection
from bridge.endpoints.rabbitmq.management import ManagementClient, Unknown
from bridge.endpoints.rabbitmq.permissions import Permissions
from bridge.endpoints.rabbitmq.publishing import ChannelPublishing
from bridge.endpoints.rabbitmq.refusals import (
    ABOUT_A_MESSAGE,
    NO_ACCESS,
    NOT_FOUND,
    NOT_OURS_TO_SEE,
    Refused,
    ask_for_grant,
)
from bridge.endpoints.rabbitmq.routes import Expected, PublishAddress, PublishRoute, build_routes
from bridge.endpoints.rabbitmq.suspects import Suspects
from bridge.endpoints.rabbitmq.unrouted import Unrouted
from exchange.entities.entities import Exchange
from exchange.errors import BrokerError
from exchange.kinds import Decider, find_kind

TYPES_SECONDS: Final = 2.0
"""Maximum number of seconds until the management API answers with the types of exchanges."""

LOOK_EVERY: Final = 10.0
"""Seconds between checks that the exchanges and queues that are written to are there."""


class RabbitmqTarget(Target):
    """Exchanges and queues of a broker; ``addresses`` maps the topology's queues to them.

    The queue ``""`` stands for dead letters, which have none. Messages without a delivery mode are made persistent.
    ``management`` is the address of the management API, for `check` and the types of exchanges. With ``to_callers`` its
    messages are replies, to the queues that their routing keys name. ``unrouted_after`` is the patience of `Unrouted`.
    """

    def __init__(
        self,
        name: str,
        brokers: Sequence[pika.URLParameters],
        addresses: Mapping[str, PublishAddress],
        management: str | None = None,
        *,
        to_callers: bool = False,
        unrouted_after: float = 30.0,
    ) -> None:
        self.name = name
        self._to_callers = to_callers
        self._brokers = brokers
        self._addresses = addresses
        self._management = management
        self._routes: Mapping[str, PublishRoute] = build_routes(addresses)
        self._layout: BridgeLayout | None = None
        self._connection: Connection | None = None
        self._publishing: ChannelPublishing | None = None
        self._watching: asyncio.Task[None] | None = None
        self._missing: str | None = None
        """Text about an exchange or queue that was missing at the last check; None if none was."""
        self._suspects: Final = Suspects()
        self._unrouted: Final = Unrouted(unrouted_after)
        """What exchanges have routed. It is kept, as the suspects are, when a connection ends."""
        self._permissions: Final = Permissions()

    def meet(self, layout: BridgeLayout) -> None:
        self._layout = layout
        self._routes = build_routes(self._addresses, layout)

    @property
    def places(self) -> frozenset[Place]:
        cluster = name_cluster(read_cluster_name(self._brokers[0]))
        return frozenset([Place("rabbitmq", cluster, f"{each.kind} {each.name}") for each in self._expected])

    @property
    def trouble(self) -> str | None:
        return None if self._publishing is None else self._publishing.trouble or self._missing

    async def check(self) -> Sequence[Finding]:
        from bridge.endpoints.rabbitmq.checking import check_target  # only a check needs it

        return await check_target(self._brokers, self._routes, self._management, self._layout)

    @property
    def _expected(self) -> list[Expected]:
        """Exchanges and queues that must be there, each once."""
        return [each for each in self._all_expected if not each.absent]

    @property
    def _all_expected(self) -> list[Expected]:
        """Exchanges and queues that must be there, and queues that must not be there, each once."""
        expected = [each for route in self._routes.values() for each in route.expected]
        return list({(each.kind, each.name): each for each in expected}.values())

    def name_destination(self, outgoing: Outgoing) -> tuple[str, ...]:
        exchange, key, _ = self._routes[outgoing.queue].address(outgoing)
        return exchange.decode("utf-8", "replace"), key.decode("utf-8", "replace")

    async def open(self, receiver: Receiver) -> None:
        def lost(error: Disconnected) -> None:
            publishing, self._publishing = self._publishing, None
            if not isinstance(error, Refused) or error.code not in ABOUT_A_MESSAGE:
                self._suspects.forget()
            elif publishing is not None:
                publishing.accuse(error)
            if publishing is not None:
                publishing.close()
            if self._permissions.note_refusal(error, asyncio.get_running_loop().time()):
                error = Disconnected(ask_for_grant(error))
            elif isinstance(error, Refused) and error.code == NO_ACCESS:
                error = Disconnected(f"{ask_for_grant(error)}: nothing can be published until then")
            receiver.lost(error)

        try:
            connection = self._connection = await Connection.open(self._brokers, lost)
            channel = await connection.channel()
            for expected in self._all_expected:
                await _require(connection, expected)
            await channel.enable_confirms()
            if self._management is not None:
                with suppress(TimeoutError, Unknown):
                    async with asyncio.timeout(TYPES_SECONDS):
                        await self._learn_types(ManagementClient(connection.parameters, self._management))
        except BrokerError as error:
            await self.close()
            raise Disconnected(str(error)) from None
        except BaseException:
            await self.close()
            raise
        self._publishing = ChannelPublishing(
            connection, channel, receiver, self._routes, self._suspects, self._unrouted, self._permissions,
            to_callers=self._to_callers,
        )  # fmt: skip
        self._unrouted.note_connection()
        self._watching = asyncio.create_task(self._watch(connection))

    async def _watch(self, connection: Connection) -> None:
        """Check every `LOOK_EVERY` seconds that the exchanges and queues are there, even while nothing is published."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            missing = None
            for expected in self._all_expected:
                try:
                    await _require(connection, expected)
                except (Disconnected, BrokerError) as error:  # a lost connection is also reported elsewhere
                    missing = str(error)
                    break
            self._missing = missing

    async def _learn_types(self, management: ManagementClient) -> None:
        """Learn which exchanges route by headers, before the first message is judged. Raises Unknown."""
        for name in dict.fromkeys([route.exchange for route in self._routes.values() if route.exchange]):
            shown = name.decode("utf-8", "surrogateescape")
            answer = await management.exchange(shown)
            found = Exchange(shown, str(answer.get("type")), arguments=dict(answer.get("arguments") or {}))
            self._unrouted.by_headers[name] = find_kind(found).decider in (Decider.HEADERS, Decider.SELECTOR)

    def send(self, messages: Sequence[Outgoing]) -> None:
        if self._publishing is not None and messages:
            self._publishing.send(messages)

    async def close(self) -> None:
        if self._publishing is not None:
            self._publishing.close()
        connection, self._connection, self._publishing = self._connection, None, None
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        self._missing = None
        if connection is not None:
            await connection.close()


async def _require(connection: Connection, expected: Expected) -> None:
    """Raise Disconnected if an exchange or queue is missing, or is there and must not be.

    Nothing is raised where this user has no permission to look.
    """
    kind, name = expected.kind, expected.name
    try:
        await connection.look("exchange" if kind == "exchange" else "queue", name)
    except BrokerError as error:
        if error.code == NOT_FOUND:
            if not expected.absent:
                why = f" ({expected.reason})" if expected.reason else ""
                raise Disconnected(f"{kind} {name!r}: there is none; declare it{why}") from None
        elif error.code not in NOT_OURS_TO_SEE:
            raise Disconnected(f"{kind} {name!r}: {error}") from None
    else:
        if expected.absent:
            raise Disconnected(f"{kind} {name!r} is one partition more than there should be: {expected.reason}")
