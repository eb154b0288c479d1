"""A member of a consumer group: run several. SIGTERM or Ctrl-C ends one when it has handed over its partitions."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal

from bridge.consumers.groups import ConsumerGroup
from exchange import Delivery, Dispatcher, Message

dispatcher = Dispatcher()


@dispatcher.on("order.{region}.created")
async def bill(order: Delivery) -> None:
    """Bill an order. It may come again if a member died before it was acknowledged, so billing has to bear that."""
    await asyncio.sleep(0.001)  # a call to a database
    print(f"billed {order.body.decode()} in {order.words['region']}", flush=True)


@dispatcher.on("order.#")
async def count(order: Message) -> None:
    """Count all orders."""


async def main(url: str, queue: str) -> None:
    """Consume until a signal comes."""
    group = ConsumerGroup(
        url,
        queue,
        dispatcher.dispatch_async,
        on_assigned=lambda partition: print(f"took partition {partition}", flush=True),
        on_revoked=lambda partition: print(f"handed over partition {partition}", flush=True),
        on_lost=lambda partition: print(f"lost partition {partition}", flush=True),
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, group.stop)
    await group.run()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="amqp://guest:guest@127.0.0.1", help="the broker")
    parser.add_argument("--queue", default="orders", help="the partitioned queue")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)  # the group reports losses itself
    asyncio.run(main(arguments.url, arguments.queue))
