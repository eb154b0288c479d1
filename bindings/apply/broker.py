"""One virtual host of a live broker, on which the steps of a plan are carried out.

Invariant: a step that someone else has done already counts as done. A queue that holds messages or has consumers is not
deleted, unless the user asks for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from bindings.apply.address import Addresses
from bindings.apply.amqp import SECONDS, Connection, Refused
from bindings.apply.live import Live, as_stored
from bindings.apply.wire import with_arguments
from bindings.diff.planning.step import Step
from exchange.entities.entities import Binding, Exchange, Policy, Queue
from exchange.errors import HashstarError, InputError

__all__ = ["Broker", "InUse"]

NOT_FOUND: Final = 404


class InUse(HashstarError):
    """Raised instead of deleting a queue that holds messages or has consumers."""


class Broker:
    """One virtual host of a live broker, to be changed by AMQP, and by the management API where AMQP has no method.

    With ``force``, it also deletes queues with messages or consumers. A context manager, which closes the connection.
    """

    def __init__(self, connection: Connection, live: Live, *, force: bool = False) -> None:
        self._connection: Final = connection
        self._live: Final = live
        self._force: Final = force

    @classmethod
    def connect(cls, addresses: Addresses, vhost: str, *, force: bool = False, seconds: float = SECONDS) -> Broker:
        """Connect to both addresses of a broker; each operation may take ``seconds``.

        Raises Lost or Refused if it cannot connect, InputError if the addresses lead to two different brokers.
        """
        live = Live(addresses.management, vhost)
        user, password = addresses.management.user, addresses.management.password
        connection = Connection(addresses.amqp, user, password, vhost, seconds=seconds)
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

        Raises Refused or InUse if the step was not done; Lost or InputError if that is unknown; ValueError or TypeError
        for a name or value that AMQP cannot carry.
        """
        part = step.part
        if isinstance(part, Policy):
            if step.added:
                self._live.set_policy(part)
            else:
                self._live.clear_policy(part.name)
        elif isinstance(part, Binding):
            if step.added or not part.arguments or not self._live.unbind(part):
                self._bind(part, step)
        elif isinstance(part, Exchange):
            self._exchange(part, step)
        elif step.added:
            self._declare_queue(part, step)
        else:
            self._delete_queue(part, step)

    def _bind(self, part: Binding, step: Step) -> None:
        from pika import spec  # only needed to talk to a broker

        kind = spec.Queue if part.destination.kind == "queue" else spec.Exchange
        method = kind.Bind if step.added else kind.Unbind
        reply = kind.BindOk if step.added else kind.UnbindOk
        names = ("queue", "exchange") if kind is spec.Queue else ("destination", "source")
        ends = dict(zip(names, (as_stored(part.destination.name), as_stored(part.source)), strict=True))
        self._send(step, method(**ends, routing_key=part.routing_key), reply, part.arguments)

    def _exchange(self, part: Exchange, step: Step) -> None:
        from pika import spec

        name = as_stored(part.name)
        if not step.added:
            self._call(step, lambda channel, done: channel.exchange_delete(name, not step.in_use, callback=done))
            return
        flags = {"durable": part.durable, "auto_delete": part.auto_delete, "internal": part.internal}
        method = spec.Exchange.Declare(exchange=name, type=part.type, **flags)
        self._send(step, method, spec.Exchange.DeclareOk, part.arguments)

    def _declare_queue(self, part: Queue, step: Step) -> None:
        from pika import spec

        flags = {"durable": part.durable, "auto_delete": part.auto_delete}
        method = spec.Queue.Declare(queue=as_stored(part.name), **flags)
        self._send(step, method, spec.Queue.DeclareOk, part.arguments)

    def _delete_queue(self, part: Queue, step: Step) -> None:
        name = as_stored(part.name)
        # Only classic queues support if-unused and if-empty. With other types, a message that arrives between the
        # passive declaration below and the deletion is lost.
        careful = not self._force and part.type == "classic"
        if not self._force:
            try:
                state = self._call(step, lambda channel, done: channel.queue_declare(name, passive=True, callback=done))
            except Refused as error:
                if error.code == NOT_FOUND:
                    return
                raise
            for count, what in ((state.method.message_count, "messages"), (state.method.consumer_count, "consumers")):
                if count:
                    raise InUse(f"queue {part.name!r} has {count} {what}; --force deletes it all the same")
        self._call(step, lambda channel, done: channel.queue_delete(name, careful, careful, callback=done))

    def _send(self, step: Step, method: Any, reply: type, arguments: Mapping[str, Any]) -> None:
        self._connection.send(str(step), with_arguments(method, arguments), reply)

    def _call(self, step: Step, operation: Callable[[Any, Callable[[Any], None]], object]) -> Any:
        return self._connection.call(str(step), operation)
