"""``hashstar partition``: lines in and out, what moves, the list of strategies, and its errors."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from exchange.partition.hashing.hashes import murmur2
from exchange.partition.partitioning.strategies import STRATEGIES
from tests.support.program import invoke

run = partial(invoke, "partition")


def test_each_line_gets_its_partition() -> None:
    """In order, other fields kept; null where the key does not decide, with what does."""
    given = ['{"key": "order-1", "n": 1}', '{"key": null}', '{"key": ""}', '{"key": {"!bytes": "AAE="}}', "",
             '{"key": {"!long": 5}}', '{"key": {"!signedint": 5}}', '{"key": "\\ud800"}',
             '{"key": "\U0001f600"}']  # fmt: skip
    result = run("-p", "kafka.murmur2", "-n", "12", given="\n".join(given))
    assert result.exit_code == 0, result.output
    out = [json.loads(line) for line in result.output.splitlines()]
    expected = [b"order-1", None, b"", b"\x00\x01", bytes(7) + b"\x05", bytes(3) + b"\x05", b"?", "\U0001f600".encode()]
    assert [line["partition"] for line in out] == [
        None if key is None else (murmur2(key) & 0x7FFFFFFF) % 12 for key in expected
    ]
    assert out[0] == {"key": "order-1", "n": 1, "partition": out[0]["partition"]}
    assert out[1]["rule"]
    assert out[7]["key"] == "\U0001f600"


def test_a_queue_list_names_queues() -> None:
    """RocketMQ's partitions are broker and queue id."""
    result = run("-p", "rocketmq.hash", "-n", "broker-a:2,broker-b:2", given='{"key": "a"}\n{"key": "b"}\n{"key": "c"}')
    assert [json.loads(line)["partition"] for line in result.output.splitlines()] == [
        "broker-a:1", "broker-b:0", "broker-b:1",
    ]  # fmt: skip


def test_messages_can_be_read_as_they_are_archived() -> None:
    """--by takes the key from a part of the message."""
    given = json.dumps({"exchange": "x", "routing_key": "order.eu.paid", "headers": {"tenant": "t"}})
    for by, key in (("routing_key", b"order.eu.paid"), ("word 2", b"eu"), ('header "tenant"', b"t")):
        line = json.loads(run("-p", "kafka.murmur2", "-n", "7", "--by", by, given=given).output)
        assert line["partition"] == (murmur2(key) & 0x7FFFFFFF) % 7


def test_with_a_seed_one_producer_makes_all_choices() -> None:
    """Keyless records then have a partition; the same seed, the same run."""
    given = '{"key": null, "size": 9000}\n' * 40
    first = run("-p", "kafka.murmur2", "-n", "12", "--seed", "1", given=given).output
    assert first == run("-p", "kafka.murmur2", "-n", "12", "--seed", "1", given=given).output
    partitions = [json.loads(line)["partition"] for line in first.splitlines()]
    assert None not in partitions
    assert len(set(partitions)) > 2  # two records fill a batch of 16 KiB, then it moves on


def test_to_reports_what_moves() -> None:
    """More partitions, another partitioner, a lost broker; as text and as JSON with the same numbers."""
    given = "".join(json.dumps({"key": f"k{n % 50}"}) + "\n" for n in range(200))
    for way, change in (
        (("-p", "kafka.murmur2", "-n", "12"), ("--change", "16")),
        (("-p", "kafka.murmur2", "-n", "12"), ("--change", "librdkafka.consistent")),
        (("-p", "kafka.murmur2", "-n", "12"), ("--change", "16", "--change", "librdkafka.consistent")),
        (("-p", "rocketmq.hash", "-n", "a:4,b:4"), ("--change", "lost=b")),
    ):
        text = run(*way, *change, given=given)
        assert text.exit_code == 0, text.output
        report = json.loads(run(*way, *change, "--json", given=given).output)
        assert (report["keys"], report["messages"]) == (50, 200)
        assert report["keys_moved"] == report["keys_at_risk"] > 0
        assert sum(report["skew"]["after"]["messages"].values()) == 200
        assert f"{report['keys_moved']:>12,}" in text.output
        assert "order: at risk" in text.output
        assert "█" in text.output


