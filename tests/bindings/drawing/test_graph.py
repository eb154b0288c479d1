"""Pictures: nothing overlaps, nothing is left out, any name is drawable."""

from __future__ import annotations

from itertools import combinations, pairwise
from pathlib import Path
from random import Random
from xml.etree import ElementTree as ET

from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bindings.check.rules.finding import Finding
from bindings.commands.graph import graph_command
from bindings.drawing.drawing import crop_around, draw
from bindings.drawing.layout import MOST_SLOTS, Point, Size, lay_out
from bindings.drawing.svg import to_svg
from bindings.drawing.text import to_text
from exchange import Binding, Exchange, Queue, Topology
from exchange.display import escape_line
from exchange.partition.partitioning.specification import Partitioning

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
    layout = lay_out(sizes, edges, random_labels(random, len(edges)))
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


def random_labels(random: Random, count: int) -> list[Size]:
    """Draw sizes of labels; some edges have none."""
    return [random.choice([Size(0, 0), Size(random.uniform(10, 100), random.uniform(5, 40))]) for _ in range(count)]


@given(graphs, st.randoms())
def test_labels_overlap_nothing_and_no_other_edge_crosses_them(
    graph: tuple[int, list[tuple[int, int]]], random: Random
) -> None:
    """Each edge is level where there are labels and nodes, and passes beside all but its own."""
    count, edges = graph
    sizes = [Size(random.uniform(20, 200), random.uniform(10, 60)) for _ in range(count)]
    labels = random_labels(random, len(edges))
    layout = lay_out(sizes, edges, labels)
    boxes: list[tuple[Point, Size, set[int]]] = [
        (place, size, {at for at, ends in enumerate(edges) if node in ends})
        for node, (place, size) in enumerate(zip(layout.nodes, sizes, strict=True))
    ]
    for at, (corner, size) in enumerate(zip(layout.labels, labels, strict=True)):
        assert (corner is None) == (not size.width or edges[at][0] == edges[at][1])
        if corner is not None:
            boxes.append((corner, size, {at}))
            middle = corner.y + size.height / 2
            assert any(abs(point.y - middle) < 1e-6 and abs(point.x - corner.x) < 1e-6 for point in layout.edges[at])
    for (a, size_a, _), (b, size_b, _) in combinations(boxes, 2):
        across = min(a.x + size_a.width, b.x + size_b.width) - max(a.x, b.x)
        down = min(a.y + size_a.height, b.y + size_b.height) - max(a.y, b.y)
        assert across <= 1e-6 or down <= 1e-6
    for at, points in enumerate(layout.edges):
        if edges[at][0] == edges[at][1]:
            continue
        for one, two in pairwise(points):
            left, right = sorted((one.x, two.x))
            for corner, size, own in boxes:
                if at in own or right <= corner.x + 1e-6 or left >= corner.x + size.width - 1e-6:
                    continue
                assert abs(one.y - two.y) < 1e-6
                assert one.y <= corner.y + 1e-6 or one.y >= corner.y + size.height - 1e-6


def test_edges_without_cycles_lead_to_the_right() -> None:
    """A column further for each exchange on the longest way."""
    layout = lay_out([Size(10, 10)] * 4, [(0, 1), (1, 2), (0, 2), (2, 3)], [Size(0, 0)] * 4)
    assert [place.x for place in layout.nodes] == sorted(place.x for place in layout.nodes)
    assert len({place.x for place in layout.nodes}) == 4


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Draw exchanges, queues and bindings with any names, some to nowhere."""
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
    drawn = draw(topology)
    root = ET.fromstring(to_svg(drawn, "title"))  # noqa: S314  our own
    groups = [
        group.get("class", "").split()[0] for group in root.iter("{http://www.w3.org/2000/svg}g") if group.get("class")
    ]
    assert groups.count("node") == len(drawn.nodes)
    assert groups.count("edge") == len(drawn.edges)
    ends = {(edge.source, edge.target) for edge in drawn.edges if not edge.alternate}
    assert ends == {(("exchange", binding.source), binding.destination) for binding in topology.bindings}
    for name in topology.queues:
        assert f"{escape_line(name) or '(the default exchange)'} (queue: classic)" in to_text(drawn)


def test_cycles_and_long_chains_end() -> None:
    """The text names what was drawn above; a chain may be longer than Python's stack is deep."""
    count = 3000
    exchanges = [Exchange(str(n), "fanout") for n in range(count)]
    chain = [Binding.to_exchange(str(n), str((n + 1) % count)) for n in range(count)]
    drawn = draw(Topology(exchanges, bindings=chain))
    assert to_text(drawn).count("\n") >= count
    assert "(above)" in to_text(drawn)
    assert to_svg(drawn, "chain").count('<g class="node ') == count


