"""What findings about lives say of small topologies, and how the command shows it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from bindings import VirtualBroker
from bindings.checking.check import check
from bindings.commands.check import check_command
from bindings.sources.document import Document
from exchange import Binding, Exchange, Queue, Topology
from exchange.entities.releases import PROFILES
from tests.support.cases import with_each
from tests.support.lives.witnesses import play

OPTIONAL = ("HS323", "HS324")


def to(key: str) -> str:
    """Return the arguments of a queue whose dead letters go to one other queue."""
    return f'x-dead-letter-exchange = "", x-dead-letter-routing-key = "{key}"'


def found(text: str, prefix: str = "HS32") -> list[tuple[str, str]]:
    """Return code and message of each finding about lives, after its example was played on the model."""
    topology = Document.loads(text).topology()
    findings = [each for each in check(topology, optional=OPTIONAL) if each.code.startswith(prefix)]
    for each in findings:
        if each.life is not None:
            play(topology, each.life)
    return [(each.code, each.message) for each in findings]


KEPT = 'quorum, x-dead-letter-strategy = "at-least-once", x-overflow = "reject-publish"'
FANOUT = "exchange f: fanout\nf -> a\nf -> b\n"
AGING = f"queue b: x-message-ttl = 1000, {to('c')}\nqueue c: x-message-ttl = 1000, {to('b')}\n"
REJECTING = (
    f"queue jobs: x-message-ttl = 1000, {to('parking')}\nqueue parking: {to('wait')}\n"
    f"queue wait: x-message-ttl = 1000, {to('jobs')}"
)
EXPIRING = 'x-message-ttl = 5, x-dead-letter-exchange = "f", x-dead-letter-routing-key = "k"'


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (f"queue a: {to('b')}\nqueue b: {to('a')}",
         ["a message that is rejected in 'a' or 'b' goes round without a pause, for ever if it always is"]),
        # Retries that wait in one queue are one finding, whatever keys they keep.
        (('exchange again: headers\nqueue later: x-message-ttl = 15000, x-dead-letter-exchange = ""\nagain -> later\n'
         'queue a: x-dead-letter-exchange = "again", x-dead-letter-routing-key = "a"\n'
         'queue b: x-dead-letter-exchange = "again", x-dead-letter-routing-key = "b"'),
         [("a message that is rejected in 'a' or 'b' comes back there as often as it is rejected: through 'later', "
          "where it expires")]),
        # Queues that are passed one after the other, and queues of which a message passes one.
        (f"queue a: {to('b')}\nqueue b: x-message-ttl = 5, {to('c')}\nqueue c: x-message-ttl = 9, {to('a')}",
         [("a message that is rejected in 'a' comes back there as often as it is rejected: through 'b' and 'c', where "
          "it expires")]),
        (('exchange f: fanout\nf -> b, c\nqueue a: x-dead-letter-exchange = "f"\n'
         f"queue b: x-message-ttl = 5, {to('a')}\nqueue c: x-message-ttl = 9, {to('a')}"),
         [("a message that is rejected in 'a' comes back there as often as it is rejected: through 'b' or 'c', where "
          "it expires")]),
        # HS314 is about messages that only expire: what consumers reject comes back all the same.
        (f"queue a: x-message-ttl = 5, {to('a')}",
         ["a message that is rejected in 'a' goes round without a pause, for ever if it always is"]),
        (f"queue a: x-message-ttl = 90, {to('b')}\nqueue b: x-message-ttl = 5, {to('a')}",
         [("a message that is rejected in 'a' or 'b' comes back there as often as it is rejected: through 'a' or 'b', "
          "where it expires")]),
        (f'{FANOUT}queue a: x-message-ttl = 5, x-dead-letter-exchange = "f"\nqueue b',
         ["a message that is rejected in 'a' goes round without a pause, for ever if it always is"]),
        # Up to 3.12, RabbitMQ may overlook a circle of expiry.
        (f"profile rabbitmq-3.12\n{FANOUT}queue a: {EXPIRING}\nqueue b: {EXPIRING}",
         ["a message goes round for ever, without a consumer, through 'a' and 'b', where it expires"]),
        (f"profile rabbitmq-3.13\n{FANOUT}queue a: {EXPIRING}\nqueue b: {EXPIRING}",
         ["a message that is rejected in 'a' or 'b' goes round without a pause, for ever if it always is"]),
        # Up to 3.13.2, too, if it was rejected in a queue whose name comes first.
        (f"profile 3.13.2\n{AGING}queue a: {to('b')}",
         ["a message goes round for ever, without a consumer, through 'b' and 'c', where it expires"]),
        *((f"profile {release}\n{AGING}queue {name}: {to('b')}",
           [("a message that is rejected in 'b' or 'c' comes back there as often as it is rejected: through 'b' or "
             "'c', where it expires")])
          for release, name in (("3.13.2", "d"), ("3.13.3", "a"))),
        # A message comes back once, as it gets another key on its way.
        ((f'exchange d: direct\nqueue a: x-dead-letter-exchange = "d"\nqueue b: {to("a")}\nqueue k\n'
         'd -> a: "x"\nd -> b: "x"\nd -> k: "a"\n'),
         ["a message that is rejected in 'a' goes round without a pause, for ever if it always is"]),
        (('exchange e: direct\nexchange d: direct\nqueue a: x-dead-letter-exchange = "d"\ne -> a: "x"\nd -> b: "x"\n'
         f'queue b: {to("a")}\nqueue k\nd -> k: "a"\n'),
         ["a message that is rejected in queue 'a' comes back to it, with another routing key"]),
        # A queue that is deleted before its messages expire does not hand them on by itself.
        (f"queue a: {to('w')}\nqueue w: x-message-ttl = 50, x-expires = 50, {to('a')}",
         ["a message that is rejected in 'a' or 'w' goes round without a pause, for ever if it always is"]),
        # Nothing is stated where it is not known which policy is in force, nor of queues without room.
        ('queue a\npolicy p: "(?R)a", queues, dead-letter-exchange = "", dead-letter-routing-key = "a"', []),
        (f"queue a: x-max-length = 0, {to('a')}", []),
    ],
)  # fmt: skip
def test_what_goes_round_or_comes_back(text: str, messages: list[str]) -> None:
    assert [message for code, message in found(text) if code in ("HS321", "HS322")] == messages


def test_a_time_to_live_of_zero_is_no_pause() -> None:
    """On the model, the message is back before any time has passed."""
    topology = Document.loads(f"queue a: {to('b')}\nqueue b: x-message-ttl = 0, {to('a')}").topology()
    [finding] = [each for each in check(topology) if each.code.startswith("HS32")]
    assert (finding.code, finding.message) == (
        "HS321",
        "a message that is rejected in 'a' goes round without a pause, for ever if it always is",
    )
    broker = VirtualBroker(topology)
    broker.publish("", "a", b"")
    delivery = broker.get("a")
    assert delivery is not None
    broker.reject(delivery, requeue=False)
    assert len(broker.queues["a"]) == 1


@with_each(
    ("text", "messages"),
    [
        ("queue a", ["messages that are rejected vanish from queue 'a': it has no dead letter exchange"]),
        ("queue a: quorum, x-message-ttl = 5, x-max-length = 9",
         [("messages that expire, are over the limit, are given back too often or are rejected vanish from queue 'a': "
          "it has no dead letter exchange")]),
        ("profile rabbitmq-3.13\nqueue a: quorum",
         ["messages that are rejected vanish from queue 'a': it has no dead letter exchange"]),
        (f"queue a: {to('b')}\nqueue b: {to('a')}, x-max-length = 9, x-overflow = \"reject-publish\"",
         ["messages that are rejected vanish from queue 'a': 'b' refuses its dead letters when it is full"]),
        (f"profile 3.13.2\n{REJECTING}",
         ["messages that go round through 'jobs', 'parking' and 'wait' are dropped, in 'wait'"]),
        (f"profile 3.13.3\n{REJECTING}", []),
        (f"queue a: {to('a')}, x-max-length = 2",
         ["messages that go round through 'a' without being rejected are dropped, in 'a'"]),
        (f"queue a: {to('a')}, x-expires = 90000",
         ["messages vanish with queue 'a', which is deleted when nobody uses it for 90 s"]),
        (f"queue a: {to('a')}, auto-delete",
         ["messages vanish with queue 'a', which is deleted when its last consumer is gone"]),
        (f"queue a: {to('b')}", []),  # HS312
        ("queue a: stream", []),
        # Others come to a queue: it is this key that does not.
        (('exchange t: topic\nexchange f: fanout\nqueue w: x-message-ttl = 5, x-dead-letter-exchange = "t"\n'
         'f -> w\nqueue a: x-dead-letter-exchange = "f"\nt -> a: "a.#"'),
         [("messages that expire or are rejected vanish from queue 'w': no queue gets its dead letters with the key "
          "''")]),
        # What must arrive at least once is kept where no queue takes it: alone, or at the end of a circle.
        (f'exchange h: headers\nqueue a: {KEPT}, x-dead-letter-exchange = "h"', []),
        (f"queue a: {KEPT}, x-delivery-limit = 2, {to('b')}\nqueue b: {KEPT}, x-delivery-limit = 2, {to('a')}", []),
        # What headers of dead letters decide is tried.
        (('exchange h: headers\nqueue a: x-dead-letter-exchange = "h"\nqueue b: '
         f'{to("a")}\nh -> b: all-with-x {{ x-first-death-queue = "a" }}'), []),
        (('exchange h: headers\nqueue a: x-message-ttl = 5, x-dead-letter-exchange = "h"\n'
         f"queue b: {to('a')}\n"
         'h -> b: all-with-x { x-first-death-reason = "rejected" }'),
         ["messages that expire vanish from queue 'a': no queue gets its dead letters with the key 'a'"]),
    ],
)  # fmt: skip
def test_what_vanishes(text: str, messages: list[str]) -> None:
    assert [message for code, message in found(text) if code == "HS323"] == messages


RETRY = "x-delayed-retry-type = '{}', x-delayed-retry-min = 9"
NO_LIMIT = "as there is no delivery limit: it sets none"
BY_NACK = "any number of times by basic.nack, which the delivery limit does not count"
WAITS = "each time after 9 ms at least"


@with_each(
    ("text", "often"),
    [
        ("queue a", "any number of times, as there is no delivery limit: classic queues have none"),
        ("profile rabbitmq-3.13\nqueue a: quorum", "any number of times, as there is no delivery limit: it sets none"),
        ("profile rabbitmq-3.13\nqueue a: quorum, x-delivery-limit = -1", None),  # as if it was 0
        ("profile rabbitmq-4.0\nqueue a: quorum", None),
        ("profile rabbitmq-4.0\nqueue a: quorum, x-delivery-limit = 21", "21 times, which is its delivery limit"),
        ("profile rabbitmq-4.0\nqueue a: quorum, x-delivery-limit = -1",
         "any number of times, as there is no delivery limit: it sets none"),
        ("profile rabbitmq-4.3\nqueue a: quorum",
         "any number of times by basic.nack, which the delivery limit does not count"),
        *(
            (f"profile rabbitmq-4.3\nqueue a: quorum, x-delivery-limit = {limit}, {RETRY.format(kind)}", often)
            for limit, kind, often in (
                (-1, "all", f"any number of times, {NO_LIMIT}, {WAITS}"),
                (-1, "failed", f"any number of times by basic.nack, {NO_LIMIT}"),
                (-1, "returned", f"any number of times, {NO_LIMIT}"),
                (99, "all", f"99 times, which is its delivery limit, {WAITS}"),
                (99, "failed", BY_NACK),
                (99, "returned", "99 times, which is its delivery limit"),
                (9, "failed", BY_NACK),
                (9, "returned", f"{BY_NACK}, {WAITS}"),
            )
        ),
    ],
)  # fmt: skip
def test_how_often_a_message_comes_back(text: str, often: str | None) -> None:
    expected = [] if often is None else [f"a message may come back to queue 'a' {often}"]
    assert [message for code, message in found(text) if code == "HS324"] == expected


@pytest.mark.parametrize("kind", ["all", "failed", "returned"])
@pytest.mark.parametrize("limit", [-1, 9, 99])
def test_a_message_that_comes_back_often_waits_as_the_finding_says(kind: str, limit: int) -> None:
    arguments = {"x-queue-type": "quorum", "x-delivery-limit": limit, "x-delayed-retry-type": kind}
    topology = Topology(queues=[Queue("a", arguments={**arguments, "x-delayed-retry-min": 9})])
    [finding] = [each for each in check(topology, optional=OPTIONAL) if each.code == "HS324"]
    assert finding.life is not None
    [event] = finding.life.events
    broker = VirtualBroker(topology)
    broker.publish("", "a")
    for _ in range(event.times):
        delivery = broker.get("a")
        assert delivery is not None, "it ended, or waits for longer"
        (broker.nack if event.what == "nacked" else broker.reject)(delivery)
        assert bool(broker.queues["a"]) is (event.after is None)
        broker.advance(1)


@pytest.mark.parametrize(("second", "found"), [("fanout", {"HS321", "HS325"}), ("x-random", set())])
def test_what_chance_decides_is_not_claimed_of_a_retry(second: str, found: set[str]) -> None:
    """The same topology has the same findings each time, wherever the message of the example is published."""
    text = (
        f'exchange r: x-random\nexchange x: {second}, internal\nqueue q: x-dead-letter-exchange = "x"\n'
        "queue a\nqueue b\nr -> exchange x\nr -> b\nx -> q, a\n"
    )
    topology = Document.loads(text).topology()
    codes = [{finding.code for finding in check(topology)} for _ in range(20)]
    assert [each & {"HS321", "HS325"} for each in codes] == [found] * 20


def test_a_search_that_ends_early_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bindings.checking.lives.places.MAX_STEPS", 100)
    names = [f"q{number}" for number in range(200)]
    queues = [Queue(name, arguments={"x-dead-letter-exchange": "f"}) for name in names]
    topology = Topology([Exchange("f", "fanout")], queues, [Binding.to_queue("f", name, "") for name in names])
    messages = [each.message for each in check(topology, optional=["HS323"]) if each.code in ("HS321", "HS323")]
    assert messages[0].startswith("not all rounds of dead letters were looked for")
    assert messages[-1].startswith("not all queues from which messages vanish were found")


def test_ways_back_that_were_not_looked_for_are_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only rounds without an end are one; a message that comes back with another key does so once."""
    monkeypatch.setattr("bindings.checking.lives.rounds.SEARCHES", 0)
    text = (
        'exchange e: direct\nexchange d: direct\nqueue a: x-dead-letter-exchange = "d"\ne -> a: "x"\nd -> b: "x"\n'
        f'queue b: {to("a")}\nqueue k\nd -> k: "a"\n'
    )
    assert [each for each in found(text) if each[0] != "HS323" and each[0] != "HS324"] == [
        (
            "HS322",
            "not all ways back with another routing key were looked for: there are too many ways to follow all of them",
        )
    ]


