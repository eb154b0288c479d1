"""``hashstar archive``: formats are found by content; converting loses nothing and reports what it leaves out."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.formats.detect import detect
from bindings.archive.formats.json_lines import encode_line
from bindings.archive.formats.recognition import FORMATS
from bindings.archive.inspection import Inspection, inspect_splits
from bindings.archive.reading import Bad, Bias, Skipped
from bindings.archive.record import Record, build_batch
from exchange.errors import InputError
from exchange.values.message import Message
from tests.bindings.archive.test_traces import RABTAP, TRACED, text_entry
from tests.support.archives.kafka_files import KafkaRecord, batch
from tests.support.archives.reads import FILES, RECORDS, facts, read
from tests.support.documented import fields_of, words_of
from tests.support.program import invoke, run_program

run = partial(invoke, "archive")


def records(count: int) -> list[Record]:
    return [
        Record(
            Message("x", f"k.{n}", {"n": n}, {"priority": 1}, b"b"),
            n * 40_000_000_000,
            "/",
            1,
            True,
            ("q",) * (n % 2),
            "f",
            n,
        )
        for n in range(count)
    ]


def lines(path: Path, count: int = 5) -> Path:
    path.write_bytes(b"".join(map(encode_line, records(count))))
    return path


def all_of(path: Path) -> list[tuple[Any, ...]]:
    return sorted(
        [facts(record) for file, form in detect(str(path)).files for record in read(form, file).records], key=repr
    )


def test_every_format_is_found_by_content_whatever_the_file_is_called(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    written = {
        "Kafka segment": batch(0, [KafkaRecord(0, key=b"k")]),
        "RabbitMQ tracing log, JSON": json.dumps(TRACED).encode() + b"\n",
        "RabbitMQ tracing log, text": text_entry("b").encode(),
        "rabtap JSON": json.dumps(RABTAP, indent=1).encode(),
        "rabbitmq-dump-queue": b'{"properties": {"routing_key": "q"}, "headers": {}}',
        "JSON lines": b'{"exchange": "", "routing_key": ""}\n',
        "CSV": b"exchange;routing_key\n;\n",
    }
    for n, content in enumerate(written.values()):
        (tmp_path / "a" / f"file{n}.xml").write_bytes(content)
    (tmp_path / "a" / "readme").write_text("none of them")
    (tmp_path / "a" / "0.index").write_bytes(b"0" * 8)
    (tmp_path / "a" / "_SUCCESS").write_bytes(b"")
    archive = detect(str(tmp_path))
    assert list(archive.formats) == list(written)
    assert [Path(str(other)).name for other in archive.others] == ["readme"]
    assert inspect_splits(archive.plan()).records == len(written)


@pytest.mark.parametrize("content", [b"", b"\0" * 200, b"{}\n", b'{"routing": "a"}\n', b"PAR1", b"<xml/>"])
def test_a_file_that_cannot_be_audited_is_named_and_ends_with_2(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f").write_bytes(content)
    result = run("inspect", tmp_path / "f")
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert str(tmp_path / "f") in result.stderr


def test_an_archive_without_routing_keys_says_so(tmp_path: Path) -> None:
    (tmp_path / "f").write_text('{"exchange": "a"}\n{"exchange": "b"}\n')
    result = run("inspect", tmp_path / "f")
    assert result.exit_code == 2
    assert "no record can be audited; of 2 records: no routing_key" in result.stderr


def test_inspect_shows_counts_window_and_places_of_bad_records(tmp_path: Path) -> None:
    path = lines(tmp_path / "f")
    path.write_bytes(path.read_bytes() + b"junk\n")
    result = run("inspect", path)
    assert result.exit_code == 0
    for text in (
        "JSON lines; 1 file", "records: 5; skipped 0, bad 1", "1970-01-01T00:00:00Z to 1970-01-02T20:26:40Z",
        "5  x  in '/'", "bad: 1: not JSON", f"{path} at ", "the broker put 3 nowhere", "bias: unknown",
    ):  # fmt: skip
        assert text in result.stdout, text
    found = json.loads(run("inspect", "--json", path).stdout)
    assert (found["version"], found["records"], found["bad"][0]["records"], found["auditable"]) == (1, 5, 1, True)
    assert found["exchanges"] == [{"vhost": "/", "exchange": "x", "records": 5}]
    assert fields_of(found, {"skipped"}) <= words_of("inspect-json.md")


def test_converting_there_and_back_keeps_everything(tmp_path: Path) -> None:
    path = lines(tmp_path / "f.jsonl")
    assert run("convert", path, tmp_path / "own").exit_code == 0
    assert sorted(p.name for p in (tmp_path / "own").iterdir()) == ["day=1970-01-01", "day=1970-01-02"]
    assert all_of(tmp_path / "own") == all_of(path)
    assert run("convert", tmp_path / "own", tmp_path / "back.jsonl.gz").exit_code == 0
    assert all_of(tmp_path / "back.jsonl.gz") == all_of(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["back.jsonl.gz", "f.jsonl", "own"]


def test_the_bias_survives_converting(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(json.dumps(TRACED) + "\n")
    assert run("convert", tmp_path / "t", tmp_path / "own").exit_code == 0
    assert detect(str(tmp_path / "own")).list_contents().biases == (Bias.EVERYTHING,)


def test_more_bad_records_than_allowed_stop_it_and_nothing_is_written(tmp_path: Path) -> None:
    path = lines(tmp_path / "f")
    path.write_bytes(path.read_bytes() + b"junk\n" * 3)
    for target in ("own", "own.jsonl"):
        result = run("convert", "--max-bad", "2", path, tmp_path / target)
        assert (result.exit_code, list(tmp_path.iterdir())) == (1, [path])
        assert "more than 2 bad records" in result.stderr
    assert run("convert", "--max-bad", "3", path, tmp_path / "own").exit_code == 0
    result = run("convert", path, tmp_path / "own")
    assert (result.exit_code, "exists already" in result.stderr) == (2, True)


def test_an_unknown_place_in_a_mapping_is_bad_usage(tmp_path: Path) -> None:
    result = run("inspect", "--exchange", "value", lines(tmp_path / "f"))
    assert result.exit_code == 2
    assert "is no place" in result.stderr


def test_an_empty_folder_and_a_missing_path_are_no_archives(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is nothing in it"):
        detect(str(tmp_path))
    with pytest.raises(InputError, match="no such file"):
        detect(str(tmp_path / "none"))


@FILES
@given(st.binary(max_size=200), st.sampled_from(["f", "a+1+2.json", "f.parquet"]))
def test_no_content_makes_a_format_raise(tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str) -> None:
    path = tmp_path_factory.mktemp("any") / name
    path.write_bytes(content)
    for form in FORMATS:
        form.recognises(content, path)
        read(form, path) if form.name != "Kafka Connect files" or "+" in name else None


ITEMS = st.lists(
    st.lists(RECORDS, max_size=2).map(build_batch)
    | st.builds(Bad, st.just("f"), st.integers(0, 9), st.sampled_from("abc"))
    | st.builds(Skipped, st.sampled_from("xy"), st.integers(1, 3)),
    max_size=6,
)


@FILES
@given(ITEMS, st.integers(0, 6))
def test_inspections_add(items: list[Any], cut: int) -> None:
    whole, first, second = Inspection(), Inspection(), Inspection()
    for n, item in enumerate(items):
        whole.add(item)
        (first if n < cut else second).add(item)
    assert first + second == whole


def test_lines_that_are_no_records_are_shown_with_a_caret(tmp_path: Path) -> None:
    """In text of inspect and of an audit; what follows names the byte at which the line begins."""
    path = tmp_path / "bad.jsonl"
    good = '{"exchange":"orders","routing_key":"x"}'
    path.write_text(f'{good}\n{{"exchange":"shop" "routing_key":"x"}}\n{{"exchange":"e","routing_key":5}}\n')
    inspected = run_program("archive", "inspect", str(path)).stdout
    shop = str(Path(__file__).parents[3] / "examples" / "orders" / "orders.bindings")
    audited = run_program("audit", shop, str(path), "--no-spark").stdout
    for lines in (inspected.splitlines(), audited.splitlines()):
        for line, wrong in (('{"exchange":"shop" "routing_key":"x"}', '"routing_key":"x"'),
                            ('{"exchange":"e","routing_key":5}', '"routing_key":5')):  # fmt: skip
            at = next(number for number, each in enumerate(lines) if each.endswith(line))
            assert lines[at + 1].index("^") == lines[at].index(wrong)
            assert " at " in lines[at - 1]


def test_a_name_of_another_format_than_what_is_written_is_refused(tmp_path: Path) -> None:
    """A folder of Parquet that is named d.csv misleads who opens it."""
    (tmp_path / "in.jsonl").write_text('{"exchange":"e","routing_key":"k"}\n')
    for name, form, written in (
        ("d.csv", [], "Parquet"), ("d.AVRO", [], "Parquet"), ("d.json", [], "Parquet"), ("d.csv.gz", [], "Parquet"),
        ("d.jsonl", ["--format", "parquet"], "Parquet"), ("d.parquet", ["--format", "jsonl"], "JSON lines"),
    ):  # fmt: skip
        result = run("convert", tmp_path / "in.jsonl", tmp_path / name, *form)
        assert (result.exit_code, f"and {written} is written" in result.stderr) == (2, True), result.output
        assert not (tmp_path / name).exists()
    for name, form in (("d", []), ("d.parquet", []), ("d.v1", []), ("d.json", ["--format", "jsonl"])):
        assert run("convert", tmp_path / "in.jsonl", tmp_path / name, *form).exit_code == 0
