"""One pipeline of ``bridge.toml``: its topology, where its messages come from, where each queue's messages go.

It is checked as a whole before any connection is made: each queue of the topology has a target or is ignored by name,
no target feeds its own source, and each mistake is reported with its key. What is allowed now, but will become a
problem, is a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from bindings.sources.open import open_source
from bridge.daemon import keys
from bridge.daemon.reading.replies import Ends, read_replies, warn_of_reply_topics
from bridge.endpoint import BridgeLayout, Misfit, Source, Target
from bridge.endpoints import build_dead_letter_target, build_source, build_target, reading_endpoint
from bridge.endpoints.between import find_rivals
from bridge.endpoints.loops import find_dead_letter_loop, find_feedback, find_near_exchange
from bridge.keys import Key, reading_whole
from bridge.mistakes import ConfigWarning, Mistakes
from bridge.pump import keys as pump_keys
from bridge.pump.inlet import read_filter
from bridge.pump.policy import Backoff, Policy, Unroutable
from bridge.pump.pump import NO_PARTITIONERS, NO_REPLIES, Inlet
from bridge.pump.replies import Replies
from bridge.registry.client import read_client
from bridge.registry.registry import Registry
from bridge.table import Table
from exchange.entities.releases import RELEASES, find_profile_by_name
from exchange.errors import InputError
from exchange.partition.partitioner import Partitioner
from exchange.text.display import suggest
from exchange.topology.partitioners import find_python_partitionings
from exchange.topology.reach import find_reachable_queues
from exchange.topology.topology import Topology
from exchange.topology.unread import require_whole

DEAD_LETTERS: Final = keys.DEAD_LETTERS.name

LEAST_WINDOW: Final = 1 << 16
"""Minimum of ``window_bytes``, in bytes; a smaller window would hardly hold a message."""


class Shared(NamedTuple):
    """What the file says for all its pipelines."""

    policy: Policy
    dead_letters: Table | None
    """The table of dead letters for those that have none of their own."""
    workers: int
    worker: int | None
    """Number of the worker that reads the file; None: it is no worker."""


class PipelineParts(NamedTuple):
    """What a valid pipeline is made of; `bridge.daemon.config.Config` has the meaning of each."""

    topology: Topology
    inlets: tuple[Inlet, ...]
    targets: Mapping[str, Target]
    policy: Policy
    dead_letters: Target | None
    ignored: frozenset[str]
    coverage: bool
    tracing: bool
    replies: Replies
    partitioners: Mapping[str, Partitioner]
    is_shared: bool
    """Whether it has sources that several workers can share."""
    shares_dead_letters: bool
    """Whether its dead letters are those of the table at the top of the file."""
    registry: Registry | None


def read_pipeline(table: Table, mistakes: Mistakes, shared: Shared, known: tuple[str, ...]) -> PipelineParts:
    """Read a pipeline from its table, which is the whole file if that has only one; ``known`` are the table's keys.

    Mistakes are added to those given, and all are raised: InputError that names the key and what to do, or ConfigError
    with several. Checks that need valid endpoints, such as that each queue has a target, are made only if all endpoints
    are valid.
    """
    unread = table.copy()
    table.mistakes = mistakes
    topology, policy, ignored, dead_letters, partitioners = None, shared.policy, frozenset[str](), None, NO_PARTITIONERS
    registry = None
    table.check_keys(known)  # first, as a missing table is often a misspelt one
    with mistakes.collect(), reading_whole(table, keys.OF_TOPOLOGY):
        topology, partitioners = _read_topology(table, Path(table.source).parent)
    with mistakes.collect():
        policy = read_policy(table.table(keys.POLICY.name), shared.policy)
    source_tables, inlets = _read_sources(table, mistakes, policy, topology)
    fit = {name: inlet for name, inlet in inlets.items() if inlet.source.shared}
    is_shared = bool(fit) or len(inlets) < len(source_tables)
    if not (is_shared or table.path) and shared.workers > 1:
        mistakes.keep(refuse_workers(table))
    if shared.worker is not None and shared.worker > 1:
        inlets = fit
    target_tables, targets_by_name, targets = _read_targets(table, mistakes, source_tables, topology)
    reply_tables: dict[str, Table] = {}
    with mistakes.collect():
        reply_tables = table.tables(keys.REPLIES.name)
    with mistakes.collect():
        ignored = frozenset(keys.IGNORE.read(table))
    shares_dead_letters = shared.dead_letters is not None and not table.has(DEAD_LETTERS)
    with mistakes.collect():
        dead_letters = _read_dead_letters(table, shared.dead_letters)
    with mistakes.collect():
        described = keys.REGISTRY.read(table)
        registry = None if described is None else Registry(read_client(described))
    has_coverage, has_tracing = keys.COVERAGE.read(table), keys.TRACING.read(table)
    table.refuse_unread(known)
    mistakes.raise_any()  # afterwards there is a topology
    assert topology is not None  # noqa: S101  or there was a mistake
    _check_queues(table, mistakes, topology, targets, ignored)
    layout = BridgeLayout([inlet.source for inlet in inlets.values()], targets, topology, shared.workers)
    endpoints: list[tuple[Source | Target, Table]] = [
        (inlet.source, source_tables[name]) for name, inlet in inlets.items()
    ]
    for endpoint, own in (*endpoints, *[(target, target_tables[name]) for name, target in targets_by_name.items()]):
        with mistakes.collect():
            _check_fit(endpoint, own, layout)
    mistakes.raise_any()
    replies, reply_inlets, written = NO_REPLIES, list[Inlet](), unread.tables(keys.SOURCES.name)
    if reply_tables:
        ends = Ends(written, inlets, unread.tables(keys.TARGETS.name), targets_by_name, targets)
        replies, reply_inlets = read_replies(
            table, reply_tables, mistakes, ends, topology, policy, has_dead_letters=dead_letters is not None
        )
    warn_of_reply_topics(written, source_tables, replies)
    _check_loops(table, inlets, targets_by_name, targets, topology, dead_letters)
    _check_rivals(table, inlets)
    if registry is not None:
        _use_registry(table, registry, inlets.values(), targets, topology, dead_letters)
    if dead_letters is None:
        table.warn(
            DEAD_LETTERS,
            "there is no [dead_letters]: a message that cannot be delivered is held, and in time all behind it waits; "
            'write [dead_letters] with url = "..." and where',
        )
    return PipelineParts(
        topology, (*inlets.values(), *reply_inlets), targets, policy, dead_letters, ignored, has_coverage, has_tracing,
        replies, partitioners, is_shared, shares_dead_letters, registry,
    )  # fmt: skip


def _read_dead_letters(table: Table, shared: Table | None) -> Target | None:
    """Return the target of dead letters: the table's own, else the shared one. Raises InputError."""
    dead = keys.DEAD_LETTERS.read(table)
    if dead is None and shared is not None:
        dead = shared.copy()
    if dead is None:
        return None
    target = build_dead_letter_target(dead)
    table.files |= dead.files
    table.warnings += [each for each in dead.warnings if each not in table.warnings]
    return target