def test_a_ring_of_many_queues_is_one_finding() -> None:
    queues = [
        Queue(f"q{at}", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"q{(at + 1) % 3_000}"})
        for at in range(3_000)
    ]
    [finding] = [each for each in check(Topology(queues=queues)) if each.code.startswith("HS32")]
    assert finding.life is not None
    assert (len(finding.life.round), len(finding.related)) == (3_000, 2_999)
    assert str(finding.life).count("rejected in") == 10  # and 2,990 more


def test_the_command_shows_the_events_of_an_example() -> None:
    """As a line of text, and as JSON."""
    text = f"queue a: {to('w')}\nqueue w: x-message-ttl = 90000, {to('a')}\n"
    shown = CliRunner().invoke(check_command, ["-", "--select", "HS32"], input=text).stdout.splitlines()
    line = (
        "      for example: published to the default exchange with the key 'a', then over and over: rejected in 'a', "
        "expired in 'w' after 90 s, back in 'a'"
    )
    assert line in shown
    answer = CliRunner().invoke(check_command, ["-", "--select", "HS32", "--format", "json"], input=text).stdout
    [finding] = json.loads(answer)["vhosts"][0]["findings"]
    assert finding["life"] == {
        "exchange": "",
        "routing_key": "a",
        "events": [],
        "round": [
            {"queue": "a", "event": "rejected", "target": "w"},
            {"queue": "w", "event": "expired", "target": "a", "after_ms": 90000},
        ],
    }


