"""Topics that hold lite topics (RocketMQ 5.5): the bridge reads them, and does not write to them.

A message of a lite topic is one of its topic, with the lite topic as a property, and can be pulled as any other. Lite
consumers find it in a queue of the lite topic's own, at one broker, which the proxy chooses by a hash of the lite
topic. So a message that a client without gRPC writes is seen by none of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bridge.endpoint import Disconnected
from bridge.rocketmq.remoting.client import Client
from bridge.rocketmq.remoting.codes import RequestCode
from bridge.rocketmq.remoting.command import read_json
from bridge.rocketmq.remoting.errors import RemotingError

TYPE: Final = "message.type"
LITE: Final = "LITE"
WAY_OUT: Final = (
    "what is written to it without a lite topic reaches no lite consumer, and to write with one takes RocketMQ's gRPC "
    "client, which the bridge does not have; write to another topic"
)


async def holds_lite_topics(client: Client, topic: str, addresses: Iterable[str]) -> bool:
    """Return whether a broker says that the topic is of the type LITE; one that gives no type has none, or hides it."""
    for address in addresses:
        try:
            answer = await client.ask(address, RequestCode.GET_TOPIC_CONFIG, {"topic": topic})
            if read_json(answer.body, lambda body: (body.get("attributes") or {}).get(TYPE)) == LITE:
                return True
        except RemotingError:  # of 4.x, which does not know this question, or not allowed to this user
            continue
    return False


async def refuse_lite_topics(client: Client, topic: str, addresses: Iterable[str]) -> None:
    """Raise Disconnected if the topic is of the type LITE: what is written to it would be read by nobody."""
    if await holds_lite_topics(client, topic, addresses):
        raise Disconnected(f"topic {topic!r} holds lite topics: {WAY_OUT}")
