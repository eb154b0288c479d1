"""Dispatch the messages of the queue "billing" to functions by their routing keys."""

from __future__ import annotations

import argparse
import itertools
import logging
import os

import pika

from exchange import Message
from exchange.dispatch.dispatcher import Dispatcher

dispatcher = Dispatcher()


@dispatcher.on("order.*.created")
def charge(message: Message) -> None:
    """Charge the customer."""
    print(f"charge   {message.routing_key}  {message.body.decode()}")


@dispatcher.on("order.*.cancelled")
@dispatcher.on("order.*.cancelled.*")
def refund(message: Message) -> None:
    """Refund the customer."""
    print(f"refund   {message.routing_key}  {message.body.decode()}")


@dispatcher.on("order.eu.#")
def report_vat(message: Message) -> None:
    """Report to the European tax office, which has no form for partial refunds."""
    if message.routing_key.endswith(".partly"):
        raise ValueError("no form for that")
    print(f"vat      {message.routing_key}")


def main() -> None:
    """Consume until ``--max`` messages have been handled."""
    options = argparse.ArgumentParser(description=__doc__)
    default = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672/%2F")
    options.add_argument("url", nargs="?", default=default, help="of the broker; else AMQP_URL in the environment")
    options.add_argument("--max", type=int, default=3, metavar="N", help="stop after N messages are handled (3)")
    options.add_argument("--publish", action="store_true", help="first publish four orders, one of which fails")
    given = options.parse_args()
    logging.basicConfig(format="%(levelname)s %(message)s")
    logging.getLogger("pika").setLevel(logging.CRITICAL)

    with pika.BlockingConnection(pika.URLParameters(given.url)) as connection:
        channel = connection.channel()
        if given.publish:
            for key in ("order.eu.created", "order.us.created", "order.eu.cancelled.partly", "order.us.cancelled"):
                channel.basic_publish("orders", key, b"order 17", mandatory=True)

        handled = itertools.count(1)

        def stop_after_max(_: Message) -> None:
            if next(handled) == given.max:
                channel.stop_consuming()

        # Registered last, so it is called when all other handlers of a message have returned.
        dispatcher.add("#", stop_after_max)
        # A failed message goes to the queue's dead-letter exchange and does not block others: see definitions.json.
        dispatcher.consume(channel, "billing", on_error="dead-letter", prefetch=1)
        channel.start_consuming()


if __name__ == "__main__":
    main()
