"""Each batch is in the sum of a ledger once, also if the last batch, or the last folded one, comes again."""

from __future__ import annotations

from pathlib import Path

import pytest

from bindings.archive.inspection import Account
from bindings.archive.sums import Span
from bindings.auditing.spark.ledger import BatchLedger, LedgerEntry
from exchange import InputError
from tests.support.archives.growing import STUDY


def ledger_in(folder: Path, folded: int = 2) -> BatchLedger:
    return BatchLedger(folder, {"coverage": STUDY}, folded)


def entry(records: int) -> LedgerEntry:
    return LedgerEntry({"coverage": STUDY.zero()}, Account(Span(records)))


def total(ledger: BatchLedger) -> tuple[int, int]:
    count, whole = ledger.total()
    return count, whole.account.records


@pytest.mark.parametrize("again", [False, True], ids=["the same ledger", "another one"])
def test_a_batch_that_comes_again_replaces_itself(tmp_path: Path, again: bool) -> None:
    ledger = ledger_in(tmp_path, 100)
    assert ledger.put(0, entry(10)).account.records == 10
    for records in (20, 30, 40):
        ledger = ledger_in(tmp_path, 100) if again else ledger
        assert ledger.put(1, entry(records)).account.records == 10 + records
        assert total(ledger) == (2, 10 + records)
    assert ledger.put(2, entry(1)).account.records == 51


@pytest.mark.parametrize("again", [False, True], ids=["the same ledger", "another one"])
def test_a_batch_that_is_folded_is_refused(tmp_path: Path, again: bool) -> None:
    """It would be counted twice: what it added cannot be taken out of the sum."""
    ledger = ledger_in(tmp_path)
    for batch in range(3):
        ledger.put(batch, entry(10))
    ledger.fold(2)
    assert total(ledger) == (3, 30)
    ledger = ledger_in(tmp_path) if again else ledger
    for batch in (2, 1, 0):
        with pytest.raises(InputError, match="counted and folded"):
            ledger.put(batch, entry(10))
    assert total(ledger_in(tmp_path)) == (3, 30)
    assert ledger_in(tmp_path).put(3, entry(1)).account.records == 31


def test_sums_are_the_same_however_often_they_are_folded(tmp_path: Path) -> None:
    for folded in (1, 2, 5, 100):
        folder = tmp_path / str(folded)
        folder.mkdir()
        for batch in range(12):
            ledger = ledger_in(folder, folded)
            if batch:
                ledger.fold(batch - 1)
            ledger.put(batch, entry(batch))
            ledger.put(batch, entry(batch))
        assert total(ledger_in(folder)) == (12, 66)