def _use_registry(
    table: Table, registry: Registry, inlets: Iterable[Inlet], targets: Mapping[str, Target], topology: Topology,
    dead_letters: Target | None,
) -> None:  # fmt: skip
    """Have sources wait for schemas whose messages may have a key in their body; warn if there are none."""
    is_read_last = dead_letters is not None and bool(dead_letters.body_keys)
    partitioned = [(queue, each.partitioning) for queue, each in topology.queues.items()]
    readers = {queue for queue, each in partitioned if each is not None and each.key.part == "body"}
    readers |= {queue for queue, target in targets.items() if queue in target.body_keys}
    for inlet in inlets:
        if is_read_last or not readers.isdisjoint(find_reachable_queues(topology, inlet.exchange)):
            inlet.admission = registry
    if not (is_read_last or readers):
        table.warn(keys.REGISTRY.name, "nothing is asked of it: no partition, key or tag is a field of the body")


def refuse_workers(file: Table) -> InputError:
    """Build the error for several workers of which the first one alone has something to read."""
    return file.error("workers", "all sources are archives, which one worker reads; write workers = 1")


def _read_sources(
    table: Table, mistakes: Mistakes, policy: Policy, topology: Topology | None
) -> tuple[dict[str, Table], dict[str, Inlet]]:
    """Return the tables of all sources by name, and the inlets of the valid ones."""
    tables: dict[str, Table] = {}
    inlets: dict[str, Inlet] = {}
    with mistakes.collect():
        tables = table.tables(keys.SOURCES.name)
        if not tables:
            name = f"{table.path}.{keys.SOURCES.name}" if table.path else keys.SOURCES.name
            raise table.missing(keys.SOURCES.name, f'there is none; write [{name}.NAME] with url = "amqp://..."')
    for name, each in tables.items():
        with mistakes.collect(), reading_endpoint(each, "SOURCE"):
            inlets[name] = _read_inlet(name, each, policy, topology)
    return tables, inlets


