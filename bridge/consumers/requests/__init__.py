"""Requests that wait for their replies, over AMQP, with aio-pika (the extra ``aio-pika``)."""

from bridge.consumers.requests.requester import (
    ConnectionLost,
    Refused,
    ReplyTimeout,
    RequestCounts,
    Requester,
    RequesterClosed,
    RequestError,
    Unroutable,
)

__all__ = [
    "ConnectionLost", "Refused", "ReplyTimeout", "RequestCounts", "RequestError", "Requester", "RequesterClosed",
    "Unroutable",
]  # fmt: skip
