"""A nearest message does reach its goal, and where it is proved that there is none, no message does."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.analysis.crawl import Budget, Deadline
from bindings.serve.nearest import NearestMessage, find_nearest
from bindings.serve.view import View
from bindings.sources.document import Document
from bindings.sources.open import Source
from exchange import Binding, Destination, Message, Topology
from exchange.entities.releases import LATEST_PROFILE
from exchange.errors import BrokerError
from tests.support import topologies
from tests.support.tiers import examples

STEPS = 300_000


def view_of(topology: Topology) -> View:
    return View(Source("test", Document.loads("")), topology)


def read(text: str) -> View:
    """Return the view of a text in the language."""
    return view_of(Document.loads(text).topology())


def to_queue(view: View, queue: str, exchange: str, key: str, **headers: object) -> NearestMessage:
    return find_nearest(view, Message(exchange, key, headers), Destination("queue", queue), Budget(STEPS))


def reaches(view: View, message: Message, goal: Destination | Binding) -> bool:
    try:
        explanation = view.router.explain(message)
    except BrokerError:
        return False
    if isinstance(goal, Destination):
        return goal.name in explanation.route.queues
    return any(goal in hop.matched for hop in explanation.hops)


@given(st.integers(0, 2**32))
@examples(150)
def test_what_is_found_arrives_and_what_is_proved_not_to_exist_does_not(seed: int) -> None:
    rng = Random(seed)
    topology = topologies.topology(rng, LATEST_PROFILE)
    view = view_of(topology)
    message = topologies.message(rng, topology)
    goals: list[Destination | Binding] = [Destination("queue", rng.choice(list(topology.queues))), *topology.bindings]
    goal = rng.choice(goals)
    nearest = find_nearest(view, message, goal, Budget(STEPS, Deadline(5)))
    if nearest.message is not None:
        assert nearest.message.exchange == message.exchange
        assert not nearest.why_not
        passed = {hop.exchange.name for hop in view.router.explain(nearest.message).hops}
        certain = passed.isdisjoint(view.side().loose)
        assert not certain or reaches(view, nearest.message, goal)
        if certain and reaches(view, message, goal):
            assert nearest.message == message
        return
    assert nearest.why_not
    if nearest.proved:
        for _ in range(100):
            other = topologies.message(rng, topology)
            headers = dict(other.headers)
            if "with one routing key" in nearest.why_not:
                headers = {name: value for name, value in headers.items() if name not in ("CC", "BCC")}
            assert not reaches(view, Message(message.exchange, other.routing_key, headers), goal)


ORDERS = """
exchange orders: topic, alternate unrouted
exchange unrouted: fanout, internal
exchange all: headers
exchange some: x-random
queue billing
queue lost
queue pdf
queue lucky
orders -> billing: "order.*.created"
orders -> exchange all: "doc.#"
unrouted -> lost
all -> pdf: all { format = "pdf", pages = 1 }
some -> lucky
"""


def test_the_key_changes_as_little_as_the_nearest_path_asks_for() -> None:
    view = read(ORDERS)
    assert to_queue(view, "billing", "orders", "order.eu.creatd").message == Message("orders", "order.eu.created")
    assert to_queue(view, "billing", "orders", "order.eu.created").message == Message("orders", "order.eu.created")


def test_a_message_is_found_for_an_alternate_exchange_and_for_headers() -> None:
    view = read(ORDERS)
    lost = to_queue(view, "lost", "orders", "order.eu.created").message
    assert lost is not None
    assert not Document.loads(ORDERS).topology().bindings_to(Destination("queue", lost.routing_key))
    pdf = to_queue(view, "pdf", "orders", "doc", tenant="acme").message
    assert pdf == Message("orders", "doc", {"tenant": "acme", "format": "pdf", "pages": 1})


def test_the_default_exchange_wants_the_name_of_the_queue() -> None:
    assert to_queue(read(ORDERS), "billing", "", "billin").message == Message("", "billing")


def test_the_exchanges_that_do_lead_there_are_named() -> None:
    nearest = to_queue(read(ORDERS), "billing", "all", "k")
    assert (nearest.message, nearest.proved, nearest.entries) == (None, True, ("orders",))
    assert nearest.why_not == "no message to exchange 'all' gets there"


def test_that_no_key_passes_two_bindings_is_stated_for_messages_of_one_key() -> None:
    text = 'exchange one: topic\nexchange two: topic\nqueue q\none -> exchange two: "a.*"\ntwo -> q: "b.*"\n'
    nearest = to_queue(read(text), "q", "one", "a.x")
    assert (nearest.message, nearest.proved, nearest.entries) == (None, True, ("two",))
    assert nearest.why_not == "no message to exchange 'one' with one routing key gets there"
    assert reaches(read(text), Message("one", "a.x", {"CC": ["b.x"]}), Destination("queue", "q"))


def test_chance_is_not_taken_for_impossible() -> None:
    view = read(ORDERS + 'exchange luck: topic\nluck -> exchange some: "#"\n')
    nearest = to_queue(view, "billing", "luck", "k")
    assert (nearest.message, nearest.proved) == (None, False)
    assert "'some'" in nearest.why_not


def test_a_binding_that_nothing_matches_has_no_message() -> None:
    view = read("exchange h: headers\nqueue q\nh -> q: any {}\n")
    (binding,) = view.topology.bindings
    nearest = find_nearest(view, Message("h", ""), binding, Budget(STEPS))
    assert nearest == NearestMessage(None, "no message can match the binding")


@pytest.mark.parametrize("steps", [0, 3])
def test_a_search_without_budget_is_undecided(steps: int) -> None:
    nearest = find_nearest(read(ORDERS), Message("orders", "k"), Destination("queue", "billing"), Budget(steps))
    assert (nearest.message, nearest.why_not, nearest.proved) == (None, "out of time", False)
