"""One step of a plan on a live broker.

Invariant: a step that is done already, by whomever, is done; and a queue that holds messages or has consumers is not
deleted unless that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bindings.apply.amqp import Connection, Refused
from bindings.apply.live import Live, as_sent
from bindings.apply.wire import with_arguments
from bindings.diff.step import Step
from exchange.entities.entities import Binding, Exchange, Policy, Queue
from exchange.errors import HashstarError

__all__ = ["Broker", "InUse", "Outcome", "carry_out"]

NOT_FOUND: Final = 404


class InUse(HashstarError):
    """A queue is not deleted, because that would lose something."""


class Broker:
    """Where steps are carried out: one virtual host, by AMQP, and by the management API what AMQP has no method for.

    ``force`` deletes queues with messages or consumers.
    """

    def __init__(self, connection: Connection, live: Live, *, force: bool = False) -> None:
        self._connection: Final = connection
        self._live: Final = live
        self._force: Final = force

    def carry_out(self, step: Step) -> None:
        """Carry out one step. Raises Refused or InUse if it is not done, Lost or InputError if that is not known."""
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
        from pika import spec  # only those who talk to a broker need it

        kind = spec.Queue if part.destination.kind == "queue" else spec.Exchange
        method = kind.Bind if step.added else kind.Unbind
        reply = kind.BindOk if step.added else kind.UnbindOk
        names = ("queue", "exchange") if kind is spec.Queue else ("destination", "source")
        ends = dict(zip(names, (as_sent(part.destination.name), as_sent(part.source)), strict=True))
        self._send(step, method(**ends, routing_key=part.routing_key), reply, part.arguments)

    def _exchange(self, part: Exchange, step: Step) -> None:
        from pika import spec

        name = as_sent(part.name)
        if not step.added:
            self._call(step, lambda channel, done: channel.exchange_delete(name, not step.in_use, callback=done))
            return
        flags = {"durable": part.durable, "auto_delete": part.auto_delete, "internal": part.internal}
        method = spec.Exchange.Declare(exchange=name, type=part.type, **flags)
        self._send(step, method, spec.Exchange.DeclareOk, part.arguments)

    def _declare_queue(self, part: Queue, step: Step) -> None:
        from pika import spec

        flags = {"durable": part.durable, "auto_delete": part.auto_delete}
        method = spec.Queue.Declare(queue=as_sent(part.name), **flags)
        self._send(step, method, spec.Queue.DeclareOk, part.arguments)

    def _delete_queue(self, part: Queue, step: Step) -> None:
        name = as_sent(part.name)
        # Only classic queues know the conditions; of the others nobody hears if something comes in between.
        careful = not self._force and part.type == "classic"
        if not self._force:
            try:
                found = self._call(step, lambda channel, done: channel.queue_declare(name, passive=True, callback=done))
            except Refused as error:
                if error.code == NOT_FOUND:
                    return
                raise
            for count, what in ((found.method.message_count, "messages"), (found.method.consumer_count, "consumers")):
                if count:
                    raise InUse(f"queue {part.name!r} has {count} {what}; --force deletes it all the same")
        self._call(step, lambda channel, done: channel.queue_delete(name, careful, careful, callback=done))

    def _send(self, step: Step, method: Any, reply: type, arguments: Mapping[str, Any]) -> None:
        self._connection.send(str(step), with_arguments(method, arguments), reply)

    def _call(self, step: Step, operation: Callable[[Any, Callable[[Any], None]], object]) -> Any:
        return self._connection.call(str(step), operation)


@dataclass(slots=True)
class Outcome:
    """How far a plan came."""

    left: list[Step]
    """What is not done; the first of it is what failed, if something did."""
    done: list[Step] = field(default_factory=list)
    trouble: HashstarError | KeyboardInterrupt | None = None


def carry_out(steps: Iterable[Step], broker: Broker, told: Callable[[Step], None]) -> Outcome:
    """Carry out steps in their order until one fails; ``told`` hears of each that is done."""
    outcome = Outcome(list(steps))
    outcome.left.reverse()
    try:
        while outcome.left:
            step = outcome.left[-1]
            broker.carry_out(step)
            outcome.done.append(outcome.left.pop())
            told(step)
    except (HashstarError, KeyboardInterrupt) as error:
        outcome.trouble = error
    except (ValueError, TypeError) as error:  # of a name or value that AMQP cannot carry
        outcome.trouble = InUse(str(error))
    outcome.left.reverse()
    return outcome
