"""Brokers that route as their topologies agree; every fault of a broker is found and counted."""

from __future__ import annotations

from collections import Counter as Multiset
from collections.abc import Sequence
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.names import escape
from bindings.archive.record import Record, build_batch
from bindings.archive.sums import Span
from bindings.counts import verification
from bindings.counts.columnar import verifying
from bindings.counts.columnar.verifying import QueueLists, Verifier
from bindings.counts.outcome import Outcome, OutcomeExplorer
from bindings.counts.sketch import hash_of
from bindings.counts.tally import compute_fingerprint
from bindings.counts.verification import Evidence, PlacementDifference, Verification, build_heading, verdict_for
from bindings.counts.verification_file import build_table, read_verification_table
from bindings.counts.witness import MAX_WITNESSES
from exchange import (
    LATEST_PROFILE,
    PROFILES,
    Binding,
    BrokerError,
    Exchange,
    InputError,
    Message,
    Profile,
    Queue,
    Router,
    Topology,
)
from tests.support import topologies
from tests.support.bindings.exact import exact
from tests.support.tiers import examples

SEED = st.integers(0, 2**32)
PROFILE = st.sampled_from(list(PROFILES.values()))


def traced(rng: Random, topology: Topology, number: int) -> list[Record]:
    """Return what a broker of this topology would have traced, with repeated queues in any order."""
    router = Router(topology, choose=rng.randrange)
    made = [topologies.message(rng, topology) for _ in range(number)]
    records: list[Record] = []
    for message in rng.choices(made, k=2 * number):
        try:
            queues = list(router.route(message).queues)
        except BrokerError:
            continue
        queues += rng.choices(queues, k=rng.choice((0, 0, 1))) if queues else []
        rng.shuffle(queues)
        known = tuple(queues) if rng.random() < 0.9 else None
        time = rng.choice((None, rng.randrange(10**16)))
        records.append(Record(message, time, routed_queues=known, source=f"f{rng.randrange(3)}", offset=len(records)))
    return records


def verified(verifier: Verifier, records: Sequence[Record], chunk: int = 1_000) -> Verification:
    for start in range(0, len(records), chunk):
        verifier.add(build_batch(records[start : start + chunk]))
    return verifier.result()


@examples(50)
@given(SEED, PROFILE, st.integers(1, 60))
def test_a_broker_that_routes_as_its_topology_agrees(seed: int, profile: Profile, chunk: int) -> None:
    rng = Random(seed)
    topology = topologies.topology(rng, profile)
    records = traced(rng, topology, 20)
    found = verified(Verifier(topology), records, chunk)
    assert (found.different, found.strangers.items) == (0, ())
    assert found.unknown == sum(record.routed_queues is None for record in records)
    assert found.compared + found.unknown == len(records)
    chance = topologies.Kinds().most_random and any(e.type.endswith("random") for e in topology.exchanges.values())
    assert chance or not found.possible


def spoiled(
    rng: Random, topology: Topology, record: Record, outcome: Outcome
) -> tuple[Record, PlacementDifference | None]:
    """Return a record as a broker with a fault would have traced it, and the expected difference."""
    name, queues = record.message.exchange, set(record.routed_queues or ())
    allowed = {*outcome.queues, *outcome.possible_queues}
    fault = rng.choice(("drop", "add", "stranger", "server-named", "all", "nothing"))
    difference = None
    if fault == "drop" and outcome.queues:
        gone = rng.choice(outcome.queues)
        queues.discard(gone)
        difference = PlacementDifference(name, missing=(gone,))
    elif fault == "add" and (others := sorted(topology.queues.keys() - allowed)):
        more = rng.choice(others)
        queues.add(more)
        difference = None if outcome.undecided else PlacementDifference(name, extra=(more,))
    elif fault == "stranger":
        queues.add(rng.choice(("new", "é\udcff")))
        difference = None if outcome.undecided or not name else PlacementDifference(name, unknown=("*",))
    elif fault == "server-named":
        queues |= {f"amq.gen-{rng.random()}", f"amq.gen-{rng.random()}"}
        difference = None if outcome.undecided or not name else PlacementDifference(name, unknown=("amq.gen-*",))
    elif fault == "all":
        queues.clear()
        if outcome.queues:
            difference = PlacementDifference(name, missing=outcome.queues)
        elif outcome.routed and not outcome.undecided:
            difference = PlacementDifference(name, none_of=outcome.possible_queues)
    if difference and difference.unknown and outcome.routed and not outcome.queues and not queues & allowed:
        difference = difference._replace(none_of=outcome.possible_queues)
    order = sorted(queues)
    rng.shuffle(order)
    return record._replace(routed_queues=tuple(order)), difference


