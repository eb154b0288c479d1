"""A registered handler of a dispatcher: its patterns, its position, and the checks of handlers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, Final, Generic, TypeVar

from exchange.dispatch.captures import NamedPattern
from exchange.dispatch.delivery import Delivery
from exchange.patterns.pattern import Pattern

M = TypeVar("M")


class Registration(Generic[M]):
    """A handler, its patterns, and its position in the order of calls."""

    __slots__ = ("handler", "is_async", "named", "patterns", "position")

    def __init__(self, position: int, handler: Callable[[M], object]) -> None:
        self.position: Final = position
        self.handler: Final = handler
        self.is_async: Final = iscoroutinefunction(handler) or iscoroutinefunction(type(handler).__call__)
        self.patterns: dict[Pattern, NamedPattern] = {}
        """A dict, which keeps their order. Changed under the dispatcher's lock."""
        self.named: tuple[NamedPattern, ...] = ()
        """Patterns, if any of them has names. Replaced, never changed: it is read without the lock."""

    def find_names(self) -> None:
        """Set `named` after a change of the patterns."""
        patterns = tuple(self.patterns.values())
        self.named = patterns if any(pattern.names for pattern in patterns) else ()

    def prepare(self, message: Any) -> Any:
        """Return a message as the handler gets it: with the words of the first pattern that matches."""
        delivery = message if isinstance(message, Delivery) else Delivery.from_message(message)
        key = delivery.routing_key
        for named in self.named:
            if len(self.named) == 1 or named.pattern.matches(key):
                return delivery.with_words(named.capture(key)) if named.names else delivery
        return delivery  # a pattern was removed meanwhile


def find_position(registration: Registration[Any]) -> int:
    """Return the position, to sort by."""
    return registration.position


def name_of(handler: object) -> str:
    """Return the name of a handler, for errors."""
    return getattr(handler, "__qualname__", None) or repr(handler)


def check_is_handler(handler: Callable[..., object]) -> None:
    """Raise TypeError for what cannot be called, and for a generator function."""
    # Calling a generator function only makes an object that is never iterated: the message would count as handled.
    if not callable(handler):
        raise TypeError(f"{handler!r} cannot be a handler: it cannot be called")
    for function in (handler, type(handler).__call__):
        if isgeneratorfunction(function) or isasyncgenfunction(function):
            raise TypeError(f"{name_of(handler)} is a generator function; a handler is called, not iterated")


def check_has_run(handler: object, result: object) -> None:
    """Raise TypeError if a handler returned an awaitable or a generator, which would not run."""
    if isinstance(result, (Awaitable, Generator, AsyncGenerator)):
        if isinstance(result, (Coroutine, Generator)):
            result.close()  # else Python warns of a coroutine that was never awaited
        raise TypeError(
            f"{name_of(handler)} returned {type(result).__name__!r}, which is neither awaited nor iterated: "
            "the message was not handled"
        )
