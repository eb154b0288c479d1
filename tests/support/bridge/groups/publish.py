"""Publish numbered messages of many keys: ``python -m tests.support.bridge.groups.publish URL QUEUE KEYS EACH RATE``.

RATE is the number of messages a second; 0 stands for as fast as it goes.
"""

from __future__ import annotations

import asyncio
import sys
import time
from itertools import islice

from bridge.consumers.groups import Publisher
from exchange.values.message import Message
from tests.support.bridge.groups.member import BODY


async def main(url: str, queue: str, keys: int, each: int, rate: float) -> None:
    """Publish the first message of each key, then the second one of each."""
    began = time.monotonic()
    published = 0
    messages = (
        Message(routing_key=f"key.{key}", body=BODY.pack(key, number)) for number in range(each) for key in range(keys)
    )
    async with Publisher(url, queue) as publisher:
        while count := await publisher.publish_all(islice(messages, 250), window=250):
            published += count
            if rate:
                await asyncio.sleep(max(0.0, began + published / rate - time.monotonic()))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])))
