"""Of outcomes that are too many to keep apart, too, an audit with a cache counts what it counts without one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bindings.archive.formats.detect import detect
from bindings.auditing.local.run import run_here
from bindings.auditing.local.studies import CoverageStudy
from bindings.counts import groups, tally
from bindings.counts.columnar import counting
from bindings.counts.coverage import coverage
from bindings.counts.tally import Tally
from exchange import Binding, Exchange, Queue, Topology
from tests.support.bindings.exact import exact

LONG_AGO = 1_700_000_000


def make_shop(*others: Binding) -> Topology:
    """Return a topology in which each of three words of a key takes a binding of its own."""
    exchanges = {"shop", *[each.source for each in others]}
    own = [Binding.to_queue("shop", word, pattern) for word, pattern in (("a", "a.#"), ("b", "#.b.#"), ("c", "#.c"))]
    return Topology([Exchange(name, "topic") for name in exchanges], [Queue(name) for name in "abc"], [*own, *others])


def write_days(folder: Path, *messages: tuple[str, str]) -> None:
    """Write two files with these messages, which were changed long ago."""
    folder.mkdir()
    lines = [json.dumps({"exchange": exchange, "routing_key": key}) for exchange, key in messages]
    for day in range(2):
        path = folder / f"{day}.jsonl"
        path.write_text("\n".join(lines[day:]) + "\n")
        os.utime(path, (LONG_AGO, LONG_AGO + day))


def count(folder: Path, topology: Topology, cache: Path | None) -> tuple[Tally, int]:
    """Return the tally of an archive, and how many of its files were not counted again."""
    passed = run_here(detect(str(folder)), [CoverageStudy(topology)], cache=cache)
    return passed.values[0], passed.reused


@pytest.fixture(autouse=True)
def few_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the limits of outcomes and names so low that a few messages exceed them."""
    monkeypatch.setattr(tally, "OUTCOMES", 2)
    monkeypatch.setattr(counting, "MOST_OUTCOMES", 2)
    monkeypatch.setattr(groups, "MAX_NAMES", 1)


def test_groups_of_files_are_kept_and_have_the_numbers_of_bindings_after_an_edit_elsewhere(tmp_path: Path) -> None:
    write_days(tmp_path / "days", *[("shop", key) for key in ("a.x.x", "x.b.x", "x.x.c", "a.b.c", "a.b.x", "x.x.x")])
    for topology, reused in (
        (make_shop(), 0),
        (make_shop(), 2),
        (make_shop(Binding.to_queue("early", "a", "a.#"), Binding.to_queue("late", "b", "c.b")), 2),
    ):
        warm, found = count(tmp_path / "days", topology, tmp_path / "warm")
        cold, _ = count(tmp_path / "days", topology, None)
        assert found == reused
        assert warm.groups
        assert not warm.facts
        assert exact(warm) == exact(cold)
        assert coverage(exact(warm), topology) == coverage(exact(cold), topology)


def test_a_file_whose_exchanges_have_no_names_is_counted_again_as_an_edit_may_declare_them(tmp_path: Path) -> None:
    write_days(tmp_path / "days", *[(name, "a") for name in ("one", "two", "three", "four", "five")])
    count(tmp_path / "days", make_shop(), tmp_path / "warm")
    for name in ("one", "two", "three", "four", "five"):
        topology = make_shop(Binding.to_queue(name, "a", "a"))
        warm, reused = count(tmp_path / "days", topology, tmp_path / "warm")
        assert reused == 0
        assert {use.queue: use.messages for use in coverage(warm, topology).queues}["a"] in (1, 2)
