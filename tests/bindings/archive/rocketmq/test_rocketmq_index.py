"""RocketMQ's index files: a key's messages, all of them, from files of any shape; damage ends no look-up wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.reading import Bad
from bindings.archive.rocketmq.index import hash_key, open_index
from exchange.errors import InputError
from exchange.partition.hashing.java import string_hash
from tests.support.archives.reads import FILES
from tests.support.archives.rocketmq_files import index

KEYS = st.sampled_from(["Aa", "BB", "C#", "k1", "k2", "größe", "", "\U0001f600"])
ENTRIES = st.lists(st.tuples(KEYS, st.integers(0, 3).map(lambda n: 100 * n)), min_size=1, max_size=20)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("index") / "20260101000000000"


def entries(steps: list[tuple[str, int]]) -> list[tuple[str, int, int]]:
    """Places and times go up as in a log; some messages have several keys."""
    place, made = 0, []
    for key, step in steps:
        place += step
        made.append((f"t#{key}", place, 1_000_000 + place * 10))
    return made


@FILES
@given(ENTRIES, st.integers(1, 12), st.integers(0, 30))
def test_a_key_leads_to_all_that_have_its_hash_the_last_first(
    path: Path, steps: list[tuple[str, int]], slots: int, room: int
) -> None:
    """How many slots there are is found out, too."""
    made = entries(steps)
    path.write_bytes(index(slots, len(made) + 1 + room, made))
    file = open_index(str(path))
    assert (file.slots, file.units) == (slots, len(made))
    assert file.units_of()["place"].tolist() == [place for _, place, _ in made]
    for key in {key for key, _ in steps}:
        wanted = [place for name, place, _ in made if string_hash(name) == string_hash(f"t#{key}")]
        assert list(file.places("t", key)) == wanted[::-1]


def test_an_unusual_number_of_slots_is_found_too(path: Path) -> None:
    made = entries([(f"k{n}", 7) for n in range(40)])
    for slots, units in ((10, 41), (10, 60), (5000, 20000), (1, 41), (3, 500), (1000, 41), (64, 256)):
        path.write_bytes(index(slots, units, made))
        file = open_index(str(path))
        assert file.slots == slots
        assert list(file.places("t", "k7")) == [7 * 8]
        assert list(file.places("u", "k7")) == []


@FILES
@given(ENTRIES, st.integers(1, 12), st.data())
def test_a_file_cut_off_anywhere_is_refused_or_reports_missing_units(
    path: Path, steps: list[tuple[str, int]], slots: int, data: st.DataObject
) -> None:
    made = entries([("k2", 100), ("k2", 100), *steps])
    whole = index(slots, len(made) + 1, made)
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(InputError, match="no file of an index"):
        open_index(str(path))


@FILES
@given(ENTRIES, st.integers(1, 12), st.lists(st.tuples(st.integers(0, 499), st.integers(0, 255)), max_size=20))
def test_damage_ends_a_chain_and_makes_no_circle(
    path: Path, steps: list[tuple[str, int]], slots: int, damage: list[tuple[int, int]]
) -> None:
    made = entries(steps)
    data = bytearray(index(slots, len(made) + 1, made))
    for at, byte in damage:
        if at < len(data):
            data[at] = byte
    path.write_bytes(data)
    try:
        file = open_index(str(path))
    except InputError:
        return
    for key, _ in steps:
        found = list(file.places("t", key))
        assert len(found) <= len(made)
        assert all(isinstance(each, int) for each in found[:-1])


def test_a_number_that_is_too_high_is_reported(path: Path) -> None:
    made = entries([("a", 1)] * 1200)
    data = bytearray(index(1, 1300, made))
    data[40 + 4 + 1100 * 20 + 16 : 40 + 4 + 1101 * 20] = (1200).to_bytes(4, "big")  # before the 1100th
    path.write_bytes(data)
    found = list(open_index(str(path)).places("t", "a"))
    assert found[:-1] == list(range(1200, 1099, -1))
    assert isinstance(found[-1], Bad)


def test_an_index_that_is_written_to_is_read_as_far_as_it_goes(path: Path) -> None:
    """The header is read first, so it may be older than the rest."""
    made = entries([("a", 1), ("b", 1), ("a", 1), ("c", 1), ("b", 1)])
    before, after = index(5, 20, made[:2]), index(5, 20, made)
    path.write_bytes(before[:40] + after[40:])
    file = open_index(str(path))
    assert (file.slots, file.units) == (5, 2)
    assert [list(file.places("t", key)) for key in "abc"] == [[3, 1], [5, 2], [4]]


def test_an_index_without_keys_finds_nothing(path: Path) -> None:
    path.write_bytes(index(16, 64, []))
    assert list(open_index(str(path)).places("t", "a")) == []


def test_a_hash_is_at_least_0_and_0_of_the_least_int() -> None:
    assert string_hash("t#ahcthpd\u1ad5") == -(2**31)
    assert hash_key("t", "ahcthpd\u1ad5") == 0
    assert hash_key("t", "Aa") == hash_key("t", "BB") == abs(string_hash("t#Aa"))
    assert all(hash_key("t", str(n)) >= 0 for n in range(100))
