"""Pictures: nothing overlaps, nothing is left out, any name is drawable."""

from __future__ import annotations

from itertools import combinations
from random import Random
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from bindings.check.finding import Finding
from bindings.graph.drawing import drawing
from bindings.graph.layout import Size, lay_out
from bindings.graph.svg import svg
from bindings.graph.text import text
from exchange import Binding, Exchange, Queue, Topology
from exchange.display import escape_line
from exchange.partition.partitioning import Partitioning

names = st.text(max_size=6)
graphs = st.integers(1, 12).flatmap(
    lambda count: st.tuples(
        st.just(count),
        st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=25),
    )
)


@given(graphs, st.randoms())
def test_no_two_nodes_overlap_and_edges_touch_their_ends(
    graph: tuple[int, list[tuple[int, int]]], random: Random
) -> None:
    """Cycles, loops and double edges included."""
    count, edges = graph
    sizes = [Size(random.uniform(20, 200), random.uniform(10, 60)) for _ in range(count)]
    layout = lay_out(sizes, edges, [random.uniform(0, 100) for _ in edges])
    boxes = list(zip(layout.nodes, sizes, strict=True))
    for (a, size_a), (b, size_b) in combinations(boxes, 2):
        apart_across = a.x + size_a.width <= b.x or b.x + size_b.width <= a.x
        apart_down = a.y + size_a.height <= b.y + 1e-6 or b.y + size_b.height <= a.y + 1e-6
        assert apart_across or apart_down
    for place, size in boxes:
        assert place.y >= -1e-6
        assert place.x + size.width <= layout.size.width + 1e-6
        assert place.y + size.height <= layout.size.height + 1e-6
    for (source, target), points in zip(edges, layout.edges, strict=True):
        for node, point in ((source, points[0]), (target, points[-1])):
            place, size = boxes[node]
            assert place.x - 1e-6 <= point.x <= place.x + size.width + 1e-6
            assert place.y - 1e-6 <= point.y <= place.y + size.height + 1e-6


def test_edges_without_cycles_lead_to_the_right() -> None:
    """A column further for each exchange on the longest way."""
    layout = lay_out([Size(10, 10)] * 4, [(0, 1), (1, 2), (0, 2), (2, 3)], [0.0] * 4)
    assert [place.x for place in layout.nodes] == sorted(place.x for place in layout.nodes)
    assert len({place.x for place in layout.nodes}) == 4


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Exchanges, queues and bindings with any names, some to nowhere."""
    exchanges = draw(st.lists(names, max_size=5, unique=True))
    queues = draw(st.lists(names, max_size=5, unique=True))
    ends = st.sampled_from([*exchanges, "gone"])
    bindings = draw(
        st.lists(
            st.builds(Binding.to_queue, ends, st.sampled_from([*queues, "gone"]), names, st.dictionaries(names, names))
            | st.builds(Binding.to_exchange, ends, ends, names),
            max_size=12,
        )
    )
    alternates = [draw(st.none() | ends) for _ in exchanges]
    return Topology(
        [
            Exchange(name, "topic", arguments={} if other is None else {"alternate-exchange": other})
            for name, other in zip(exchanges, alternates, strict=True)
        ],
        [Queue(name) for name in queues],
        bindings,
    )


@given(topologies())
def test_everything_is_drawn_whatever_its_name(topology: Topology) -> None:
    """Well-formed XML with a group for each node and edge; a line of text for each node."""
    drawn = drawing(topology)
    root = ET.fromstring(svg(drawn, "title"))  # noqa: S314  our own
    groups = [
        group.get("class", "").split()[0] for group in root.iter("{http://www.w3.org/2000/svg}g") if group.get("class")
    ]
    assert groups.count("node") == len(drawn.nodes)
    assert groups.count("edge") == len(drawn.edges)
    ends = {(edge.source, edge.target) for edge in drawn.edges if not edge.alternate}
    assert ends == {(("exchange", binding.source), binding.destination) for binding in topology.bindings}
    for name in topology.queues:
        assert f"{escape_line(name) or '(the default exchange)'} (queue: classic)" in text(drawn)


def test_cycles_and_long_chains_end() -> None:
    """The text names what was drawn above; a chain may be longer than Python's stack is deep."""
    count = 3000
    exchanges = [Exchange(str(n), "fanout") for n in range(count)]
    chain = [Binding.to_exchange(str(n), str((n + 1) % count)) for n in range(count)]
    drawn = drawing(Topology(exchanges, bindings=chain))
    assert text(drawn).count("\n") >= count
    assert "(above)" in text(drawn)
    assert svg(drawn, "chain").count("<rect") == count


def test_findings_partitions_and_missing_ends_are_seen() -> None:
    """A colour for the gravest finding, its words in the tooltip; unused predeclared exchanges are not drawn."""
    queue = Queue("q", partitioning=Partitioning.parse("kafka.murmur2 over 12"))
    binding = Binding.to_queue("x", "q", "a.#")
    topology = Topology([Exchange("x", "topic")], [queue], [binding, Binding.to_queue("x", "gone", "b")])
    drawn = drawing(topology, [Finding("HS103", binding, "twice <&>")])
    picture = svg(drawn, "t")
    assert "kafka.murmur2 over 12 by routing_key" in picture
    assert "kafka.murmur2 over 12 by routing_key" in text(drawn)
    assert "HS103: twice &lt;&amp;&gt;" in picture
    assert "no such queue" in picture
    assert "amq.topic" not in picture
