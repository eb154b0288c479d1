"""What would be read as something else is written in quotes: variables, comments, keywords."""

from __future__ import annotations

import pytest

from bindings.sources.document import Document
from bindings.sources.section import Section
from exchange import Binding, Exchange, Queue, Topology
from exchange.partition.partitioning.key_source import KeySource
from exchange.partition.partitioning.specification import Partitioning
from exchange.partition.partitions import Partitions
from exchange.values.notation import KEYWORDS


def round_trip(topology: Topology) -> Topology:
    """Return the topology as it is read from its own text, alone and in a loop over names."""
    document = Document(sections={"/": Section(topology)})
    read = Document.loads(document.dump())
    assert read == document
    return read.sections["/"].topology


@pytest.mark.parametrize("name", ["a{x}", "{x}", "#", "a#b", "{", "a{1}", "a b", 'quo"te', "{x}{y}", "${x}"])
def test_a_partitioning_means_the_same_when_it_is_read_again(name: str) -> None:
    source = KeySource("header", name=name)
    partitioning = Partitioning("rabbitmq.super_stream", Partitions.named([name, "other"]), source)
    queue = Queue("q", partitioning=partitioning)
    made = round_trip(Topology(queues=[queue]))
    assert made.queues["q"].partitioning == partitioning
    assert str(made.queues["q"].partitioning) == str(partitioning)


@pytest.mark.parametrize("word", [*KEYWORDS, "true", "null"])
def test_a_part_may_have_the_name_of_a_keyword(word: str) -> None:
    topology = Topology(
        [Exchange(word, "topic", arguments={"alternate-exchange": word})], [Queue(word)],
        [Binding.to_queue(word, word, word, {word: word})],
    )  # fmt: skip
    assert round_trip(topology) == topology
