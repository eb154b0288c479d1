"""``hashstar graph`` draws the ways of dead letters apart from bindings, by arguments and by policies in force."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from bindings.commands.graph import graph_command
from bindings.drawing.drawing import draw
from bindings.drawing.forms import bundle_queues, refer_to_hubs
from bindings.drawing.model import OWN_NAME, Drawing, Edge, NodeId
from exchange import Binding, Exchange, Policy, Queue, Topology

RETRIES = """\
exchange work: topic
exchange retry: topic
queue jobs
queue wait: x-message-ttl = 60000, x-dead-letter-exchange = "", x-dead-letter-routing-key = "jobs"
queue lost: x-dead-letter-exchange = "gone"
queue unknown
work -> jobs: "job.#"
retry -> wait: "#"
policy p: "^jobs$", queues, dead-letter-exchange = "retry", dead-letter-routing-key = "again"
policy a: "^unknown$", queues, dead-letter-exchange = "retry"
policy b: "^unknown$", queues, max-length = 1
"""


def graph(tmp_path: Path, *options: str, topology: str = RETRIES) -> str:
    path = tmp_path / "shop.bindings"
    path.write_text(topology)
    result = CliRunner().invoke(graph_command, [str(path), *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def letters(drawing: Drawing) -> list[Edge]:
    return [edge for edge in drawing.edges if edge.kind == "dead-letter"]


def test_the_text_follows_dead_letters_from_queue_to_queue(tmp_path: Path) -> None:
    assert (
        graph(tmp_path, "--no-findings")
        == """\
work (exchange: topic)
└─ 'job.#' -> jobs (queue: classic)
   └─ dead letters with the key 'again' -> retry (exchange: topic)
      └─ '#' -> wait (queue: classic)
         └─ dead letters -> jobs (queue: classic) (above)

lost (queue: classic)
└─ dead letters -> gone (no such exchange) ✗

unknown (queue: classic)
└─ dead letters? -> retry (exchange: topic) (above)
"""
    )


@pytest.mark.parametrize(
    ("form", "parts"),
    [
        ("svg", ["dead letters: rejected, expired, over the limit", ">may not be in force<", 'class="edge dead-letter',
                 "dead letters of 'jobs' -&gt; exchange 'retry' with the key 'again'"]),
        ("mermaid", ['-.->|"dead letters, key again"|', '-.->|"dead letters"|', '-.->|"dead letters#63;"|']),
        ("dot", ['label="dead letters, key again"', 'style=dashed, color="#9a5b00"']),
    ],
)  # fmt: skip
def test_each_picture_tells_dead_letters_from_bindings(tmp_path: Path, form: str, parts: list[str]) -> None:
    text = graph(tmp_path, "--format", form)
    for part in parts:
        assert part in text
    assert "dead letter" not in graph(tmp_path, "--format", form, topology="queue q\namq.topic -> q: 'a.#'\n")


def test_the_surroundings_of_a_queue_include_where_its_dead_letters_go(tmp_path: Path) -> None:
    near = graph(tmp_path, "--around", "wait", "--depth", "1", "--no-findings")
    assert "dead letters -> jobs" in near
    assert "work (" not in near


def test_a_circle_of_queues_that_no_binding_enters_is_drawn(tmp_path: Path) -> None:
    circle = "".join(
        f'queue {one}: x-dead-letter-exchange = "", x-dead-letter-routing-key = "{two}"\n'
        for one, two in (("a", "b"), ("b", "a"))
    )
    assert graph(tmp_path, "--no-findings", topology=circle) == (
        "a (queue: classic)\n└─ dead letters -> b (queue: classic)\n   └─ dead letters -> a (queue: classic) (above)\n"
    )


def test_the_settings_in_force_decide_and_not_all_that_policies_have() -> None:
    argument = Queue("q", arguments={"x-dead-letter-exchange": "argued"})
    topology = Topology(
        queues=[argument, Queue("r")],
        policies=[
            Policy("low", "", {"dead-letter-exchange": "low"}),
            Policy("high", "", {"dead-letter-exchange": "high"}, priority=1),
        ],
    )
    assert [(edge.source.name, edge.target.name) for edge in letters(draw(topology))] == [
        ("q", "argued"),
        ("r", "high"),
    ]


def test_queues_whose_dead_letters_go_the_same_way_are_one_node() -> None:
    def queue(number: int, **arguments: str) -> Queue:
        return Queue(
            f"q{number}", arguments={f"x-dead-letter-{key.replace('_', '-')}": v for key, v in arguments.items()}
        )

    alike = [queue(number, exchange="dlx", routing_key=f"q{number}") for number in range(8)]
    other = queue(9, exchange="dlx", routing_key="other")
    topology = Topology(
        [Exchange("x"), Exchange("dlx")], [*alike, other], [Binding.to_queue("x", q.name) for q in [*alike, other]]
    )
    drawn = bundle_queues(draw(topology))
    assert [node.members for node in drawn.nodes if node.kind == "bundle"] == [tuple(q.name for q in alike)]
    assert {(edge.source.part, edge.labels) for edge in letters(drawn)} == {
        ("bundle", (OWN_NAME,)),
        ("queue", ("other",)),
    }


def test_a_dead_letter_exchange_of_many_queues_is_named_in_large_pictures() -> None:
    queues = [Queue(f"q{n}", arguments={"x-dead-letter-exchange": "dlx"}) for n in range(20)]
    drawn = refer_to_hubs(draw(Topology([Exchange("dlx")], queues)), large=5)
    [hub] = [node for node in drawn.nodes if node.id.part == "source"]
    assert (hub.refers_to, hub.detail) == (NodeId("exchange", "dlx"), "from 20 queues")
    assert all(edge.target.part == "reference" for edge in letters(drawn))
