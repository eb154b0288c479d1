"""Large pictures: queues that are alike are one node, hubs are referred to, partitions stand behind their queues."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bindings.checking.check import check
from bindings.commands.graph import graph_command
from bindings.drawing.captions import caption_edge, caption_node, count_parts, describe_edge, describe_node
from bindings.drawing.drawing import draw
from bindings.drawing.forms import (
    FEWEST,
    LARGE_PICTURE_NODES,
    MIN_REFERRING_NODES,
    SYSTEMS,
    bundle_queues,
    make_picture,
    refer_to_hubs,
)
from bindings.drawing.model import OWN_NAME, Drawing, Edge, NodeId
from bindings.drawing.svg import to_svg
from exchange import Binding, Exchange, Queue, Topology
from exchange.partition.partitioning.specification import Partitioning
from exchange.partition.partitioning.strategies import STRATEGIES
from tests.support.company_topologies import make_company


def fan(count: int, key: str = "", **queue: object) -> Topology:
    """Make a topic exchange with this number of queues, all bound by the same key."""
    names = [f"q{at:02}" for at in range(count)]
    return Topology([Exchange("e", "topic")], [Queue(name, **queue) for name in names],  # type: ignore[arg-type]
                    [Binding.to_queue("e", name, key) for name in names])  # fmt: skip


def test_queues_with_the_same_bindings_are_one_node() -> None:
    drawing = bundle_queues(draw(fan(39, "order.#")))
    [exchange, bundle] = drawing.nodes
    assert caption_node(bundle) == ["q00, q01 and 37 more", "39 queues, classic"]
    assert describe_node(bundle)[:3] == ["39 queues, classic, with the same bindings:", "q00", "q01"]
    assert drawing.edges == (Edge(exchange.id, bundle.id, ("order.#",)),)
    assert count_parts(drawing) == "1 exchange, 39 queues, 39 bindings"
    assert len(bundle_queues(draw(fan(FEWEST))).nodes) == 2
    assert len(bundle_queues(draw(fan(FEWEST - 1))).nodes) == FEWEST


def test_queues_that_are_bound_by_their_own_names_are_alike() -> None:
    names = [f"q{at}" for at in range(10)]
    topology = Topology([Exchange("e", "direct")], [Queue(name) for name in names],
                        [Binding.to_queue("e", name, name) for name in names])  # fmt: skip
    drawing = bundle_queues(draw(topology))
    assert [node.kind for node in drawing.nodes] == ["exchange", "bundle"]
    assert [edge.labels for edge in drawing.edges] == [(OWN_NAME,)]
    assert caption_edge(drawing.edges[0]) == "<its own name>"


@pytest.mark.parametrize(
    "odd",
    [
        Queue("q00", arguments={"x-queue-type": "quorum"}),
        Queue("q00", partitioning=Partitioning.parse("kafka.murmur2 over 3")),
    ],
)
def test_a_queue_that_differs_stays_alone(odd: Queue) -> None:
    topology = fan(10, "a")
    topology = Topology(topology.exchanges.values(), [odd, *list(topology.queues.values())[1:]], topology.bindings)
    kinds = sorted(node.kind for node in bundle_queues(draw(topology)).nodes)
    assert kinds == ["bundle", "exchange", "queue"]


def test_a_queue_with_another_key_or_a_graver_finding_stays_alone() -> None:
    topology = fan(10, "a")
    more = topology.bind(Binding.to_queue("e", "q03", "b"))
    assert [node.id.name for node in bundle_queues(draw(more)).nodes if node.kind == "queue"] == ["q03"]
    twice = topology.bind(Binding.to_queue("e", "q04", "#")).bind(Binding.to_queue("e", "q04", "a.#"))
    drawing = bundle_queues(draw(twice, check(twice)))
    assert [node.id.name for node in drawing.nodes if node.kind == "queue"] == ["q04"]


def test_queues_without_any_binding_are_bundled_and_keep_their_findings() -> None:
    topology = Topology(queues=[Queue(f"q{at}") for at in range(30)])
    [bundle] = bundle_queues(draw(topology, check(topology))).nodes
    assert bundle.severity == "note"
    assert "HS204" in bundle.findings[0]


@given(st.integers(2, 40), st.integers(0, 10))
def test_no_queue_and_no_binding_is_lost(exchanges: int, seed: int) -> None:
    drawing = draw(make_company(exchanges, seed))
    bundled = bundle_queues(drawing, fewest=2)
    before = sorted(node.id.name for node in drawing.nodes if node.id.part == "queue")
    after = [name for node in bundled.nodes for name in (node.members or (node.id.name,)) if node.id.part != "exchange"]
    assert sorted(after) == before
    assert count_parts(bundled) == count_parts(drawing)
    assert count_parts(refer_to_hubs(bundled, large=0, many=2)) == count_parts(drawing)


def test_hubs_of_a_large_picture_are_referred_to() -> None:
    """Each edge to one ends at a sign of its own; small pictures and nodes with few sources are drawn as they are."""
    drawing = make_picture(draw(make_company(300)))
    assert len(drawing.nodes) >= LARGE_PICTURE_NODES
    hub = NodeId("exchange", "unrouted")
    sources = {edge.source for edge in draw(make_company(300)).edges if edge.target == hub}
    signs = {node.id for node in drawing.nodes if node.refers_to == hub and node.id.part == "reference"}
    assert len(sources) >= MIN_REFERRING_NODES
    assert {edge.source for edge in drawing.edges if edge.target in signs} == sources
    [inlet] = [edge.source for edge in drawing.edges if edge.target == hub]
    [node] = [node for node in drawing.nodes if node.id == inlet]
    assert caption_node(node) == [f"from {len(sources)} exchanges"]
    assert not any(node.kind == "reference" for node in make_picture(draw(make_company(60))).nodes)
    assert not any(node.kind == "reference" for node in make_picture(draw(make_company(300)), expand=True).nodes)


def partitions_of(drawing: Drawing) -> list[list[str]]:
    return [caption_node(node) for node in drawing.nodes if node.kind == "partitions"]


@pytest.mark.parametrize(
    ("partitioning", "caption"),
    [
        ("kafka.murmur2 over 12", ["Kafka topic", "12 partitions"]),
        ("librdkafka.consistent over 1", ["Kafka topic", "1 partition"]),
        ("rocketmq.hash over broker-a:4,broker-b:4", ["RocketMQ topic", "8 queues: broker-a 4, broker-b 4"]),
        ("rabbitmq.super_stream over eu,us", ["super stream", "2 partitions: eu, us"]),
    ],
)
def test_partitions_stand_behind_their_queue(partitioning: str, caption: list[str], tmp_path: Path) -> None:
    parsed = Partitioning.parse(f'{partitioning} by header "tenant"')
    topology = Topology([Exchange("e", "topic")], [Queue("q", partitioning=parsed)], [Binding.to_queue("e", "q", "#")])
    drawing = make_picture(draw(topology))
    assert partitions_of(drawing) == [caption]
    assert caption_edge(drawing.edges[-1]) == f'{parsed.strategy} by header "tenant"'
    assert describe_edge(drawing.edges[-1]) == [f'{parsed.strategy} by header "tenant"']
    path, picture = tmp_path / "t.bindings", tmp_path / "t.svg"
    path.write_text(f'exchange e: topic\nqueue q: partitioned {parsed}\ne -> q: "#"\n')
    assert CliRunner().invoke(graph_command, [str(path), "-o", str(picture)]).exit_code == 0
    assert picture.read_text().count('class="cell"') == parsed.partitions.count
    assert "to partitions" in picture.read_text()


def test_a_bundle_of_partitioned_queues_has_one_node_of_partitions() -> None:
    topology = fan(10, "a", partitioning=Partitioning.parse("kafka.murmur2 over 100"))
    assert partitions_of(make_picture(draw(topology))) == [["Kafka topic", "100 partitions"]]
    assert len(partitions_of(make_picture(draw(topology), expand=True))) == 10


def test_many_keys_between_two_nodes_are_one_edge_with_their_number() -> None:
    keys = [f"order.{word}.created" for word in ("eu", "us", "ap")]
    node = NodeId("exchange", "e"), NodeId("queue", "q")
    assert caption_edge(Edge(*node, tuple(keys))) == "3 keys: order.eu.created, order.us.created, ..."
    assert caption_edge(Edge(*node, ("a.*", "b.#", "c"))) == "a.*, b.#, c"
    assert caption_edge(Edge(*node, ("", "a, b"))) == "'', 'a, b'"
    assert caption_edge(Edge(*node, ("x" * 300,))) == "x" * 21 + "..." + "x" * 12
    assert caption_edge(Edge(*node, ("all { a = 1 }", 'any { format = "pdf", kind = "letter" }'))).startswith(
        "2 bindings: all { a = 1 }"
    )
    assert describe_edge(Edge(*node, tuple(keys))) == ["'e' -> 'q'", *keys]
    assert describe_edge(Edge(*node, tuple(map(str, range(100)))))[-1] == "and 40 more"


def test_the_command_expands_what_is_bundled(tmp_path: Path) -> None:
    path = tmp_path / "t.bindings"
    path.write_text('exchange e: topic\nfor n in 1..9:\n    queue q{n}\n    e -> q{n}: "#"\n')
    bundled = CliRunner().invoke(graph_command, [str(path), "--format", "svg"]).stdout
    expanded = CliRunner().invoke(graph_command, [str(path), "--format", "svg", "--expand"]).stdout
    assert ">q1, q2 and 7 more<" in bundled
    assert "queues with the same bindings" in bundled
    assert bundled.count('class="node queue') == 0
    assert expanded.count('class="node queue') == 9
    assert "queues with the same bindings" not in expanded
    assert CliRunner().invoke(graph_command, [str(path)]).stdout.count("(queue: classic)") == 9


def test_a_long_name_is_shortened_in_the_middle_and_whole_in_the_tooltip() -> None:
    name = "service." + "very." * 40 + "end"
    topology = Topology([Exchange(name, "topic")])
    picture = to_svg(draw(topology), "t")
    assert f"exchange '{name}': topic" in picture
    assert f">{name[:21]}...{name[-12:]}</text>" in picture


def test_pictures_have_a_word_for_what_has_the_partitions_of_each_client() -> None:
    assert {name.partition(".")[0] for name in STRATEGIES} == SYSTEMS.keys()
