"""An application as a value: what it declares, and where the tasks that it sends are routed."""

from __future__ import annotations

from typing import NamedTuple

from bindings.sources.applications.parts import Declared, Part

__all__ = ["Application", "TaskRoute", "TaskWay"]


class TaskWay(NamedTuple):
    """Where the messages of a task are published to."""

    task: str
    exchange: str
    routing_key: str
    queue: str | None
    """Name of the queue that the app means: that of its route, or the default queue; None if it names an exchange."""
    is_made: bool
    """Whether the queue is not in ``task_queues``, and is made because ``task_create_missing_queues`` is set."""
    parts: tuple[Part, ...]
    """What the producer declares before it publishes."""
    error: str | None = None
    """Why `send_task` raises an error in place of publishing."""


class TaskRoute(NamedTuple):
    """One entry of ``task_routes``."""

    pattern: str
    """The name of a task, a glob pattern, or the text of a regular expression."""
    queue: str | None
    matches: tuple[str, ...]
    """The tasks of the app that it matches."""
    decides: tuple[str, ...]
    """Those of them that no earlier entry matches."""


class Application(NamedTuple):
    """What was read of an application."""

    name: str
    declared: Declared
    """The topology after the application has started and sent each task once, and what the broker refuses."""
    ways: tuple[TaskWay, ...] = ()
    routes: tuple[TaskRoute, ...] = ()
    has_queues: bool = False
    """Whether ``task_queues`` is set: then workers consume from these queues unless started with ``-Q``."""
