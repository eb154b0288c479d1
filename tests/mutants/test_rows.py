"""Each mutant still fits the code: a row that fits no more would be found in a night only."""

from __future__ import annotations

from tests.mutants import __main__ as program
from tests.mutants.survivors import SURVIVORS


def test_the_old_text_of_each_mutant_is_in_its_module_once() -> None:
    rows = [*program.AIMED, *SURVIVORS]
    assert len(rows) > 400
    assert not [*program.find_stale(rows)]
