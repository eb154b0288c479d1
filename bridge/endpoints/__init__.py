"""Sources and targets, a folder for each system; `bridge.endpoint` is their contract.

The scheme of a URL chooses the folder, whose ``config`` is imported only then: the clients of systems that a bridge
does not use need not be installed. ``config`` has ``source(name, url, table, policy)``, ``target(name, url, table)``,
which also returns the queues of the topology that it is for, ``dead_letter_target(name, url, table)``, and, where there
are requests and replies, ``caller_target(name, url, table)`` for the table of a source; each reads its keys from the
table. These are in ``keys``, which needs no client: ``SOURCE`` (beside those of every source, in
`bridge.pump.keys`), ``TARGET`` and ``DEAD_LETTERS``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, cast

from bridge.endpoint import Source, Target
from bridge.keys import Key, Keys, check_rest
from bridge.pump import keys
from bridge.pump.policy import Policy
from bridge.table import Table
from exchange.errors import InputError
from exchange.text.display import suggest
from exchange.text.site import build_install_command

__all__ = [
    "SCHEMES", "build_caller_target", "build_dead_letter_target", "build_reply_source", "build_source", "build_target",
    "find_system", "has_groups", "list_keys", "reading_endpoint",
]  # fmt: skip

SCHEMES: Final = {
    "amqp": "rabbitmq", "amqps": "rabbitmq", "kafka": "kafka", "rocketmq": "rocketmq", "archive": "archive",
}  # fmt: skip
"""Scheme -> folder of its endpoints."""

NEEDS: Final = {"rabbitmq": "rabbitmq", "kafka": "kafka", "rocketmq": "rocketmq", "archive": "audit"}
"""Folder -> extra that must be installed."""


@contextmanager
def reading_endpoint(table: Table, role: str) -> Iterator[None]:
    """Read the table of an endpoint in the block, as `bridge.keys.reading_whole` does: its URL has its keys."""
    unread = table.copy()
    unread.mistakes = table.mistakes
    try:
        yield
    except InputError as error:
        if table.mistakes is not None:
            table.keep(error)
            with table.mistakes.collect():
                check_rest(table, list_keys(_import_config(unread)[1], role))
        raise


def build_source(name: str, table: Table, policy: Policy) -> Source:
    """Build the source that a table describes. Raises InputError."""
    url, folder, module = _import_config(table, "SOURCE")
    source = cast(Source, module.source(name, url, table, policy))
    source.tokens = table.tokens
    table.refuse_unread(list_keys(folder, "SOURCE").names)
    return source


def build_target(name: str, table: Table) -> tuple[Target, Collection[str]]:
    """Build the target that a table describes, and return it with its queues. Raises InputError."""
    with reading_endpoint(table, "TARGET"):
        url, folder, module = _import_config(table, "TARGET")
        target, queues = module.target(name, url, table)
        if not queues:
            raise table.missing("queues", 'there is none; write queues = { QUEUE = "where" }')
    target.tokens = table.tokens
    table.refuse_unread(list_keys(folder, "TARGET").names)
    return target, queues


def build_dead_letter_target(table: Table) -> Target:
    """Build the target of dead letters that a table describes. Raises InputError."""
    with reading_endpoint(table, "DEAD_LETTERS"):
        url, folder, module = _import_config(table, "DEAD_LETTERS")
        target = cast(Target, module.dead_letter_target("dead_letters", url, table))
    target.tokens = table.tokens
    table.refuse_unread(list_keys(folder, "DEAD_LETTERS").names)
    return target


def build_reply_source(name: str, target: Table, place: Mapping[str, Any], policy: Policy) -> Source:
    """Build the source of the replies to a target's requests.

    It has the target's address and settings of its connection, and ``place`` as its other keys. Raises InputError.
    """
    shared = set(list_keys(find_system(target), "SOURCE").names)
    return build_source(name, target.copy(shared, place), policy)


def build_caller_target(name: str, source: Table) -> tuple[Target, frozenset[str] | None] | None:
    """Build the target for replies to those whose requests a source reads; None if there can be none.

    It comes with the topics that it may write to, or None where a request may name any place. Raises InputError.
    """
    url, _, module = _import_config(source)
    build: Callable[[str, str, Table], tuple[Target, frozenset[str] | None] | None] | None
    build = getattr(module, "caller_target", None)
    built = None if build is None else build(name, url, source)
    if built is not None:
        built[0].tokens = source.tokens
    return built


ROLES: Final = ("SOURCE", "TARGET", "DEAD_LETTERS")
"""Names of the keys of a table in the modules ``keys`` of the endpoints."""


def find_system(table: Table) -> str:
    """Return the folder of the endpoint that a table describes. Raises InputError."""
    return _import_config(table.copy())[1]


def list_keys(folder: str, role: str) -> Keys:
    """Return the keys of a table: ``role`` is SOURCE, TARGET or DEAD_LETTERS."""
    own = cast(Keys, getattr(import_module(f"{__name__}.{folder}.keys"), role))
    return keys.SOURCE | own if role == "SOURCE" else own


def has_groups(system: str) -> bool:
    """Return whether a system's readers form groups, which share messages: its sources have the key ``group``."""
    return system in NEEDS and "group" in list_keys(system, "SOURCE").names


def _check_any(table: Table) -> None:
    """Keep the mistakes in a table whose system is not known: keys that no system has, and values that none takes."""
    roles = [list_keys(folder, role) for folder in dict.fromkeys(SCHEMES.values()) for role in ROLES]
    if table.mistakes is not None or not table.has(keys.URL.name):
        table.check_keys({keys.URL.name, *[name for role in roles for name in role.names]}, listed=False)
        _check_values(table, [key for role in roles for key in role.keys])


def _check_values(table: Table, known: Iterable[Key[Any]]) -> None:
    """Keep the mistakes in values of a table whose system is not known: what no system takes under this key."""
    by_name: dict[str, list[Key[Any]]] = {}
    for key in known:
        by_name.setdefault(key.name, []).append(key)
    for name, alike in by_name.items():
        if table.has(name):
            mistakes = [_find_mistake(key, table.copy({name})) for key in alike]
            if (first := mistakes[0]) is not None and None not in mistakes:
                table.keep(first)


def _find_mistake(key: Key[Any], table: Table) -> InputError | None:
    try:
        key.read(table)
    except InputError as error:
        return error
    return None


def _import_config(table: Table, role: str | None = None) -> tuple[str, str, Any]:
    """Return the URL of a table, the folder of its endpoints, and the module ``config`` in it. Raises InputError.

    The keys are checked before any is read: where one is missing, it is often there under another name.
    """
    if not table.has(keys.URL.name):
        _check_any(table)
    url = keys.URL.read(table)
    scheme, colon, _ = url.partition(":")
    module = SCHEMES.get(scheme)
    if module is None or not colon:
        begin = ", ".join(f"{each}:" for each in SCHEMES)
        _check_any(table)
        raise table.error(
            "url", f"must begin with one of {begin}, and begins with {scheme[:20]!r}{suggest(scheme[:20], SCHEMES)}"
        )
    if role is not None:
        table.check_keys(list_keys(module, role).names)
    try:
        return url, module, import_module(f"{__name__}.{module}.config")
    except ImportError as error:
        raise table.error("url", f"{scheme} needs {error.name}: {build_install_command(NEEDS[module])}") from None
