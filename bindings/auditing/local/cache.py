"""Keep what was counted in each file of an archive, so that a later audit reads only what is new or counts anew.

An entry is one file of the folder: a line with the hash of the rest, a line of JSON that says on what it depends, and
the results. Its name is a hash of the file (place, size, time of its last change, format) and of what is counted,
and one of the part of the topology that its messages may meet: an edit elsewhere leaves it as it is. So nothing that
is read here is wrong, only missing: a damaged entry, or one that another run removes, is counted anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import cache, lru_cache, reduce
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from bindings.archive.formats.detect import Archive
from bindings.archive.formats.recognition import FORMATS
from bindings.archive.inspection import Account
from bindings.archive.places import Place
from bindings.archive.reading import Format
from bindings.auditing.local.planning import plan_file
from bindings.auditing.local.recognised import hash_parts, identify_version, write_entry
from bindings.auditing.local.selection import Selection
from bindings.auditing.local.studies import CoverageStudy
from bindings.auditing.local.study import Study
from bindings.auditing.local.tasks import ROW, Results, Task, add_results, encode_results
from bindings.counts.columnar.fact_columns import FactTable, list_table
from bindings.counts.groups import OF_BINDINGS, find_others
from bindings.counts.outcome import sort_bindings
from bindings.counts.tally import Tally, compute_fingerprint
from bindings.sources.files import make_folders, open_file
from exchange.errors import InputError, name_os_errors
from exchange.partition.python_function import PythonFunction
from exchange.routing.columns.key_classes import list_words
from exchange.text.site import HASHSTAR_VERSION
from exchange.topology.graph import TopologyGraph
from exchange.topology.topology import Topology
from exchange.values.json_text import parse_leniently

MAX_CACHE_BYTES: Final = 2 << 30
"""Maximum size of all entries in bytes; those that were not used for longest are removed first."""
MAX_ENTRIES: Final = 100_000
"""Maximum number of entries."""
VERSION: Final = 4
HEADER: Final = 192
"""Number of bytes that most entries' headers have at most."""
MAX_HEADER: Final = 1 << 20
"""Maximum length of what an entry depends on, in bytes."""
MAX_ENTRY_BYTES: Final = 256 << 20
"""Maximum size of an entry in bytes, before its results are compressed."""
MAX_PARTS: Final = 64
"""Maximum number of parts of the topology that are remembered: most files need the same."""
NOT_KEPT: Final = frozenset(
    form.name for form in FORMATS if form.in_place or type(form).is_companion is not Format.is_companion
)
"""Names of formats whose files others belong to, or that are written in place: a file does not say if it is new."""
ENTRY: Final = re.compile(r"([0-9a-f]{40})-[0-9a-f]{40}\.tally")
"""Name of an entry; no other file of the folder is read or removed."""
UNFINISHED: Final = re.compile(rf"\.{ENTRY.pattern}\.[0-9]+\.part")
"""Name of an entry that a run has not written to its end, or was ended at."""
BROKEN: Final = (OSError, ValueError, LookupError, TypeError, AttributeError, zlib.error, pa.ArrowException, InputError)
"""Exceptions of entries that are damaged or gone."""


class _Needs(NamedTuple):
    """What the results of a file depend on, beside the file."""

    exchanges: tuple[str, ...]
    """Exchanges that its messages were published to."""
    shapes: bool
    """Whether shapes of keys were counted, which show the words that any binding names."""


class _TopologyPart(NamedTuple):
    """The part of a topology that messages to some exchanges may meet."""

    fingerprint: str
    numbers: list[int]
    """Numbers of its bindings in the whole topology, in the order that they have in the part."""


