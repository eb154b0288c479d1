"""The topology of one virtual host, as a value."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from exchange.entities.entities import PREDECLARED, Binding, Destination, Exchange, Policy, Queue
from exchange.entities.indexes import Change, Tables
from exchange.entities.profile import LATEST, RELEASES, Profile, profile_by_name
from exchange.topology import rules

__all__ = ["Topology"]


class Topology:
    """Exchanges, queues, bindings and policies of one virtual host; immutable.

    The constructor takes what it is given, bindings to nowhere and exchanges of unknown types included, and adds the
    exchanges every virtual host has. The edits (``declare_exchange``, ``bind`` ...) return a new topology and obey
    RabbitMQ's rules: they raise a ``BrokerError`` where the broker would answer with one, and InputError for names and
    keys that no client can send. ``profile`` is the RabbitMQ whose rules and routing are meant, a `Profile` or its
    name.
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
        profile: Profile | str = LATEST,
    ) -> None:
        self.vhost: Final = vhost
        self.profile: Final = profile_named(profile)
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

    @classmethod
    def of_tables(cls, tables: Tables, vhost: str, profile: Profile) -> Topology:
        """The topology that tables hold; they must not change any more."""
        self = cls.__new__(cls)
        for name, value in (("_tables", tables), ("vhost", vhost), ("profile", profile)):
            object.__setattr__(self, name, value)
        return self

    @property
    def exchanges(self) -> Mapping[str, Exchange]:
        """By name, the predeclared ones included."""
        return MappingProxyType(self._tables.exchanges)

    @property
    def queues(self) -> Mapping[str, Queue]:
        """By name."""
        return MappingProxyType(self._tables.queues)

    @property
    def policies(self) -> Mapping[str, Policy]:
        """By name."""
        return MappingProxyType(self._tables.policies)

    @property
    def bindings(self) -> Collection[Binding]:
        """All bindings but the default exchange's implicit ones, exchange by exchange."""
        return self._tables.bindings()

    def bindings_from(self, exchange: str) -> Collection[Binding]:
        """The bindings of which this exchange is the source."""
        return self._tables.bindings_from(exchange)

    def bindings_to(self, destination: Destination) -> Collection[Binding]:
        """The bindings that lead to this queue or exchange."""
        return self._tables.bindings_to(destination)

    def tables(self) -> Tables:
        """A copy of the indexes, for editing in place."""
        return self._tables.copy()

    def with_profile(self, profile: Profile | str) -> Topology:
        """The same parts under another RabbitMQ's rules."""
        return Topology.of_tables(self._tables, self.vhost, profile_named(profile))

    def declare_exchange(self, exchange: Exchange) -> Topology:
        """As exchange.declare: 403, 406 (503 for an unknown type up to 3.13), or a topology that has it."""
        return self._after(rules.declare_exchange(self._tables, self._place, exchange))

    def declare_queue(self, queue: Queue) -> Topology:
        """As queue.declare: 403, 406, or a topology that has it."""
        return self._after(rules.declare_queue(self._tables, self._place, queue))

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> Topology:
        """As exchange.delete: 403, 406, or a topology without it, its bindings and what auto-deletes with them."""
        return self._after(rules.delete_exchange(self._tables, self._place, name, if_unused))

    def delete_queue(self, name: str) -> Topology:
        """As queue.delete: a topology without it, its bindings and what auto-deletes with them."""
        return self._after(rules.delete_queue(self._tables, name))

    def bind(self, binding: Binding) -> Topology:
        """As queue.bind or exchange.bind: 403, 404, 406, or a topology that has it."""
        return self._after(rules.bind(self._tables, self._place, binding))

    def unbind(self, binding: Binding) -> Topology:
        """As queue.unbind or exchange.unbind: 403, or a topology without it; it need not have been there."""
        return self._after(rules.unbind(self._tables, binding))

    def set_policy(self, policy: Policy) -> Topology:
        """Add a policy or replace the one of its name: 400, or a topology that has it."""
        return self._after(rules.set_policy(self._tables, self._place, policy))

    def clear_policy(self, name: str) -> Topology:
        """Remove a policy; 404 when there is none."""
        return self._after(rules.clear_policy(self._tables, self._place, name))

    @property
    def _place(self) -> rules.Place:
        return rules.Place(self.vhost, self.profile)

    def _after(self, changes: Iterable[Change]) -> Topology:
        tables = self._tables.copy()
        for change in changes:
            tables.apply(change)
        return Topology.of_tables(tables, self.vhost, self.profile)

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, name):
            raise AttributeError(f"a Topology does not change; its edits return a new one ({name})")
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Topology):
            return NotImplemented
        return (self.vhost, self.profile) == (other.vhost, other.profile) and self._tables == other._tables

    def __hash__(self) -> int:
        # Of the names: the hash of all bindings would take as long as comparing them.
        return hash((self.vhost, self.profile, frozenset(self.exchanges), frozenset(self.queues)))

    def __repr__(self) -> str:
        counts = f"{len(self.exchanges)} exchanges, {len(self.queues)} queues, {len(self.bindings)} bindings"
        return f"<Topology {self.vhost!r}: {counts}, {self.profile.name}>"


def profile_named(profile: Profile | str) -> Profile:
    """A profile by its name, or itself. Raises ValueError naming the ones there are."""
    if isinstance(profile, Profile):
        return profile
    found = profile_by_name(profile)
    if found is None:
        raise ValueError(f"no profile {profile!r}; there are {RELEASES}")
    return found
