"""The kernel over columns: for any topology and messages, the class of each row stands for what the router explains."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.record import Record, build_batch
from bindings.counts.columnar.arrays import hashing
from bindings.counts.columnar.classes.classes import Classifier
from bindings.counts.outcome import AlternateLink, Outcome, OutcomeExplorer, sort_bindings
from exchange import PROFILES, Binding, BrokerError, Exchange, InputError, Message, Profile, Queue, Router, Topology
from exchange.arrays.columns import build_column
from exchange.arrays.table import DirectTable, IntTable
from exchange.patterns.columns import automaton, pattern_sets
from exchange.patterns.columns.words import NO_WORD, Vocabulary, split_words
from tests.support import topologies
from tests.support.tiers import examples

PROFILE = st.sampled_from(list(PROFILES.values()))
SEED = st.integers(0, 2**32)
TEXTS = st.lists(st.text("ab.\0é日", max_size=30) | st.text("abcdefgh.", max_size=40), min_size=1, max_size=20)


def messages_for(rng: Random, topology: Topology, number: int) -> list[Message]:
    """Return messages, many of them twice, some of them to exchanges that take none."""
    made = [topologies.message(rng, topology) for _ in range(number)]
    made += [Message(rng.choice(["nowhere", "amq.rabbitmq.trace", "x0", ""]), "a.b") for _ in range(3)]
    made += rng.choices(made, k=number)
    rng.shuffle(made)
    return made


class Oracle:
    """A router that is asked once for each combination of random choices."""

    def __init__(self, topology: Topology) -> None:
        self.numbers = {binding: number for number, binding in enumerate(sort_bindings(topology))}
        self.router = Router(topology, choose=self.choose, cache=0)
        randoms = sum(exchange.type.endswith("random") for exchange in topology.exchanges.values())
        self.paths = list(itertools.product(range(7), repeat=randoms))
        self.path: list[int] = []

    def choose(self, count: int) -> int:
        return self.path.pop() % count

    def leaf(self, message: Message, path: tuple[int, ...]) -> Outcome:
        """Return what the router explains when the random choices are those of the path."""
        self.path = list(path)
        try:
            explanation = self.router.explain(message)
        except BrokerError as error:
            return Outcome(message.exchange, refused=str(error))
        hops = explanation.hops
        unroutable = explanation.route.unroutable
        return Outcome(
            message.exchange,
            explanation.route.queues,
            tuple(sorted(self.numbers[b] for hop in hops for b in hop.matched if hop.exchange.name)),
            tuple(sorted(hop.exchange.name for hop in hops)),
            tuple(
                sorted(
                    AlternateLink(h.exchange.name, h.alternate.name) for h in hops if h.alternate and h.alternate.taken
                )
            ),
            None if unroutable is None else not unroutable,
            tuple(sorted(explanation.route.undecided)),
        )


def expected(oracle: Oracle, message: Message) -> Outcome:
    """Return the outcome, with all random choices tried one after another."""
    found = {oracle.leaf(message, path) for path in oracle.paths}
    first = next(iter(found))
    if len(found) == 1:
        return first
    every = {name: [set(getattr(outcome, name)) for outcome in found] for name in SIDES}
    certain = {name: set.intersection(*sets) for name, sets in every.items()}
    routed = {outcome.routed for outcome in found}
    fields: dict[str, Any] = {name: tuple(sorted(certain[name])) for name in SIDES}
    fields |= {f"possible_{name}": tuple(sorted(set.union(*every[name]) - certain[name])) for name in SIDES}
    return Outcome(
        first.exchange,
        routed=routed.pop() if len(routed) == 1 else None,
        undecided=tuple(sorted({name for outcome in found for name in outcome.undecided})),
        **fields,
    )


SIDES = ("queues", "bindings", "exchanges", "alternates")


def few(topology: Topology) -> bool:
    """Return whether seven tries of each random choice are all that there are."""
    randoms = [name for name, exchange in topology.exchanges.items() if exchange.type.endswith("random")]
    return all(len(topology.bindings_from(name)) <= 7 for name in randoms)


@examples(100)
@given(SEED, PROFILE, st.sampled_from([0, 1, 5, 1 << 17]), st.integers(1, 60))
def test_the_class_of_a_row_is_what_the_router_explains(seed: int, profile: Profile, states: int, chunk: int) -> None:
    """With queues, bindings, alternates, refusals and chance; in one batch or many, with many states allowed or few."""
    rng = Random(seed)
    topology = topologies.topology(rng, profile)
    if not few(topology):
        return
    messages = messages_for(rng, topology, 25)
    oracle = Oracle(topology)
    wanted = [expected(oracle, message) for message in messages]
    classifier = Classifier(topology, states=states)
    found = []
    for start in range(0, len(messages), chunk):
        batch = build_batch([Record(message) for message in messages[start : start + chunk]])
        found += [classifier.outcomes[number] for number in classifier.classify(batch).classes.tolist()]
    assert found == wanted
    whole = classifier.classify(build_batch([Record(message) for message in messages])).classes.tolist()
    assert [classifier.outcomes[number] for number in whole] == wanted


@examples(100)
@given(SEED, PROFILE)
def test_the_columns_of_a_classifier_are_enough_to_classify(seed: int, profile: Profile) -> None:
    rng = Random(seed)
    topology = topologies.topology(rng, profile)
    classifier = Classifier(topology)
    batch = build_batch([Record(message) for message in messages_for(rng, topology, 25)])
    part = batch.select(list(classifier.columns))
    first, second = classifier.classify(batch).classes, Classifier(topology).classify(part).classes
    assert first.tolist() == second.tolist()


@examples(200)
@given(SEED, st.sampled_from([0, 3, 40, 1 << 17]), st.sampled_from([0, 60, 1 << 24]), st.sampled_from([0, 20, 4096]))
def test_keys_have_one_class_only_if_the_router_matches_the_same_bindings(
    seed: int, states: int, cells: int, conjunctions: int
) -> None:
    """With dense patterns, keys of few words and slices; by bit planes, or by an automaton where those are too many.

    The automaton has its steps in a grid, in a table, or first in the one.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pattern_sets, "MAX_CONJUNCTIONS", conjunctions)
        patch.setattr(automaton, "CELLS", cells)
        patch.setattr(hashing, "CHUNK", 7)
        compare_topics(seed, states)