def test_a_broker_that_is_down_from_the_start_is_left_out_and_may_come_back() -> None:
    """The choices are those over what is left; what moves when it comes back is what moved when it went."""
    given = "".join(json.dumps({"key": f"k{n}"}) + "\n" for n in range(200))
    for strategy in ("rocketmq.hash", "rocketmq.random"):
        ways = (["-p", strategy, "-n", "a:4,b:4", "--lost", "b"], ["-p", strategy, "-n", "a:4"])
        down, left = (run(*way, "--seed", "1", given=given).output for way in ways)
        assert down == left
    back = json.loads(run(*ways[0][2:], "-p", "rocketmq.hash", "--change", "a:4,b:4", "--json", given=given).output)
    gone = json.loads(run("-p", "rocketmq.hash", "-n", "a:4,b:4", "--change", "lost=b", "--json", given=given).output)
    assert back["keys_moved"] == gone["keys_moved"] > 0
    assert (back["before"], back["after"]) == (gone["after"], gone["before"])
    assert back["before"] == "rocketmq.hash over a:4,b:4 without b"
    kafka = ("-p", "kafka.round_robin", "-n", "b1:2,b2:2", "--lost", "b2", "--seed", "1")
    assert {line["partition"] for line in map(json.loads, run(*kafka, given=given).output.splitlines())} == {0, 2}
    other = run(*kafka[:-2], "--change", "kafka.murmur2", given=given).output
    assert "kafka.murmur2 over b1:2,b2:2 without b2" in other
    wrong = run("-p", "kafka.murmur2", "-n", "b1:2", "--lost", "b3")
    assert wrong.exit_code == 2
    assert "--lost b3: no partition is on that broker" in wrong.output


def test_the_option_list_prints_every_strategy() -> None:
    """With whom it mirrors, what it promises, what it costs."""
    output = run("--list").output
    for name, strategy in STRATEGIES.items():
        assert name in output
        assert strategy.mirrors in output
    assert output.count("promise:") == output.count("cost:") == len(STRATEGIES) + 1
    assert "python:PACKAGE.MODULE:FUNCTION" in output


@pytest.mark.parametrize(("arguments", "given", "words"), [
    (("-p", "kafka.mumur2", "-n", "3"), "", "did you mean 'kafka.murmur2'"),
    (("-p", "kafka.murmur2", "-n", "none:"), "", "expected partitions"),
    (("-p", "kafka.murmur2", "-n", "3", "--change", "lost=x"), "", "no partition is on that broker"),
    (("-p", "kafka.murmur2", "-n", "3", "--by", "hedaer x"), "", "expected a key"),
    (("-p", "kafka.murmur2", "-n", "3"), '{"key": "a"}\n{"kye": 1}', '-:2: no "key"'),
    (("-p", "kafka.murmur2", "-n", "3"), "{", "-:1: not JSON"),
    (("-p", "kafka.murmur2", "-n", "3"), "[1]", "-:1: expected a JSON object"),
    (("-p", "kafka.murmur2", "-n", "3"), '{"key": "a", "key": "b"}', '-:1: a name that is twice in one object: "key"'),
    (("-p", "kafka.murmur2", "-n", "3"), '{"key": ' + "9" * 5_000 + "}", "-:1: a number of more than 4300 digits"),
    (("-p", "kafka.murmur2", "-n", "3"), '{"key": {"a": 1}}', "-:1: a key of type dict"),
    (("-p", "rocketmq.hash", "-n", "3"), '{"key": {"!bytes": "AA=="}}', "-:1: "),
])  # fmt: skip
def test_bad_input_is_an_error_with_its_place(arguments: tuple[str, ...], given: str, words: str) -> None:
    """Exit code 2, no traceback."""
    result = run(*arguments, given=given)
    assert result.exit_code == 2
    assert words in result.output.replace("<stdin>", "-")


def test_a_file_is_named_in_errors(tmp_path: Path) -> None:
    """Path and line."""
    path = tmp_path / "keys.jsonl"
    path.write_text('{"key": "a"}\nnot json\n')
    assert f"{path}:2: not JSON" in run("-p", "kafka.murmur2", "-n", "3", str(path)).output


def test_without_a_message_there_is_no_ratio() -> None:
    """1.00 is that of messages which lie evenly."""
    arguments = ("-p", "kafka.murmur2", "-n", "3", "--change", "4")
    assert "fullest / mean                     -           -\n" in run(*arguments, given="").output
    skew = json.loads(run(*arguments, "--json", given="").output)["skew"]
    assert [skew[each]["fullest_to_mean"] for each in ("before", "after")] == [None, None]
