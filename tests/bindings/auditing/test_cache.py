"""With a cache of what was counted in files, whatever is in it, an audit counts what it counts without one."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NoReturn

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.formats.detect import Archive, detect
from bindings.archive.formats.recognition import recognise_format
from bindings.archive.places import Place
from bindings.archive.reading import Format
from bindings.auditing.local import cache as cache_module
from bindings.auditing.local import recognised
from bindings.auditing.local.recognised import FormatMemory
from bindings.auditing.local.run import Pass, run_here
from bindings.auditing.local.selection import EVERYTHING
from bindings.auditing.local.studies import CoverageStudy
from bindings.cli import find_command
from exchange import LATEST_PROFILE, Binding, Exchange, InputError, Queue, Topology
from exchange.partition.partitioning.specification import Partitioning
from exchange.partition.partitions import Partitions
from exchange.partition.python_function import PythonFunction
from tests.support import topologies
from tests.support.archives.lines import records_for, topology_for, write_lines
from tests.support.bindings.exact import exact
from tests.support.command_server import command_server
from tests.support.tiers import examples

LONG_AGO = 1_700_000_000
FLAWS: list[Callable[[bytes, Random], bytes]] = [
    lambda data, rng: data[: rng.randrange(len(data))],
    lambda data, rng: data + b"x",
    lambda data, rng: data[:70] + bytes([data[70] ^ 1]) + data[71:],
    lambda data, rng: b"",
]


@examples(10)
@given(st.integers(0, 2**32))
def test_a_cache_changes_no_count(seed: int) -> None:
    """After files are added, changed and removed, the topology edited, and entries damaged, swapped and lost."""
    rng = Random(seed)
    topology = topology_for(rng, LATEST_PROFILE)
    with TemporaryDirectory() as folder:
        archive, warm = Path(folder, "archive"), Path(folder, "warm")
        archive.mkdir()
        for step in range(3):
            for name in rng.sample("abc", rng.randint(0 if step else 1, 2)):
                path = archive / f"{name}.jsonl"
                write_lines(path, records_for(rng, topology, 8))
                os.utime(path, (LONG_AGO, LONG_AGO + step))
            present = sorted(archive.iterdir())
            if len(present) > 1 and rng.random() < 0.2:
                rng.choice(present).unlink()
            if rng.random() < 0.4:
                topology = topologies.edit(rng, topology)
            _damage(warm, rng)
            studies = [CoverageStudy(topology)]
            again = run_here(remembering(archive, warm), studies, cache=warm)
            assert _counts(again) == _counts(
                run_here(detect(str(archive)), studies, cache=Path(folder, "cold", str(step)))
            )
            assert exact(_counts(again)) == exact(run_here(detect(str(archive)), studies))


def remembering(archive: Path, folder: Path) -> Archive:
    """Detect an archive with the formats that are kept in a folder."""
    memory = FormatMemory(folder)
    found = detect(str(archive), recognise=memory.recognise)
    memory.save()
    return found


def _counts(passed: Pass) -> Pass:
    return passed._replace(reused=0)


def _damage(folder: Path, rng: Random) -> None:
    entries = sorted(folder.glob("*.tally"))
    if entries and rng.random() < 0.5:
        chosen = rng.choice(entries)
        flaw = rng.choice([*FLAWS, lambda *_: rng.choice(entries).read_bytes()])
        chosen.write_bytes(flaw(chosen.read_bytes(), rng))
    formats = folder / recognised.NAME
    if entries and rng.random() < 0.5:
        formats.write_bytes(rng.choice(FLAWS)(formats.read_bytes(), rng))


def shop(*more: str) -> Topology:
    """Return a topology in which bindings of an exchange that no message is published to have these keys."""
    bindings = [Binding.to_queue("shop", "q", "order.*"), *[Binding.to_queue("other", "q", key) for key in more]]
    return Topology([Exchange("shop", "topic"), Exchange("other", "topic")], [Queue("q")], bindings)


def write_days(folder: Path, days: int, key: str = "order.1") -> None:
    """Write a file of one message a day."""
    for day in range(days):
        path = folder / f"{day:03}.jsonl"
        if not path.exists():
            path.write_text(f'{{"exchange": "shop", "routing_key": "{key}"}}\n')
            os.utime(path, (LONG_AGO, LONG_AGO + day))


@pytest.mark.parametrize(
    ("key", "edited", "reused"),
    [
        ("order.1", shop("a.*"), 3),  # what is published there cannot tell
        ("order.1", shop().bind(Binding.to_queue("shop", "q", "x")), 0),
        ("lost.1", shop("*"), 3),
        ("lost.1", shop("lost.*"), 0),  # the shape of its key is no longer "*.*"
        ("order.1", shop().delete_queue("q"), 0),
    ],
)
def test_an_edit_reads_again_only_what_it_may_change(tmp_path: Path, key: str, edited: Topology, reused: int) -> None:
    archive, cache = tmp_path / "archive", tmp_path / "cache"
    archive.mkdir()
    write_days(archive, 3, key)
    assert run_here(detect(str(archive)), [CoverageStudy(shop())], cache=cache).reused == 0
    found = run_here(detect(str(archive)), [CoverageStudy(edited)], cache=cache)
    assert (found.reused, found.values[0]) == (
        reused,
        run_here(detect(str(archive)), [CoverageStudy(edited)]).values[0],
    )


def test_a_new_day_costs_a_day(tmp_path: Path) -> None:
    archive, cache = tmp_path / "archive", tmp_path / "cache"
    archive.mkdir()
    read: list[int] = []
    for days in (30, 31):
        write_days(archive, days)
        passed = run_here(
            detect(str(archive)), [CoverageStudy(shop())], cache=cache, step=lambda done, _: read.append(done)
        )
    assert passed.reused == 30
    assert read[-1] == (archive / "030.jsonl").stat().st_size


def test_a_new_day_reads_nothing_of_the_other_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, folder = tmp_path / "archive", tmp_path / "cache"
    archive.mkdir()
    read: list[str] = []

    def recognise(place: Place, known: Sequence[Format]) -> Format | None:
        read.append(Path(str(place)).name)
        return recognise_format(place, known)

    monkeypatch.setattr(recognised, "recognise_format", recognise)
    for days in (3, 4, 4):
        write_days(archive, days)
        (archive / "notes.xyz").write_text("no archive")
        os.utime(archive / "notes.xyz", (LONG_AGO, LONG_AGO))
        found = remembering(archive, folder)
        assert (found.files, found.others) == (detect(str(archive)).files, (str(archive / "notes.xyz"),))
    # a change of the other file, though of the same size and time, is a change of the file
    assert read == ["000.jsonl", "001.jsonl", "002.jsonl", "notes.xyz", "003.jsonl", "notes.xyz", "notes.xyz"]


@pytest.mark.parametrize("flaw", [lambda line: line[:-1], lambda line: line.replace(" 12 ", " 11 "), lambda _: ""])
def test_a_format_whose_line_is_damaged_is_found_anew(tmp_path: Path, flaw: Callable[[str], str]) -> None:
    archive, folder = tmp_path / "archive", tmp_path / "cache"
    archive.mkdir()
    write_days(archive, 1)
    first = remembering(archive, folder)
    kept = folder / recognised.NAME
    line = kept.read_text(encoding="ascii")
    assert " 12 " in line  # JSON lines
    kept.write_text(flaw(line.rstrip("\n")), encoding="ascii")
    assert remembering(archive, folder).files == first.files
    assert kept.read_text(encoding="ascii") == line


@examples(60)
@given(st.floats(0, 1, exclude_max=True), st.integers(1, 255))
def test_an_entry_in_which_one_byte_has_changed_is_not_used(place: float, change: int) -> None:
    with TemporaryDirectory() as folder:
        archive, cache = Path(folder, "archive"), Path(folder, "cache")
        archive.mkdir()
        write_days(archive, 1)
        run_here(detect(str(archive)), [CoverageStudy(shop())], cache=cache)
        [entry] = [each for each in cache.iterdir() if each.name != recognised.NAME]
        data = bytearray(entry.read_bytes())
        data[int(place * len(data))] ^= change
        entry.write_bytes(data)
        assert run_here(detect(str(archive)), [CoverageStudy(shop())], cache=cache).reused == 0


def test_a_file_that_was_changed_just_now_is_not_kept(tmp_path: Path) -> None:
    archive, cache = tmp_path / "archive", tmp_path / "cache"
    archive.mkdir()
    write_days(archive, 2)
    os.utime(archive / "001.jsonl")
    for _ in range(2):
        passed = run_here(detect(str(archive)), [CoverageStudy(shop())], cache=cache)
    assert passed.reused == 1


def test_entries_not_used_for_longest_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, cache = tmp_path / "archive", tmp_path / "cache"
    archive.mkdir()
    write_days(archive, 4)
    monkeypatch.setattr(cache_module, "MAX_ENTRIES", 3)
    run_here(detect(str(archive)), [CoverageStudy(shop())], cache=cache)
    assert len([*cache.iterdir()]) == 3
    monkeypatch.setattr(cache_module, "MAX_CACHE_BYTES", 0)
    run_here(detect(str(archive)), [CoverageStudy(shop())], cache=cache)
    assert not [*cache.iterdir()]


def test_other_files_of_the_folder_are_neither_read_nor_written_nor_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A saved tally, what a link in place of an entry leads to, and what waits for a writer."""
    archive, cache, outside = tmp_path / "archive", tmp_path / "cache", tmp_path / "outside"
    archive.mkdir()
    write_days(archive, 2)
    run_here(detect(str(archive)), [CoverageStudy(shop())], cache=cache)
    link, pipe = sorted(cache.iterdir())
    link.replace(outside)
    link.symlink_to(outside)
    pipe.unlink()
    os.mkfifo(pipe)
    (cache / "monday.tally").write_text("saved")
    kept = outside.read_bytes()
    outside.write_text("mine")
    assert run_here(detect(str(archive)), [CoverageStudy(shop())], cache=cache).reused == 0
    assert outside.read_text() == "mine"
    assert link.read_bytes() == kept
    monkeypatch.setattr(cache_module, "MAX_ENTRIES", 0)
    run_here(detect(str(archive)), [CoverageStudy(shop())], cache=cache)
    assert [path.name for path in cache.iterdir()] == ["monday.tally"]