def compare_topics(seed: int, states: int) -> None:
    rng = Random(seed)
    topology = Topology(
        [Exchange("t", "topic"), Exchange("u", "topic"), Exchange("d")], [Queue(f"q{n}") for n in range(9)]
    )
    sources = {"t": ("a", "b", "", "*", "#", "abcdefgh", "abcdefghijkl"), "u": ("a", "#"), "d": ("a", "b", "")}
    edits = [
        Binding.to_queue(s := rng.choice("tud"), f"q{n % 9}", topologies.words(rng, sources[s])) for n in range(25)
    ]
    edits += [Binding.to_exchange("t", rng.choice("tud"), topologies.words(rng, sources["t"])) for _ in range(3)]
    topology = Topology(topology.exchanges.values(), topology.queues.values(), edits)
    texts = [
        topologies.words(rng, ("a", "b", "", "c", "*", "abcdefgh", "abcdefghi", "abcdefghijkl")) for _ in range(60)
    ]
    batch = build_batch([Record(Message(rng.choice("tud"), key)) for key in texts]).slice(7)
    classifier = Classifier(topology, states=states)
    explorer = OutcomeExplorer(topology)
    found = [classifier.outcomes[number] for number in classifier.classify(batch).classes.tolist()]
    exchanges = batch.column("exchange").to_pylist()
    assert found == [explorer.outcome(Message(name, key)) for name, key in zip(exchanges, texts[7:], strict=True)]


