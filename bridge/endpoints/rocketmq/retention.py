"""How long brokers keep messages, read or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from bridge.endpoint import Removal
from bridge.endpoints.outages import show_seconds
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import RequestCode
from bridge.rocketmq.remoting.errors import RemotingError
from exchange.text.digits import is_digits

__all__ = ["look_up_removals"]

RESERVED: Final = "fileReservedTime"
"""Setting of a broker: hours for which it keeps a file of messages after the last one was stored in it."""
HOURS: Final = 1_000_000
"""Greatest number of hours that is understood."""


async def look_up_removals(client: Client, servers: Mapping[str, str], hidden: list[str]) -> Sequence[Removal]:
    """Return what removes messages at brokers, address -> name; ``hidden`` gets those that do not show theirs."""
    removals = []
    for address, broker in servers.items():
        try:
            answer = await client.ask(address, RequestCode.GET_BROKER_CONFIG)
        except RemotingError:
            hidden.append(broker)
            continue
        lines = answer.body.decode("utf-8", "replace").splitlines()
        settings = {name.strip(): value.strip() for name, _, value in [line.partition("=") for line in lines]}
        hours = settings.get(RESERVED, "")
        if is_digits(hours) and int(hours[:8]) <= HOURS:
            seconds = int(hours[:8]) * 3_600.0
            what = f"broker {broker!r} removes messages, read or not, after {show_seconds(seconds)} ({RESERVED})"
            removals.append(Removal(what, seconds))
        else:
            hidden.append(broker)
    return removals