def test_a_file_that_was_replaced_by_one_of_its_size_and_time_is_counted_anew(tmp_path: Path) -> None:
    archive, cache = tmp_path / "archive", tmp_path / "cache"
    archive.mkdir()
    write_days(archive, 2)
    run_here(detect(str(archive)), [CoverageStudy(shop())], cache=cache)
    changed, _ = sorted(archive.iterdir())
    changed.write_text(changed.read_text().replace("order.1", "other.1"))
    os.utime(changed, (LONG_AGO, LONG_AGO))
    found = run_here(detect(str(archive)), [CoverageStudy(shop())], cache=cache)
    assert found.reused == 1
    assert _counts(found) == run_here(detect(str(archive)), [CoverageStudy(shop())])


def choose(_: object) -> int:
    return 0


def test_what_a_partitioner_of_the_users_decides_is_not_kept(tmp_path: Path) -> None:
    """Its code may be another at the next audit."""
    archive, cache = tmp_path / "archive", tmp_path / "cache"
    archive.mkdir()
    write_days(archive, 2)
    for _ in range(2):
        own = PythonFunction(f"{__name__}:choose", function=choose)
        partitioning = Partitioning(own.text, Partitions.from_count(2), partitioner=own)
        topology = Topology(
            [Exchange("shop", "topic")], [Queue("q", partitioning=partitioning)], [Binding.to_queue("shop", "q", "#")]
        )
        found = run_here(detect(str(archive)), [CoverageStudy(topology)], cache=cache)
        assert found.reused == 0


