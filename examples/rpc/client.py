"""Ask for prices, many at a time, and show what happens where no server replies."""

from __future__ import annotations

import argparse
import asyncio
import json

from bridge.consumers.requests import ReplyTimeout, Requester, Unroutable
from exchange import Message


async def main(url: str) -> None:
    """Send some requests, and print their replies."""
    async with Requester(url, timeout=2) as requester:
        products = ["apples", "pears", "plums"]
        replies = await asyncio.gather(*[requester.request(Message("shop", f"price.{each}")) for each in products])
        for reply in replies:
            answer = json.loads(reply.body)
            print(f"{answer['product']:8} {answer['cents']}")

        reply = await requester.request(Message("shop", "total", body=b"apples apples plums"))
        print(f"total    {reply.body.decode()}, complete: {reply.headers['complete']}")

        try:
            await requester.request(Message("shop", "stock.apples"))
        except Unroutable as error:
            print(f"at once: {error}")
        try:
            await requester.request(Message("shop", "total", body=b"\xff"))  # the handler fails, and does not reply
        except ReplyTimeout as error:
            print(f"later:   {error}")
        print(requester.counts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="the broker: amqp://guest:guest@localhost:5672/%%2F")
    asyncio.run(main(parser.parse_args().url))
