"""What messages are read from and written to, a module each; `bridge.endpoint` says what is asked of them.

The scheme of a URL says which; its module is imported then, so that nobody needs the client of a system that he does
not use. A module has ``source(name, url, table, policy)``, ``target(name, url, table)``, which also gives the queues of
the topology that it is for, and ``dead_letter_target(name, url, table)``; each takes what it knows from the table.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import Any, Final, cast

from bridge.endpoint import Source, Target
from bridge.pump.policy import Policy
from bridge.table import Table

__all__ = ["SCHEMES", "dead_letter_target_of", "source_of", "target_of"]

SCHEMES: Final = {
    "amqp": "rabbitmq",
    "amqps": "rabbitmq",
    "kafka": "kafka",
    "rocketmq": "rocketmq",
    "archive": "archive",
}
"""Scheme -> the module of its endpoints."""

NEEDS: Final = {
    "rabbitmq": "hashstar[rabbitmq]",
    "kafka": "hashstar[kafka]",
    "rocketmq": "hashstar[rocketmq]",
    "archive": "hashstar[audit]",
}
"""Module -> what must be installed."""


def source_of(name: str, table: Table, policy: Policy) -> Source:
    """The source that a table describes. Raises InputError."""
    url, module = _module(table)
    source = cast(Source, module.source(name, url, table, policy))
    table.refuse_unread()
    return source


def target_of(name: str, table: Table) -> tuple[Target, Collection[str]]:
    """The target that a table describes, and the queues it is for. Raises InputError."""
    url, module = _module(table)
    target, queues = module.target(name, url, table)
    if not queues:
        raise table.missing("queues", 'there is none; write queues = { QUEUE = "where" }')
    table.refuse_unread()
    return target, queues


def dead_letter_target_of(table: Table) -> Target:
    """The target of dead letters that a table describes. Raises InputError."""
    url, module = _module(table)
    target = cast(Target, module.dead_letter_target("dead_letters", url, table))
    table.refuse_unread()
    return target


def _module(table: Table) -> tuple[str, Any]:
    url = table.text("url")
    scheme, colon, _ = url.partition(":")
    module = SCHEMES.get(scheme)
    if module is None or not colon:
        begin = ", ".join(f"{each}:" for each in SCHEMES)
        raise table.error("url", f"must begin with one of {begin}, and begins with {scheme[:20]!r}")
    try:
        return url, import_module(f"{__name__}.{module}.config")
    except ImportError as error:
        raise table.error("url", f"{scheme} needs {error.name}: pip install '{NEEDS[module]}'") from None
