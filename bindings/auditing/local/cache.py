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
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import cache, reduce
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from bindings.archive.formats.detect import Archive
from bindings.archive.places import Place, RemoteFile
from bindings.archive.reading import Format
from bindings.auditing.local.planning import plan_file
from bindings.auditing.local.selection import Selection
from bindings.auditing.local.studies import CoverageStudy
from bindings.auditing.local.study import Study
from bindings.auditing.local.tasks import ROW, Results, Task, add_results, encode_results
from bindings.counts.columnar.fact_columns import OutcomeFacts, list_columns
from bindings.counts.outcome import sort_bindings
from bindings.counts.tally import Tally, compute_fingerprint
from bindings.sources.files import make_folders, open_file
from exchange.errors import InputError, name_os_errors
from exchange.files.replacing import replace_file
from exchange.routing.columns.key_classes import list_words
from exchange.text.site import HASHSTAR_VERSION
from exchange.topology.restriction import restrict
from exchange.topology.topology import Topology
from exchange.values.json_text import parse_leniently

MAX_CACHE_BYTES: Final = 2 << 30
"""Maximum size of all entries in bytes; those that were not used for longest are removed first."""
MAX_ENTRIES: Final = 100_000
"""Maximum number of entries."""
SETTLED_SECONDS: Final = 2
"""Time since a file's last change from which it is kept, in seconds: a change within one tick of a clock has no time of
its own."""
VERSION: Final = 1
MAX_HEADER: Final = 1 << 20
"""Maximum length of what an entry depends on, in bytes."""
ENDING: Final = ".tally"
BROKEN: Final = (OSError, ValueError, LookupError, TypeError, AttributeError, pa.ArrowException, InputError)
"""Exceptions of entries that are damaged or gone."""


