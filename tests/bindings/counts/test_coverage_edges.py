"""Coverage at its limits: the exact moment, one or two messages, destinations with several ways."""

from __future__ import annotations

from typing import Any

import pytest

from bindings.counts.groups import find_sole_bindings
from bindings.counts.outcome import AlternateLink, Outcome
from bindings.counts.uses import BindingUse
from exchange import Binding

A, B = Binding.to_queue, Binding.to_exchange


def use(**fields: Any) -> BindingUse:
    """Return the use of a binding that no message hit, with these fields changed."""
    known: dict[str, Any] = {
        "binding": A("x", "q"), "number": 0, "messages": 0, "possible": 0, "only": 0, "first": None, "last": None,
        "distinct_keys": 0, "share": None, "exposure": 0, "eligible": True,
    }  # fmt: skip
    return BindingUse(**(known | fields))


@pytest.mark.parametrize(
    ("exposure", "bound"), [(0, 1.0), (1, 1.0), (2, 1.0), (3, 1.0), (4, 0.75), (6, 0.5), (3_000, 0.001)]
)
def test_the_bound_of_an_unmatched_binding_is_at_most_all_messages(exposure: int, bound: float) -> None:
    assert use(exposure=exposure).bound == pytest.approx(bound)
    assert use(exposure=exposure, messages=1).bound is None


BINDINGS = (A("x", "q", "a"), A("x", "q", "b"), B("x", "y"), B("y", "x"), A("y", "q"))


@pytest.mark.parametrize(
    ("outcome", "only"),
    [
        (Outcome("x", ("q",), (0,), ("x",)), [0]),
        (Outcome("x", ("q",), (0, 1), ("x",)), []),
        (Outcome("x", ("q",), (0,), ("x",), possible_bindings=(1,)), []),
        (Outcome("x", ("q",), (0, 2, 3), ("x", "y")), [0, 2]),  # y leads back to where it was published
        (Outcome("x", ("q",), (0, 2, 4), ("x", "y")), [2]),
        (Outcome("x", ("q",), (2, 4), ("x", "y"), (AlternateLink("x", "y"),)), [4]),
        (Outcome("x", (), (0,), ("x",)), []),  # to a queue that does not exist
    ],
)
def test_a_binding_is_the_only_way_if_no_other_leads_to_its_destination(outcome: Outcome, only: list[int]) -> None:
    other = Outcome("x", ("q",), (0,), ("x",))  # each outcome has ways of its own
    found = find_sole_bindings([other, outcome], BINDINGS)
    assert found.values[found.rows == 1].tolist() == only