def refuse(*_: object, **__: object) -> NoReturn:
    """Fail as a folder that is full or read-only."""
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_folder_that_cannot_be_written_ends_no_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, cache = tmp_path / "archive", tmp_path / "cache"
    archive.mkdir()
    write_days(archive, 2)
    run_here(detect(str(archive)), [CoverageStudy(shop())], cache=cache)
    write_days(archive, 4)
    monkeypatch.setattr(recognised, "replace_file", refuse)
    monkeypatch.setattr(os, "utime", refuse)
    found = run_here(remembering(archive, cache), [CoverageStudy(shop())], cache=cache)
    assert (found.reused, found.fault) == (2, f"{cache}: cannot be written: No space left on device")
    assert found.account.span.messages == 4


def test_a_file_that_is_removed_when_it_was_counted_ends_no_audit(tmp_path: Path) -> None:
    archive, cache = tmp_path / "archive", tmp_path / "cache"
    archive.mkdir()
    write_days(archive, 1)

    def remove(done: int, of: int) -> None:
        if done == of:
            (archive / "000.jsonl").unlink()

    found = run_here(detect(str(archive)), [CoverageStudy(shop())], cache=cache, step=remove)
    assert (found.account.span.messages, [*cache.iterdir()]) == (1, [])


AT_ONCE = """
import os, sys
from pathlib import Path
from bindings.archive.formats.detect import detect
from bindings.auditing.local import cache
from bindings.auditing.local.run import run_here
from bindings.auditing.local.studies import CoverageStudy
from bindings.sources.open import open_source
cache.MAX_ENTRIES = 3
study = CoverageStudy(open_source(sys.argv[1]).topology())
other = os.fork()
wanted = run_here(detect(sys.argv[2]), [study])
for _ in range(10):
    assert run_here(detect(sys.argv[2]), [study], cache=Path(sys.argv[3]))._replace(reused=0) == wanted
assert not other or os.waitpid(other, 0)[1] == 0
"""


