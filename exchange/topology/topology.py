"""The topology of one virtual host, as a value."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from exchange.entities.entities import PREDECLARED, Binding, Destination, Exchange, Policy, Queue
from exchange.entities.in_force import Policies
from exchange.entities.indexes import Change, Tables
from exchange.entities.profile import Profile
from exchange.entities.releases import LATEST_PROFILE, resolve_profile, warn_of
from exchange.entities.unread import UnreadPart
from exchange.errors import BrokerError
from exchange.text.display import count_noun
from exchange.topology import rules


class Topology:
    """Exchanges, queues, bindings and policies of one virtual host; immutable.

    The constructor accepts any parts, also bindings to nowhere and exchanges of unknown types, and adds the exchanges
    that every virtual host has; ``policies`` may include operator policies. The edits (``declare_exchange``,
    ``bind`` ...) return a new topology and obey RabbitMQ's rules: they raise a ``BrokerError`` where the broker would
    refuse, with its code and text, and InputError for names and keys that no client can send. ``profile`` selects the
    release of RabbitMQ whose rules hold: a `Profile` or its name. ``unread`` are the parts of its source that were not
    read: they stay in all edits, and no claim is made about them.
    """

    __slots__ = ("_tables", "profile", "vhost")

    def __init__(
        self,
        exchanges: Iterable[Exchange] = (),
        queues: Iterable[Queue] = (),
        bindings: Iterable[Binding] = (),
        policies: Iterable[Policy] = (),
        *,
        vhost: str = "/",
        profile: Profile | str = LATEST_PROFILE,
        unread: Iterable[UnreadPart] = (),
    ) -> None:
        self.vhost: Final = vhost
        self.profile: Final = _to_profile(profile)
        self._tables: Final = Tables()
        given: tuple[tuple[type, Iterable[Exchange | Queue | Policy]], ...] = (
            (Exchange, PREDECLARED), (Exchange, exchanges), (Queue, queues), (Policy, policies),
        )  # fmt: skip
        for kind, parts in given:
            for part in parts:
                if not isinstance(part, kind):
                    raise TypeError(f"Topology: {kind.__name__} is wanted, not {type(part).__name__}: {part!r:.60}")
                self._tables.apply(Change(True, part))
        self._tables.add_bindings(bindings)
        self._tables.unread = tuple(unread)

    @classmethod
    def from_tables(cls, tables: Tables, vhost: str, profile: Profile) -> Topology:
        """Build a topology on these tables, without copying them: they must not change any more."""
        self = cls.__new__(cls)
        for name, value in (("_tables", tables), ("vhost", vhost), ("profile", profile)):
            object.__setattr__(self, name, value)
        return self

    @property
    def exchanges(self) -> Mapping[str, Exchange]:
        """Name -> exchange, the predeclared ones included."""
        return MappingProxyType(self._tables.exchanges)

    @property
    def queues(self) -> Mapping[str, Queue]:
        """Name -> queue."""
        return MappingProxyType(self._tables.queues)

    @property
    def policies(self) -> Mapping[str, Policy]:
        """Name -> policy, without operator policies."""
        return MappingProxyType(self._tables.policies)

    @property
    def operator_policies(self) -> Mapping[str, Policy]:
        """Name -> operator policy."""
        return MappingProxyType(self._tables.operator_policies)

    @property
    def all_policies(self) -> list[Policy]:
        """The policies, then the operator policies."""
        return [*self._tables.policies.values(), *self._tables.operator_policies.values()]

    @property
    def unread(self) -> tuple[UnreadPart, ...]:
        """What is missing in it, as its reader says; `exchange.topology.unread.find_unread` knows more."""
        return self._tables.unread

    @property
    def allows_unread(self) -> bool:
        """Whether the user wants claims although parts are missing."""
        return self._tables.allows_unread

    def with_unread(self, unread: Iterable[UnreadPart], *, allowed: bool = False) -> Topology:
        """Return the topology with these parts missing; ``allowed`` if the user wants claims all the same."""
        tables = self._tables.copy()
        tables.unread, tables.allows_unread = tuple(unread), allowed
        return Topology.from_tables(tables, self.vhost, self.profile)

    def with_parts(
        self,
        *,
        exchanges: Iterable[Exchange] | None = None,
        queues: Iterable[Queue] | None = None,
        bindings: Iterable[Binding] | None = None,
        policies: Iterable[Policy] | None = None,
    ) -> Topology:
        """Return the topology with its parts of each given kind replaced; all others stay, and so does ``unread``.

        ``policies`` includes the operator policies.
        """
        changed = Topology(
            self.exchanges.values() if exchanges is None else exchanges,
            self.queues.values() if queues is None else queues,
            self.bindings if bindings is None else bindings,
            self.all_policies if policies is None else policies,
            vhost=self.vhost,
            profile=self.profile,
            unread=self.unread,
        )
        changed._tables.allows_unread = self.allows_unread
        return changed

    def policies_in_force(self) -> Policies:
        """Return the policies as they are now, which compute the settings in force for queues and exchanges."""
        return Policies(self.policies, self.operator_policies, self.profile)

    @property
    def bindings(self) -> Collection[Binding]:
        """All bindings, grouped by source, without the implicit ones of the default exchange."""
        return self._tables.bindings()

    def bindings_from(self, exchange: str) -> Collection[Binding]:
        """Return the bindings whose source is this exchange."""
        return self._tables.bindings_from(exchange)

    def bindings_to(self, destination: Destination) -> Collection[Binding]:
        """Return the bindings to this queue or exchange."""
        return self._tables.bindings_to(destination)

    def find_refused(self) -> dict[Binding, BrokerError]:
        """Return the bindings that RabbitMQ refuses to make, with its answers, of those whose two ends exist.

        A file may have them, and a broker may that had them before an upgrade; a router takes them as they are.
        """
        return rules.find_refused_bindings(self._tables, self.profile)

    def tables(self) -> Tables:
        """Return a copy of the indexes, to be edited in place."""
        return self._tables.copy()

    def with_profile(self, profile: Profile | str) -> Topology:
        """Return a topology of the same parts under the rules of another release."""
        return Topology.from_tables(self._tables, self.vhost, _to_profile(profile))

    def declare_exchange(self, exchange: Exchange) -> Topology:
        """Add an exchange, as exchange.declare: 403 or 406 (503 for an unknown type up to 3.13.2) if refused."""
        return self._apply(rules.declare_exchange(self._tables, self._host, exchange))

    def declare_queue(self, queue: Queue) -> Topology:
        """Add a queue, as queue.declare: 403 or 406 if refused."""
        return self._apply(rules.declare_queue(self._tables, self._host, queue))

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> Topology:
        """Remove an exchange, its bindings and what auto-deletes with them, as exchange.delete: 403, 406 if refused."""
        return self._apply(rules.delete_exchange(self._tables, self._host, name, if_unused))

    def delete_queue(self, name: str) -> Topology:
        """Remove a queue, its bindings and what auto-deletes with them, as queue.delete."""
        return self._apply(rules.delete_queue(self._tables, name))

    def bind(self, binding: Binding) -> Topology:
        """Add a binding, as queue.bind or exchange.bind: 403, 404 or 406 if refused."""
        return self._apply(rules.bind(self._tables, self._host, binding))

    def unbind(self, binding: Binding) -> Topology:
        """Remove a binding, as queue.unbind or exchange.unbind: 403 if refused. It need not exist."""
        return self._apply(rules.unbind(self._tables, binding))

    def set_policy(self, policy: Policy) -> Topology:
        """Add a policy or operator policy, or replace the one of its name: 400 if refused."""
        return self._apply(rules.set_policy(self._tables, self._host, policy))

    def clear_policy(self, name: str, *, operator: bool = False) -> Topology:
        """Remove a policy, or an operator policy: 404 if there is none."""
        return self._apply(rules.clear_policy(self._tables, self._host, name, operator=operator))

    @property
    def _host(self) -> rules.VirtualHost:
        return rules.VirtualHost(self.vhost, self.profile)

    def _apply(self, changes: Iterable[Change]) -> Topology:
        tables = self._tables.copy()
        for change in changes:
            tables.apply(change)
        return Topology.from_tables(tables, self.vhost, self.profile)

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, name):
            raise AttributeError(f"a Topology does not change; its edits return a new one ({name})")
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Topology):
            return NotImplemented
        return (self.vhost, self.profile) == (other.vhost, other.profile) and self._tables == other._tables

    def __hash__(self) -> int:
        # Hash names only: hashing all bindings would take as long as comparing them.
        return hash((self.vhost, self.profile, frozenset(self.exchanges), frozenset(self.queues)))

    def __repr__(self) -> str:
        parts = ((self.exchanges, "exchange"), (self.queues, "queue"), (self.bindings, "binding"))
        counts = ", ".join([count_noun(len(several), noun) for several, noun in parts])
        return f"<Topology {self.vhost!r}: {counts}, {self.profile.name}>"


def _to_profile(profile: Profile | str) -> Profile:
    """Return the profile of a name, with a warning for an unknown release. Raises ValueError listing the names."""
    found = resolve_profile(profile)
    if isinstance(profile, str):
        warn_of(found, 3)
    return found
