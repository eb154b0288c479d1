"""Dispatch the messages of one queue to handlers by pattern."""

from exchange.dispatch.dispatcher import Dispatcher, NoHandler, OnError, message_from_pika

__all__ = ["Dispatcher", "NoHandler", "OnError", "message_from_pika"]