class TallyCache:
    """A folder with the results of files for some studies, of which the first counts coverage; made if missing.

    Several processes may use one folder. Raises InputError if it cannot be made.
    """

    def __init__(
        self, folder: Path, studies: Sequence[Study[Any]], selection: Selection, columns: Sequence[str]
    ) -> None:
        with name_os_errors(folder, "written"):
            make_folders(folder)
        coverage, *others = studies
        assert isinstance(coverage, CoverageStudy)  # noqa: S101  the only kind whose values are kept for other topologies
        self._folder: Final = folder
        self._studies: Final = studies
        self._topology: Final = coverage.topology
        self._now: Final = time.time()
        topologies: list[Topology] = [getattr(study, each.name) for study in others for each in fields(study)]  # type: ignore[arg-type]
        self._has_code: Final = any(map(_has_code, [self._topology, *topologies]))
        whole = [*map(compute_fingerprint, topologies)]
        kinds = [type(study).__name__ for study in studies]
        self._counted: Final = repr(
            (VERSION, HASHSTAR_VERSION, pa.__version__, kinds, whole, selection, tuple(columns))
        )
        self._fingerprint: Final = compute_fingerprint(self._topology)
        self._numbers: Final = {binding: number for number, binding in enumerate(sort_bindings(self._topology))}
        self._part = lru_cache(MAX_PARTS)(self._take_part)
        self._words = cache(lambda: sorted(list_words(self._topology)))
        zeros = [study.zero() for study in studies]
        zeros[0] = replace(zeros[0], topology="")
        self._common: Final = self._encode(Results(tuple(zeros), Account()))
        """What results of all files begin with, most of it names of columns: a dictionary to compress them by."""
        self.listed: Final = self._list()
        """Hash of a file and of what is counted -> its entries."""

    def key_of(self, place: Place, form: Format) -> str | None:
        """Return the hash of a file as it is now, and of what is counted; None if it is not kept.

        Not kept are files that others belong to, that are written in place, or that were changed just now, and what
        code of the user's decides. Raises InputError for a file that is not there.
        """
        if self._has_code or form.name in NOT_KEPT:
            return None
        version = identify_version(place, self._now)
        return None if version is None else hash_parts(version, pickle.dumps(form), self._counted.encode())

    def find(self, key: str) -> Path | None:
        """Return the entry of a file for this topology; None if there is none. Its results are not read yet."""
        for path in self.listed.get(key, ()):
            with suppress(*BROKEN):
                needs = _parse_needs(_read_header(path), key)
                if path.name == self._name(key, needs):
                    return path
        return None

    def load(self, key: str, path: Path) -> Results | None:
        """Return the results in an entry; None if it is damaged or gone."""
        with suppress(*BROKEN):
            with open_file(path) as file:
                digest, rest = file.readline(MAX_HEADER).strip().decode("ascii"), file.read(MAX_ENTRY_BYTES + 1)
            if len(rest) > MAX_ENTRY_BYTES or hashlib.sha256(rest).hexdigest() != digest:
                return None
            line, _, packed = rest.partition(b"\n")
            needs = _parse_needs(line, key)
            data = zlib.decompressobj(zdict=self._common).decompress(packed, MAX_ENTRY_BYTES)
            batches = pa.ipc.open_stream(pa.py_buffer(data)).read_all().to_batches()
            _, results = add_results(batches, self._studies)
            of = dict(enumerate(self._part(needs.exchanges).numbers))
            tally = _renumber(results.values[0], of, self._fingerprint)
            with suppress(OSError):  # a folder that is only read, or another user's entry
                os.utime(path)
            return results._replace(values=(tally, *results.values[1:]))
        return None

    def save(self, key: str, results: Results) -> None:
        """Keep the results of a file, unless they are too large, or of a format of which none are kept.

        Raises InputError if the folder cannot be written.
        """
        if not NOT_KEPT.isdisjoint(kind.format for kind in results.account.detected.kinds):
            return
        tally: Tally = results.values[0]
        facts, groups = list_table(tally.facts), list_table(tally.groups)
        exchanges = {outcome.exchange for outcome in facts.names}
        exchanges |= {group.name for group in groups.names if group.group == "exchange"}
        if find_others(groups.names, self._topology):
            return  # exchanges without names here may be in the topology later
        needs = _Needs(tuple(sorted(exchanges)), any(len(each.columns.shapes.counts) for each in (facts, groups)))
        part = self._part(needs.exchanges)
        of = {number: n for n, number in enumerate(part.numbers)}
        tally = _renumber(tally, of, part.fingerprint)
        kept = results._replace(values=(tally, *results.values[1:]))
        data = self._encode(kept)
        if len(data) > MAX_ENTRY_BYTES:
            return
        packer = zlib.compressobj(zdict=self._common)
        rest = json.dumps([key, *needs]).encode() + b"\n" + packer.compress(data) + packer.flush()
        with name_os_errors(self._folder, "written"):
            digest = hashlib.sha256(rest).hexdigest().encode()
            write_entry(self._folder / self._name(key, needs), digest, b"\n", rest)

    def _encode(self, results: Results) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, ROW) as writer:
            writer.write_batch(encode_results(0, results, self._studies))
        data: bytes = sink.getvalue().to_pybytes()
        return data

    def shrink(self) -> None:
        """Remove the entries that were not used for longest, until the others are few and small enough."""
        found: list[tuple[int, int, str]] = []
        with suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                if ENTRY.fullmatch(entry.name) or UNFINISHED.fullmatch(entry.name):
                    with suppress(OSError):
                        stat = entry.stat(follow_symlinks=False)
                        found.append((stat.st_mtime_ns, stat.st_size, entry.path))
        size, number = 0, 0
        for _, each, path in sorted(found, reverse=True):
            size, number = size + each, number + 1
            if size > MAX_CACHE_BYTES or number > MAX_ENTRIES:
                with suppress(OSError):
                    Path(path).unlink()

    def _list(self) -> dict[str, list[Path]]:
        listed: dict[str, list[Path]] = {}
        with name_os_errors(self._folder), os.scandir(self._folder) as entries:
            for entry in entries:
                if (match := ENTRY.fullmatch(entry.name)) and entry.is_file(follow_symlinks=False):
                    listed.setdefault(match[1], []).append(Path(entry.path))
        return listed

    def _name(self, key: str, needs: _Needs) -> str:
        """Return the name of an entry, with a hash of what the topology does to messages with these needs."""
        words = self._words() if needs.shapes else []
        return f"{key}-{hash_parts(repr([self._part(needs.exchanges).fingerprint, *words]).encode())}.tally"

    def _take_part(self, exchanges: tuple[str, ...]) -> _TopologyPart:
        part = _restrict(self._topology, exchanges)
        return _TopologyPart(compute_fingerprint(part), [self._numbers[binding] for binding in sort_bindings(part)])


