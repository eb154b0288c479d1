"""Pictures, by the coordinates of their SVG: nothing overlaps, no edge passes through what is not its own."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.drawing.drawing import draw
from bindings.drawing.forms import make_picture
from bindings.drawing.model import Drawing
from bindings.drawing.svg import to_svg
from exchange import Binding, Exchange, Queue, Topology
from exchange.partition.partitioning.specification import Partitioning
from tests.support.company_topologies import make_company
from tests.support.picture_geometry import find_faults, read_picture
from tests.support.tiers import examples, scale

TYPES = ("direct", "fanout", "topic", "headers", "x-consistent-hash", "x-random", "x-other", "x-jms-topic")
KEYS = ("", "#", "a.b", "*.created", "a key with blanks", "日本語.#", "k" * 60)
PARTITIONINGS = (None, None, None, Partitioning.parse("kafka.murmur2 over 3"),
                 Partitioning.parse("rocketmq.hash over broker-a:4,broker-b:40 by word 2"))  # fmt: skip


@st.composite
def topologies(draw_: st.DrawFn) -> Topology:
    """Draw up to 60 exchanges and queues with many edges: loops, cycles, missing ends, alternates, equal queues."""
    exchanges = [f"x{at}" * draw_(st.sampled_from((1, 1, 9))) for at in range(draw_(st.integers(1, 25)))]
    queues = [f"q{at}" for at in range(draw_(st.integers(0, 35)))]
    sources = st.sampled_from([*exchanges, "gone"])
    keys = st.sampled_from(KEYS)
    bindings = draw_(st.lists(
        st.builds(Binding.to_queue, sources, st.sampled_from([*queues, "gone"]), keys)
        | st.builds(Binding.to_exchange, sources, sources, keys),
        max_size=80, unique=True,
    ))  # fmt: skip
    return Topology(
        [Exchange(name, draw_(st.sampled_from(TYPES)),
                  arguments={"alternate-exchange": draw_(sources)} if draw_(st.booleans()) else {})
         for name in exchanges],
        [Queue(name, partitioning=draw_(st.sampled_from(PARTITIONINGS))) for name in queues],
        bindings,
    )  # fmt: skip


@examples(60)
@given(topologies(), st.booleans())
def test_a_picture_of_any_topology_has_no_faults(topology: Topology, expand: bool) -> None:
    drawing = make_picture(draw(topology), expand=expand)
    picture = read_picture(to_svg(drawing, "any topology"))
    assert len(picture.nodes) == len(drawing.nodes)
    assert len(picture.wires) == len(drawing.edges)
    assert find_faults(picture) == []


@pytest.mark.parametrize("seed", range(4))
def test_a_picture_of_50_exchanges_has_no_faults(seed: int) -> None:
    drawing = make_picture(draw(make_company(50, seed)))
    assert find_faults(read_picture(to_svg(drawing, "company"))) == []


MANY = scale(1_500, 6)


@pytest.fixture(scope="module")
def large() -> Drawing:
    return make_picture(draw(make_company(MANY)))


@pytest.mark.scaled
def test_a_picture_of_many_exchanges_has_no_faults(large: Drawing) -> None:
    picture = read_picture(to_svg(large, "company"))
    assert sum(node.kind == "exchange" for node in large.nodes) == MANY
    assert len(picture.nodes) > 2 * MANY
    assert find_faults(picture) == []


def test_equal_topologies_have_equal_pictures() -> None:
    """In whatever order their parts were declared."""
    topology = make_company(60)
    turned = Topology(
        reversed(list(topology.exchanges.values())), reversed(list(topology.queues.values())),
        reversed(list(topology.bindings)),
    )  # fmt: skip
    assert to_svg(make_picture(draw(topology)), "t") == to_svg(make_picture(draw(turned)), "t")


@pytest.mark.parametrize(
    ("pattern", "replacement", "fault"),
    [
        (r'(id="n0" .*? transform=")(tr[^"]*)(" *>.*?id="n1" .*? transform=")tr[^"]*', r"\1\2\3\2", "overlaps"),
        (r'(data-to=.*?<path d="M)[0-9.]+', r"\g<1>1", "ends at"),
        (r'viewBox="0 0 \d+', 'viewBox="0 0 90', "not inside the picture"),
        (r'(class="paper" x="[^"]*" y=")[^"]*', r"\g<1>1", "not inside its label"),
        (r'(<path d="M[0-9.]+ [0-9.]+H[0-9.]+)C[^"]*"', r'\1C0 0 0 0 0 0"', "passes through"),
    ],
)
def test_faults_are_found(pattern: str, replacement: str, fault: str) -> None:
    """In a picture that is damaged by hand."""
    text = to_svg(make_picture(draw(make_company(12))), "damaged")
    assert find_faults(read_picture(text)) == []
    damaged = re.sub(pattern, replacement, text, count=1, flags=re.DOTALL)
    assert damaged != text
    assert any(fault in each for each in find_faults(read_picture(damaged)))
