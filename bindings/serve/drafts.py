"""Drafts: a topology as it would be after some edits, for questions of the kind "what if". No file is changed.

A draft is a text in the language of .bindings files, or the topology as it was read, with edits after it. An edit is a
statement of the language with a sign before it: ``+ orders -> billing: "order.#"`` declares or binds, and
``- queue billing`` deletes or unbinds. Edits obey the rules of the broker: what it would refuse is an error.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from hashlib import sha256
from json import dumps
from typing import Final

from bindings.serve.view import View
from bindings.serve.watching import SourceReading
from bindings.sources.document import Document
from bindings.sources.language.errors import LanguageError
from exchange.entities.entities import PREDECLARED_NAMES
from exchange.entities.indexes import Change, Tables
from exchange.errors import BrokerError, InputError
from exchange.text.display import clip_line
from exchange.topology import rules
from exchange.topology.topology import Topology

MAX_DRAFTS: Final = 8
"""Maximum number of drafts that are kept; the one that was not used for longest goes first."""
MAX_BINDINGS: Final = 500_000
"""Maximum number of bindings of all drafts that are kept, unless it is one alone."""
MAX_EDITS: Final = 200
"""Maximum number of edits of a draft."""
TO_DELETE: Final = {"exchange ": ": fanout", "policy ": ": '.'"}
"""Keyword -> what the language wants after the name, and what deleting by the name alone does not need."""


class EditError(InputError):
    """An edit that cannot be made; ``number`` is its position, from 0."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


class Drafts:
    """The drafts that pages have made, by their ids. An id stands for the content, so equal drafts are one."""

    def __init__(self) -> None:
        self._views: Final[OrderedDict[str, View]] = OrderedDict()
        self._lock: Final = threading.Lock()

    def make(self, reading: SourceReading, vhost: str, text: str | None, edits: Sequence[str]) -> str:
        """Build a draft of a virtual host and return its id. Raises InputError: LanguageError for the text."""
        identity = sha256(dumps([reading.version, vhost, text, list(edits)]).encode()).hexdigest()
        if self.find(identity) is None:
            view = _build(reading, vhost, text, edits)
            with self._lock:
                self._views[identity] = view
                while len(self._views) > 1 and self._are_too_many():
                    self._views.popitem(last=False)
        return identity

    def find(self, identity: str) -> View | None:
        """Return the view of a draft; None if it is not kept any more, or belongs to an older state of the file."""
        with self._lock:
            view = self._views.get(identity)
            if view is not None:
                self._views.move_to_end(identity)
            return view

    def _are_too_many(self) -> bool:
        bindings = sum(len(view.topology.bindings) for view in self._views.values())
        return len(self._views) > MAX_DRAFTS or bindings > MAX_BINDINGS


def _build(reading: SourceReading, vhost: str, text: str | None, edits: Sequence[str]) -> View:
    base = reading.view(vhost)
    topology, expectations = base.topology, base.source.expectations(vhost)
    if text is not None:
        document = Document.loads(text, "draft")
        topology = document.topology(vhost, topology.profile if reading.profile else document.profile)
        expectations = document.expectations(vhost)
    topology = edit(topology, edits)
    return View(base.source, topology, expectations, has_lines=text is None)


def edit(topology: Topology, statements: Sequence[str]) -> Topology:
    """Return the topology after edits, each a sign and a statement.

    All are made in one copy of its tables, so the work grows with the parts that they name. Raises EditError for a
    mistake in one of them, and for what the broker would refuse.
    """
    tables = topology.tables()
    host = rules.VirtualHost(topology.vhost, topology.profile)
    for number, statement in enumerate(statements):
        try:
            for change in _find_changes(tables, host, statement):
                tables.apply(change)
        except LanguageError as error:
            raise EditError(number, error.message) from None
        except (InputError, BrokerError) as error:
            raise EditError(number, str(error)) from None
    return Topology.from_tables(tables, topology.vhost, topology.profile)


def _find_changes(tables: Tables, host: rules.VirtualHost, statement: str) -> Iterator[Change]:
    """Yield what one edit changes; each change has to be made before the next one is asked for."""
    sign, body = statement[:1], statement[1:].strip()
    if sign not in ("+", "-") or not body:
        raise InputError(f"{clip_line(statement, 60)!r}: an edit begins with + or -, as in: + queue billing")
    if sign == "-" and ":" not in body:
        body += next((rest for keyword, rest in TO_DELETE.items() if body.startswith(keyword)), "")
    document = Document.loads(body, "edit")
    if len(document.vhosts) > 1 or document.vhosts[0] != "/" or any(document.expectations(v) for v in document.vhosts):
        raise InputError("an edit declares, binds or deletes in the virtual host that is shown")
    parts = document.topology()
    exchanges = [exchange for exchange in parts.exchanges.values() if exchange.name not in PREDECLARED_NAMES]
    if not (exchanges or parts.queues or parts.bindings or parts.policies):
        raise InputError(f"{clip_line(body, 60)!r} declares nothing")
    if sign == "+":
        for exchange in exchanges:
            yield from rules.declare_exchange(tables, host, exchange)
        for queue in parts.queues.values():
            yield from rules.declare_queue(tables, host, queue)
        for policy in parts.policies.values():
            yield from rules.set_policy(tables, host, policy)
        for binding in parts.bindings:
            yield from rules.bind(tables, host, binding)
        return
    for binding in parts.bindings:
        _require(binding in tables.bindings_from(binding.source), "there is no such binding")
        yield from rules.unbind(tables, binding)
    for policy in parts.policies.values():
        yield from rules.clear_policy(tables, host, policy.name)
    for queue in parts.queues.values():
        _require(queue.name in tables.queues, f"there is no queue '{queue.name}'")
        yield from rules.delete_queue(tables, queue.name)
    for exchange in exchanges:
        _require(exchange.name in tables.exchanges, f"there is no exchange '{exchange.name}'")
        yield from rules.delete_exchange(tables, host, exchange.name, if_unused=False)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise InputError(otherwise)
