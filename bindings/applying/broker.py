"""One virtual host of a live broker, on which the steps of a plan are carried out.

Invariant: a step that someone else has done already counts as done. A queue that holds messages or has consumers is not
deleted, unless the user asks for that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Self

from bindings.applying.address import Addresses
from bindings.applying.amqp import SECONDS, BrokerConnection, OperationRefused
from bindings.applying.live import Live
from bindings.diffing.planning.step import Step
from exchange.entities.entities import Binding, Exchange, Policy, Queue
from exchange.entities.part import encode_declaration
from exchange.errors import HashstarError, InputError
from exchange.topology.rules import strip_line_ends

NOT_FOUND: Final = 404
NAMES: Final = ("exchange", "queue", "source", "destination")
"""Arguments of methods that name an exchange or a queue."""


class InUse(HashstarError):
    """Raised instead of deleting a queue that holds messages or has consumers."""


class LiveBroker:
    """One virtual host of a live broker, to be changed by AMQP, and by the management API where AMQP has no method.

    With ``force``, it also deletes queues with messages or consumers. A context manager, which closes the connection.
    """

    def __init__(self, connection: BrokerConnection, live: Live, *, force: bool = False) -> None:
        self._connection: Final = connection
        self._live: Final = live
        self._force: Final = force

    @classmethod
    def connect(cls, addresses: Addresses, vhost: str, *, force: bool = False, seconds: float = SECONDS) -> LiveBroker:
        """Connect to both addresses of a broker; each operation may take ``seconds``.

        Raises Lost or OperationRefused if it cannot connect, InputError if the addresses lead to two different brokers.
        """
        live = Live(addresses.management, vhost)
        connection = BrokerConnection(addresses.amqp, *addresses.management.read_login(), vhost, seconds=seconds)
        try:
            if connection.cluster != live.cluster:
                raise InputError(f"two brokers: {connection.cluster!r} by AMQP, {live.cluster!r} by its management API")
        except HashstarError:
            connection.close()
            raise
        return cls(connection, live, force=force)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @property
    def live(self) -> Live:
        """The virtual host as the management API shows it."""
        return self._live

    def carry_out(self, step: Step) -> None:
        """Carry out one step.

        Raises OperationRefused or InUse if the step was not done; Lost or InputError if that is unknown; TypeError for
        a value that AMQP cannot carry.
        """
        part = step.part
        if isinstance(part, Policy):
            if step.added:
                self._live.set_policy(part)
            else:
                self._live.clear_policy(part.name)
        elif isinstance(part, Binding):
            if step.added or not part.arguments or not self._live.unbind(part):
                self._declare_or_unbind(part, step)
        elif step.added:
            self._declare_or_unbind(part, step)
        elif isinstance(part, Exchange):
            name = strip_line_ends(part.name)
            self._call(step, lambda channel, done: channel.exchange_delete(name, not step.in_use, callback=done))
        else:
            self._delete_queue(part, step)

    def _declare_or_unbind(self, part: Exchange | Queue | Binding, step: Step) -> None:
        """Declare an exchange or a queue; bind, or unbind a binding that the step removes."""
        method, given = encode_declaration(part)
        given |= {name: strip_line_ends(given[name]) for name in NAMES if name in given}
        self._connection.send(str(step), method if step.added else method.replace("bind", "unbind"), given)

    def _delete_queue(self, part: Queue, step: Step) -> None:
        name = strip_line_ends(part.name)
        # Only classic queues support if-unused and if-empty. With other types, a message that arrives between the
        # passive declaration below and the deletion is lost.
        careful = not self._force and part.type == "classic"
        if not self._force:
            try:
                state = self._call(step, lambda channel, done: channel.queue_declare(name, passive=True, callback=done))
            except OperationRefused as error:
                if error.code == NOT_FOUND:
                    return
                raise
            for count, what in ((state.method.message_count, "messages"), (state.method.consumer_count, "consumers")):
                if count:
                    raise InUse(f"queue {part.name!r} has {count} {what}; --force deletes it all the same")
        self._call(step, lambda channel, done: channel.queue_delete(name, careful, careful, callback=done))

    def _call(self, step: Step, operation: Callable[[Any, Callable[[Any], None]], object]) -> Any:
        return self._connection.call(str(step), operation)
