"""Lives in patch releases of which no live broker was had: what their source has, at the tags that each row names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings import VirtualBroker
from exchange import Queue, Topology
from exchange.entities.releases import find_profile
from exchange.lifecycle.content import is_cycle
from tests.support.cases import with_each
from tests.support.tiers import examples

REASONS = ("delivery_limit", "expired", "maxlen", "rejected")
EARLY, LATER = "3.13.2", "3.13.3"


def broker_of(release: str, **queues: dict[str, object]) -> VirtualBroker:
    """Return a broker with queues; ``to`` is the key of their dead letters, the other names are arguments."""
    made = []
    for name, settings in queues.items():
        arguments = {f"x-{key.replace('_', '-')}": value for key, value in settings.items() if key != "to"}
        if "to" in settings:
            arguments |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": settings["to"]}
        made.append(Queue(name, arguments=arguments))
    return VirtualBroker(Topology(queues=made, profile=release))


def reject(broker: VirtualBroker, queue: str) -> None:
    """Discard the next message of a queue, as basic.get and basic.reject."""
    delivery = broker.get(queue)
    assert delivery is not None
    broker.reject(delivery, requeue=False)


def is_cycle_v1(queue: bytes, keys: list[tuple[bytes, str]]) -> bool:
    """``is_cycle/2`` of mc.erl v3.13.2, ``is_cycle_v1/2`` of v3.13.3: a clause for each of its clauses."""
    if not keys:
        return False
    (head, reason), *rest = keys
    if reason == "rejected":
        return False
    if head == queue:
        return True
    return is_cycle_v1(queue, rest)


@examples(200)
@given(st.lists(st.tuples(st.sampled_from(["a", "b", "é", "z", "ab"]), st.sampled_from(REASONS)), unique=True))
def test_early_3_13_looks_for_cycles_in_the_order_of_the_keys_of_a_map(keys: list[tuple[str, str]]) -> None:
    """``maps:keys(Deaths#deaths.records)``: Erlang orders the keys {Queue, Reason} by bytes, then by the atom's text."""
    deaths = tuple({"queue": queue, "reason": reason} for queue, reason in keys)
    in_order = sorted((queue.encode(), reason) for queue, reason in keys)
    for queue in ("a", "b", "é", "z", "ab", "other"):
        assert is_cycle(deaths, queue, find_profile(EARLY).lives) == is_cycle_v1(queue.encode(), in_order)


@pytest.mark.parametrize(("release", "lost"), [("3.13.0", ["cycle"]), (EARLY, ["cycle"]), (LATER, [])])
def test_early_3_13_drops_what_was_rejected_on_the_way(release: str, lost: list[str]) -> None:
    """mc.erl v3.13.2 ``is_death_cycle``: "jobs" comes before "parking", whose rejection is not looked at any more."""
    broker = broker_of(
        release, jobs={"to": "parking", "message_ttl": 1000}, parking={"to": "wait"},
        wait={"to": "jobs", "message_ttl": 1000},
    )  # fmt: skip
    broker.publish("", "jobs", b"m")
    broker.advance(1)
    reject(broker, "parking")
    broker.advance(1)
    assert [each.cause for each in broker.lost] == lost
    assert len(broker.queues["jobs"]) == (not lost)


@pytest.mark.parametrize(("release", "lost"), [("3.13.0", []), (EARLY, []), (LATER, ["cycle"]), ("3.13.7", ["cycle"])])
def test_early_3_13_lets_circulate_what_was_rejected_in_the_first_queue_by_name(release: str, lost: list[str]) -> None:
    """mc.erl v3.13.2: "any rejection breaks the cycle" that sorts first; v3.13.3 ``is_cycle_v2`` goes by age."""
    ages = {"message_ttl": 1000}
    broker = broker_of(release, a={"to": "b"}, b={"to": "c", **ages}, c={"to": "b", **ages})
    broker.publish("", "a", b"m")
    reject(broker, "a")
    broker.advance(50)
    assert [each.cause for each in broker.lost] == lost


@pytest.mark.parametrize(("release", "keys"), [(EARLY, ["q2", "other"]), (LATER, ["q2"])])
def test_early_3_13_shows_the_keys_of_cc_in_each_death(release: str, keys: list[str]) -> None:
    """mc_amqpl.erl v3.13.2 ``deaths_to_headers``: ``[hd(RoutingKeys) | rabbit_basic:header_routes(Headers0)]``."""
    broker = broker_of(release, q1={"to": "q2"}, q2={"to": "q3"}, q3={})
    broker.publish("", "q1", b"m", headers={"CC": ["other"]})
    for queue in ("q1", "q2"):
        reject(broker, queue)
    [message] = broker.queues["q3"]
    assert [death["routing-keys"] for death in message.headers["x-death"]] == [keys, ["q1", "other"]]


@pytest.mark.parametrize(
    ("release", "count"),
    [("3.12", 2), ("3.13.0", 1), (EARLY, 1), (LATER, 2), ("3.13.7", 2), ("4.0.0", 1), ("4.0.5", 1)],
)
def test_x_death_of_a_publisher_counts_but_in_early_3_13_and_since_4_0(release: str, count: int) -> None:
    """mc_amqpl.erl has ``recover_deaths`` in v3.13.3 and v3.13.7, not in v3.13.2, nor in v4.0.0."""
    broker = broker_of(release, q={"to": "dead"}, dead={})
    headers: dict[str, Any] = {}
    for _ in range(2):
        broker.publish("", "q", b"m", headers=headers)
        reject(broker, "q")
        headers = dict(broker.queues["dead"][-1].headers)
    assert [death["count"] for death in headers["x-death"]] == [count]


@with_each(("release", "dead"), [("3.13.7", 1), ("4.0.0", 0), ("4.0.2", 0), ("4.0.3", 1), ("4.1.0", 1)])
@with_each("kind", ["quorum", "classic"])
@with_each("method", ["reject", "nack"])
def test_quorum_queues_of_4_0_2_ignore_what_is_discarded_after_a_cancel(
    release: str, dead: int, kind: str, method: str
) -> None:
    """rabbit_fifo.erl v4.0.2 ``apply(Meta, #discard{})``, which v4.0.3 keeps for machine version 4."""
    broker = broker_of(release, q={"to": "dead", "queue_type": kind}, dead={})
    for body in (b"discarded", b"acknowledged"):
        broker.publish("", "q", body)
    consumer = broker.consume("q")
    first, second = consumer.receive(), consumer.receive()
    assert second is not None
    broker.cancel(consumer)
    getattr(broker, method)(first, requeue=False)
    broker.ack(second)
    dead = dead if kind == "quorum" else 1
    assert (len(broker.queues["dead"]), len(broker.queues["q"])) == (dead, 0)
    broker.close(consumer)
    assert [message.body for message in broker.queues["q"]] == [b"discarded"] * (1 - dead)
    assert len(broker.queues["dead"]) == dead


@pytest.mark.parametrize("release", ["4.0.2", "4.0.3"])
def test_what_basic_get_took_and_what_an_active_consumer_has_is_discarded_all_the_same(release: str) -> None:
    """v4.0.2 ``apply(_, #checkout{spec = {dequeue, _}})`` keeps it under its consumer_id, which is found."""
    broker = broker_of(release, q={"to": "dead", "queue_type": "quorum"}, dead={})
    broker.publish("", "q", b"m")
    reject(broker, "q")
    broker.publish("", "q", b"m")
    delivery = broker.consume("q").receive()
    assert delivery is not None
    broker.nack(delivery, requeue=False)
    assert len(broker.queues["dead"]) == 2
