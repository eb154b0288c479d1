"""``bridge.toml``: one pipeline, or several by name, and what the process is: its address, its workers, its log.

A file is one pipeline, whose keys stand at its top, or has ``[pipelines.NAME]`` for each; `bridge.daemon.reading` reads
one. What several share stands at the top once: what belongs to the process, and a policy and dead letters for those
without.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bindings.sources.toml_file import read_toml
from bridge.daemon import keys
from bridge.daemon.reading.pipeline import PipelineParts, Shared, read_pipeline, read_policy, refuse_workers
from bridge.endpoint import Source, Target
from bridge.endpoints.between import PipelineFlow, find_conflicts
from bridge.mistakes import ConfigWarning, Mistakes
from bridge.pump.policy import Policy
from bridge.pump.pump import NO_REPLIES, Inlet
from bridge.pump.replies import Replies
from bridge.registry.registry import Registry
from bridge.table import Table
from exchange.files.operating_system import find_signals
from exchange.partition.partitioner import Partitioner
from exchange.text.display import list_some, suggest
from exchange.text.numbers import is_digits
from exchange.topology.topology import Topology

NO_PIPELINE: Final = "there is no pipeline"
"""How each error begins that is about a pipeline which a file or a bridge does not have."""
MAX_NAMED: Final = 10
"""Maximum number of pipelines that an error names."""


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
    tracing: bool = False
    """Whether messages have spans of OpenTelemetry."""
    registry: Registry | None = None
    """Registry of the schemas by which bodies have keys."""
    pipelines: tuple[Config, ...] = ()
    """Several pipelines, each with a name; those have topology, inlets and targets, and this has none."""
    name: str = ""
    """The name of the pipeline; "" if the file has only this one."""
    shares_dead_letters: bool = False
    """Whether its dead letters are those of the table at the top of the file, which other pipelines share."""
    written: Any = field(default=None, repr=False)
    """All that a named pipeline was read from, but its topology: it is the same as one of which this is equal."""

    @property
    def parts(self) -> tuple[Config, ...]:
        """The pipelines: at least one, and this itself if it has no others."""
        return self.pipelines or (self,)

    @property
    def endpoints(self) -> tuple[Source | Target, ...]:
        """All sources and targets of this pipeline, each once."""
        dead = () if self.dead_letters is None else (self.dead_letters,)
        callers = [each.target for each in self.replies.callers.values()]
        return (*[inlet.source for inlet in self.inlets], *dict.fromkeys(self.targets.values()), *callers, *dead)


def read_config(path: Path, environment: Mapping[str, str] = os.environ, worker: int | None = None) -> Config:
    """Read the configuration in a file; with ``worker``, the number of a worker, that worker's sources and port only.

    Raises InputError that names the key and what to do, or ConfigError with all mistakes if there are several. Checks
    that need valid endpoints, such as that each queue has a target, are made only if all endpoints are valid.

    >>> environment = {"DEMO_ARCHIVE": "a-day-of-messages", "DEMO_INTO": "by-partition"}
    >>> config = read_config(Path("examples/demo/bridge.toml"), environment)
    >>> [inlet.source.name for inlet in config.inlets], sorted(config.targets)
    (['month'], ['orders.by-region', 'orders.mistaken', 'readings.by-device'])
    """
    values = read_toml(path)
    table = Table(values, str(path), environment=environment)
    table.mistakes = mistakes = Mistakes()
    has_several = table.has(keys.PIPELINES.name)
    if not has_several:
        table.check_keys(keys.FILE.names)  # first, as a missing table is often a misspelt one
    http = None
    with mistakes.collect():
        http = read_http(table, worker or 1)
    workers = keys.WORKERS.read(table)
    if workers > 1 and not find_signals("SIGUSR1"):
        mistakes.keep(table.error("workers", "this system cannot send signals to processes; write workers = 1"))
    process = (http, workers, keys.LOG_FORMAT.read(table), keys.LOG_LEVEL.read(table))
    if has_several:
        pipelines = _read_pipelines(table, mistakes, values, process, worker)
        return Config(
            str(path), Topology(), (), {}, http=http, workers=workers, log_format=process[2], log_level=process[3],
            warnings=tuple(table.warnings), pipelines=pipelines,
        )  # fmt: skip
    parts = read_pipeline(table, mistakes, Shared(Policy(), None, workers, worker), keys.FILE.names)
    return _make_config(str(path), parts, process, tuple(table.warnings))


Process = tuple[Http | None, int, str, str]
"""Address, workers, and form and level of the log."""


def _make_config(
    path: str, parts: PipelineParts, process: Process, warnings: tuple[ConfigWarning, ...] = (), **named: Any
) -> Config:
    http, workers, log_format, log_level = process
    return Config(
        path, parts.topology, parts.inlets, parts.targets, parts.policy, parts.dead_letters, parts.ignored, http,
        parts.coverage, workers, log_format, log_level, warnings, parts.replies, parts.partitioners,
        parts.tracing, parts.registry, **named,
    )  # fmt: skip


def _read_pipelines(
    table: Table, mistakes: Mistakes, values: Mapping[str, Any], process: Process, worker: int | None
) -> tuple[Config, ...]:
    """Read all pipelines of a file with several. Raises InputError with the mistakes of all, ConfigError if several."""
    for key in keys.OF_EACH:
        if table.has(key.name):
            way_out = f"write it in each, [pipelines.NAME] {key.name} = ..., or leave [pipelines] out"
            mistakes.keep(table.error(key.name, f"belongs to one pipeline, and there is [pipelines]: {way_out}"))
    table.check_keys([*keys.AROUND.names, *[key.name for key in keys.OF_EACH]])
    policy, dead_letters, tables = Policy(), None, dict[str, Table]()
    with mistakes.collect():
        policy = read_policy(table.table(keys.POLICY.name), policy)
    with mistakes.collect():
        dead_letters = keys.DEAD_LETTERS.read(table)
    with mistakes.collect():
        tables = table.tables(keys.PIPELINES.name)
        if not tables:
            raise table.missing(keys.PIPELINES.name, "there is none; write [pipelines.NAME] with topology = ...")
    shared, read = Shared(policy, dead_letters, process[1], worker), dict[str, PipelineParts]()
    for name, each in tables.items():
        each.files = set()
        with mistakes.collect():
            if keys.PIPELINE_NAME.fullmatch(name) is None:
                raise table.error(
                    f"{keys.PIPELINES.name}.{name}",
                    f"must have a name of letters, digits, _ and -, at most {keys.PIPELINE_NAME_LENGTH} of them",
                )
            for of_all in keys.OF_ALL:
                if of_all.name in values[keys.PIPELINES.name][name]:
                    raise each.error(of_all.name, "belongs to the process: write it once, at the top of the file")
            read[name] = read_pipeline(each, Mistakes(), shared, keys.PIPELINE.names)
    if shared.workers > 1 and len(read) == len(tables) and not any(each.is_shared for each in read.values()):
        mistakes.keep(refuse_workers(table))
    mistakes.raise_any()
    flows = {
        name: PipelineFlow(parts.inlets, parts.targets, parts.topology, parts.dead_letters)
        for name, parts in read.items()
    }
    for conflict in find_conflicts(flows):
        table.warnings.append(ConfigWarning(f"{keys.PIPELINES.name}.{conflict.table}", conflict.key, conflict.problem))
    around = values.get(keys.POLICY.name), values.get(keys.DEAD_LETTERS.name)
    return tuple([
        _make_config(
            table.source, parts, process, name=name, shares_dead_letters=parts.shares_dead_letters,
            written=(values[keys.PIPELINES.name][name], *around, sorted(_find_states(tables[name].files))),
        )
        for name, parts in read.items()
    ])  # fmt: skip


def _find_states(files: set[Path]) -> Iterator[tuple[str, int, int]]:
    """Yield the path of each file, and what is another when it was written anew."""
    for path in files:
        try:
            found = path.stat()
        except OSError:  # it was there a moment ago, and is waited for when it is needed
            continue
        yield str(path), found.st_mtime_ns, found.st_size


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


def explain_no_pipeline(name: str, names: Iterable[str]) -> str:
    """Return that a file, or the bridge that runs by it, has no pipeline of this name, and ``names``, which it has."""
    known = [each for each in names if each]
    if not known:
        return f"{NO_PIPELINE} {name!r}: the file of this bridge has one, without a name"
    return f"{NO_PIPELINE} {name!r}{suggest(name, known) or f'; there are {list_some(known, MAX_NAMED)}'}"
