"""Reply to requests for prices: what a handler returns is its reply."""

from __future__ import annotations

import argparse
import asyncio
import signal

import aio_pika

from exchange import Delivery, Dispatcher

PRICES = {"apples": 129, "pears": 179}

dispatcher = Dispatcher()


@dispatcher.on("price.{product}")
async def price(delivery: Delivery) -> dict[str, object]:
    """Reply with the price of a product, as JSON."""
    await asyncio.sleep(0.01)  # a look into a database
    product = delivery.words["product"]
    return {"product": product, "cents": PRICES.get(product)}


@dispatcher.on("total")
def total(delivery: Delivery) -> None:
    """Reply with the sum of a basket, with headers of its own."""
    basket = delivery.body.decode().split()
    unknown = [product for product in basket if product not in PRICES]
    cents = sum(PRICES.get(product, 0) for product in basket)
    delivery.reply(b"%d" % cents, headers={"complete": not unknown, "unknown": unknown})


async def main(url: str) -> None:
    """Reply until SIGTERM or Ctrl-C; then finish what was begun."""
    stop = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    connection = await aio_pika.connect_robust(url)
    async with connection, connection.channel() as channel:
        queue = await channel.declare_queue("prices", durable=True)
        exchange = await channel.declare_exchange("shop", "topic", durable=True)
        for pattern in dispatcher.patterns:
            await queue.bind(exchange, str(pattern))
        async with dispatcher.consume(queue, prefetch=50, on_error="dead-letter"):
            print("ready", flush=True)
            await stop.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="the broker: amqp://guest:guest@localhost:5672/%%2F")
    asyncio.run(main(parser.parse_args().url))