class _Needs(NamedTuple):
    """What the results of a file depend on, beside the file."""

    exchanges: tuple[str, ...]
    """Exchanges that its messages were published to."""
    shapes: bool
    """Whether shapes of keys were counted, which show the words that any binding names."""


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
        whole = [compute_fingerprint(getattr(study, each.name)) for study in others for each in fields(study)]  # type: ignore[arg-type]
        kinds = [type(study).__name__ for study in studies]
        self._counted: Final = repr((VERSION, HASHSTAR_VERSION, kinds, whole, selection, tuple(columns)))
        self._variant = cache(self._compute_variant)
        self.listed: Final = self._list()
        """Hash of a file and of what is counted -> its entries."""

    def key_of(self, place: Place, form: Format) -> str | None:
        """Return the hash of a file as it is now, and of what is counted; None if it is not kept.

        Not kept are files that others belong to, that are written in place, or that were changed just now. Raises
        InputError for a file that is not there.
        """
        if form.in_place or type(form).is_companion is not Format.is_companion:
            return None
        with name_os_errors(place):
            if isinstance(place, RemoteFile):
                known: tuple[object, ...] = (place.store.address, place.path, place.size, place.changed)
                changed = place.changed
            else:
                stat = Path(place).stat()
                known = (str(Path(place).absolute()), stat.st_size, stat.st_mtime_ns, stat.st_ino)
                changed = stat.st_mtime_ns
        if changed is None or changed / 1e9 > self._now - SETTLED_SECONDS:
            return None
        return _hash(repr(known).encode("utf-8", "surrogatepass"), pickle.dumps(form), self._counted.encode())

    def find(self, key: str) -> Path | None:
        """Return the entry of a file for this topology; None if there is none. Its results are not read yet."""
        for path in self.listed.get(key, ()):
            with suppress(*BROKEN), open_file(path) as file:
                file.readline(MAX_HEADER)
                needs = _parse_needs(file.readline(MAX_HEADER), key)
                if path.name == self._name(key, needs):
                    return path
        return None

    def load(self, key: str, path: Path) -> Results | None:
        """Return the results in an entry; None if it is damaged or gone."""
        with suppress(*BROKEN):
            with open_file(path) as file:
                digest, rest = file.readline(MAX_HEADER).strip().decode("ascii"), file.read()
            if hashlib.sha256(rest).hexdigest() != digest:
                return None
            line, _, data = rest.partition(b"\n")
            needs = _parse_needs(line, key)
            batches = pa.ipc.open_stream(pa.py_buffer(data)).read_all().to_batches()
            _, results = add_results(batches, self._studies)
            os.utime(path)
            of = dict(enumerate(self._numbers_in(restrict(self._topology, needs.exchanges))))
            tally = _renumber(results.values[0], of, compute_fingerprint(self._topology))
            return results._replace(values=(tally, *results.values[1:]))
        return None

    def save(self, key: str, results: Results) -> None:
        """Keep the results of a file. Raises InputError if the folder cannot be written."""
        tally: Tally = results.values[0]
        facts = list_columns(tally.facts)
        exchanges = sorted({outcome.exchange for outcome in facts.outcomes})
        needs = _Needs(tuple(exchanges), bool(len(facts.columns.shapes.counts)))
        part = restrict(self._topology, exchanges)
        of = {number: n for n, number in enumerate(self._numbers_in(part))}
        tally = _renumber(tally, of, compute_fingerprint(part))
        kept = results._replace(values=(tally, *results.values[1:]))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, ROW) as writer:
            writer.write_batch(encode_results(0, kept, self._studies))
        rest = json.dumps([key, *needs]).encode() + b"\n" + sink.getvalue().to_pybytes()
        with name_os_errors(self._folder, "written"), replace_file(self._folder / self._name(key, needs)) as file:
            file.write(hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest)

    def shrink(self) -> None:
        """Remove the entries that were not used for longest, until the others are few and small enough."""
        found: list[tuple[int, int, str]] = []
        with suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name.endswith(ENDING):
                    with suppress(OSError):
                        stat = entry.stat()
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
                if entry.name.endswith(ENDING):
                    listed.setdefault(entry.name.partition("-")[0], []).append(Path(entry.path))
        return listed

    def _name(self, key: str, needs: _Needs) -> str:
        return f"{key}-{self._variant(needs)}{ENDING}"

    def _compute_variant(self, needs: _Needs) -> str:
        """Return a hash of what the topology does to messages with these needs."""
        parts = [compute_fingerprint(restrict(self._topology, needs.exchanges))]
        parts += sorted(list_words(self._topology)) if needs.shapes else []
        return _hash(repr(parts).encode())

    def _numbers_in(self, part: Topology) -> list[int]:
        """Return the numbers of the bindings of a part of the topology, in the order that they have there."""
        numbers = {binding: number for number, binding in enumerate(sort_bindings(self._topology))}
        return [numbers[binding] for binding in sort_bindings(part)]


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
                if key is not None and self._cache.key_of(*file) == key:  # else it was changed while it was read
                    self._cache.save(key, results)
            total = results if total is None else total.plus(results)
        self._cache.shrink()
        assert total is not None  # noqa: S101  an archive has a file
        return total


def _renumber(tally: Tally, of: Mapping[int, int], fingerprint: str) -> Tally:
    """Return a tally for another topology, given the numbers of its bindings there, which are in the same order."""
    facts = list_columns(tally.facts)
    outcomes = [
        each._replace(
            bindings=tuple([of[number] for number in each.bindings]),
            possible_bindings=tuple([of[number] for number in each.possible_bindings]),
        )
        for each in facts.outcomes
    ]
    return replace(tally, topology=fingerprint, facts=OutcomeFacts(outcomes, facts.columns))


def _parse_needs(line: bytes, key: str) -> _Needs:
    """Return on what an entry of this key depends. Raises ValueError or TypeError for another text."""
    named, exchanges, shapes = parse_leniently(line)
    if named != key or not isinstance(exchanges, list) or not all(isinstance(each, str) for each in exchanges):
        raise ValueError("another file, or no names of exchanges")
    return _Needs(tuple(exchanges), bool(shapes))


def _hash(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()[:40]