def with_faults(rng: Random, topology: Topology) -> tuple[list[Record], list[PlacementDifference | None]]:
    """Return traces of a broker with faults, each with the expected difference."""
    explorer = OutcomeExplorer(topology)
    records, truth = list[Record](), list[PlacementDifference | None]()
    for record in traced(rng, topology, 20):
        if record.routed_queues is not None:
            outcome = explorer.outcome(record.message)
            spoilt, difference = spoiled(rng, topology, record, outcome)
            records.append(spoilt)
            truth.append(difference)
    for name, status in (("nowhere", "404 NOT_FOUND"), ("amq.rabbitmq.trace", "403 ACCESS_REFUSED")):
        record = Record(Message(name, "a"), 5, routed_queues=("q1",), offset=len(records))
        records.append(record)
        truth.append(PlacementDifference(name, refused=explorer.outcome(record.message).refused))
        assert truth[-1] is not None
        assert truth[-1].refused.startswith(status)
    return records, truth


@examples(60)
@given(SEED, PROFILE, st.integers(1, 60), st.sampled_from([7, 1 << 17]), st.sampled_from([2, 1 << 18]))
def test_every_fault_of_a_broker_is_a_difference(
    seed: int, profile: Profile, chunk: int, window: int, room: int
) -> None:
    rng = Random(seed)
    topology = topologies.topology(rng, profile)
    records, truth = with_faults(rng, topology)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verifying, "WINDOW", window)
        patch.setattr(verifying, "ROOM", room)
        found = verified(Verifier(topology), records, chunk)
    assert {each: evidence.messages for each, evidence in found.differences.items()} == Multiset(filter(None, truth))
    assert found.more == 0
    assert found.compared == len(records)
    explorer = OutcomeExplorer(topology)
    for difference, evidence in found.differences.items():
        its = [record for record, what in zip(records, truth, strict=True) if what == difference]
        times = [record.time for record in its if record.time is not None]
        assert evidence.span[1:] == ((min(times), max(times)) if times else (None, None))
        keys = sorted({hash_of(escape(record.message.routing_key).encode()) for record in its})
        assert [witness.hash for witness in evidence.witnesses] == keys[:MAX_WITNESSES]
        for witness in evidence.witnesses:
            (record,) = [each for each in its if (each.source, each.offset) == (witness.source, witness.offset)]
            assert witness.routed_queues == record.routed_queues
            # What a witness has of its message is enough to find the difference again.
            assert explorer.outcome(witness.message) == explorer.outcome(record.message)
            known = frozenset(record.routed_queues or ()) & topology.queues.keys()
            headings = {build_heading(name) for name in frozenset(record.routed_queues or ()) - topology.queues.keys()}
            assert verdict_for(explorer.outcome(witness.message), known, headings) == difference


@examples(25)
@given(SEED, SEED, st.sampled_from([1, 3, 1_000]), st.booleans())
def test_verifications_add(seed: int, cut: int, limit: int, placed: bool) -> None:
    """In any order, by one verifier or by three, with more differences than are kept or fewer."""
    rng = Random(seed)
    topology = topologies.topology(rng, LATEST_PROFILE)
    records, truth = with_faults(rng, topology)
    if not placed:
        records = [record._replace(source="", offset=0) for record in records]
    cut %= len(records)
    other = cut // 2
    parts = (records[:other], records[other:cut], records[cut:])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verification, "LIMIT", limit)
        whole = verified(Verifier(topology), records)
        a, b, c = (verified(Verifier(topology), part) for part in parts)
        for name, value in (("WINDOW", 7), ("DIFFERENT", 5)):
            patch.setattr(verifying, name, value)
        one = Verifier(topology)
        again = [verified(one, part, 7) for part in parts]
        assert exact(a + b + c) == exact(a + (b + c)) == exact(c + a + b) == exact(whole)
        assert [exact(each) for each in again] == [exact(a), exact(b), exact(c)]
        assert a + b == b + a
        assert a + Verification(compute_fingerprint(topology)) == a
        assert len(whole.differences) == min(limit, len(set(truth) - {None}))
        assert whole.different == sum(difference is not None for difference in truth)
        assert whole.sorts >= len(whole.differences) + bool(whole.more)
    assert read_verification_table(build_table(whole)) == whole


def test_queues_with_names_that_the_broker_made_are_one_difference() -> None:
    topology = Topology((), [Queue("q")], [Binding.to_queue("amq.fanout", "q", "")])
    records = [Record(Message("amq.fanout"), routed_queues=("q", f"amq.gen-{n}")) for n in range(300)]
    records += [Record(Message("amq.direct", "new"), routed_queues=("new",))] * 3
    verifier = Verifier(topology)
    found = verified(verifier, records)
    assert {each: evidence.messages for each, evidence in found.differences.items()} == {
        PlacementDifference("amq.fanout", unknown=("amq.gen-*",)): 300,
        PlacementDifference("amq.direct", unknown=("*",)): 3,
    }
    assert all(difference.only_unknown for difference in found.differences)
    assert [(item.text, item.count) for item in found.strangers.items] == [("new", 3)]