@pytest.mark.process
def test_two_processes_that_use_one_folder_at_a_time_count_the_same(tmp_path: Path) -> None:
    """Each removes what the other keeps, as the folder has room for half of the entries."""
    archive = tmp_path / "archive"
    archive.mkdir()
    write_days(archive, 6)
    topology, program = tmp_path / "shop.bindings", tmp_path / "program.py"
    topology.write_text('exchange shop: topic\nqueue q\nshop -> q: "order.*"\n')
    program.write_text(AT_ONCE)
    ended = command_server().run_file(program, *map(str, (topology, archive, tmp_path / "cache")))
    assert (ended.code, ended.err) == (0, "")


def test_bad_records_cannot_be_kept_with_a_cache(tmp_path: Path) -> None:
    write_days(tmp_path, 1)
    with pytest.raises(InputError, match="omit --keep-bad or --cache"):
        run_here(detect(str(tmp_path)), [CoverageStudy(shop())], EVERYTHING, keep_bad="bad", cache=tmp_path / "c")


def test_the_command_says_how_many_files_were_counted_before(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    topology = tmp_path / "shop.bindings"
    topology.write_text('exchange shop: topic\nqueue q\nshop -> q: "order.*"\n')
    outputs = []
    for days in (2, 3, 3):
        write_days(archive, days)
        arguments = ["run", str(topology), str(archive), "--cache", str(tmp_path / "cache")]
        result = CliRunner().invoke(find_command("audit"), arguments)
        assert result.exit_code == 0, result.output
        outputs.append(result)
    lines = [[each for each in result.stderr.splitlines() if "before" in each] for result in outputs]
    assert [line.partition(": ")[2] for (line,) in lines] == [
        "0 of 2 files counted before", "2 of 3 files counted before", "3 of 3 files counted before",
    ]  # fmt: skip
    assert outputs[1].stdout == outputs[2].stdout
    result = CliRunner().invoke(find_command("audit"), [*arguments, "--master", "local[1]"])
    assert result.exit_code == 2
    assert "uses no --cache" in result.stderr


def test_nothing_is_written_where_the_next_run_would_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a").mkdir()
    Path("link").symlink_to("a")
    Path("a/1.jsonl").write_text('{"exchange": "e", "routing_key": "k"}\n')
    Path("t.bindings").write_text("exchange e: topic\n")
    written = {
        "audit t.bindings ARCHIVE --no-spark --cache PLACE": "kept results",
        "audit t.bindings ARCHIVE --no-spark --keep-bad PLACE": "bad records",
        "archive convert ARCHIVE PLACE": "converted records",
    }
    inside = [("a", "a"), ("a", "a/b"), ("a/../a", "./a/b/c"), ("a/*", "a/b"), ("a", "link/b"), ("link", "a/b")]
    outside = [("a/*.jsonl", "a/b"), ("a", "ab"), ("a", "a/.kept"), ("a/1.jsonl", "a/c")]
    for number, (command, what) in enumerate(written.items()):
        for archive, place in [*inside, *outside]:
            new = place if place == "a" else f"{place}{number}"
            words = command.replace("ARCHIVE", archive).replace("PLACE", new).split()
            output = CliRunner().invoke(find_command(words[0]), words[1:]).output
            refused = f"{what} would be read as part of {archive}" in output
            assert refused == ((archive, place) in inside), (words, output)


@pytest.mark.parametrize("option", ["html", "junit", "tables", "save-tally", "output"])
def test_nothing_is_written_where_an_audit_that_goes_on_would_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bindings.auditing.spark.session.open_session", refuse)
    Path("a").mkdir()
    Path("link").symlink_to("a")
    Path("a/1.jsonl").write_text('{"exchange": "e", "routing_key": "k"}\n')
    Path("t.bindings").write_text("exchange e: topic\n")
    inside = [("a", "a/b"), ("link", "a/b"), ("a", "link/c"), ("a", "a/1.jsonl")]
    for archive, place in [*inside, ("a", "ab"), ("a/1.jsonl", "a/c")]:
        arguments = ["follow", "t.bindings", archive, "--state", "state", f"--{option}", place]
        result = CliRunner().invoke(find_command("audit"), arguments)
        refused = f"reports and tallies would be read as part of {archive}" in result.output
        assert refused == ((archive, place) in inside), (archive, place, result.output)
    assert Path("a/1.jsonl").read_text().startswith("{")


def test_no_output_replaces_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a").mkdir()
    line, topology = '{"exchange": "e", "routing_key": "k"}\n', "exchange e: topic\n"
    Path("a/1.jsonl").write_text(line)
    Path("t.bindings").write_text(topology)
    audit = find_command("audit")
    for option in ("--save-tally", "--html", "-o"):
        for archive, output in (
            ("a", "a/1.jsonl"),
            ("a/1.jsonl", "a/../a/1.jsonl"),
            ("a/*", "a/1.jsonl"),
            ("a", "t.bindings"),
        ):
            ended = CliRunner().invoke(audit, ["t.bindings", archive, "--no-spark", option, output])
            assert (ended.exit_code, Path("a/1.jsonl").read_text(), Path("t.bindings").read_text()) == (
                2,
                line,
                topology,
            )
    for name in ("one", "other"):
        assert CliRunner().invoke(audit, ["t.bindings", "a", "--no-spark", "--save-tally", name]).exit_code == 0
    Path("link").symlink_to("one")
    assert CliRunner().invoke(audit, ["merge", "t.bindings", "one", "other"]).exit_code == 0
    for again in ("one", "link"):
        assert "give it once" in CliRunner().invoke(audit, ["merge", "t.bindings", "one", again]).output
