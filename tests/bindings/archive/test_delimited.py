"""CSV of other programs: the same messages as JSON lines with the same fields, whatever separates and quotes them."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from random import Random
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.formats import delimited
from bindings.archive.formats.detect import detect
from bindings.archive.mapping import FieldMapping
from bindings.archive.reading import Bad
from bindings.archive.record import Record, to_records
from exchange.errors import InputError
from exchange.values.message import Message
from tests.support.tiers import examples

NAMES = ("exch", "rkey", "hdrs", "ts", "payload", "other")
TEXTS = ("", "a", "order.eu", 'say "x"', "two\nlines", "a,b;c|d\te", "ü€", "\r\n", " ", "nul\0")


def read(path: Path, *columns: tuple[str, str]) -> list[Record | Bad]:
    found: list[Record | Bad] = []
    for form, split in detect(str(path), FieldMapping(columns=columns)).plan():
        for item in form.read_coded(split):
            found += to_records(item) if isinstance(item, pa.RecordBatch) else [item]  # type: ignore[list-item]
    return found


def facts(found: list[Record | Bad]) -> list[Any]:
    return [(each.message, each.time, each.size, each.has_body) for each in found if isinstance(each, Record)]


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path


@examples(40)
@given(st.integers(0, 2**32), st.sampled_from(",;\t|"), st.sampled_from(["\n", "\r\n"]), st.sampled_from([1, 3, 8_192]))
def test_csv_has_the_messages_that_json_lines_have(
    tmp_path_factory: pytest.TempPathFactory, seed: int, delimiter: str, end: str, batch: int
) -> None:
    """Line feeds and quotes in fields included; in batches of any size."""
    chance, folder = Random(seed), tmp_path_factory.mktemp("csv")
    rows: list[dict[str, str]] = []
    for _ in range(chance.randrange(1, 9)):
        headers = chance.choice(["", json.dumps({"n": 5, "t": chance.choice(TEXTS[:6])})])
        key, body, other = chance.choices(TEXTS, k=3)
        rows.append(dict(zip(NAMES, ("x", key, headers, "1793491200", body, other), strict=True)))
    sink = io.StringIO(newline="")
    quotes_all = chance.random() < 0.5
    quoting: Literal[0, 1] = csv.QUOTE_ALL if quotes_all else csv.QUOTE_MINIMAL
    writer = csv.DictWriter(sink, NAMES, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writeheader()
    writer.writerows(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "BATCH_ROWS", batch)
        found = read(write(folder / "a.csv", sink.getvalue()))
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    assert not [each for each in found if isinstance(each, Bad)]
    assert facts(found) == facts(read(write(folder / "a.jsonl", lines)))
    assert [each.offset for each in found] == list(range(len(rows)))


def test_a_wrong_row_is_one_bad_record(tmp_path: Path) -> None:
    text = 'exchange,routing_key,headers\nx,a,\n\nx,b\nx,"c"d,\nx,e,{\nx,f,"{""n"": 1}"\n'
    found = read(write(tmp_path / "a.csv", text))
    assert [each.message for each in found if isinstance(each, Record)] == [
        Message("x", "a"), Message("x", "f", {"n": 1}),
    ]  # fmt: skip
    bad = sorted((each.offset, each.reason) for each in found if isinstance(each, Bad))
    assert [offset for offset, _ in bad] == [1, 2, 3]
    assert bad[0][1] == "a row of 2 fields, where the first row has 3 names"
    assert bad[1][1].startswith("no row of CSV: ")
    assert bad[2][1].startswith("headers are a text, but not JSON")


def test_a_quote_that_is_never_closed_is_one_bad_record(tmp_path: Path) -> None:
    found = read(write(tmp_path / "a.csv", 'exchange,routing_key\nx,a\nx,"b\nx,c\n'))
    assert [type(each) for each in found] == [Record, Bad]


def test_a_damaged_gzipped_file_is_read_up_to_the_damage(tmp_path: Path) -> None:
    data = "exchange,routing_key\n" + "".join(f"x,{Random(n).random()}\n" for n in range(5_000))
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(data.encode())[:-200])
    found = read(path)
    assert len(found) > 2_000
    assert [each.reason for each in found if isinstance(each, Bad)][-1] == "the gzipped file ends in the middle"


def test_bytes_that_are_not_utf_8_are_kept(tmp_path: Path) -> None:
    (found,) = read(write(tmp_path / "a.csv", "exchange,routing_key,body\nx,a\udcff,b\udcff\n"))
    assert isinstance(found, Record)
    assert found.message == Message("x", "a\udcff", body=b"b\xff")


def test_an_empty_field_is_an_empty_name_or_body_and_nothing_else(tmp_path: Path) -> None:
    (found,) = read(write(tmp_path / "a.csv", "exchange,routing_key,time,size,vhost,headers,body\nx,,,,,,\n"))
    assert isinstance(found, Record)
    assert (found.message, found.time, found.vhost, found.has_body) == (Message("x"), None, None, True)


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    assert len(facts(read(write(tmp_path / "export", "\ufeffexchange;routing_key\nx;a\n")))) == 1


def test_names_of_folders_and_constants_are_fields(tmp_path: Path) -> None:
    folder = tmp_path / "exchange=orders"
    folder.mkdir()
    path = write(folder / "a.csv", 'meta,k\n"{""key"": ""a.b""}",1\n')
    (found,) = read(path, ("routing_key", "meta.key"), ("vhost", "=/shop"))
    assert isinstance(found, Record)
    assert (found.message, found.vhost) == (Message("orders", "a.b"), "/shop")


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ((), r"its columns are a, b; name them with --column exchange=NAME --column routing_key=NAME"),
        ((("exchange", "c"),), r"there is no column 'c'; there are: a, b"),
        ((("exchange", "a"), ("routing_key", "b"), ("headers", "h")), r"there is no column 'h'; there are: a, b"),
    ],
)
def test_the_error_lists_the_columns_that_are_there(
    columns: tuple[tuple[str, str], ...], error: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=error):
        detect(str(write(tmp_path / "a.csv", "a,b\n1,2\n")), FieldMapping(columns=columns))


def test_what_was_taken_is_noted(tmp_path: Path) -> None:
    plain = write(tmp_path / "plain.csv", "exchange,routing_key\nx,a\n")
    other = write(tmp_path / "other.csv", "exch,rkey\nx,a\n")
    assert detect(str(plain)).list_contents().notes == ()
    assert detect(str(other)).list_contents().notes == ("columns taken: exchange = exch, routing_key = rkey",)


@pytest.mark.parametrize("text", ["exchange, what it is\nx, y\n", "a,b\n", "exchange\n", '{"a": 1, "b": 2}\n'])
def test_other_texts_are_no_csv(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no archive|no exchange and routing key"):
        detect(str(write(tmp_path / "notes.txt", text)))
