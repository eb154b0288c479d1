"""A tally that is read back is believed only if messages could have made it: every real one is, and no forged one."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.sums import Span, Unread
from bindings.counts.outcome import AlternateLink, Facts, Outcome
from bindings.counts.sketch import FREQUENT, REGISTERS, SAMPLE, Frequent, FrequentItem, SampledKey
from bindings.counts.slots import SlotCounts
from bindings.counts.tally import Tally, compute_fingerprint
from bindings.counts.tally_file import build_table, check_fit, decode_tally
from exchange import LATEST_PROFILE, Binding, Exchange, InputError, Queue, Topology
from tests.bindings.counts.test_tally import records_for, slow_tally
from tests.support import topologies
from tests.support.cases import with_each
from tests.support.tiers import examples

SHOP = Topology(
    [Exchange("orders", "topic", arguments={"alternate-exchange": "lost"}), Exchange("lost", "fanout")],
    [Queue("billing"), Queue("alone")],
    [Binding.to_queue("orders", "billing", "order.#")],
)
ROUTED = Outcome("orders", ("billing",), (0,), ("orders",), routed=True)
ONE = Facts(Span(1))


def tally_with(outcome: Outcome, facts: Facts = ONE, **others: Any) -> Tally:
    return Tally(compute_fingerprint(SHOP), {outcome: facts}, **others)


@given(st.integers(0, 2**32))
@examples(60)
def test_what_messages_make_is_believed(seed: int) -> None:
    rng = Random(seed)
    topology = topologies.topology(rng, LATEST_PROFILE)
    tally = slow_tally(topology, records_for(rng, topology, 20))
    again = decode_tally(build_table(tally))
    assert again == tally
    check_fit(again, topology, "f")


@with_each(
    "outcome",
    [
        ROUTED._replace(bindings=(99,)),
        ROUTED._replace(bindings=(0, 0)),
        ROUTED._replace(bindings=()),
        ROUTED._replace(possible_bindings=(1,)),
        ROUTED._replace(queues=("nothing",)),
        ROUTED._replace(queues=("alone", "billing")),
        ROUTED._replace(queues=("billing", "alone")),
        ROUTED._replace(queues=()),
        ROUTED._replace(exchanges=()),
        ROUTED._replace(exchanges=("lost", "orders")),
        ROUTED._replace(exchanges=("nowhere", "orders")),
        ROUTED._replace(undecided=("lost",)),
        ROUTED._replace(alternates=(AlternateLink("lost", "orders"),)),
        ROUTED._replace(routed=False),
        ROUTED._replace(refused="404 NOT_FOUND"),
        Outcome("orders", exchanges=("orders",), routed=True),
        Outcome("nowhere", exchanges=("nowhere",)),
    ],
)
def test_an_outcome_that_no_message_has_is_refused(outcome: Outcome) -> None:
    check_fit(tally_with(ROUTED), SHOP, "f")
    with pytest.raises(InputError, match=r"^f: a damaged tally: an outcome "):
        check_fit(tally_with(outcome), SHOP, "f")


@pytest.mark.parametrize(
    "tally",
    [
        tally_with(ROUTED, partitions={("billing", 0): 1}),
        tally_with(ROUTED, partitions={("nothing", None): 1}),
        tally_with(ROUTED, timeline=SlotCounts(10**6, {(1, "orders", True): 2})),
    ],
)
def test_counts_that_no_message_makes_are_refused(tally: Tally) -> None:
    with pytest.raises(InputError, match=r"^f: a damaged tally: "):
        check_fit(tally, SHOP, "f")


@pytest.mark.parametrize(
    "tally",
    [
        tally_with(ROUTED, Facts(Span(-5))),
        tally_with(ROUTED, Facts(Span(0))),
        tally_with(ROUTED, Facts(Span(1, 7, 3))),
        tally_with(ROUTED, Facts(Span(1, 7, None))),
        tally_with(ROUTED._replace(bindings=(-1,))),
        tally_with(ROUTED, ONE._replace(keys=b"x")),
        tally_with(ROUTED, ONE._replace(keys=b"\x7f" * REGISTERS)),
        tally_with(ROUTED, ONE._replace(keys=b"\x01" * 50_000_000)),
        tally_with(ROUTED, ONE._replace(sample=tuple(SampledKey(n, str(n)) for n in range(SAMPLE + 1)))),
        tally_with(ROUTED, ONE._replace(sample=(SampledKey(2, "b"), SampledKey(1, "a")))),
        tally_with(ROUTED, ONE._replace(hot=Frequent((FrequentItem("a", -1),)))),
        tally_with(ROUTED, ONE._replace(hot=Frequent((FrequentItem("a", 1), FrequentItem("a", 1))))),
        tally_with(ROUTED, ONE._replace(hot=Frequent((FrequentItem("a", 1), FrequentItem("b", 2))))),
        tally_with(ROUTED, ONE._replace(hot=Frequent(tuple(FrequentItem(f"{n:04}", 1) for n in range(FREQUENT + 1))))),
        tally_with(ROUTED, ONE._replace(hot=Frequent((), -1))),
        tally_with(ROUTED, Facts(Span(2**63 - 1)), partitions={("billing", None): 2**63 - 1}),
        tally_with(ROUTED, partitions={("billing", -1): 1}),
        tally_with(ROUTED, partitions={("billing", None): -1}),
        tally_with(ROUTED, timeline=SlotCounts(10**6, {(1, "orders", True): -2})),
        replace(tally_with(ROUTED), unread=Unread({"no key": -1})),  # type: ignore[arg-type]
    ],
)
def test_numbers_that_no_counting_makes_are_damage(tally: Tally) -> None:
    with pytest.raises(InputError, match="a damaged tally"):
        decode_tally(build_table(tally))
