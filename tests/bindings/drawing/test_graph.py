"""Pictures: nothing overlaps, nothing is left out, any name is drawable."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bindings.checking.rules.finding import Finding
from bindings.commands.graph import graph_command
from bindings.drawing.drawing import draw
from bindings.drawing.forms import make_picture
from bindings.drawing.svg import to_svg
from bindings.drawing.text import to_text
from exchange import Binding, Exchange, Queue, Topology
from exchange.partition.partitioning.specification import Partitioning
from exchange.text.display import escape_line

names = st.text(max_size=6)


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
    ends = {(edge.source[:2], edge.target[:2]) for edge in drawn.edges if edge.kind != "alternate"}
    assert ends == {(("exchange", binding.source), binding.destination) for binding in topology.bindings}
    for name in topology.queues:
        assert f"{escape_line(name) or '(the default exchange)'} (queue: classic)" in to_text(drawn)


@given(st.lists(names, min_size=6, max_size=9, unique=True), names, names)
def test_bundles_are_drawn_whatever_the_names_of_their_queues(queues: list[str], type_: str, key: str) -> None:
    """Control characters, surrogates and quotes in names, types and keys leave the XML well-formed."""
    topology = Topology(
        [Exchange("e", type_)],
        [Queue(name, arguments={"x-queue-type": type_}) for name in queues],
        [Binding.to_queue("e", name, key) for name in queues],
    )
    drawn = make_picture(draw(topology))
    picture = to_svg(drawn, key)
    root = ET.fromstring(picture)  # noqa: S314  our own
    picture.encode()
    [bundle] = [node for node in drawn.nodes if node.kind == "bundle"]
    [members] = [group.get("data-members", "") for group in root.iter() if "data-members" in group.attrib]
    assert members.split("\n") == list(map(escape_line, bundle.members))


def test_cycles_and_long_chains_end() -> None:
    """The text names what was drawn above; a chain may be longer than Python's stack is deep."""
    count = 1200
    exchanges = [Exchange(str(n), "fanout") for n in range(count)]
    chain = [Binding.to_exchange(str(n), str((n + 1) % count)) for n in range(count)]
    drawn = draw(Topology(exchanges, bindings=chain))
    assert to_text(drawn).count("\n") >= count
    assert "(above)" in to_text(drawn)
    assert to_svg(drawn, "chain").count('class="node ') == count


def test_findings_partitions_and_missing_ends_are_seen() -> None:
    """A colour for the gravest finding, its words in the tooltip; unused predeclared exchanges are not drawn."""
    queue = Queue("q", partitioning=Partitioning.parse("kafka.murmur2 over 12"))
    binding = Binding.to_queue("x", "q", "a.#")
    topology = Topology([Exchange("x", "topic")], [queue], [binding, Binding.to_queue("x", "gone", "b")])
    drawn = draw(topology, [Finding("HS103", binding, "twice <&>")])
    picture = to_svg(make_picture(drawn), "t")
    assert "kafka.murmur2 over 12 by routing_key" in picture
    assert "kafka.murmur2 over 12 by routing_key" in to_text(drawn)
    assert "HS103: twice &lt;&amp;&gt;" in picture
    assert "no such queue" in picture
    assert "amq.topic" not in picture


def test_a_wrong_name_is_an_error_with_a_suggestion_and_the_legend_has_what_occurs(tmp_path: Path) -> None:
    path = tmp_path / "folder.bindings"
    path.write_text("exchange orders: fanout, alternate orders\nqueue q\norders -> q\n")
    result = CliRunner().invoke(graph_command, [str(path), "--around", "order"])
    assert (result.exit_code, "did you mean 'orders'?" in result.output) == (2, True)
    output = tmp_path / "p.svg"
    assert CliRunner().invoke(graph_command, [str(path), "--around", "q", "-o", str(output)]).exit_code == 0
    picture = output.read_text()
    assert '<title id="title">folder.bindings, virtual host /</title>' in picture
    assert "to the alternate exchange" in picture
    assert ">warning of hashstar check</text>" in picture
    assert ">error of hashstar check</text>" not in picture
    assert "topic" not in picture


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
    assert picture.read_text().count(">?</text>") == 5  # on four edges, and in the legend
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