def _read_targets(
    table: Table, mistakes: Mistakes, sources: Mapping[str, Table], topology: Topology | None
) -> tuple[dict[str, Table], dict[str, Target], dict[str, Target]]:
    """Return the tables of all targets by name, the valid targets by name, and the valid targets by queue."""
    tables: dict[str, Table] = {}
    by_name: dict[str, Target] = {}
    by_queue: dict[str, Target] = {}
    with mistakes.collect():
        tables = table.tables(keys.TARGETS.name)
    for name, each in tables.items():
        with mistakes.collect():
            if name in sources or name == DEAD_LETTERS:
                raise table.error(
                    f"targets.{name}", "another endpoint has this name; logs and metrics could not distinguish them"
                )
            by_name[name], queues = build_target(name, each)
            for queue in queues:
                with mistakes.collect(queue):
                    if topology is not None and queue not in topology.queues:
                        raise each.error(
                            "queues", f"the topology has no queue {queue!r}{suggest(queue, topology.queues)}"
                        )
                    if queue in by_queue:
                        raise each.error("queues", f"queue {queue!r} has a target already, {by_queue[queue].name}")
                    by_queue[queue] = by_name[name]
    return tables, by_name, by_queue


def _check_rivals(table: Table, inlets: Mapping[str, Inlet]) -> None:
    """Warn of sources that take messages from each other, or keep in one place how far they have read."""
    sources = [(table.path_of(f"sources.{name}"), inlet.source) for name, inlet in inlets.items()]
    for _, second, rivalry in find_rivals(sources):
        table.warnings.append(ConfigWarning(sources[second][0], *rivalry))


def _check_loops(
    table: Table,
    inlets: Mapping[str, Inlet],
    targets_by_name: Mapping[str, Target],
    targets: Mapping[str, Target],
    topology: Topology,
    dead_letters: Target | None,
) -> None:
    """Refuse loops that are certain, and warn of possible ones. Raises InputError."""
    if dead_letters is not None and (fed := find_dead_letter_loop(inlets.values(), dead_letters)) is not None:
        raise table.error(
            DEAD_LETTERS,
            f"its {fed.where} is what [sources.{fed.source}] reads: a dead letter would be read again, for ever; "
            "give dead letters a place that no source of this bridge reads",
        )
    for loop in find_feedback(inlets.values(), targets, topology):
        name = next(name for name, target in targets_by_name.items() if target is loop.target)
        problem = f"its {loop.where} is what [sources.{loop.source}] reads, and messages get there again ({loop.way})"
        if loop.certain:
            raise table.error_in(
                f"targets.{name}",
                "queues",
                f"{problem}: they would go round for ever; write to another place, read another, or let the source "
                "enter the topology at an exchange that does not lead there",
            )
        table.warnings.append(
            ConfigWarning(
                table.path_of(f"targets.{name}"),
                "queues",
                f"{problem}, unless {loop.unless}; [policy] max_hops ends such a loop",
            )
        )
    tables = {f"targets.{name}": target for name, target in targets_by_name.items()}
    if dead_letters is not None:
        tables[DEAD_LETTERS] = dead_letters
    for name, target in tables.items():
        if (near := find_near_exchange(inlets.values(), target)) is not None:
            table.warnings.append(
                ConfigWarning(
                    table.path_of(name),
                    "exchange" if name == DEAD_LETTERS else "queues",
                    f"{near[0].name} is in the RabbitMQ that [sources.{near[1]}] reads from: if its bindings lead to "
                    "that queue, messages go round; [policy] max_hops ends such a loop",
                )
            )


def _read_topology(table: Table, folder: Path) -> tuple[Topology, Mapping[str, Partitioner]]:
    """Return the topology, and the partitioners of the owner that it names. Raises InputError."""
    where = keys.TOPOLOGY.read(table)
    vhost = keys.VHOST.read(table)
    profile = _read_profile(table)
    if "://" not in where:
        where = str(folder / where)
    try:
        source = open_source(where, vhost)
        if vhost is None and len(source.vhosts) > 1 and "/" not in source.vhosts:
            names = ", ".join(map(repr, source.vhosts))
            raise table.error(
                "vhost", f'is missing, and {source.name} has several; write vhost = "..." for one of {names}'
            )
        if vhost is not None and vhost not in source.vhosts:
            names = ", ".join(map(repr, source.vhosts)) or "none"
            raise table.error("vhost", f"{source.name} has no virtual host {vhost!r}; it has {names}")
        topology = source.topology(vhost, profile or source.profile)
        if topology.profile.caveat:
            table.warn("topology" if profile is None else "profile", topology.profile.caveat)
        require_whole(source.name, topology, "messages would be routed without; convert the rest to a .bindings file")
        return topology, _import_partitioners(table, topology, folder)
    except InputError as error:
        if str(error).startswith(table.source):
            raise
        raise table.error("topology", str(error)) from None


def _import_partitioners(table: Table, topology: Topology, folder: Path) -> Mapping[str, Partitioner]:
    allowed = keys.ALLOW_PYTHON.read(table)
    imported: dict[str, Partitioner] = {}
    for queue, partitioning in find_python_partitionings(topology).items():
        if not allowed:
            raise table.error(
                "topology",
                f"partitions queue {queue!r} by {partitioning.strategy}, which is code; if you trust it, write "
                f"{keys.ALLOW_PYTHON.name} = true",
            )
        try:
            imported[queue] = partitioning.imported(str(folder.absolute())).partitioner
        except InputError as error:
            raise table.error("topology", f"queue {queue!r}: {error}") from None
    return imported


