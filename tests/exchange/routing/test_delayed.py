"""Messages that an x-delayed-message exchange keeps, as live brokers with the plugin route them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.testing.virtual_broker import VirtualBroker
from exchange import Binding, Exchange, Message, Queue, Router, Topology
from exchange.entities.releases import PROFILES, find_profile
from exchange.errors import BrokerError
from exchange.kinds.delayed import MAX_DELAY, read_delay
from exchange.values.field_json import decode_table
from exchange.values.field_values import resolve_type
from tests.recorders import golden
from tests.recorders.delayed_exchange import VALUES, WAIT
from tests.support.amqp_wire import TAGS
from tests.support.tiers import examples

RECORDINGS = golden.names("rabbitmq-delayed-")


def delaying(inner: str, name: str = "d", **arguments: Any) -> Exchange:
    return Exchange(name, "x-delayed-message", arguments={"x-delayed-type": inner, **arguments})


def topology_of(case: dict[str, Any], version: str) -> Topology:
    topology = Topology(profile=find_profile(version))
    for each in case["exchanges"]:
        topology = topology.declare_exchange(Exchange(each["name"], each["type"], arguments=each["arguments"]))
    for name in case["queues"]:
        topology = topology.declare_queue(Queue(name))
    for each in case["bindings"]:
        bind = Binding.to_queue if each["kind"] == "queue" else Binding.to_exchange
        arguments = decode_table(each["arguments"])
        topology = topology.bind(bind(each["source"], each["destination"], each["key"], arguments))
    return topology


def message_of(recorded: dict[str, Any]) -> Message:
    return Message(recorded["exchange"], recorded["key"], decode_table(recorded["headers"]))


def test_there_are_recordings() -> None:
    assert len(RECORDINGS) == 2


@pytest.mark.parametrize("name", RECORDINGS)
def test_each_value_of_x_delay_is_read_as_by_a_live_broker(name: str) -> None:
    recorded = golden.read(name)
    profile = find_profile(recorded["version"])
    topology = Topology([delaying("fanout")], [Queue("q")], [Binding.to_queue("d", "q")], profile=profile)
    for value, answer in zip(VALUES, recorded["values"], strict=True):
        broker = VirtualBroker(topology)
        if isinstance(answer, str):
            with pytest.raises(BrokerError, match="crashes") as error:
                broker.publish("d", headers={"x-delay": value})
            assert str(error.value).startswith(answer)
            continue
        broker.publish("d", headers={"x-delay": value}, mandatory=True)
        was_returned, header = answer
        assert bool(broker.returned) == was_returned, value
        assert broker.unroutable == [], value
        broker.advance(1)
        assert [*map(_header_of, broker.queues["q"])] == ([] if header is None else [header]), value


def _header_of(message: Message) -> list[Any]:
    kind, value = resolve_type(message.headers["x-delay"])
    tag = TAGS[kind].decode()
    match tag:
        case "S":
            value = value.decode()
        case "d" | "f":
            value = int(value)
        case "x":
            value = repr(value)
        case "A":
            value = [["l", 50]]
        case "F":
            value = {"a": ["l", 50]}
        case "T":
            value = "datetime.datetime(1970, 1, 1, 0, 0, 50, tzinfo=datetime.timezone.utc)"
    return [tag, value]


@pytest.mark.parametrize("name", RECORDINGS)
def test_random_topologies_route_now_and_later_as_a_live_broker(name: str) -> None:
    """360 messages to a release: to which queues at once, which of them returned, to which later, with which header."""
    recorded = golden.read(name)
    for case in recorded["cases"]:
        router = Router(topology_of(case, recorded["version"]))
        for each in case["messages"]:
            route = router.route(message_of(each))
            later = [queue for part in route.later if part.milliseconds <= WAIT + 1 for queue in part.route.queues]
            assert [*route.at_once.queues] == sorted(queue for queue, _ in each["now"]), each
            assert sorted(later) == sorted(queue for queue, _ in each["later"]), each
            assert route.at_once.unroutable == each["returned"], each


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_virtual_broker_delivers_the_same_at_the_same_times(name: str) -> None:
    recorded = golden.read(name)
    for case in recorded["cases"]:
        for each in case["messages"]:
            broker = VirtualBroker(topology_of(case, recorded["version"]))
            message = message_of(each)
            broker.publish(message.exchange, message.routing_key, headers=message.headers, mandatory=True)
            assert bool(broker.returned) == each["returned"]
            for seconds, kept in ((0, "now"), (WAIT / 1000 - 0.001, ""), (0.002, "later")):
                broker.advance(seconds)
                got = [(queue, _delay_of(message)) for queue in broker.queues for message in broker.queues[queue]]
                expected = [(queue, headers.get("x-delay", [0, 0])[1]) for queue, headers in each[kept]] if kept else []
                assert sorted(got) == sorted(expected), (each, kept)
                for queue in broker.queues:
                    broker.purge(queue)


def _delay_of(message: Message) -> Any:
    value = resolve_type(message.headers.get("x-delay", 0))[1]
    return value.decode() if isinstance(value, bytes) else int(value)


def test_a_message_that_no_queue_gets_is_dropped_when_its_delay_is_over() -> None:
    broker = VirtualBroker(Topology([delaying("direct")], [Queue("q")], [Binding.to_queue("d", "q", "k")]))
    assert broker.publish("d", "other", headers={"x-delay": 1000}).unroutable
    assert broker.unroutable == []
    broker.advance(1)
    assert [message.headers for message in broker.unroutable] == [{"x-delay": -1000}]


def test_the_bindings_of_then_count() -> None:
    broker = VirtualBroker(
        Topology([delaying("direct")], [Queue("q"), Queue("new")], [Binding.to_queue("d", "q", "k")])
    )
    broker.publish("d", "k", headers={"x-delay": 1000})
    broker.unbind(Binding.to_queue("d", "q", "k"))
    broker.bind(Binding.to_queue("d", "new", "k"))
    broker.advance(1)
    assert (len(broker.queues["q"]), len(broker.queues["new"])) == (0, 1)
    broker.publish("d", "k", headers={"x-delay": 1000})
    broker.delete_exchange("d")
    broker.advance(1)
    assert len(broker.queues["new"]) == 1


def test_a_dead_letter_is_delayed_as_well() -> None:
    """Its header is that of its publisher, if no exchange has delayed it yet; else it is negated, and not delayed."""
    rest = {"x-dead-letter-exchange": "d", "x-dead-letter-routing-key": "k"}
    topology = Topology([delaying("direct")], [Queue("q", arguments=rest)], [Binding.to_queue("d", "q", "k")])
    broker = VirtualBroker(topology)
    broker.publish("", "q", b"1", headers={"x-delay": 1000})
    for waited in (1, 0):
        delivery = broker.get("q")
        assert delivery is not None
        broker.reject(delivery, requeue=False)
        assert len(broker.queues["q"]) == (0 if waited else 1)
        broker.advance(waited)
        assert len(broker.queues["q"]) == 1
    assert broker.lost == []


def keys_and_delays() -> Iterator[tuple[str, dict[str, Any]]]:
    for key in ("a", "b", "c"):
        for delay in (None, 5, 0, -5, MAX_DELAY, MAX_DELAY + 1, "7", "text", 2.5, True):
            yield key, {} if delay is None else {"x-delay": delay}


def answer(router: Router, message: Message) -> str:
    try:
        return str(router.route(message))
    except BrokerError as error:
        return str(error)


@given(st.integers(0, 59), st.sampled_from(RECORDINGS))
@examples(30)
def test_columns_are_routed_as_single_messages(number: int, name: str) -> None:
    recorded = golden.read(name)
    case = recorded["cases"][number]
    router = Router(topology_of(case, recorded["version"]))
    for exchange in case["exchanges"]:
        rows = [*keys_and_delays()]
        columns = router.route_columns(
            exchange["name"], [key for key, _ in rows], [json.dumps(headers) for _, headers in rows]
        )
        for row, (key, headers) in enumerate(rows):
            outcome = columns.index[row]
            expected = answer(router, Message(exchange["name"], key, headers))
            assert str(columns.errors[outcome] if outcome in columns.errors else columns.routes[outcome]) == expected


@pytest.mark.parametrize("profile", PROFILES.values(), ids=str)
def test_what_is_routed_after_a_delay_is_never_kept_again(profile: Any) -> None:
    topology = Topology(
        [delaying("fanout"), delaying("fanout", "e")], [Queue("q")],
        [Binding.to_exchange("d", "e"), Binding.to_queue("e", "q"), Binding.to_exchange("e", "d")], profile=profile,
    )  # fmt: skip
    route = Router(topology).route(Message("d", "", {"x-delay": 5}))
    assert [(each.exchange, each.route.queues, each.route.later) for each in route.later] == [("d", ("q",), ())]
    assert read_delay({"x-delay": -5}, profile) is None


def test_the_explanation_has_both_times() -> None:
    topology = Topology(
        [delaying("direct", "later", **{"alternate-exchange": "unrouted"}), Exchange("unrouted", "fanout")],
        [Queue("q"), Queue("lost")], [Binding.to_queue("later", "q", "k"), Binding.to_queue("unrouted", "lost")],
    )  # fmt: skip
    assert str(Router(topology).explain(Message("later", "k", {"x-delay": 5000}))) == (
        "exchange 'later' <- 'k'\n"
        "  exchange 'later' (x-delayed-message)\n"
        "    kept for 5 s by x-delay: no binding is looked at until then\n"
        "    alternate exchange 'unrouted': taken, followed\n"
        "  exchange 'unrouted' (fanout, from exchange 'later')\n"
        "    '' -> queue 'lost': queued\n"
        "after 5 s, from exchange 'later' again:\n"
        "  exchange 'later' (x-delayed-message)\n"
        "    'k' -> queue 'q': queued\n"
        "    alternate exchange 'unrouted': not taken, its own bindings match\n"
        "routed at once to 1 queue: lost\n"
        "routed after 5 s from exchange 'later' to 1 queue: q"
    )


def test_a_walk_after_a_delay_begins_anew() -> None:
    """An exchange and a queue that the message reached at once are followed and queued once more."""
    exchanges = [Exchange("x", "fanout"), delaying("fanout"), Exchange("e", "fanout")]
    bindings = [
        Binding.to_exchange("x", "d"), Binding.to_exchange("x", "e"), Binding.to_exchange("d", "e"),
        Binding.to_queue("e", "q"),
    ]  # fmt: skip
    router = Router(Topology(exchanges, [Queue("q")], bindings))
    hops = router.explain(Message("x", "", {"x-delay": 5})).hops
    steps = {
        (hop.exchange.name, hop.after): [(step.destination.name, step.outcome) for step in hop.steps] for hop in hops
    }
    assert steps == {
        ("x", None): [("d", "followed"), ("e", "followed")], ("d", None): [], ("e", None): [("q", "queued")],
        ("d", 5): [("e", "followed")], ("e", 5): [("q", "queued")],
    }  # fmt: skip
