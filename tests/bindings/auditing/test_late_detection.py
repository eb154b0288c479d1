"""An audit that looks at most files when it reads them reports what one reports that looks at all of them before."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bindings.archive.formats import detect as detecting
from bindings.archive.formats import recognition
from bindings.archive.formats.detect import detect
from bindings.archive.inspection import Account
from bindings.archive.places import Place
from bindings.archive.reading import Format
from bindings.archive.sums import Detected, FileKind
from bindings.archive.unpacking import read_head
from bindings.auditing.estimate import estimate_audit
from bindings.auditing.local import planning, recognised, workers
from bindings.auditing.local.selection import Selection
from bindings.auditing.local.studies import CoverageStudy
from bindings.auditing.local.tasks import Results, Task, decode_account, encode_account
from bindings.auditing.run import audit, open_traffic
from bindings.report.forms.as_json import encode_json
from exchange import Binding, Exchange, Queue, Topology
from exchange.errors import InputError
from tests.bindings.archive.test_every_format import CASES, parquet

KNOWN = Topology([Exchange("x", "topic")], [Queue("all")], [Binding.to_queue("x", "all", "#")])


def _table(**columns: Sequence[object]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue().to_pybytes())


LINE = b'{"exchange": "x", "routing_key": "k"}\n'
OTHERS: list[dict[str, bytes]] = [
    {"empty": b""}, {"empty.jsonl.gz": gzip.compress(b"")}, {"lines.jsonl.gz": gzip.compress(LINE * 3)},
    {"README": b"no archive"}, {"_hidden": LINE}, {"cut.parquet": parquet()[:-3]}, {"no.parquet": _table(a=["1"])},
    {"theirs.parquet": _table(exch=["x"], rkey=["k"])}, {"plain.parquet": _table(exchange=["x"], routing_key=["k"])},
    {"exchange=x/day=1/theirs.parquet": _table(rkey=["k"])}, {"notes.csv": b"a,b\n1,2\n"},
    {"m-1-headers+properties.json": b'{"properties": {}, "headers": {}}', "m-1": b"body"},
    {"r.json": b'{"RoutingKey": 1, "DeliveryTag": 2}', "r.dat": b"body"},
]  # fmt: skip
KINDS = [case.files for case in CASES] + OTHERS
FOLDERS = st.lists(
    st.tuples(st.sampled_from(["", "a", "b", "a/b", "day=1", "day=1/hour=2"]), st.integers(0, len(KINDS) - 1)),
    min_size=1, max_size=12,
)  # fmt: skip


def write(root: Path, listed: Sequence[tuple[str, int]]) -> None:
    for folder, kind in listed:
        for name, data in KINDS[kind].items():
            path = root / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def outcome_of(call: Callable[[], object]) -> object:
    try:
        return call()
    except InputError as error:
        return type(error), str(error)


def report_on(topology: Topology, roots: Sequence[Path], cache: Path | None = None) -> object:
    return json.loads(encode_json(replace(audit(topology, roots, selection=Selection(None), cache=cache), made=0)))


def estimate(topology: Topology, root: Path) -> object:
    (archive,) = open_traffic([str(root)]).archives
    found = estimate_audit(archive, [CoverageStudy(topology)], Selection(None))
    return found._replace(seconds=0.0)


def late(count: int) -> AbstractContextManager[object]:
    """Look at all files before the audit if there are not more than this."""
    return patch.object(detecting, "MOST_DETECTED", count)


@given(FOLDERS, st.integers(0, 4))
@example([("", 0), *[("a", kind) for kind in range(len(KINDS))]], 0)
def test_reports_and_estimates_are_the_same(listed: list[tuple[str, int]], most: int) -> None:
    """Of two archives, of which one may be within the other."""
    found = []
    with TemporaryDirectory() as folder:
        root = Path(folder, "in")
        write(root, listed)
        (root / "link").hardlink_to(next(path for path in sorted(root.rglob("*")) if path.is_file()))
        inner = next((each for each in (root / "a", root / "b") if each.exists()), root)
        for count in (1_000_000, most):
            with late(count):
                report = outcome_of(lambda: report_on(KNOWN, [root, inner]))
                found.append((report, outcome_of(lambda: estimate(KNOWN, root))))
    assert found[0] == found[1]


@given(FOLDERS, st.lists(st.integers(0, 4) | st.just(1_000_000), min_size=2, max_size=4), st.data())
@example([("", 0), *[("a", kind) for kind in range(len(KINDS))]], [0, 0, 1_000_000, 0], None)
def test_reports_with_a_cache_are_the_same(
    listed: list[tuple[str, int]], counts: list[int], data: st.DataObject | None
) -> None:
    """Whatever was in it before, also when files have changed."""
    with TemporaryDirectory() as folder, patch.object(recognised, "SETTLED_SECONDS", -1e9):
        root = Path(folder, "in")
        write(root, listed)
        for count in counts:
            with late(1_000_000):
                wanted = outcome_of(lambda: report_on(KNOWN, [root]))
            with late(count):
                assert outcome_of(lambda: report_on(KNOWN, [root], Path(folder, "cache"))) == wanted
            if data is not None and data.draw(st.booleans()):
                write(root, [data.draw(st.tuples(st.just("a"), st.integers(0, len(KINDS) - 1)))])


def test_a_cache_opens_no_file_of_many_again(tmp_path: Path) -> None:
    write(tmp_path / "in", [(f"{number:02}", number % 9) for number in range(detecting.MOST_DETECTED + 1)])
    opened: list[str] = []

    def look(*given: Any) -> Any:
        opened.append(str(given[0]))
        return read_head(*given)

    with patch.object(recognised, "SETTLED_SECONDS", -1e9):
        first = report_on(KNOWN, [tmp_path / "in"], tmp_path / "cache")
        with patch.object(recognition, "read_head", look):
            traffic = open_traffic([str(tmp_path / "in")], cache=tmp_path / "cache")
            assert not opened
            assert report_on(KNOWN, [tmp_path / "in"], tmp_path / "cache") == first
    assert {type(form).__name__ for _, form in traffic.archives[0].files[1:]} == {"Undetected"}


def test_only_the_first_of_many_files_is_looked_at_before(tmp_path: Path) -> None:
    for number in range(detecting.MOST_DETECTED + 1):
        (tmp_path / f"{number:03}.parquet").write_bytes(parquet())
    looked: list[Place] = []
    recognise = recognition.recognise_format

    def look(place: Place, known: Sequence[Format]) -> Format | None:
        looked.append(place)
        return recognise(place, known)

    archive = detect(str(tmp_path), recognise=look, late=True)
    assert looked == [str(tmp_path / "000.parquet")]
    assert {type(form).__name__ for _, form in archive.files[1:]} == {"Undetected"}
    looked.clear()
    detect(str(tmp_path), recognise=look)
    assert len(looked) == detecting.MOST_DETECTED + 1


def test_names_are_as_the_user_wrote_them_wherever_files_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder, root in ((tmp_path / "in", "./in/"), (tmp_path, "."), (tmp_path / "in", str(tmp_path / "in"))):
        write(folder, [("", 0), ("z", KINDS.index({"README": b"no archive"}))])
        with late(1_000_000):
            known = audit(Topology(), root, selection=Selection(None)).audited.archives
        with late(0):
            assert audit(Topology(), root, selection=Selection(None)).audited.archives == known
        assert [len(archive.others) for archive in known] == [1 + (root == ".")]


def test_a_folder_that_names_an_exchange_above_the_archive_is_no_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the path says it: names of folders count that the user wrote, and those below."""
    above = tmp_path / "exchange=x"
    above.mkdir()
    monkeypatch.chdir(above)
    write(above / "in", [("", 0), ("a", KINDS.index({"exchange=x/day=1/theirs.parquet": _table(rkey=["k"])}))])
    (above / "in" / "b.parquet").write_bytes(_table(rkey=["k"]))
    (other,) = [open_traffic(["in"]).archives[0].others]
    with late(0):
        assert open_traffic(["in"]).archives[0].others == other == ("in/b.parquet",)