def _read_profile(table: Table) -> str | None:
    """Read the name of a profile. Raises InputError for a name that is no release."""
    name = keys.PROFILE.read(table)
    if name is None or find_profile_by_name(name) is not None:
        return name
    raise table.error("profile", f"must be one of {RELEASES}, and is {name!r}")


def _read_window_bytes(table: Table, base: Policy) -> int:
    size = pump_keys.WINDOW_BYTES.read(table, base.window_bytes)
    if size < LEAST_WINDOW:
        table.keep(table.error("window_bytes", f"must be at least {LEAST_WINDOW:,} bytes, and is {size:,}"))
    return size


def _read_backoff(table: Table, first_key: Key[float], most_key: Key[float], base: Backoff) -> Backoff:
    """Read the shortest and the longest wait. A longest one that is written alone may be below the usual shortest."""
    is_written = table.has(first_key.name)
    first, most = first_key.read(table, base.first), most_key.read(table, base.most)
    if is_written and first > most:
        table.keep(table.error(first_key.name, f"must be at most {most_key.name}, which is {most:g} s"))
    return Backoff(first, most)


def read_policy(table: Table, base: Policy) -> Policy:
    """Read a policy, whose defaults are those of another one. Raises InputError."""
    policy = Policy(
        pump_keys.WINDOW.read(table, base.window),
        _read_window_bytes(table, base),
        pump_keys.TRIES.read(table, base.tries),
        _read_backoff(table, pump_keys.BACKOFF, pump_keys.BACKOFF_MOST, base.backoff),
        _read_backoff(table, pump_keys.RECONNECT, pump_keys.RECONNECT_MOST, base.reconnect),
        Unroutable(pump_keys.UNROUTABLE.read(table, base.unroutable.value)),
        pump_keys.ONE_AT_A_TIME.read(table, base.one_at_a_time),
        pump_keys.RATE.read(table) or base.rate,
        pump_keys.DRAIN.read(table, base.drain),
        pump_keys.STALLED_AFTER.read(table, base.stalled_after),
        pump_keys.MAX_HOPS.read(table, base.max_hops),
        pump_keys.GIVE_UP_AFTER.read(table) if table.has(pump_keys.GIVE_UP_AFTER.name) else base.give_up_after,
        pump_keys.MAX_DEAD_LETTERS.read(table, base.max_dead_letters),
    )
    table.refuse_unread(pump_keys.POLICY.names)
    return policy


def _read_inlet(name: str, table: Table, policy: Policy, topology: Topology | None) -> Inlet:
    own_policy = pump_keys.OWN_POLICY.read(table)
    own = policy
    if own_policy is not None:
        for key in pump_keys.POLICY.names:
            if key not in pump_keys.OF_ONE_SOURCE and own_policy.has(key):
                own_policy.warn(key, "changes nothing here, as it is not of one source; write it in [policy]")
        own = read_policy(own_policy, policy)
    exchange, routing_key = pump_keys.EXCHANGE.read(table), pump_keys.ROUTING_KEY.read(table)
    if exchange and topology is not None and exchange not in topology.exchanges:
        near = suggest(exchange, topology.exchanges)
        table.keep(table.error("exchange", f"the topology has no exchange {exchange!r}{near}"))
    message_filter = read_filter(table)
    source = build_source(name, table, own)
    return Inlet(source, exchange, routing_key, own, message_filter)


def _check_fit(endpoint: Source | Target, table: Table, layout: BridgeLayout) -> None:
    """Check that an endpoint fits into its bridge. Raises InputError with the key of its table."""
    try:
        endpoint.meet(layout)
    except Misfit as misfit:
        raise table.error(misfit.key, misfit.problem) from None


def _check_queues(
    table: Table, mistakes: Mistakes, topology: Topology, targets: Mapping[str, Target], ignored: frozenset[str]
) -> None:
    """Keep a mistake for each ignored queue that is unknown or has a target, and each other queue without a target."""
    for queue in sorted(ignored):
        with mistakes.collect(queue):
            if queue not in topology.queues:
                raise table.error("ignore", f"the topology has no queue {queue!r}{suggest(queue, topology.queues)}")
            if queue in targets:
                raise table.error("ignore", f"queue {queue!r} has a target, {targets[queue].name}; it cannot be both")
    for queue in sorted(topology.queues):
        with mistakes.collect(queue):
            if queue not in targets and queue not in ignored:
                raise table.error(
                    "targets",
                    f"queue {queue!r} has none; add it to the queues of a target, or to ignore = [...] if its messages "
                    "shall go nowhere",
                )