def test_a_name_with_a_line_break_forges_no_line() -> None:
    text = 'queue "a\\n::error": x-dead-letter-exchange = ""\n'
    shown = CliRunner().invoke(check_command, ["-", "--select", "HS32"], input=text).stdout
    assert "'a\\n::error'" in shown
    assert not any(line.strip().startswith("::") for line in shown.splitlines())


def test_a_queue_where_messages_are_dropped_is_named_for_each_circle_that_it_is_on() -> None:
    """On 3.10, whose deaths change their order with each new one, a message is dropped in 'c' after two rounds only."""
    ttl = {"x-message-ttl": 10}
    queues = [
        Queue("a", arguments={**ttl, "x-dead-letter-exchange": ""}),
        Queue("c", arguments={**ttl, "x-dead-letter-exchange": "h"}),
    ]
    bindings = [Binding.to_queue("f", "c"), Binding.to_queue("h", "a")]
    exchanges = [Exchange("f", "fanout"), Exchange("h", "headers", internal=True)]
    topology = Topology(exchanges, queues, bindings, profile=PROFILES["rabbitmq-3.10"])
    dropped = [each for each in check(topology, optional=("HS323",)) if each.detail == "cycle"]
    assert [(each.part, each.life and len(each.life.events)) for each in dropped] == [(queues[0], 2), (queues[1], 7)]
