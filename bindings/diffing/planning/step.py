"""One step of a plan, and the state that steps lead through: a topology under the broker's rules, edited in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from exchange.entities.entities import Binding, Exchange, Policy, Queue
from exchange.entities.indexes import Change
from exchange.entities.part import Part
from exchange.errors import BrokerError
from exchange.kinds import KINDS
from exchange.topology import rules
from exchange.topology.topology import Topology
from exchange.values.notation import write_arguments

VERBS: Final[Mapping[type, tuple[str, str]]] = {
    Exchange: ("delete", "declare"),
    Queue: ("delete", "declare"),
    Binding: ("unbind", "bind"),
    Policy: ("clear", "set"),
}


class Step(NamedTuple):
    """One operation on a broker, which adds or removes a part."""

    added: bool
    part: Part
    danger: str | None = None
    """Why this step may lose messages or lead them to wrong queues; None where it does not."""
    in_use: bool = False
    """Whether an exchange is to be deleted even if it has bindings; without this, it must have none."""
    old: Exchange | Queue | Policy | None = None
    """What the part takes the place of: the policy of its name, or the part that was deleted; None for a new part."""

    @property
    def verb(self) -> str:
        """The verb for a user: declare, bind or set; delete, unbind or clear."""
        return VERBS[type(self.part)][self.added]

    def __str__(self) -> str:
        kind = f" ({self.part.type})" if isinstance(self.part, Exchange | Queue) and self.added else ""
        return f"{self.verb} {describe_part(self.part)}{kind}"


def describe_part(part: Part) -> str:
    """Return ``queue 'q'`` or ``exchange 'x' 'key' -> queue 'q'``."""
    if isinstance(part, Binding):
        arguments = f" {write_arguments(part.arguments)}" if part.arguments else ""
        return f"exchange {part.source!r} {part.routing_key!r}{arguments} -> {part.destination}"
    operator = "operator " if isinstance(part, Policy) and part.operator else ""
    return f"{operator}{type(part).__name__.lower()} {part.name!r}"


Unit: TypeAlias = tuple[Step, ...]
"""Steps that belong together: a single one, or all steps that replace a part."""


class StepState:
    """A topology that steps change in place; the time of a step does not grow with the topology."""

    def __init__(self, topology: Topology) -> None:
        self._tables: Final = topology.tables()
        self._host: Final = rules.VirtualHost(topology.vhost, topology.profile)

    @property
    def topology(self) -> Topology:
        """The topology it is now; later steps do not change it."""
        return Topology.from_tables(self._tables.copy(), self._host.vhost, self._host.profile)

    def copy(self) -> StepState:
        """Return an independent copy."""
        return StepState(Topology.from_tables(self._tables, self._host.vhost, self._host.profile))

    def apply(self, step: Step) -> list[Change]:
        """Carry out a step and return the changes, perhaps none. Raises the BrokerError that a broker answers with."""
        changes = self._changes(step)
        for change in changes:
            self._tables.apply(change)
        return changes

    def carry_out(self, unit: Unit, wanted: Topology, refused: list[tuple[Step, BrokerError]]) -> list[Step]:
        """Carry out steps that belong together and return those that change something; refused ones go to ``refused``.

        When an auto-delete exchange that is wanted goes with its last binding, it is declared again at once.
        """
        done: list[Step] = []
        gone: list[Change] = []
        later: list[Part] = []
        for planned in unit:
            step = planned
            try:
                changes = self.apply(step)
            except BrokerError as error:
                if self._comes_later(step, unit, wanted):
                    later.append(step.part)
                else:
                    refused.append((step, error))
                continue
            lost = [name for name in _gone_along(changes, step) if name in wanted.exchanges]
            if lost and step.danger is None:
                step = step._replace(danger=f"exchange {lost[0]!r} goes with its last binding; it is declared again")
            if changes:
                done.append(step)
            gone += [change for change in changes if not change.added]
        return done + self._restore([*[change.part for change in gone], *later], wanted, refused)

    def _restore(self, parts: list[Part], wanted: Topology, refused: list[tuple[Step, BrokerError]]) -> list[Step]:
        # ``parts`` are the parts that were removed, and bindings that failed because one of their ends was removed.
        exchanges = [part for part in parts if isinstance(part, Exchange) and wanted.exchanges.get(part.name) == part]
        if not exchanges:
            return []
        why = "it went with its last binding; publishers are refused meanwhile"
        steps = [Step(True, exchange, why) for exchange in exchanges]
        done = [step for step in steps if self.apply(step)]
        for part in parts:
            if isinstance(part, Binding) and part in wanted.bindings and self._has_ends(part):
                step = Step(True, part, why)
                try:
                    if self.apply(step):
                        done.append(step)
                except BrokerError as error:  # when it was bound, the exchange was of another type
                    refused.append((step, error))
        return done

    def _comes_later(self, step: Step, unit: Unit, wanted: Topology) -> bool:
        """Return whether a step binds a part that the unit removed and that a later unit declares and binds."""
        part = step.part
        if not (isinstance(part, Binding) and step.added and len(unit) > 1) or self._has_ends(part):
            return False
        names = wanted.queues if part.destination.kind == "queue" else wanted.exchanges
        return part.source in wanted.exchanges and part.destination.name in names

    def _has_ends(self, binding: Binding) -> bool:
        """Return whether both ends of a binding exist now."""
        return binding.source in self._tables.exchanges and self._tables.exists(binding.destination)

    def _changes(self, step: Step) -> list[Change]:
        part, tables = step.part, self._tables
        if isinstance(part, Binding):
            return rules.bind(tables, self._host, part) if step.added else rules.unbind(tables, part)
        if isinstance(part, Queue):
            return (
                rules.declare_queue(tables, self._host, part) if step.added else rules.delete_queue(tables, part.name)
            )
        if isinstance(part, Policy):
            if step.added:
                return [Change(True, part)] if tables.policies.get(part.name) != part else []
            return rules.clear_policy(tables, self._host, part.name) if part.name in tables.policies else []
        if not step.added:
            return rules.delete_exchange(tables, self._host, part.name, not step.in_use)
        if part.type not in KINDS and part.name not in tables.exchanges:
            return [Change(True, part)]  # of a plugin, which the broker may have
        return rules.declare_exchange(tables, self._host, part)


def _gone_along(changes: list[Change], step: Step) -> list[str]:
    """Return the exchanges that a step removed besides its own part: auto-delete ones with their last binding."""
    parts = [change.part for change in changes if not change.added]
    return [part.name for part in parts if isinstance(part, Exchange) and part != step.part]
