"""A model of the answers of a release to clients: which requests a virtual host refuses, with its codes and texts.

Declaring, binding and deleting follow the rules of `exchange.topology.rules`. What is here beside them is what only a
server knows: exclusive queues, consumers, prefetch, publishing, and what a release denies by default. A live broker is
the oracle: `tests/bindings/upgrading/test_requests_live.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from bindings.sources.recording.model import ACCEPTED, CLOSED, NO_CODE, RecordedAnswer
from bindings.upgrading.releases import Release
from exchange.entities.entities import DIRECT_REPLY_TO, Exchange, Queue
from exchange.entities.indexes import Change
from exchange.entities.part import decode_binding, decode_exchange, decode_queue, with_last_queue
from exchange.entities.queue_arguments import DeclareFlags, refuse_consumer, take_name_prefix, takes_credit
from exchange.errors import (
    AccessRefused,
    BrokerError,
    InputError,
    NotFound,
    NotImplementedByBroker,
    PreconditionFailed,
    ResourceLocked,
)
from exchange.kinds import KINDS
from exchange.lifecycle.limits import find_limits
from exchange.limits import SHORTSTR_BYTES
from exchange.topology import rules
from exchange.topology.requests import (
    refuse_consume,
    refuse_delete,
    refuse_exclusive,
    refuse_get,
    refuse_prefetch_size,
    refuse_purge,
)
from exchange.topology.topology import Topology

GENERATED: Final = "amq.gen-*"
"""Stands for the name that the broker gives a queue which is declared without one."""
GENERATED_NAME: Final = re.compile(r"amq\.gen-[A-Za-z0-9_-]{22}")

FACTS: Final = {
    "queue.declare": "HSU001", "exchange.declare": "HSU002", "queue.bind": "HSU003", "exchange.bind": "HSU003",
}  # fmt: skip
"""Method -> the fact that its refusal for its own arguments follows from."""

Arguments = Mapping[str, Any]


class Foretold(NamedTuple):
    """What a release answers to a request."""

    answer: RecordedAnswer
    fact: str = ""
    """The fact about releases that a refusal follows from, or by which an accepted request means something else."""


FINE: Final = Foretold(ACCEPTED)


class AnsweringHost:
    """A virtual host that answers methods of clients; what it accepts changes it.

    ``permitted`` has the deprecated features that the broker is configured to permit, such as ``global_qos``;
    ``missing`` the types of exchanges that it does not know. Of others that are unknown here it has the plugin.
    """

    def __init__(
        self,
        topology: Topology,
        release: Release,
        permitted: frozenset[str] = frozenset(),
        missing: frozenset[str] = frozenset(),
    ) -> None:
        self._tables: Final = topology.tables()
        self._host: Final = rules.VirtualHost(topology.vhost, release.profile)
        self._policies: Final = topology.with_profile(release.profile).policies_in_force()
        self._release: Final = release
        self._permitted: Final = permitted
        self._missing: Final = missing
        self._exclusive: Final[set[str]] = set()
        """Queues that are locked: another declaration that is not exclusive is refused."""

    def answer(self, method: str, given: Arguments) -> Foretold:
        """Return what the release answers; methods that no release refuses are accepted."""
        ask: Callable[[Arguments], None] | None = getattr(self, "_" + method.replace(".", "_").replace("-", "_"), None)
        if ask is None:
            return FINE
        try:
            ask(with_last_queue(method, given, GENERATED))
        except BrokerError as error:
            return Foretold(_to_answer(error), _fact_of(error, method))
        except InputError:  # no client can send such a name or argument
            return FINE
        return Foretold(ACCEPTED, self._find_other_meaning(method, given))

    def _find_other_meaning(self, method: str, given: Arguments) -> str:
        """Return the fact by which an accepted request means something else than it did, "" for none."""
        if method == "basic.qos" and given["global"] and given["prefetch_count"] and not self._shares_prefetch:
            return "HSU104"
        queue = self.queue(given["queue"]) if method == "basic.consume" and given["exclusive"] else None
        if queue is None or queue.type == "classic" or self._has_active(queue):
            return ""
        return "HSU305"

    def keep(self, part: Exchange | Queue) -> None:
        """Have a part that was there before an upgrade in place, whether or not the release would declare it anew."""
        if not self.has("queue" if isinstance(part, Queue) else "exchange", part.name):
            self._tables.apply(Change(True, part))

    def has(self, kind: str, name: str) -> bool:
        """Return whether there is an exchange or queue of this name; "" is the queue that the broker has named."""
        return (name or GENERATED) in self._tables.queues if kind == "queue" else name in self._tables.exchanges

    def queue(self, name: str) -> Queue | None:
        """Return a queue; None if there is none of this name."""
        return self._tables.queues.get(name)

    # Exchanges

    def _exchange_declare(self, given: Arguments) -> None:
        name = given["exchange"]
        if not name:
            raise AccessRefused("operation not permitted on the default exchange")
        if given["passive"]:
            self._find("exchange", name)
            return
        exchange = decode_exchange(given)
        is_known = exchange.type in KINDS or exchange.type in self._missing
        if not is_known and name not in self._tables.exchanges:
            self._tables.apply(Change(True, exchange))  # of a plugin, which the broker has, as far as is known
            return
        self._apply(rules.declare_exchange(self._tables, self._host, exchange))

    def _exchange_delete(self, given: Arguments) -> None:
        self._apply(rules.delete_exchange(self._tables, self._host, given["exchange"], given["if_unused"]))

    def _exchange_bind(self, given: Arguments) -> None:
        self._apply(rules.bind(self._tables, self._host, decode_binding(given)))

    def _exchange_unbind(self, given: Arguments) -> None:
        self._apply(rules.unbind(self._tables, decode_binding(given)))

    # Queues

    def _queue_declare(self, given: Arguments) -> None:
        name = given["queue"] or GENERATED
        if name.startswith(DIRECT_REPLY_TO):
            return
        if given["passive"]:
            self._find("queue", given["queue"])
            return
        declared, _ = take_name_prefix(decode_queue(given), self._host.profile)
        queue = replace(declared, name=name)
        if name in self._tables.queues and (given["exclusive"] or name in self._exclusive):
            raise ResourceLocked(self._host.describe_lock(name))
        is_new = name not in self._tables.queues
        flags = DeclareFlags(given["exclusive"], name == GENERATED, self._denies("transient_nonexcl_queues"))
        self._apply(rules.declare_queue(self._tables, self._host, queue, flags))
        if is_new and given["exclusive"]:
            self._exclusive.add(name)

    def _queue_delete(self, given: Arguments) -> None:
        name = given["queue"]
        queue = self._tables.queues.get(name)
        if queue is not None:
            what = self._host.describe("queue", name)
            refuse_delete(queue.type, what, if_unused=given["if_unused"], if_empty=given["if_empty"])
        self._apply(rules.delete_queue(self._tables, name))
        self._exclusive.discard(name)

    _queue_bind, _queue_unbind = _exchange_bind, _exchange_unbind

    def _queue_purge(self, given: Arguments) -> None:
        queue = self._find_queue(given)
        if queue is not None:
            refuse_purge(queue.type, self._host.describe("queue", queue.name))

    # Messages and consumers

    def _basic_qos(self, given: Arguments) -> None:
        refuse_prefetch_size(given["prefetch_size"])

    def _basic_consume(self, given: Arguments) -> None:
        queue = self._find_queue(given)
        if queue is None:
            return
        what = self._host.describe("queue", queue.name)
        refuse_consumer(queue, what, given["arguments"], self._host.profile)
        self._refuse_reader(queue)
        count, is_shared = given["prefetch_count"], given["prefetch_global"] and self._shares_prefetch
        refuse_consume(
            queue.type, what, self._host.profile.lives, prefetch=0 if is_shared else count,
            auto_ack=given["no_ack"], channel_prefetch=count if is_shared else 0,
        )  # fmt: skip
        refuse_exclusive(queue.type, what, is_exclusive=given["exclusive"], has_active=self._has_active(queue))
        takes_credit(queue.type, given["arguments"], self._host.profile)

    def _basic_get(self, given: Arguments) -> None:
        queue = self._find_queue(given)
        if queue is not None:
            self._refuse_reader(queue)
            what = self._host.describe("queue", queue.name)
            refuse_get(queue.type, what, self._host.profile.lives, has_active=self._has_active(queue))

    def _has_active(self, queue: Queue) -> bool:
        return find_limits(queue, self._policies).single_active_consumer

    def _refuse_reader(self, queue: Queue) -> None:
        """Raise BrokerError if each channel crashes that consumes or gets from a queue."""
        crash = find_limits(queue, self._policies).crash
        if crash:
            raise BrokerError(crash)

    def _basic_publish(self, given: Arguments) -> None:
        name = given["exchange"]
        exchange = self._find("exchange", name)
        if isinstance(exchange, Exchange) and exchange.internal:
            raise AccessRefused(f"cannot publish to internal {self._host.describe('exchange', name)}")
        if given.get("immediate"):
            raise NotImplementedByBroker("immediate=true")

    @property
    def _shares_prefetch(self) -> bool:
        """Whether a global prefetch is one of the channel, and not of each consumer."""
        return not self._denies("global_qos")

    def _denies(self, feature: str) -> bool:
        return feature in self._release.profile.denied_features - self._permitted

    def _find(self, kind: str, name: str) -> Exchange | Queue:
        parts: Mapping[str, Exchange | Queue] = self._tables.queues if kind == "queue" else self._tables.exchanges
        part = parts.get(name)
        if part is None:
            raise NotFound(f"no {self._host.describe(kind, name)}")
        return part

    def _find_queue(self, given: Arguments) -> Queue | None:
        """Return the queue that a request names; None for direct replies. Raises NotFound."""
        name = given["queue"]
        if name.startswith(DIRECT_REPLY_TO):
            return None
        part = self._find("queue", name)
        return part if isinstance(part, Queue) else None

    def _apply(self, changes: list[Change]) -> None:
        for change in changes:
            self._tables.apply(change)


def answer_to_tuning(release: Release, given: Arguments) -> Foretold:
    """Return what a release answers to ``connection.tune-ok``."""
    frame_max, least = given["frame_max"], release.row.min_frame_max
    if least is None or not 0 < frame_max < least:
        return FINE
    reason = f"negotiated frame_max = {frame_max} is lower than the minimum allowed value ({least})"
    return Foretold(RecordedAnswer(NO_CODE, f"{CLOSED}; its log: {reason}"), "HSU103")


def answer_to_message(release: Release, size: int) -> Foretold:
    """Return what a release answers to a message with a body of ``size`` bytes, unless it is configured otherwise."""
    most = release.row.max_message_bytes
    if size <= most:
        return FINE
    text = f"message size {size} is larger than configured max size {most}"
    return Foretold(_to_answer(PreconditionFailed(text)), "HSU102")


def normalise(text: str) -> str:
    """Return a broker's text as the model has it.

    Names that the broker has made are `GENERATED`; of several lines about a denied feature there is the first sentence.
    """
    first, line_end, _ = text.partition("\n")
    return GENERATED_NAME.sub(GENERATED, first.removesuffix(".") if line_end else first)


def _to_answer(error: BrokerError) -> RecordedAnswer:
    """Return a refusal as it arrives: the text is a short string, whose end is missing if it is too long."""
    text = f"{error.name} - {error.text}".encode("utf-8", "surrogateescape")
    if len(text) > SHORTSTR_BYTES:
        text = text[: SHORTSTR_BYTES - 3] + b"..."
    return RecordedAnswer(error.code, text.decode("utf-8", "surrogateescape"))


def _fact_of(error: BrokerError, method: str) -> str:
    if isinstance(error, NotFound):
        return "HSU302"
    if isinstance(error, ResourceLocked) or error.text.startswith("inequivalent arg"):
        return "HSU301"
    if error.text.startswith("Feature `transient_nonexcl_queues`"):
        return "HSU005"
    if error.text.startswith("the channel crashes on the queue's x-consumer-timeout"):
        return "HSU057"
    if isinstance(error, NotImplementedByBroker):
        return "HSU304" if method in ("basic.qos", "basic.publish") else "HSU303"
    if isinstance(error, PreconditionFailed) or error.text.startswith("Feature"):
        return FACTS.get(method, "HSU303" if method.startswith("basic.") else "HSU304")
    return "HSU304"