def test_findings_partitions_and_missing_ends_are_seen() -> None:
    """A colour for the gravest finding, its words in the tooltip; unused predeclared exchanges are not drawn."""
    queue = Queue("q", partitioning=Partitioning.parse("kafka.murmur2 over 12"))
    binding = Binding.to_queue("x", "q", "a.#")
    topology = Topology([Exchange("x", "topic")], [queue], [binding, Binding.to_queue("x", "gone", "b")])
    drawn = draw(topology, [Finding("HS103", binding, "twice <&>")])
    picture = to_svg(drawn, "t")
    assert "kafka.murmur2 over 12 by routing_key" in picture
    assert "kafka.murmur2 over 12 by routing_key" in to_text(drawn)
    assert "HS103: twice &lt;&amp;&gt;" in picture
    assert "no such queue" in picture
    assert "amq.topic" not in picture


def test_many_components_and_long_edges_need_room_in_proportion() -> None:
    """Parts times columns, and edges times columns, were the square and the cube of the topology."""
    chain_ = [(number, number + 1) for number in range(1_000)]
    fan = [(number, 1_000) for number in range(999)]  # each passes all columns in between
    pairs = [(1_001 + 2 * number, 1_002 + 2 * number) for number in range(1_000)]
    edges = [*chain_, *fan, *pairs]
    layout = lay_out([Size(10, 10)] * 3_001, edges, [Size(0, 0)] * len(edges))
    assert sum(map(len, layout.edges)) < 2 * (len(edges) + MOST_SLOTS) + 1
    for (source, target), points in zip(edges, layout.edges, strict=True):
        assert points[0].x >= layout.nodes[source].x
        assert points[-1].x == layout.nodes[target].x


def test_the_surroundings_of_a_name_are_drawn_without_what_is_further_away(tmp_path: Path) -> None:
    """In both directions; the number of nodes left out is shown; a wrong name is an error with a suggestion."""
    names = [f"service-{number}" for number in range(20)]
    topology = Topology(
        [Exchange(name, "fanout") for name in names],
        [Queue("inbox")],
        [*(Binding.to_exchange(a, b) for a, b in pairwise(names)), Binding.to_queue(names[-1], "inbox")],
    )
    near = crop_around(draw(topology), "service-10", 2)
    assert [node.id.name for node in near.nodes] == sorted(names[8:13])
    assert (len(near.edges), near.left_out) == (4, 16)
    assert to_text(near).endswith("and 16 exchanges and queues further away")
    assert "16 more further away" in to_svg(near, "t")
    assert crop_around(draw(topology), "inbox", 100).left_out == 0
    path = tmp_path / "folder.bindings"
    path.write_text("exchange orders: fanout, alternate orders\nqueue q\norders -> q\n")
    result = CliRunner().invoke(graph_command, [str(path), "--around", "order"])
    assert (result.exit_code, "did you mean 'orders'?" in result.output) == (2, True)
    output = tmp_path / "p.svg"
    assert CliRunner().invoke(graph_command, [str(path), "--around", "q", "-o", str(output)]).exit_code == 0
    picture = output.read_text()
    assert "<title>folder.bindings, virtual host /</title>" in picture
    assert "to the alternate exchange" in picture
    assert ">warning</text>" in picture
    assert ">error</text>" not in picture


UNSURE = r"""
exchange e: topic
exchange u: fanout
exchange w: fanout
queue q
e -> q: "a"
u -> q
policy p: '^(?R)?e', exchanges, alternate-exchange = "u"
policy p2: '^e$', exchanges, alternate-exchange = "w"
"""


def test_an_alternate_that_may_not_be_in_force_has_a_question_mark(tmp_path: Path) -> None:
    """In the text and in the picture; exchanges that are not used stay out of it."""
    path, picture = tmp_path / "t.bindings", tmp_path / "t.svg"
    path.write_text(UNSURE)
    drawn = CliRunner().invoke(graph_command, [str(path)])
    assert "alternate? -> u (" in drawn.stdout
    assert "alternate? -> w (" in drawn.stdout
    assert "amq." not in drawn.stdout
    assert CliRunner().invoke(graph_command, [str(path), "-o", str(picture)]).exit_code == 0
    assert picture.read_text().count(">?</text>") == 3  # u stands behind itself, without a label
    path.write_text(UNSURE.replace("(?R)?", ""))
    drawn = CliRunner().invoke(graph_command, [str(path)])
    assert "alternate? -> u (" in drawn.stdout  # two policies of one priority
    path.write_text(UNSURE.replace("^(?R)?e", "^x"))
    drawn = CliRunner().invoke(graph_command, [str(path)])
    assert "alternate -> w (" in drawn.stdout
    assert "?" not in drawn.stdout


def test_the_findings_are_those_of_the_profile_that_is_given(tmp_path: Path) -> None:
    """A binding that 4.3.5 refuses is marked under it, and not under 4.0."""
    path = tmp_path / "t.bindings"
    path.write_text('exchange t: topic\nqueue q\nt -> q: "#.a.#.b.#"\n')
    pictures = {}
    for release in ("4.0", "4.3.5"):
        picture = tmp_path / f"{release}.svg"
        assert CliRunner().invoke(graph_command, [str(path), "--profile", release, "-o", str(picture)]).exit_code == 0
        pictures[release] = picture.read_text()
    assert {release: "HS404" in drawn for release, drawn in pictures.items()} == {"4.0": False, "4.3.5": True}
