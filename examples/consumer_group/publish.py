"""Publish orders of a hundred customers to a partitioned queue, in order for each customer."""

from __future__ import annotations

import argparse
import asyncio

from bridge.consumers.groups import Publisher
from exchange import Message


async def main(url: str, queue: str, count: int) -> None:
    """Publish ``count`` orders."""
    orders = (
        Message(
            routing_key=f"order.{'eu' if number % 3 else 'us'}.created",
            headers={"customer": f"c{number % 100}"},
            body=f"order {number} of c{number % 100}".encode(),
        )
        for number in range(count)
    )
    async with Publisher(url, queue, key='header "customer"') as publisher:
        print(f"published {await publisher.publish_all(orders)} orders")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="amqp://guest:guest@127.0.0.1", help="the broker")
    parser.add_argument("--queue", default="orders", help="the partitioned queue")
    parser.add_argument("--count", type=int, default=1000, help="number of orders")
    arguments = parser.parse_args()
    asyncio.run(main(arguments.url, arguments.queue, arguments.count))
