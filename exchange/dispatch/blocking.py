"""Consume with plain functions, in the thread that runs pika's connection, which may be blocking or asynchronous."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from exchange.dispatch.clients.pika import build_pika_properties, convert_pika_delivery
from exchange.dispatch.delivery import Answer, Delivery, Ticket
from exchange.dispatch.failures import DONE, log_failure, place_of
from exchange.dispatch.policy import OnError, restore_exchange
from exchange.dispatch.registration import name_of
from exchange.values.message import Message


def consume_blocking(
    dispatch: Callable[[Delivery, Callable[[object], object]], object],
    channel: Any,
    queue: str,
    on_error: OnError,
    prefetch: int | None,
    options: Mapping[str, Any],
) -> str:
    """Register a consumer, as `Dispatcher.consume` documents, and return its tag.

    ``dispatch`` calls the handlers of a delivery, and before each of them a function with the handler as its argument.
    """
    from logging import getLogger  # not at the top: only this needs it

    log = getLogger("exchange.dispatch.dispatcher")

    def receive(channel: Any, method: Any, properties: Any, body: bytes) -> None:
        ticket = Ticket(_Blocking(type(properties)), channel, method.delivery_tag, queue)
        delivery = restore_exchange(convert_pika_delivery(ticket, method, properties, body))
        handler: list[object] = []
        try:
            dispatch(delivery, handler.append)
        except Exception as error:
            where = f"in {name_of(handler[-1])}" if handler else "before any handler"
            done = DONE[on_error] if ticket.answer is None else f"already settled by a handler: {ticket.answer}"
            log_failure(log, f"{place_of(delivery)}, failed {where}", done, error)
            if on_error == "raise":
                raise
            if ticket.answer is None:
                ticket.settle("requeue" if on_error == "requeue" else "reject")
        else:
            if ticket.answer is None:
                ticket.settle("ack")

    if prefetch is not None:
        channel.basic_qos(prefetch_count=prefetch)
    tag: str = channel.basic_consume(queue, receive, auto_ack=False, **options)
    return tag


class _Blocking:
    """The carrier of deliveries of a channel of pika, called in the thread that runs its connection."""

    __slots__ = ("_properties",)

    def __init__(self, properties: Callable[..., Any]) -> None:
        self._properties = properties

    def settle(self, ticket: Ticket, answer: Answer) -> None:
        if answer == "ack":
            ticket.channel.basic_ack(delivery_tag=ticket.tag)
        else:
            ticket.channel.basic_nack(delivery_tag=ticket.tag, requeue=answer == "requeue")

    def reply(self, ticket: Ticket, reply: Message) -> None:
        ticket.channel.basic_publish(
            reply.exchange, reply.routing_key, reply.body, build_pika_properties(self._properties, reply)
        )
