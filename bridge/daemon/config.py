"""``bridge.toml``: the topology, where messages come from, where each queue's messages go, and the owner's decisions.

A configuration is checked as a whole before any connection is made: each queue of the topology has a target or is
ignored by name, no target feeds its own source, and each mistake is reported with its key. What is allowed now, but
will become a problem, is a warning.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bindings.sources.open import open_source
from bindings.sources.toml_file import read_toml
from bridge.daemon import keys
from bridge.daemon.replies import Ends, read_replies
from bridge.endpoint import BridgeLayout, Misfit, Place, Source, Target
from bridge.endpoints import build_dead_letter_target, build_source, build_target
from bridge.endpoints.loops import find_dead_letter_loop, find_feedback, find_near_exchange
from bridge.mistakes import ConfigWarning, Mistakes
from bridge.pump import keys as pump_keys
from bridge.pump.inlet import read_filter
from bridge.pump.policy import Backoff, Policy, Unroutable
from bridge.pump.pump import NO_PARTITIONERS, NO_REPLIES, Inlet
from bridge.pump.replies import Replies
from bridge.table import Table
from exchange.entities.releases import RELEASES, find_profile_by_name
from exchange.errors import InputError
from exchange.files.operating_system import find_signals
from exchange.partition.partitioner import Partitioner
from exchange.text.display import suggest
from exchange.text.numbers import is_digits
from exchange.topology.partitioners import find_python_partitionings
from exchange.topology.topology import Topology
from exchange.topology.unread import require_whole


@dataclass(frozen=True, slots=True)
class Http:
    """The address at which health, metrics and the status page are served."""

    host: str
    port: int
    names: tuple[str, ...] = ()
    """Names, besides ``localhost`` and the host, that clients may use in the Host header; ``*`` stands for any."""


@dataclass(frozen=True, slots=True)
class Config:
    """A valid configuration. Whether its systems have what it needs, such as queues, is not checked yet.

    >>> config = Config("example", Topology(), (Inlet(MemorySource()),), {})
    >>> config.policy.window, config.workers
    (2000, 1)
    """

    path: str
    topology: Topology
    inlets: tuple[Inlet, ...]
    targets: Mapping[str, Target]
    """Queue of the topology -> the target of its messages."""
    policy: Policy = Policy()  # noqa: RUF009  a frozen value
    dead_letters: Target | None = None
    ignored: frozenset[str] = frozenset()
    """Queues of the topology without a target: messages for them are settled without being sent."""
    http: Http | None = None
    coverage: bool = False
    """Whether the use of bindings is counted while the bridge runs."""
    workers: int = 1
    """Number of processes."""
    log_format: str = "text"
    log_level: str = "info"
    warnings: tuple[ConfigWarning, ...] = ()
    """Warnings about what the file alone shows to become a problem."""
    replies: Replies = NO_REPLIES
    """Requests that targets write to servers, and the callers who wait for replies; ``inlets`` has the sources of these
    replies, too."""
    partitioners: Mapping[str, Partitioner] = field(default_factory=dict)
    """Queue of the topology -> its partitioner of the owner, imported; the topology has only its name."""

    @property
    def endpoints(self) -> tuple[Source | Target, ...]:
        """All sources and targets, each once."""
        dead = () if self.dead_letters is None else (self.dead_letters,)
        callers = [each.target for each in self.replies.callers.values()]
        return (*[inlet.source for inlet in self.inlets], *dict.fromkeys(self.targets.values()), *callers, *dead)


DEAD_LETTERS: Final = keys.DEAD_LETTERS.name

LEAST_WINDOW: Final = 1 << 16
"""Minimum of ``window_bytes``, in bytes; a smaller window would hardly hold a message."""


def read_config(path: Path, environment: Mapping[str, str] = os.environ, worker: int | None = None) -> Config:
    """Read the configuration in a file; with ``worker``, the number of a worker, that worker's sources and port only.

    Raises InputError that names the key and what to do, or ConfigError with all mistakes if there are several. Checks
    that need valid endpoints, such as that each queue has a target, are made only if all endpoints are valid.

    >>> environment = {"DEMO_ARCHIVE": "a-day-of-messages", "DEMO_INTO": "by-partition"}
    >>> config = read_config(Path("examples/demo/bridge.toml"), environment)
    >>> [inlet.source.name for inlet in config.inlets], sorted(config.targets)
    (['month'], ['orders.by-region', 'orders.mistaken', 'readings.by-device'])
    """
    table = Table(read_toml(path), str(path), environment=environment)
    unread = table.copy()
    table.mistakes = mistakes = Mistakes()
    topology, policy, ignored, dead_letters, http, partitioners = (
        None, Policy(), frozenset[str](), None, None, NO_PARTITIONERS,
    )  # fmt: skip
    table.check_keys(keys.FILE.names)  # first, as a missing table is often a misspelt one
    with mistakes.collect():
        topology, partitioners = _read_topology(table, path.parent)
    with mistakes.collect():
        policy = _read_policy(table.table(keys.POLICY.name))
    workers = keys.WORKERS.read(table)
    if workers > 1 and not find_signals("SIGUSR1"):
        mistakes.keep(table.error("workers", "this system cannot send signals to processes; write workers = 1"))
    source_tables, inlets = _read_sources(table, mistakes, policy, topology)
    shared = {name: inlet for name, inlet in inlets.items() if inlet.source.shared}
    if workers > 1 and not shared and len(inlets) == len(source_tables):
        mistakes.keep(table.error("workers", "all sources are archives, which one worker reads; write workers = 1"))
    if worker is not None and worker > 1:
        inlets = shared
    target_tables, targets_by_name, targets = _read_targets(table, mistakes, source_tables, topology)
    reply_tables: dict[str, Table] = {}
    with mistakes.collect():
        reply_tables = table.tables(keys.REPLIES.name)
    with mistakes.collect():
        ignored = frozenset(keys.IGNORE.read(table))
    with mistakes.collect():
        dead = keys.DEAD_LETTERS.read(table)
        dead_letters = None if dead is None else build_dead_letter_target(dead)
    with mistakes.collect():
        http = read_http(table, worker or 1)
    has_coverage = keys.COVERAGE.read(table)
    log_format, log_level = keys.LOG_FORMAT.read(table), keys.LOG_LEVEL.read(table)
    table.refuse_unread(keys.FILE.names)
    mistakes.raise_any()  # afterwards there is a topology
    _check_queues(table, mistakes, topology, targets, ignored)
    layout = BridgeLayout([inlet.source for inlet in inlets.values()], targets, topology, workers)
    endpoints: list[tuple[Source | Target, Table]] = [
        (inlet.source, source_tables[name]) for name, inlet in inlets.items()
    ]
    for endpoint, own in (*endpoints, *[(target, target_tables[name]) for name, target in targets_by_name.items()]):
        with mistakes.collect():
            _check_fit(endpoint, own, layout)
    mistakes.raise_any()
    replies, reply_inlets = NO_REPLIES, list[Inlet]()
    if reply_tables:
        ends = Ends(
            unread.tables(keys.SOURCES.name), inlets, unread.tables(keys.TARGETS.name), targets_by_name, targets
        )
        replies, reply_inlets = read_replies(
            table, reply_tables, mistakes, ends, topology, policy, has_dead_letters=dead_letters is not None
        )
        mistakes.raise_any()
    _check_loops(table, inlets, targets_by_name, targets, topology, dead_letters)
    _check_rivals(table, inlets)
    if dead_letters is None:
        table.warn(
            DEAD_LETTERS,
            "there is no [dead_letters]: a message that cannot be delivered is held, and in time all behind it waits; "
            'write [dead_letters] with url = "..." and where',
        )
    return Config(
        str(path), topology, (*inlets.values(), *reply_inlets), targets, policy, dead_letters, ignored, http,
        has_coverage, workers, log_format, log_level, tuple(table.warnings), replies, partitioners,
    )  # fmt: skip


def _read_sources(
    table: Table, mistakes: Mistakes, policy: Policy, topology: Topology | None
) -> tuple[dict[str, Table], dict[str, Inlet]]:
    """Return the tables of all sources by name, and the inlets of the valid ones."""
    tables: dict[str, Table] = {}
    inlets: dict[str, Inlet] = {}
    with mistakes.collect():
        tables = table.tables(keys.SOURCES.name)
        if not tables:
            raise table.missing(keys.SOURCES.name, 'there is none; write [sources.NAME] with url = "amqp://..."')
    for name, each in tables.items():
        with mistakes.collect():
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
    """Warn of sources that read the same queue of RabbitMQ: only one of them reads each message of the queue."""
    readers: dict[Place, str] = {}
    for name, inlet in inlets.items():
        for place in inlet.source.places:
            other = readers.setdefault(place, name)
            if place.system == "rabbitmq" and other != name:
                problem = f"[sources.{other}] reads {place.name}, too: each gets some of its messages, in no order"
                table.warnings.append(ConfigWarning(f"sources.{name}", "queue", problem))


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
            raise table.error(
                f"[targets.{name}] queues",
                f"{problem}: they would go round for ever; write to another place, read another, or let the source "
                "enter the topology at an exchange that does not lead there",
            )
        table.warnings.append(
            ConfigWarning(
                f"targets.{name}", "queues", f"{problem}, unless {loop.unless}; [policy] max_hops ends such a loop"
            )
        )
    tables = {f"targets.{name}": target for name, target in targets_by_name.items()}
    if dead_letters is not None:
        tables[DEAD_LETTERS] = dead_letters
    for name, target in tables.items():
        if (near := find_near_exchange(inlets.values(), target)) is not None:
            table.warnings.append(
                ConfigWarning(
                    name,
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
        raise table.error("window_bytes", f"must be at least {LEAST_WINDOW:,} bytes, and is {size:,}")
    return size


def _read_policy(table: Table, base: Policy = Policy()) -> Policy:  # noqa: B008  a frozen value
    policy = Policy(
        pump_keys.WINDOW.read(table, base.window),
        _read_window_bytes(table, base),
        pump_keys.TRIES.read(table, base.tries),
        Backoff(
            pump_keys.BACKOFF.read(table, base.backoff.first), pump_keys.BACKOFF_MOST.read(table, base.backoff.most)
        ),
        Backoff(
            pump_keys.RECONNECT.read(table, base.reconnect.first),
            pump_keys.RECONNECT_MOST.read(table, base.reconnect.most),
        ),
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
    exchange, routing_key = pump_keys.EXCHANGE.read(table), pump_keys.ROUTING_KEY.read(table)
    if exchange and topology is not None and exchange not in topology.exchanges:
        near = suggest(exchange, topology.exchanges)
        raise table.error("exchange", f"the topology has no exchange {exchange!r}{near}")
    own_policy = pump_keys.OWN_POLICY.read(table)
    own = policy if own_policy is None else _read_policy(own_policy, policy)
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


def read_http(table: Table, worker: int) -> Http | None:
    """Return where a worker serves HTTP, None if it does not. Raises InputError."""
    listen, names = keys.HTTP.read(table), tuple(keys.HTTP_HOSTS.read(table))
    if listen == "off":
        return None
    host, _, port = listen.rpartition(":")
    if not host or not is_digits(port) or len(port) > 5 or int(port) > 65_535:
        raise table.error("http", f'must be "HOST:PORT" or "off", and is {listen!r}')
    # Worker K has the K-th port, counted from the configured one; 0 means any free port, for each worker.
    return Http(host.strip("[]"), int(port) and int(port) + worker - 1, names)
