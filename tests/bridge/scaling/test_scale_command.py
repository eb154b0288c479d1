"""``hashstar rocketmq scale`` beside brokers in memory: what it shows, takes, waits for and refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from bridge.cli import main
from bridge.schema.names import SCHEMAS
from tests.support.rocketmq.administered import HALVES, SCHEDULED, Cluster, Held, Node, cluster


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    code: object
    out: str
    err: str


Scale = Callable[..., Done]


@pytest.fixture
def scale(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Scale:
    """Return the function that runs the command at a cluster."""
    monkeypatch.setattr("bridge.scaling.scaling.LOOK_EVERY", 0.02)
    monkeypatch.setattr("bridge.scaling.scaling.KNOWN_EVERY", 0.02)
    monkeypatch.setattr("bridge.scaling.scaling.KNOWN_SECONDS", 0.3)

    def run(served: Cluster, *arguments: str, topic: str = "orders") -> Done:
        code: object = 0
        try:
            main(["rocketmq", "scale", topic, "--namesrv", served.url, "--settle", "0.2", *arguments])
        except SystemExit as leave:
            code = leave.code
        return Done(code, *capsys.readouterr())

    return run


def read_all(node: Node) -> None:
    """Let all groups read all that is in queues that are read."""
    for known in node.offsets.values():
        known |= {queue: end for queue, end in node.ends.items() if queue < node.read}


@pytest.mark.parametrize("version", [4, 5])
def test_a_topic_shrinks_and_grows_again_in_steps_that_keep_all_messages_readable(scale: Scale, version: int) -> None:
    a, b = Node("a", ends={3: 5}, offsets={"g": {3: 5}}), Node("b", 4, 4)
    with cluster(a, b, version=version) as served:
        shrunk = scale(served, "--queues", "2", "--yes")
        assert shrunk.code == 0, shrunk.err
        assert shrunk.out.endswith("done: topic orders has 2 queues on each broker\n")
        assert a.sets == b.sets == [(2, 4), (2, 2)]
        grown = scale(served, "--queues", "4", "--yes")
        assert (grown.code, a.sets[2:], b.sets[2:]) == (0, [(2, 4), (4, 4)], [(2, 4), (4, 4)])
        again = scale(served, "--queues", "4", "--yes")
        assert (again.code, len(a.sets)) == (0, 4)
        assert again.out.endswith("nothing to do\n")


def test_a_dry_run_shows_which_step_is_safe_now_and_what_the_others_wait_for(scale: Scale) -> None:
    node = Node("a", ends={3: 7}, offsets={"g": {3: 5}})
    with cluster(node) as served:
        shown = scale(served, "--queues", "2", "--dry-run")
        assert (shown.code, node.sets) == (0, [])
        *lines, moves = shown.out.splitlines()
        assert lines == [
            "topic orders, to 2 queues on each broker",
            "broker   write    read      to",
            "a            4       4       2",
            "consumer groups: g (0 members)",
            "steps:",
            "  a: set write 4 -> 2",
            "      safe now",
            "  a: wait 0.2 s, until no producer has the old route",
            "      waits: for the steps before it",
            "  a: drain queues 2 to 3",
            "      waits: for the steps before it; a:3 has 2 for g",
            "  a: set read 4 -> 2",
            "      waits: a: queues 2 to 3 are written; set write to 2 first",
        ]
        assert moves.endswith(
            "% of a sample of 10,000 keys move to another queue (rocketmq.hash); "
            "their new messages can overtake the old ones"
        )


def test_each_step_shows_the_number_that_it_changes(scale: Scale) -> None:
    """The read number that is raised first is lowered last: it was shown as ``set read 4 -> 4``."""
    node = Node("a", 8, 4)
    with cluster(node) as served:
        shown = scale(served, "--queues", "4", "--dry-run").out.splitlines()
        sets = ["a: set read 4 -> 8", "a: set write 8 -> 4", "a: set read 8 -> 4"]
        assert [line.strip() for line in shown if ": set " in line and "waits" not in line] == sets
        done = scale(served, "--queues", "4", "--yes")
        assert (done.code, node.sets) == (0, [(8, 8), (4, 8), (4, 4)])
        assert [line for line in done.err.splitlines() if ": set " in line] == [f"done: {each}" for each in sets]


@pytest.mark.parametrize("kind", ["nothing", "offset", "member"])
def test_the_name_of_the_topic_is_a_group_only_if_it_reads(scale: Scale, kind: str) -> None:
    """Brokers of 5.3.3 list the topic itself as a group of it: the command waited for that to read its queues."""
    node = Node("a", ends={3: 5}, offsets={"g": {3: 5}})
    if kind == "offset":
        node.offsets["orders"] = {3: 2}
    with cluster(node, lists_topic=True) as served:
        if kind == "member":
            served.members["orders"] = {}
        found = scale(served, "--queues", "2", "--yes", "--wait", "0.3")
        if kind == "nothing":
            assert (found.code, node.sets) == (0, [(2, 4), (2, 2)]), found.err
        else:
            assert found.code == 1
            assert f"a:3 has {3 if kind == 'offset' else 5} for orders" in found.err


def test_json_is_that_of_its_schema(scale: Scale) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = SCHEMAS["rocketmq-scale"].build("rocketmq-scale")
    node = Node("a", ends={3: 7}, offsets={"g": {3: 5}}, held=[Held(SCHEDULED, 3)])
    with cluster(node) as served:
        for arguments, code in ((["--dry-run"], 0), (["--yes", "--wait", "0.1"], 1)):
            done = scale(served, "--queues", "2", "--format", "json", *arguments)
            shown = json.loads(done.out)
            jsonschema.validate(shown, schema)
            assert (done.code, shown["done"], "refused" in shown) == (code, False, code == 1)
        assert shown["steps"][2]["unread"] == [
            {"queue": "a:3", "group": "g", "messages": 2}, {"queue": "a:3", "group": None, "messages": 1},
        ]  # fmt: skip


def test_a_run_that_was_ended_is_continued_and_waits_again_for_producers(scale: Scale) -> None:
    node = Node("a", write=2, read=4, ends={3: 7}, offsets={"g": {3: 7}})
    with cluster(node) as served:
        done = scale(served, "--queues", "2", "--yes")
        assert (done.code, node.sets) == (0, [(2, 2)])
        assert "a change is under way already; it is continued from here" in done.out
        assert "a: wait 0.2 s, until no producer has the old route" in done.err


@pytest.mark.parametrize("room", [SCHEDULED, HALVES])
def test_a_queue_is_not_hidden_while_a_delayed_or_transactional_message_is_on_its_way(scale: Scale, room: str) -> None:
    """The broker would store it in the queue that it was sent to, where nobody reads it."""
    others = [Held(room, 3, "other"), Held(room, 0), Held(room, 3)]
    node = Node("a", ends={3: 7}, offsets={"g": {3: 7}}, held=others)
    with cluster(node) as served:
        done = scale(served, "--queues", "2", "--yes", "--wait", "0.1")
        assert (done.code, node.sets) == (1, [(2, 4)])
        assert "not drained in 0.1 s: a:3 gets 1 delayed or transactional" in done.err
        node.delivered[room] = 3
        node.ends[3] = 8
        node.offsets["g"][3] = 8
        assert scale(served, "--queues", "2", "--yes").code == 0


def test_groups_without_an_offset_in_a_queue_get_one_before_it_is_written(scale: Scale) -> None:
    """Else one that is down, and begins at the end of queues, would skip what is written until it is up."""
    node = Node(
        "a", write=2, read=2, first={2: 3}, ends={2: 9, 3: 4}, offsets={"g": {0: 1}, "new": {0: 0, 2: 9}, "h": {1: 1}}
    )
    with cluster(node, members={"h": {"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"}}) as served:
        node.on_set = lambda changed: seen.append({group: dict(known) for group, known in changed.offsets.items()})
        seen: list[Any] = []
        done = scale(served, "--queues", "4", "--yes")
        assert (done.code, node.sets) == (0, [(2, 4), (4, 4)])
        assert seen[-1] == {"g": {0: 1, 2: 9, 3: 4}, "new": {0: 0, 2: 9, 3: 4}, "h": {1: 1, 2: 3, 3: 0}}
        assert "done: a: give g, h, new an offset in queues 2 to 3" in done.err


def test_a_message_that_comes_while_a_queue_is_hidden_makes_it_read_again(scale: Scale) -> None:
    node = Node("a", offsets={"g": {0: 0}})

    def send(changed: Node) -> None:
        if changed.read == 2:
            changed.ends[3] = changed.ends.get(3, 0) + 1

    node.on_set = send
    with cluster(node) as served:
        done = scale(served, "--queues", "2", "--yes")
        assert (done.code, node.sets) == (1, [(2, 4), (2, 2), (2, 4)])
        assert "a producer sent to a:3 after 0.2 s; its queues are read again, and nothing is lost" in done.err


def test_only_the_groups_that_are_named_have_to_read_a_queue(scale: Scale) -> None:
    node = Node("a", ends={3: 7}, offsets={"g": {3: 7}, "gone": {3: 2}})
    with cluster(node) as served:
        assert scale(served, "--queues", "2", "--yes", "--wait", "0").err.endswith("run it again, and it continues\n")
        done = scale(served, "--queues", "2", "--yes", "--group", "g")
        assert (done.code, node.sets) == (0, [(2, 4), (2, 2)])
        assert "g (0 members), gone (0 members, not counted)" in done.out


def test_a_group_that_subscribes_to_other_topics_now_counts_as_one_that_has_not_read(scale: Scale) -> None:
    node = Node("a", ends={3: 7}, offsets={"g": {3: 2}})
    with cluster(node, members={"g": {"subscriptionTable": {"other": {}}}}) as served:
        assert "a:3 has 5 for g" in scale(served, "--queues", "2", "--dry-run").out


def test_order_is_kept_only_while_producers_are_stopped_and_all_is_read(scale: Scale) -> None:
    node = Node("a", ends={0: 3}, offsets={"g": {0: 2}})
    with cluster(node) as served:
        running = scale(served, "--queues", "2", "--yes", "--keep-order")
        assert (running.code, node.sets) == (1, [])
        assert "add --producers-stopped" in running.err
        unread = scale(served, "--queues", "2", "--yes", "--keep-order", "--producers-stopped", "--wait", "0.1")
        assert (unread.code, node.sets) == (1, [])
        assert "a:0 has 1 for g" in unread.err
        read_all(node)
        assert scale(served, "--queues", "2", "--yes", "--keep-order", "--producers-stopped").code == 0
        assert node.sets == [(2, 4), (2, 2)]


@pytest.mark.parametrize(
    ("node", "settings", "arguments", "words"),
    [
        (Node("a", order=True), {}, [], "topic 'orders' is ordered at broker 'a'"),
        (Node("a", attributes={"message.type": "FIFO"}), {}, [], "topic 'orders' is ordered at broker 'a'"),
        (Node("a"), {"order_conf": "a:4"}, [], "has an order configuration, a:4"),
        (Node("a", has_master=False), {}, [], "broker a has no master now"),
        (Node("a", perm=2), {}, [], "cannot be read at broker 'a' (perm 2)"),
        (Node("a", ends={3: 1}), {}, [], "no consumer group has read topic 'orders'"),
        (Node("a", offsets={"g": {}}), {"members": {"g": {"messageModel": "BROADCASTING"}}}, [], "is broadcasting"),
        (Node("a"), {"route": lambda node: (3, 3)}, [], "has write 3 and read 3 for broker 'a'"),
        (Node("a", offsets={"g": {}}), {"deny": True}, [], "may not scale topics"),
    ],
)
def test_what_would_lose_messages_or_cannot_be_known_is_refused(
    scale: Scale, node: Node, settings: dict[str, Any], arguments: list[str], words: str
) -> None:
    with cluster(node, **settings) as served:
        done = scale(served, "--queues", "2", "--yes", *arguments)
        assert (done.code, node.sets) == (1, [])
        assert words in done.err


@pytest.mark.parametrize("topic", ["%RETRY%g", "%DLQ%g", "TBW102", "rmq_sys_wheel_timer", "RMQ_SYS_TRACE_TOPIC"])
def test_topics_of_brokers_and_groups_are_refused(scale: Scale, topic: str) -> None:
    with cluster(Node("a")) as served:
        assert scale(served, "--queues", "2", "--yes", topic=topic).code == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--queues", "0"], "--queues"),
        (["--queues", "2"], "cannot ask for confirmation without a terminal"),
        (["--queues", "2", "--yes", "--broker", "x"], "no broker x has topic 'orders'; there are a"),
        (["--queues", "2", "--yes", "--group", "x"], "no broker of topic 'orders' knows group x; known: g"),
        (["--queues", "2", "--yes", "--producers-stopped"], "--producers-stopped needs --keep-order"),
        (["--queues", "2", "--yes", "--partitioner", "nonsense"], "nonsense"),
        (["--queues", "2", "--yes", "--access-key", "k"], "set HASHSTAR_ROCKETMQ_SECRET_KEY"),
        (["--queues", "2", "--yes", "--ca-file", __file__], "--ca-file needs --tls"),
    ],
)
def test_bad_usage_ends_with_2_and_changes_nothing(scale: Scale, arguments: list[str], words: str) -> None:
    node = Node("a", offsets={"g": {}})
    with cluster(node) as served:
        done = scale(served, *arguments)
        assert (done.code, node.sets) == (2, [])
        assert words in done.err


def test_a_topic_or_name_server_that_is_not_there_is_reported(scale: Scale) -> None:
    with cluster(Node("a")) as served:
        assert f"there is no topic 'x' at {served.url}" in scale(served, "--queues", "2", "--yes", topic="x").err
    assert (gone := scale(served, "--queues", "2", "--yes")).code == 2
    assert "no name server answers" in gone.err


def test_the_keys_of_a_file_show_which_share_moves(scale: Scale, tmp_path: Any) -> None:
    keys = tmp_path / "keys"
    keys.write_text("one\ntwo\nthree\n")
    with cluster(Node("a")) as served:
        assert "of 3 keys move to another queue" in scale(served, "--queues", "3", "--dry-run", "--keys", str(keys)).out
        keys.write_bytes(b"one\n\xff\n")
        assert (bad := scale(served, "--queues", "3", "--dry-run", "--keys", str(keys))).code == 2
        assert f"{keys}:2: not UTF-8" in bad.err


def test_a_broker_keeps_the_rest_of_the_topics_configuration(scale: Scale) -> None:
    node = Node("a", perm=6, flag=5, attributes={"message.type": "NORMAL"})
    with cluster(node) as served:
        assert scale(served, "--queues", "6", "--yes").code == 0
    assert (node.perm, node.flag, node.attributes, node.write) == (6, 5, {"message.type": "NORMAL"}, 6)