class CachedFiles:
    """The files of an archive: those in a cache, and the tasks that count all others. Raises InputError."""

    def __init__(self, archive: Archive, cache: TallyCache) -> None:
        self._cache: Final = cache
        self._files: Final = archive.all_files
        self._keys: Final = [cache.key_of(*file) for file in self._files]
        self._entries: Final = [None if key is None else cache.find(key) for key in self._keys]
        self._plans: Final = [
            plan_file(*file) if entry is None else [] for file, entry in zip(self._files, self._entries, strict=True)
        ]
        self.reused = 0
        """Number of files that were not counted again."""
        self.fault = ""
        """Why results were not kept; empty if they were."""

    @property
    def groups(self) -> list[list[Task]]:
        """Tasks to count, each as a group of its own."""
        return [[task] for plan in self._plans for task in plan]

    def join(self, counted: Iterator[Results], count: Callable[[Sequence[Task]], Results]) -> Results:
        """Return the results of all files, added in their order, and keep those that are new.

        ``counted`` are those of ``groups``; ``count`` counts a file whose entry turns out to be damaged or gone.
        """
        total: Results | None = None
        for file, key, entry, plan in zip(self._files, self._keys, self._entries, self._plans, strict=True):
            results = None if entry is None or key is None else self._cache.load(key, entry)
            if results is not None:
                self.reused += 1
            else:
                parts = [next(counted) for _ in plan] or [count([task]) for task in plan_file(*file)]
                results = reduce(Results.plus, parts)
                if key is not None and not self.fault:
                    self._keep(file, key, results)
            total = results if total is None else total.plus(results)
        self._cache.shrink()
        assert total is not None  # noqa: S101  an archive has a file
        return total

    def _keep(self, file: tuple[Place, Format], key: str, results: Results) -> None:
        """Keep the results of a file, unless it was changed or removed while it was read. A full disk ends no audit."""
        try:
            now = self._cache.key_of(*file)
        except InputError:
            return
        if now == key:
            try:
                self._cache.save(key, results)
            except InputError as error:
                self.fault = str(error)


def _renumber(tally: Tally, of: Mapping[int, int], fingerprint: str) -> Tally:
    """Return a tally for another topology, given the numbers of its bindings there, which are in the same order."""
    facts, groups = list_table(tally.facts), list_table(tally.groups)
    outcomes = [
        each._replace(
            bindings=tuple([of[number] for number in each.bindings]),
            possible_bindings=tuple([of[number] for number in each.possible_bindings]),
        )
        for each in facts.names
    ]
    names = [each._replace(number=of[each.number]) if each.group in OF_BINDINGS else each for each in groups.names]
    return replace(
        tally, topology=fingerprint, facts=FactTable(outcomes, facts.columns), groups=FactTable(names, groups.columns)
    )


def _restrict(topology: Topology, exchanges: tuple[str, ...]) -> Topology:
    """Return the topology with what messages to these exchanges may meet, by bindings and alternates, and all policies.

    Equal restrictions route these messages alike. Names that no exchange has stay so. Dead letters are not looked at.
    """
    names = TopologyGraph(topology).graph.downstream([name for name in exchanges if name in topology.exchanges])
    bindings = [binding for name in sorted(names) for binding in topology.bindings_from(name)]
    queues = {binding.destination.name for binding in bindings if binding.destination.kind == "queue"}
    return topology.with_parts(
        exchanges=[each for name, each in topology.exchanges.items() if name in names],
        # Messages to the default exchange reach each queue by its name.
        queues=[each for name, each in topology.queues.items() if "" in names or name in queues],
        bindings=bindings,
    )


def _has_code(topology: Topology) -> bool:
    """Return whether a partitioner is code of the user's own: its changes are in no fingerprint."""
    partitionings = [queue.partitioning for queue in topology.queues.values() if queue.partitioning is not None]
    chosen = [each.partitioner for each in partitionings]
    return any(
        each.function is not None
        if isinstance(each, PythonFunction)
        else not type(each).__module__.startswith("exchange.")
        for each in chosen
    )


def _read_header(path: Path) -> bytes:
    """Return the second line of an entry, and read little more of it. Raises OSError, and ValueError for none."""
    read = b""
    with open_file(path) as file:
        while read.count(b"\n") < 2:
            more = os.read(file.fileno(), max(HEADER, len(read)))
            if not more or len(read) > MAX_HEADER:
                raise ValueError("no header of an entry")
            read += more
    return read.split(b"\n", 2)[1]


def _parse_needs(line: bytes, key: str) -> _Needs:
    """Return on what an entry of this key depends. Raises ValueError or TypeError for another text."""
    named, exchanges, shapes = parse_leniently(line)
    if named != key or not isinstance(exchanges, list) or not all(isinstance(each, str) for each in exchanges):
        raise ValueError("another file, or no names of exchanges")
    return _Needs(tuple(exchanges), bool(shapes))
