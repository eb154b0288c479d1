"""Laws of all formats: what is written is read again, and what is not is named in a warning."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.commands.convert import SUFFIXES
from bindings.sources.definitions import Definitions
from bindings.sources.definitions.import_warnings import describe
from bindings.sources.document import Document
from bindings.sources.formats import FORMATS, Imported, SourceFile, TopologyFormat, format_of
from bindings.sources.formats.format import WriteTarget, Written, has_lone_surrogate
from bindings.sources.formats.imported import Collector
from bindings.sources.open import open_source
from exchange import Binding, Destination, Exchange, Policy, Queue, Topology
from exchange.entities.entities import PREDECLARED_NAMES
from exchange.entities.part import Part
from exchange.errors import InputError
from tests.support.bindings.documents import ODD, documents
from tests.support.bindings.written_terraform import read_written
from tests.support.program import invoke
from tests.support.tiers import examples

TARGETS = {
    "operator": (WriteTarget("out.yaml", "rabbit/messaging"),),
    "terraform": (WriteTarget("out.tf"),),
    "asyncapi": (WriteTarget("asyncapi.yaml"), WriteTarget("asyncapi.json")),
}
CASES = [pytest.param(FORMATS[name], target, id=target.name) for name, targets in TARGETS.items() for target in targets]
MARKS = ("rabbitmq_", "rabbitmq.com", "asyncapi")
"""Of these, each file that is not empty has one."""


def write_and_read(known: TopologyFormat, target: WriteTarget, definitions: Definitions) -> tuple[Written, Imported]:
    written = known.write(definitions, target)
    text = "".join(written.chunks)
    if not any(mark in text for mark in MARKS):
        return written, Collector().finish()  # nothing was written, and no file is read without anything in it
    if known.name == "terraform":
        return written, read_written(text)
    return written, known.read([SourceFile(target.name, text)], target.name)


def parts_of(topology: Topology) -> Iterator[Part]:
    """Yield what a file of another system can have; a partitioning is none of it."""
    yield from (part for name, part in topology.exchanges.items() if name not in PREDECLARED_NAMES)
    yield from (replace(part, partitioning=None) for part in topology.queues.values())
    yield from (binding for binding in topology.bindings if binding.source)
    yield from topology.policies.values()


def topology_in(definitions: Definitions, vhost: str) -> Topology:
    return definitions.topology(vhost) if vhost in definitions.vhosts else Topology(vhost=vhost)


def test_each_format_is_written_to_a_file_here() -> None:
    assert TARGETS.keys() == FORMATS.keys()


def test_an_error_about_yaml_names_each_format_that_it_could_be(tmp_path: Path) -> None:
    (tmp_path / "some.yaml").write_text("a: 1\n")
    in_yaml = [each for each in FORMATS.values() if each.in_yaml is not None]
    assert len(in_yaml) > 1
    with pytest.raises(InputError) as read:
        open_source(str(tmp_path / "some.yaml"))
    assert all(f"{each.in_yaml}" in str(read.value) for each in in_yaml)
    written = invoke("convert", "examples/orders/orders.bindings", tmp_path / "out.yaml").stderr
    assert all(f"--format {each.name}" in written for each in in_yaml)


def test_no_two_formats_claim_one_ending() -> None:
    endings = [suffix for each in FORMATS.values() for suffix in each.suffixes]
    assert [each for each in endings if sum(each.endswith(other) for other in endings) > 1] == []
    assert endings
    assert all(SUFFIXES[each] for each in endings)


@pytest.mark.parametrize(("known", "target"), CASES)
@examples(60)
@given(document=documents())
def test_nothing_is_lost_or_changed_without_its_name_in_a_warning(
    known: TopologyFormat, target: WriteTarget, document: Document
) -> None:
    """Of names, arguments and policies of every sort, those that no client could declare among them."""
    written, back = write_and_read(known, target, document.definitions())
    warnings = "\n".join(written.warnings)
    for vhost in document.vhosts:
        topology = document.topology(vhost)
        before, after = set(parts_of(topology)), set(parts_of(topology_in(back.definitions, vhost)))
        for part in before ^ after:
            named = [part]
            if isinstance(part, Binding) and part.source in topology.exchanges:
                named.append(topology.exchanges[part.source])  # the warning about an exchange counts its bindings
            assert any(describe(each) in warnings for each in named), (part, part in before)


MARKED = ("${x}", "$${x}", "%{ if x }", "$", "y")
NAMES = st.sampled_from([*(name for name in ODD if name and not has_lone_surrogate(name)), *MARKED])
FLAGS = st.booleans()
ARGUMENTS = st.dictionaries(NAMES, NAMES | st.integers(-(2**53), 2**53) | FLAGS | st.just(0.5), max_size=3)
TEXT_ARGUMENTS = st.dictionaries(NAMES, NAMES, max_size=3)
VHOSTS = st.sampled_from(("/", "/shop", "a b", "é", "${x}"))


def topologies(
    exchange_arguments: st.SearchStrategy[Any],
    queue_arguments: st.SearchStrategy[Any],
    binding_arguments: st.SearchStrategy[Any],
    policies: st.SearchStrategy[list[Policy]],
    kinds: tuple[str, ...] = ("topic", "direct", "fanout", "headers"),
) -> st.SearchStrategy[Topology]:
    """Draw topologies without anything that a format cannot express."""
    exchanges = st.builds(Exchange, NAMES, st.sampled_from(kinds), FLAGS, FLAGS, st.just(False), exchange_arguments)
    queues = st.builds(Queue, NAMES, FLAGS, FLAGS, queue_arguments)
    ends = st.builds(Destination, st.sampled_from(("queue", "exchange")), NAMES)
    bindings = st.builds(Binding, NAMES, ends, NAMES | st.just(""), binding_arguments)
    return st.builds(
        lambda *parts, vhost: Topology(*parts, vhost=vhost),
        st.lists(exchanges, min_size=1, max_size=3),
        st.lists(queues, max_size=3),
        st.lists(bindings, max_size=4),
        policies,
        vhost=VHOSTS,
    )


def policies(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Policy]]:
    """Draw policies with settings of these values."""
    what = st.sampled_from(("all", "exchanges", "queues", "classic_queues", "quorum_queues", "streams"))
    definition = st.dictionaries(NAMES, values, max_size=3)
    return st.lists(st.builds(Policy, NAMES, NAMES, definition, what, st.integers(-3, 99)), max_size=2)


NO_INTEGERS = NAMES.filter(lambda text: not text.lstrip("+-").isdigit())
EXPRESSIBLE = {
    "operator": topologies(
        ARGUMENTS, ARGUMENTS, ARGUMENTS, policies(NAMES | st.integers(-9, 9) | FLAGS | st.lists(NAMES, max_size=2))
    ),
    "terraform": topologies(TEXT_ARGUMENTS, ARGUMENTS, ARGUMENTS, policies(NO_INTEGERS | st.integers(-9, 9))),
}


@pytest.mark.parametrize("name", EXPRESSIBLE)
@examples(60)
@given(data=st.data())
def test_what_a_format_expresses_comes_back_equal_and_without_a_warning(name: str, data: st.DataObject) -> None:
    """All parts with all their attributes; and the file is recognised by its content alone."""
    topology = data.draw(EXPRESSIBLE[name])
    definitions = Definitions().with_topology(topology)
    written, back = write_and_read(FORMATS[name], TARGETS[name][0], definitions)
    assert (written.warnings, topology_in(back.definitions, topology.vhost)) == ([], topology)
    assert (
        format_of(SourceFile("standard input", "".join(written.chunks))) is FORMATS[name]
    )  # Terraform's to be refused


@examples(60)
@given(
    exchanges=st.lists(st.builds(Exchange, NAMES, st.sampled_from(("topic", "direct", "fanout", "headers")), FLAGS, FLAGS),
                       min_size=1, max_size=3, unique_by=lambda part: part.name),
    queues=st.lists(st.builds(Queue, NAMES, FLAGS, FLAGS), max_size=3, unique_by=lambda part: part.name),
    keys=st.lists(NAMES | st.just(""), max_size=5),
    vhost=VHOSTS,
    target=st.sampled_from(TARGETS["asyncapi"]),
)  # fmt: skip
def test_asyncapi_holds_exchanges_queues_and_the_bindings_of_queues(
    exchanges: list[Exchange], queues: list[Queue], keys: list[str], vhost: str, target: WriteTarget
) -> None:
    """By keys without braces; everything else of a topology it cannot hold."""
    plain = [key for key in keys if not {"{", "}"} & set(key)]
    bindings = [
        Binding.to_queue(exchanges[number % len(exchanges)].name, queues[number % len(queues)].name, key)
        for number, key in enumerate(plain)
        if queues
    ]
    topology = Topology(exchanges, queues, bindings, vhost=vhost)
    written, back = write_and_read(FORMATS["asyncapi"], target, Definitions().with_topology(topology))
    assert (written.warnings, back.warnings, topology_in(back.definitions, vhost)) == ([], [], topology)


TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)
LIKE_FORMATS = st.lists(
    st.sampled_from((
        "apiVersion: rabbitmq.com/v1beta1\n", "kind: Queue\n", "spec:\n", "  name: q\n", "---\n", "asyncapi: 3.0.0\n",
        "channels:\n", '{"format_version": "1.2", "planned_values": {"root_module": {"resources": [', '{"type": "rabbitmq_queue", ',
        '"values": {"name": ', '"vhost": ', '"settings": ', '"', ", ", "}", "]", "[", "{",
        "*a", "&a ", "- ", ": ", "\t", "!!python/object:os.system x\n", "\\",
    )) | TEXTS,
    max_size=12,
).map("".join)  # fmt: skip


@pytest.mark.parametrize("known", FORMATS.values(), ids=lambda known: known.name)
@examples(150)
@given(text=LIKE_FORMATS)
def test_any_text_is_read_or_is_an_input_error(known: TopologyFormat, text: str) -> None:
    """Nothing else is raised, whatever it is."""
    with suppress(InputError):
        known.read([SourceFile("some.yaml", text)], "some")
