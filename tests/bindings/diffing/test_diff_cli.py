"""``hashstar diff``: the plan, the meaning, messages, exit codes; as text and as JSON."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.support.program import invoke

BEFORE = """\
exchange orders: topic, alternate unrouted
exchange unrouted: fanout
queue billing
queue audit: partitioned kafka.murmur2 over 12
queue lost
orders -> billing: "order.*.paid"
orders -> audit: "order.#"
unrouted -> lost
"""


run = partial(invoke, "diff")


@pytest.fixture
def before(tmp_path: Path) -> str:
    """Return the file of the topology above."""
    path = tmp_path / "before.bindings"
    path.write_text(BEFORE)
    return str(path)


def changed(tmp_path: Path, old: str, new: str) -> str:
    """Return a file of the same topology with one change."""
    assert old in BEFORE
    path = tmp_path / "after.bindings"
    path.write_text(BEFORE.replace(old, new))
    return str(path)


def test_the_text_reports_that_no_difference_is_proved(before: str, tmp_path: Path) -> None:
    """Exit 0; a binding that is written otherwise and matches the same changes no message, but is a step."""
    result = run(before, before)
    assert result.exit_code == 0
    proof = "no message is routed differently: proved for all keys and headers"
    assert result.output == f"plan: nothing to do\nmeaning:\n  {proof}\n"
    again = run(before, changed(tmp_path, '"order.#"', '"order.#", "order.*.#"'))
    assert proof in again.output
    assert again.exit_code == 1


def test_gained_and_lost_messages_have_patterns_and_a_witness(before: str, tmp_path: Path) -> None:
    """From the queue that gains, and from the one behind the alternate exchange that loses."""
    result = run(before, changed(tmp_path, '"order.*.paid"', '"order.*.paid", "invoice.#"'))
    assert result.exit_code == 1
    for line in (
        "  + bind exchange 'orders' 'invoice.#' -> queue 'billing'",
        "  + queue 'billing' gains from exchange 'orders':\n      'invoice.#'\n      such as 'invoice'\n",
        "  - queue 'lost' loses from exchange 'orders':\n      'invoice.#' where exchange 'orders' had no match",
    ):
        assert line in result.output


def test_unroutable_messages_and_partitions_are_reported(before: str, tmp_path: Path) -> None:
    """A queue that goes, and a partition count that changes."""
    gone = run(before, changed(tmp_path, "unrouted -> lost\n", ""))
    assert "! published to exchange 'orders', '' goes nowhere now" in gone.output
    moved = run(before, changed(tmp_path, "over 12", "over 16"))
    assert "plan: nothing to do" in moved.output
    assert "kafka.murmur2 over 12 by routing_key, then kafka.murmur2 over 16 by routing_key" in moved.output
    assert moved.exit_code == 1


def test_messages_that_go_elsewhere_are_counted(before: str, tmp_path: Path) -> None:
    """With where they went and where they go, partitions included."""
    after = changed(tmp_path, '"order.*.paid"', '"order.*.sent"')
    lines = [{"exchange": "orders", "routing_key": f"order.{n}.{what}"} for n in range(3) for what in ("paid", "new")]
    path = tmp_path / "messages.jsonl"
    path.write_text("\n".join(map(json.dumps, [*lines, {"exchange": "nobody"}])))
    result = run(before, after, "--messages", str(path))
    assert "messages: 3 of 7 go elsewhere" in result.output
    values = json.loads(run(before, after, "--messages", str(path), "--json").output)["messages"]
    assert (values["read"], values["elsewhere"]) == (7, 3)
    assert all("billing" in move["before"] and "billing" not in move["after"] for move in values["moves"])
    path.write_text('{"exchange": "orders"}\n[]\n')
    bad = run(before, after, "--messages", str(path))
    assert bad.exit_code == 2
    assert f"{path}:2" in bad.output


def test_json_has_the_same(before: str, tmp_path: Path) -> None:
    """A verdict, effects with a witness as a message, and the plan."""
    values = json.loads(
        run(before, changed(tmp_path, '"order.*.paid"', '"order.*.paid", "invoice.#"'), "--json").output
    )
    assert values["meaning"]["verdict"] == "changed"
    gained = next(effect for effect in values["meaning"]["effects"] if effect["queue"] == "billing")
    assert (gained["change"], gained["messages"], gained["exact"]) == ("gained", ["'invoice.#'"], True)
    assert gained["witness"] == {"exchange": "orders", "routing_key": "invoice"}
    assert values["plan"]["steps"][0]["verb"] == "bind"


def test_bad_input_ends_with_2(before: str, tmp_path: Path) -> None:
    """A file that is not there, and one that is wrong."""
    assert run(before, str(tmp_path / "none.bindings")).exit_code == 2
    wrong = tmp_path / "wrong.bindings"
    wrong.write_text("exchnage orders: topic\n")
    result = run(before, str(wrong))
    assert result.exit_code == 2
    assert "wrong.bindings:1:1" in result.output


@pytest.mark.parametrize(
    ("old", "new", "any_", "lost", "gained"),
    [
        ('"order.*.paid"', '"order.*.paid"', 0, 0, 0),
        ('"order.#"', '"order.#", "order.*.#"', 1, 0, 0),  # a step, and no message goes elsewhere
        ('"order.*.paid"', '"order.*.paid", "order.*.sent"', 1, 0, 1),
        ('"order.*.paid"', '"order.new.paid"', 1, 1, 0),
        ("queue lost\n", "queue lost: x-expires = 1000\n", 1, 1, 0),  # its messages go
        # What is published to an exchange that was not there is not lost, however it chooses.
        ("queue lost\n", "queue lost\nexchange new: x-of-a-plugin\nnew -> lost\n", 1, 0, 1),
        ("queue lost\n", "queue lost\nexchange new: x-random\nnew -> lost\nnew -> audit\n", 1, 0, 1),
        ("queue lost\n", "queue lost\nexchange new: x-random\norders -> exchange new\nnew -> lost\n", 1, 1, 1),
    ],
)
def test_the_user_chooses_which_differences_fail(
    before: str, tmp_path: Path, old: str, new: str, any_: int, lost: int, gained: int
) -> None:
    """Any difference, or only one by which messages may be lost, or be more."""
    after = changed(tmp_path, old, new)
    for choice, expected in (("any", any_), ("lost", lost), ("gained", gained)):
        result = run(before, after, "--fail-on", choice)
        assert result.exit_code == expected, (choice, result.output)
    if gained or lost:
        assert run(before, after, "--fail-on", "lost" if lost else "gained", "--wait", "0").exit_code == 1


def test_a_moved_message_is_reported_with_the_queues_it_loses_and_gains(tmp_path: Path) -> None:
    """Not by two lists of queues that are nearly alike."""
    names = "abcd"
    text = "".join(f"queue {name}\n" for name in names)
    paths = []
    for bound in ("abcd", "abd", "e"):
        path = tmp_path / f"{bound}.bindings"
        path.write_text(f"exchange x: fanout\nqueue e\n{text}" + "".join(f"x -> {name}\n" for name in bound))
        paths.append(str(path))
    messages = tmp_path / "messages.jsonl"
    messages.write_text('{"exchange": "x", "routing_key": "k"}\n')
    assert "loses c; keeps 3\n" in run(*paths[:2], "--messages", str(messages)).output
    assert "loses a, b, c, d; gains e\n" in run(paths[0], paths[2], "--messages", str(messages)).output