@examples(200)
@given(TEXTS, st.integers(0, 3))
def test_keys_are_split_at_dots(texts: list[str], cut: int) -> None:
    """The empty key has no words; the same in any slice of a column."""
    column = build_column([key.encode() for key in texts])
    assert column is not None
    cut = min(cut, len(texts))
    words = split_words(column._replace(offsets=column.offsets[cut:]))
    found = [
        [
            words.data[s : s + n].tobytes().decode()
            for s, n in zip(words.starts[at:to], words.lengths[at:to], strict=True)
        ]
        for at, to in zip(words.first, words.first + words.counts, strict=True)
    ]
    assert found == [key.split(".") if key else [] for key in texts[cut:]]


@examples(200)
@given(TEXTS, st.sets(st.text("ab\0é日", max_size=12) | st.text("abcdefgh", max_size=14)))
def test_equal_words_have_equal_numbers_and_unnamed_words_none(texts: list[str], named: set[str]) -> None:
    vocabulary = Vocabulary()
    vocabulary.add_each([word.encode() for word in sorted(named)])
    column = build_column([key.encode() for key in texts])
    assert column is not None
    words = split_words(column)
    numbers = vocabulary.numbers(words)
    number_of = dict(zip(sorted(named), vocabulary.numbers_of([word.encode() for word in sorted(named)]), strict=True))
    assert len(set(number_of.values())) == len(named)
    for row, key in enumerate(texts):
        found = numbers[words.first[row] :][: words.counts[row]].tolist()
        assert found == [number_of.get(word, NO_WORD) for word in (key.split(".") if key else [])]


@examples(50)
@given(
    st.lists(st.dictionaries(st.integers(1, 50) | st.integers(1, 2**64 - 1), st.integers(1, 2**31 - 1), max_size=2000))
)
def test_a_hash_table_finds_what_a_dict_finds(steps: list[dict[int, int]]) -> None:
    table, model = IntTable(), dict[int, int]()
    for step in steps:
        new = {key: value for key, value in step.items() if key not in model}
        table.put(np.array(list(new), np.uint64), np.array(list(new.values()), np.int32))
        model |= new
        asked = [*model, *range(1, 60)]
        assert table.find(np.array(asked, np.uint64)).tolist() == [model.get(key, 0) for key in asked]
        assert len(table) == len(model)


@given(st.lists(st.dictionaries(st.integers(0, 99), st.integers(1, 2**31 - 1))))
def test_a_direct_table_finds_what_a_dict_finds(steps: list[dict[int, int]]) -> None:
    table, model = DirectTable(100), dict[int, int]()
    for step in steps:
        table.put(np.array(list(step), np.uint64), np.array(list(step.values()), np.int32))
        model |= step
        assert table.find(np.arange(100, dtype=np.uint64)).tolist() == [model.get(key, 0) for key in range(100)]


def test_no_patterns_take_more_states_than_allowed() -> None:
    queue = Queue("q")
    bindings = [Binding.to_queue("amq.topic", "q", f"#.w{n}.#") for n in range(16)]
    topology = Topology((), [queue], bindings)
    classifier = Classifier(topology, states=500)
    rng = Random(5)
    keys = [".".join(f"w{rng.randrange(18)}" for _ in range(8)) for _ in range(3000)]
    found = classifier.classify(build_batch([Record(Message("amq.topic", key)) for key in keys])).classes
    assert classifier.sets <= 500
    explorer = OutcomeExplorer(topology)
    for number, key in zip(found.tolist()[:300], keys, strict=False):
        assert classifier.outcomes[number] == explorer.outcome(Message("amq.topic", key))