@pytest.mark.process
def test_processes_report_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "in", [("", 0), ("a", 3), ("b", 9), ("b", KINDS.index({"README": b"no archive"}))])
    monkeypatch.setattr(planning, "MIN_BYTES_OF_GROUPS", 1)
    monkeypatch.setattr(planning, "MIN_TASK_BYTES", 1)
    ran: list[int] = []
    run_groups = workers.run_groups

    def run(groups: Sequence[Sequence[Task]], *given: Any, **named: Any) -> Iterator[Results]:
        ran.append(len(groups))
        return run_groups(groups, *given, **named)

    monkeypatch.setattr("bindings.auditing.local.run.run_groups", run)
    reports = []
    for most in (1_000_000, 0):
        with late(most):
            report = audit(Topology(), tmp_path / "in", selection=Selection(None), jobs=2)
        reports.append(encode_json(replace(report, made=0)))
    assert reports[0] == reports[1]
    assert len(ran) == 2


PATHS = st.text("ab/.-", min_size=1, max_size=5)
KIND = st.builds(
    FileKind, st.sampled_from("ab"), st.sampled_from(["JSON lines", "Parquet"]), st.just("UNKNOWN"), st.just("")
)
SEEN = st.lists(st.tuples(st.none() | KIND, PATHS))


def add_up(seen: Sequence[tuple[FileKind | None, str]]) -> Detected:
    found = Detected()
    for kind, path in seen:
        if kind is None:
            found.others.append(("a", path))
        else:
            found.add(kind, path)
    return found


@given(SEEN, SEEN)
def test_sums_are_of_all_files_and_survive_the_way_to_another_process(one: list[object], other: list[object]) -> None:
    whole = add_up([*one, *other])  # type: ignore[list-item]
    parts = add_up(other) + add_up(one)  # type: ignore[arg-type]
    assert (parts.kinds, sorted(parts.others)) == (whole.kinds, sorted(whole.others))
    assert decode_account(json.loads(json.dumps(encode_account(Account(detected=whole))))).detected == whole
