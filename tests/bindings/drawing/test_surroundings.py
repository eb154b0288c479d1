"""The surroundings of exchanges and queues: what is near is drawn, what is cut off is counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bindings.commands.graph import graph_command
from bindings.drawing.drawing import draw
from bindings.drawing.model import Drawing, NodeId
from bindings.drawing.surroundings import DIRECTIONS, Direction, crop_around
from bindings.drawing.text import to_text
from exchange import Binding, Exchange, Queue, Topology

NAMES = [f"service-{number}" for number in range(20)]
CHAIN = Topology(
    [Exchange(name, "fanout") for name in NAMES],
    [Queue("inbox")],
    [*(Binding.to_exchange(a, b) for a, b in pairwise(NAMES)), Binding.to_queue(NAMES[-1], "inbox")],
)


def names_in(drawing: Drawing) -> list[str]:
    return [node.id.name for node in drawing.nodes if node.kind != "cut"]


@pytest.mark.parametrize(("direction", "wanted"), [("any", NAMES[8:13]), ("to", NAMES[8:11]), ("from", NAMES[10:13])])
def test_a_chain_is_cut_on_both_sides(direction: Direction, wanted: list[str]) -> None:
    near = crop_around(draw(CHAIN), ["service-10"], 2, direction)
    assert names_in(near) == sorted(wanted)
    assert near.left_out == 21 - len(wanted)
    assert [(node.id.part, node.id.name, node.detail) for node in near.nodes if node.kind == "cut"] == [
        ("source", wanted[0], "1 more exchange"), ("destination", wanted[-1], "1 more exchange"),
    ]  # fmt: skip


def test_the_text_has_what_is_cut_off() -> None:
    lines = to_text(crop_around(draw(CHAIN), ["service-10"], 1)).splitlines()
    assert lines == [
        "service-9 (exchange: fanout) <- ... 1 more exchange",
        "└─ -> service-10 (exchange: fanout)",
        "   └─ -> service-11 (exchange: fanout)",
        "      └─ -> ... 1 more exchange",
        "",
        "and 18 further away, exchanges and queues",
    ]
    assert to_text(crop_around(draw(CHAIN), ["inbox"], 0)).startswith(
        "inbox (queue: classic) <- ... 1 more exchange\n\nand 20 "
    )


def test_several_names_are_drawn_with_their_surroundings() -> None:
    near = crop_around(draw(CHAIN), ["service-3", "inbox"], 1)
    assert names_in(near) == ["service-19", "service-2", "service-3", "service-4", "inbox"]
    assert crop_around(draw(CHAIN), ["inbox"], 100).left_out == 0


@st.composite
def cases(draw_: st.DrawFn) -> tuple[Topology, list[str], int, Direction]:
    """Draw a topology in which an exchange and a queue have the same name, names, a depth and a direction."""
    names = [f"a{at}" for at in range(draw_(st.integers(1, 8)))]
    ends = st.sampled_from(names)
    bindings = draw_(
        st.lists(st.builds(Binding.to_exchange, ends, ends) | st.builds(Binding.to_queue, ends, ends), max_size=15)
    )
    topology = Topology([Exchange(name, "fanout") for name in names], [Queue(name) for name in names],
                        dict.fromkeys(bindings))  # fmt: skip
    centres = draw_(st.lists(ends, min_size=1, max_size=3))
    return topology, centres, draw_(st.integers(0, 3)), draw_(st.sampled_from(DIRECTIONS))


@given(cases())
def test_what_is_drawn_is_what_is_near_and_the_rest_is_counted(
    case: tuple[Topology, list[str], int, Direction],
) -> None:
    """Against the distance of each node, step by step; each drawn node counts the neighbours that are not drawn."""
    topology, centres, depth, direction = case
    whole = draw(topology)
    near = {node.id for node in whole.nodes if node.id.name in centres}
    follows: dict[Direction, Callable[[NodeId, NodeId], set[NodeId]]] = {
        "from": lambda source, target: {target} if source in near else set(),
        "to": lambda source, target: {source} if target in near else set(),
        "any": lambda source, target: {source, target} if source in near or target in near else set(),
    }
    for _ in range(depth):
        near |= {node for edge in whole.edges for node in follows[direction](edge.source, edge.target)}
    part = crop_around(whole, centres, depth, direction)
    assert {node.id for node in part.nodes if node.kind != "cut"} == near
    assert {edge for edge in part.edges if edge.kind != "cut"} == {
        edge for edge in whole.edges if edge.source in near and edge.target in near
    }
    assert part.left_out == len(whole.nodes) - len(near)
    for node in near:
        behind = {edge.target for edge in whole.edges if edge.source == node} - near
        before = {edge.source for edge in whole.edges if edge.target == node} - near
        details = {each.id.part: each.detail for each in part.nodes
                   if each.kind == "cut" and (each.id.name, each.id.qualifier) == (node.name, node.part)}  # fmt: skip
        assert ("destination" in details) == bool(behind)
        assert ("source" in details) == bool(before)
        counted = sum(int(word) for word in " ".join(details.values()).split() if word.isdecimal())
        assert counted == len(behind) + len(before)
    assert {end for edge in part.edges for end in (edge.source, edge.target)} <= {node.id for node in part.nodes}


def test_the_command_takes_several_names_and_a_direction(tmp_path: Path) -> None:
    path, picture = tmp_path / "t.bindings", tmp_path / "t.svg"
    path.write_text(
        "exchange inlet: topic\nexchange hub: fanout\nqueue a\nqueue b\nqueue c\nqueue far\n"
        'inlet -> exchange hub: "#"\ninlet -> far: "x"\nhub -> a, b, c\n'
    )
    run = CliRunner().invoke(graph_command, [str(path), "--around", "a", "--around", "far", "--depth", "1"])
    assert run.exit_code == 0
    assert "-> ... 2 more queues" in run.stdout
    assert "└─ 'x' -> far (queue: classic)" in run.stdout
    run = CliRunner().invoke(graph_command, [str(path), "--around", "hub", "--direction", "to", "-o", str(picture)])
    assert (run.exit_code, run.stderr) == (0, "")
    drawn = picture.read_text()
    assert ">3 more queues<" in drawn
    assert ">far<" not in drawn
    assert "not drawn here" in drawn
    run = CliRunner().invoke(graph_command, [str(path), "--around", "hubb", "--direction", "sideways"])
    assert run.exit_code == 2
    run = CliRunner().invoke(graph_command, [str(path), "--around", "hub", "--around", "fra"])
    assert (run.exit_code, "'fra'" in run.stderr, "did you mean 'far'?" in run.stderr) == (2, True, True)


def test_what_the_user_asked_for_is_drawn_as_it_is_however_many_are_alike(tmp_path: Path) -> None:
    """A queue is in no bundle, and lines to a hub are drawn."""
    path = tmp_path / "t.bindings"
    path.write_text(
        "exchange hub: fanout\nfor n in 1..320:\n    exchange e{n}: fanout, alternate hub\n"
        "    queue q{n}\n    hub -> q{n}\n"
    )
    picture = CliRunner().invoke(graph_command, [str(path), "--format", "svg", "--around", "q7"]).stdout
    assert picture.count('class="node queue centre"') == 1
    assert ">q7</text>" in picture
    assert "and 317 more<" in picture
    picture = CliRunner().invoke(graph_command, [str(path), "--format", "svg", "--around", "hub"]).stdout
    assert 'class="node reference' not in picture
    assert picture.count('class="edge alternate"') == 320
    assert 'class="node reference' in CliRunner().invoke(graph_command, [str(path), "--format", "svg"]).stdout


def test_an_exchange_and_a_queue_of_one_name_are_both_centres(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text(json.dumps({
        "vhosts": [{"name": "/"}], "exchanges": [{"name": "x", "vhost": "/", "type": "fanout"}],
        "queues": [{"name": "x", "vhost": "/"}, {"name": "y", "vhost": "/"}],
        "bindings": [{"source": "x", "vhost": "/", "destination": "y", "destination_type": "queue",
                      "routing_key": "", "arguments": {}}],
    }))  # fmt: skip
    run = CliRunner().invoke(graph_command, [str(path), "--around", "x", "--depth", "0"])
    assert "x (exchange: fanout)\n└─ -> ... 1 more queue" in run.stdout
    assert "  x (queue: classic)" in run.stdout