def test_literal_bindings_need_no_states() -> None:
    bindings = [Binding.to_queue("amq.direct", "q", f"device.{n}.created") for n in range(20_000)]
    bindings += [Binding.to_queue("amq.topic", "q", f"device.{n}.paid") for n in range(20_000)]
    classifier = Classifier(Topology((), [Queue("q")], bindings))
    numbers, verbs = range(19_990, 20_010), {"amq.direct": "created", "amq.topic": "paid"}
    asked = list(itertools.product(verbs, numbers, ["created", "paid"]))
    messages = [Message(name, f"device.{number}.{verb}") for name, number, verb in asked]
    classes = classifier.classify(build_batch([Record(message) for message in messages])).classes
    found = [classifier.outcomes[number].queues for number in classes.tolist()]
    assert list(map(bool, found)) == [number < 20_000 and verbs[name] == verb for name, number, verb in asked]
    assert classifier.sets <= 1


def test_two_exchanges_with_the_same_name_in_a_dictionary_column_are_one() -> None:
    topology = Topology((), [Queue("q")], [Binding.to_queue("amq.topic", "q", "a.#")])
    batch = build_batch([Record(Message("amq.topic", "a.b")), Record(Message("amq.fanout", "a.b"))])
    encoded = batch.set_column(2, "exchange", batch.column("exchange").dictionary_encode())
    classifier = Classifier(topology)
    assert [classifier.outcomes[n].queues for n in classifier.classify(encoded).classes.tolist()] == [("q",), ()]


def test_a_message_without_a_key_cannot_be_classified() -> None:
    batch = pa.record_batch({"exchange": pa.array(["x"]), "routing_key": pa.array([None], pa.string())})
    with pytest.raises(InputError, match="without routing key"):
        Classifier(Topology()).classify(batch)


def test_a_shape_keeps_the_words_that_bindings_name() -> None:
    topology = Topology((), [Queue("q")], [Binding.to_queue("amq.topic", "q", "order.*.created")])
    classifier = Classifier(topology)
    assert [*classifier.shapes(["order.4711.created", "", "order"])] == [["order", None, "created"], [], ["order"]]
    keys = ["order.1.created", "order.2.created", "order.1.paid", "order.1", "order", "order.q.created"]
    shapes = classifier.classify(build_batch([Record(Message("amq.topic", key)) for key in keys])).shapes.tolist()
    assert shapes[0] == shapes[1]
    assert len(set(shapes)) == 5


def test_words_that_begin_alike_have_different_numbers() -> None:
    """With so many long words that the numbers of their nodes need all of their bytes."""
    named = [f"{n:08d}-abcdef" for n in range(30_000)]
    odd = [chr(size) + "".join(map(chr, rest)) for size in range(6) for rest in itertools.product(range(4), repeat=5)]
    vocabulary = Vocabulary()
    vocabulary.add_each([word.encode() for word in named])
    assert not vocabulary.numbers_of([word.encode() for word in odd]).any()
    vocabulary.add_each([word.encode() for word in odd])
    numbers = vocabulary.numbers_of([word.encode() for word in named + odd]).tolist()
    assert len(set(numbers)) == len(named) + len(odd)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_message_with_a_delay_is_not_classified_by_its_key(at_once: bool) -> None:
    """Its exchange keeps it, so its bindings are taken later, and its alternate exchange at once."""
    arguments = {"x-delayed-type": "topic", "alternate-exchange": "lost"}
    exchanges = [Exchange("d", "x-delayed-message", arguments=arguments), Exchange("lost", "fanout")]
    bindings = [Binding.to_queue("d", "q", "a.#"), Binding.to_queue("lost", "r")]
    topology = Topology(exchanges, [Queue("q"), Queue("r")], bindings)
    messages = [Message("d", "a.b"), Message("d", "a.b", {"x-delay": 5}), Message("d", "b")]
    classifier, explorer = Classifier(topology, at_once=at_once), OutcomeExplorer(topology, at_once=at_once)
    classes = classifier.classify(build_batch([Record(message) for message in messages])).classes.tolist()
    found = [classifier.outcomes[number].queues for number in classes]
    assert found == [explorer.outcome(message).queues for message in messages]
    assert found == [("q",), ("r",) if at_once else ("q", "r"), ("r",)]
