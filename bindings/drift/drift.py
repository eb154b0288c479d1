"""Compare what a file wants with what a broker has: objects that are missing, extra or changed, and what is ignored.

The difference is that of a plan (`bindings.diffing.planning.plan`), so it leaves out what a broker does not see: how
queues are partitioned, the width of an integer among arguments. Some objects come and go by themselves, and are counted
only: those named ``amq.*``, auto-delete queues and exchanges, exclusive queues, and bindings of these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

from bindings.analysis.crawl import Deadline
from bindings.applying.live import Live
from bindings.diffing.comparison.compare import compare
from bindings.diffing.comparison.meaning import Meaning
from bindings.diffing.planning.fields import find_changes
from bindings.diffing.planning.plan import find_difference, is_reserved
from bindings.diffing.settings.changes import SettingsChange, compare_settings
from bindings.report.thresholds import matches_glob
from exchange.entities.entities import Binding, Exchange, Policy, Queue
from exchange.entities.part import Part
from exchange.topology.topology import Topology
from exchange.topology.unread import UnreadPart, find_unread
from exchange.values.documents import document
from exchange.values.json_types import FieldJson

Kind = Literal["exchange", "queue", "binding", "policy"]
Change = Literal["missing", "extra", "changed"]
Verdict = Literal["same", "drift", "undecided"]
Reason = Literal["amq.*", "exclusive", "auto-delete", "by name", "extra"]

KINDS: Final[tuple[Kind, ...]] = ("exchange", "queue", "binding", "policy")
CHANGES: Final[tuple[Change, ...]] = ("missing", "extra", "changed")
"""``missing``: the broker does not have it; ``extra``: only the broker has it; ``changed``: both, and they differ."""
REASONS: Final[tuple[Reason, ...]] = ("amq.*", "exclusive", "auto-delete", "by name", "extra")


class ObjectName(NamedTuple):
    """The name of an exchange, a queue or a policy."""

    kind: str
    name: str


@document("FieldDriftJson")
class FieldDrift(NamedTuple):
    """A property of an object that differs, as JSON values; None where one side does not have it."""

    name: str
    """``durable``, ``arguments.x-max-length``, ``definition.max-length`` ..."""
    file: FieldJson
    """None where the file does not have it."""
    broker: FieldJson
    """None where the broker does not have it."""


@document("ObjectJson", "change, part, fields")
@dataclass(frozen=True, slots=True)
class Object:
    """An exchange, queue, binding or policy that differs."""

    change: Change
    """`missing`: the broker does not have it; `extra`: only the broker has it; `changed`: both, and they differ."""
    part: Part
    """As the file has it; an extra one, as the broker has it."""
    live: Part | None = None
    """Of a changed one: as the broker has it."""

    @property
    def kind(self) -> Kind:
        """Its kind."""
        return _kind_of(self.part)

    @property
    def fields(self) -> tuple[FieldDrift, ...]:
        """What differs in a changed object; none of another one."""
        return (
            () if self.live is None else tuple([FieldDrift(*change) for change in find_changes(self.part, self.live)])
        )


@dataclass(frozen=True, slots=True)
class Ignoring:
    """What is no drift, beside names that begin with ``amq.`` and exclusive queues."""

    names: tuple[str, ...] = ()
    """Globs of names of exchanges, queues and policies, and of both ends of bindings; ``queue:tmp.*`` for one kind."""
    extra: bool = False
    """Whether to ignore what only the broker has."""
    auto_delete: bool = True
    """Whether to ignore auto-delete queues and exchanges that one side does not have."""

    def reason(self, item: Object, transient: frozenset[ObjectName]) -> Reason | None:
        """Return why an object is ignored; None if it is not.

        ``transient`` are the auto-delete queues and exchanges that one side does not have.
        """
        named = _named_by(item.part)
        if self.auto_delete and transient & named:
            return "auto-delete"
        if any(self._matches(each) for each in named):
            return "by name"
        return "extra" if self.extra and item.change == "extra" else None

    def _matches(self, named: ObjectName) -> bool:
        for glob in self.names:
            kind, colon, rest = glob.partition(":")
            if colon and kind in KINDS:
                if kind == named.kind and matches_glob(rest, named.name):
                    return True
            elif matches_glob(glob, named.name):
                return True
        return False


@dataclass(frozen=True, slots=True)
class Drift:
    """The difference between a file and a virtual host of a broker."""

    vhost: str
    profile: str
    """The release of the broker, as the name of a profile."""
    objects: tuple[Object, ...]
    """What differs, exchanges first, then queues, bindings, policies; by name."""
    ignored: Mapping[Reason, int]
    """Reason -> number of objects that differ and are ignored."""
    wanted: Topology
    """The topology of the file, as the broker declares it."""
    live: Topology
    """The topology that the broker has; what belongs to exclusive queues is not read."""

    @property
    def intended(self) -> Topology:
        """The topology that the broker would have without the drift; made anew each time."""
        intended = _without_drift(_with_partitions(self.live, self.wanted), self.objects)
        return intended.with_unread(self.unread)

    @property
    def unread(self) -> tuple[UnreadPart, ...]:
        """What is missing in the file's topology: nothing is proved, also if no object differs."""
        return find_unread(self.wanted)

    @property
    def state(self) -> Verdict:
        """``drift`` if an object differs, ``same`` if it is certain that none does, else ``undecided``."""
        return "drift" if self.objects else "undecided" if self.unread else "same"

    @property
    def counts(self) -> dict[tuple[Kind, Change], int]:
        """Number of objects that differ, of each kind and change; 0 included."""
        found = Counter((item.kind, item.change) for item in self.objects)
        return {(kind, change): found[kind, change] for kind in KINDS for change in CHANGES}

    @property
    def settings(self) -> tuple[SettingsChange, ...]:
        """The settings in force that differ by the drift, from the file to the broker; see `bindings.diff`."""
        return compare_settings(self.intended, _with_partitions(self.live, self.wanted)) if self.objects else ()

    def meaning(self, seconds: float) -> Meaning:
        """Return what the drift means to messages, from the file to the broker; see `bindings.diff`.

        What is not decided within ``seconds`` is undecided. Raises InputError for a binding that no router takes.
        """
        return compare(self.intended, _with_partitions(self.live, self.wanted), deadline=Deadline(seconds))


