"""docs/limits.md has every limit, with its value."""

from __future__ import annotations

import re
from pathlib import Path

from exchange import limits

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
ROW = re.compile(r"^\| `(\w+)` \| ([\d,]+) (\w+) \|", re.MULTILINE)


def test_the_page_of_limits_has_each_with_its_value() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "limits.md").read_text()
    documented = {name: int(number.replace(",", "")) * UNITS.get(unit, 1) for name, number, unit in ROW.findall(page)}
    assert documented == {name: value for name, value in vars(limits).items() if name.isupper()}