def test_an_unknown_queue_of_the_default_exchange_proves_nothing() -> None:
    topology = Topology((), [Queue("q")])
    observed: list[tuple[str, tuple[str, ...]]] = [("q", ("q",)), ("z", ("z",)), ("amq.gen-1", ("amq.gen-1",))]
    records = [Record(Message("", key), routed_queues=queues) for key, queues in observed]
    records += [Record(Message("", "z", {"CC": ["q"]}), routed_queues=("z",))]
    found = verified(Verifier(topology), records)
    assert (found.agreed, found.undecided, found.strangers.items) == (1, 2, ())
    assert list(found.differences) == [PlacementDifference("", missing=("q",))]
    both = verified(Verifier(topology), [Record(Message("", "z"), routed_queues=("q", "z"))])
    assert list(both.differences) == [PlacementDifference("", extra=("q",), unknown=("*",))]


def test_different_lists_of_queues_have_different_numbers() -> None:
    lists = QueueLists(["a", "b", "c\0"])
    rows = [["a"], ["b", "a"], [], ["a", "b"], ["a"], ["amq.gen-1", "a"], ["amq.gen-2", "a"], ["z"], ["c\00000"]]
    array = pa.array([["z"], *rows, ["b"]], pa.list_(pa.string())).slice(1, len(rows))
    numbers = lists.numbers(array)
    assert lists.others(array) == {"z": 1}
    assert numbers[0] == numbers[4]
    assert numbers[5] == numbers[6]
    assert len(set(numbers.tolist())) == 7
    assert [tuple(map(set, lists.names(number))) for number in numbers.tolist()] == [
        ({"a"}, set()), ({"a", "b"}, set()), (set(), set()), ({"a", "b"}, set()), ({"a"}, set()),
        ({"a"}, {"amq.gen-*"}), ({"a"}, {"amq.gen-*"}), (set(), {"*"}), ({"c\0"}, set()),
    ]  # fmt: skip


def test_messages_whose_queues_are_unknown_are_not_compared() -> None:
    batch = build_batch([Record(Message("amq.fanout"))] * 3)
    verifier = Verifier(Topology())
    verifier.add(batch)
    verifier.add(batch.drop_columns(["routed_queues"]))
    found = verifier.result()
    assert (found.unknown, found.compared) == (6, 0)


def test_a_message_that_a_random_exchange_put_nowhere_is_a_difference() -> None:
    topology = Topology([Exchange("r", "x-random")], [Queue("q"), Queue("p")])
    topology = topology.bind(Binding.to_queue("r", "q")).bind(Binding.to_queue("r", "p"))
    observed: list[tuple[str, ...]] = [("q",), ("p",), (), ("p", "q")]
    found = verified(Verifier(topology), [Record(Message("r"), routed_queues=queues) for queues in observed])
    assert found.possible == 3  # that it picks one alone no outcome says
    assert list(found.differences) == [PlacementDifference("r", none_of=("p", "q"))]


def test_queues_behind_an_exchange_of_unknown_type_are_undecided() -> None:
    topology = Topology([Exchange("f", "fanout"), Exchange("x", "x-own")], [Queue("q"), Queue("p")])
    topology = topology.bind(Binding.to_queue("f", "q")).bind(Binding.to_exchange("f", "x"))
    observed: list[tuple[str, ...]] = [("q",), ("p", "q"), ("p",)]
    found = verified(Verifier(topology), [Record(Message("f"), routed_queues=queues) for queues in observed])
    assert found.undecided == 2
    assert list(found.differences) == [PlacementDifference("f", missing=("q",))]


def test_a_verification_for_another_topology_or_version_is_refused() -> None:
    with pytest.raises(InputError, match="different topologies"):
        Verification("a") + Verification("b")
    table = build_table(Verification("a", differences={PlacementDifference("x"): Evidence(Span(1))}))
    with pytest.raises(InputError, match="not a verification"):
        read_verification_table(pa.table({"a": [1]}))
    metadata = dict(table.schema.metadata) | {b"hashstar.verification": b"99"}
    with pytest.raises(InputError, match="version 99"):
        read_verification_table(table.replace_schema_metadata(metadata))
    with pytest.raises(InputError, match="damaged"):
        read_verification_table(table.drop_columns(["missing"]))


def test_of_a_delayed_message_the_broker_records_where_it_goes_at_once() -> None:
    """The audit counts the queues of both times: the message is not unroutable, and its later binding is not dead."""
    late = Exchange("d", "x-delayed-message", arguments={"x-delayed-type": "direct", "alternate-exchange": "rest"})
    topology = Topology(
        [late, Exchange("rest", "fanout")], [Queue("q"), Queue("now")],
        [Binding.to_queue("d", "q", "k"), Binding.to_queue("rest", "now")],
    )  # fmt: skip
    delayed, plain = Message("d", "k", {"x-delay": 5}), Message("d", "k")
    outcome = OutcomeExplorer(topology).outcome(delayed)
    assert (outcome.queues, outcome.fate, outcome.bindings) == (("now", "q"), "routed", (0, 1))
    verifier = Verifier(topology)
    records = [Record(message, routed_queues=queues) for message, queues in (
        (delayed, ("now",)), (plain, ("q",)), (delayed, ("q",)), (Message("d", "k", {"x-delay": 7}), ("now",)),
    )]  # fmt: skip
    verifier.add(build_batch(records))
    result = verifier.result()
    assert (result.agreed, [(each.missing, each.extra) for each in result.differences]) == (3, [(("now",), ("q",))])