def find_drift(live: Live, wanted: Topology, ignoring: Ignoring = Ignoring()) -> Drift:
    """Return how a live virtual host differs from a wanted topology. Raises InputError if it cannot be read."""
    wanted = live.as_declared(wanted)
    hidden = live.exclusive_queues()
    now = live.mark_unread(live.topology(wanted), hidden)
    wanted = wanted.with_profile(now.profile)
    found, left_alone = find_difference(now, wanted)
    ignored: Counter[Reason] = Counter(_reason_left_alone(part, now) for part in _once(left_alone))
    if hidden:
        ignored["exclusive"] += len(hidden)
    items = [
        *(Object("missing", part) for part in found.new),
        *(Object("extra", part) for part in found.gone),
        *(Object("changed", new, old) for old, new in found.replaced),
        *(Object("missing", binding) for binding in found.bound),
        *(Object("extra", binding) for binding in found.unbound),
        *(
            Object("changed", policy, now.policies[policy.name])
            if policy.name in now.policies
            else Object("missing", policy)
            for policy in found.set
        ),
        *(Object("extra", policy) for policy in found.cleared),
    ]
    transient = frozenset(
        end
        for item in items
        if item.change != "changed" and isinstance(item.part, Exchange | Queue) and item.part.auto_delete
        for end in _named_by(item.part)
    )
    kept = []
    for item in items:
        reason = ignoring.reason(item, transient)
        if reason is None:
            kept.append(item)
        else:
            ignored[reason] += 1
    kept.sort(key=lambda item: (KINDS.index(item.kind), _name_of(item.part), item.change))
    return Drift(wanted.vhost, now.profile.name, tuple(kept), dict(ignored), wanted, now)


def _once(parts: Iterable[Part]) -> Iterator[Part]:
    """Yield each part once, of two with one name the first: a plan names both if they differ."""
    seen = set()
    for part in parts:
        key = (_kind_of(part), part if isinstance(part, Binding) else part.name)
        if key not in seen:
            seen.add(key)
            yield part


def _kind_of(part: Part) -> Kind:
    return (
        "exchange"
        if isinstance(part, Exchange)
        else "queue"
        if isinstance(part, Queue)
        else "binding"
        if isinstance(part, Binding)
        else "policy"
    )


def _name_of(part: Part) -> tuple[str, ...]:
    if isinstance(part, Binding):
        return (part.source, part.destination.name, part.routing_key, repr(part.arguments))
    return (part.name,)


def _named_by(part: Part) -> frozenset[ObjectName]:
    """Return the name of a part; of a binding, the names of what it connects."""
    if isinstance(part, Binding):
        return frozenset({ObjectName("exchange", part.source), ObjectName(*part.destination)})
    return frozenset({ObjectName(_kind_of(part), part.name)})


def _reason_left_alone(part: Part, live: Topology) -> Reason:
    """Return why a plan leaves a part alone; bindings of exclusive queues are exported without these."""
    if isinstance(part, Binding):
        end = part.destination
        if end.kind == "queue" and end.name not in live.queues and not is_reserved(end.name):
            return "exclusive"
    return "amq.*"


def _with_partitions(live: Topology, wanted: Topology) -> Topology:
    """Return what the broker has, with queues partitioned as in the file: brokers know nothing of that."""
    queues = [
        replace(queue, partitioning=wanted.queues[name].partitioning) if name in wanted.queues else queue
        for name, queue in live.queues.items()
    ]
    return live.with_parts(queues=queues)


def _without_drift(live: Topology, items: Iterable[Object]) -> Topology:
    """Return what the broker would have without the objects that differ."""
    tables: dict[type, dict[Any, Any]] = {
        Exchange: dict(live.exchanges),
        Queue: dict(live.queues),
        Binding: dict.fromkeys(live.bindings),
        Policy: dict(live.policies),
    }
    for item in items:
        table = tables[type(item.part)]
        key = item.part if isinstance(item.part, Binding) else item.part.name
        if item.change == "extra":
            table.pop(key, None)
        else:
            table[key] = item.part
    return live.with_parts(
        exchanges=tables[Exchange].values(),
        queues=tables[Queue].values(),
        bindings=list(tables[Binding]),
        policies=[*tables[Policy].values(), *live.operator_policies.values()],
    )
