"""The rules without a server: texts as RabbitMQ 3.10.8, 4.0.5 and 4.3.6 gave them to test_live_rules.py in 2026-11."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from exchange import Binding, BrokerError, Destination, Exchange, Policy, PreconditionFailed, Queue, Topology
from exchange.entities.unread import UnreadPart
from tests.support.cases import with_each

X = Exchange("x", "topic", arguments={"alternate-exchange": "ae"})
BASE = Topology().declare_exchange(X).declare_queue(Queue("q")).declare_exchange(Exchange("f", "fanout"))
HEADERS = BASE.declare_exchange(Exchange("h", "headers"))
TO_Q = Binding.to_queue("x", "q", "a.*")


def declare_history(length: Any) -> Topology:
    """Declare an exchange with the argument x-recent-history-length."""
    return BASE.declare_exchange(Exchange("r", "x-recent-history", arguments={"x-recent-history-length": length}))


@with_each(
    ("edit", "answer"),
    [
        (lambda: BASE.declare_exchange(Exchange("")), "403 ACCESS_REFUSED - operation not permitted on the default exchange"),
        (lambda: BASE.declare_exchange(Exchange("amq.new")), "403 ACCESS_REFUSED - exchange name 'amq.new' contains reserved prefix 'amq.*'"),
        (lambda: BASE.declare_queue(Queue("amq.new")), "403 ACCESS_REFUSED - queue name 'amq.new' contains reserved prefix 'amq.*'"),
        (lambda: BASE.declare_exchange(Exchange("y", "odd")), "406 PRECONDITION_FAILED - unknown exchange type 'odd'"),
        (lambda: Topology(profile="3.12").declare_exchange(Exchange("y", "odd")), "503 COMMAND_INVALID - unknown exchange type 'odd'"),
        (lambda: Topology(profile="3.13.2").declare_exchange(Exchange("y", "odd")), "503 COMMAND_INVALID - unknown exchange type 'odd'"),
        (lambda: Topology(profile="3.13.3").declare_exchange(Exchange("y", "odd")), "406 PRECONDITION_FAILED - unknown exchange type 'odd'"),  # rabbit_exchange:check_type
        (lambda: Topology(profile="3.13").declare_exchange(Exchange("y", "x-local-random")), "406 PRECONDITION_FAILED - unknown exchange type 'x-local-random'"),
        (lambda: BASE.declare_exchange(Exchange("x", "x-random")), "406 PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'x' in vhost '/': received ''x-random'' but current is 'topic'"),
        (lambda: BASE.declare_exchange(Exchange("f", "fanout", durable=False)), "406 PRECONDITION_FAILED - inequivalent arg 'durable' for exchange 'f' in vhost '/': received 'false' but current is 'true'"),
        (lambda: BASE.declare_exchange(Exchange("x", "topic")), "406 PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'x' in vhost '/': received none but current is the value 'ae' of type 'longstr'"),
        (lambda: BASE.declare_exchange(Exchange("y", arguments={"alternate-exchange": 1})), "406 PRECONDITION_FAILED - invalid type 'long' for arg 'alternate-exchange' in exchange 'y' in vhost '/'"),
        (lambda: BASE.declare_queue(Queue("q", arguments={"x-queue-type": "quorum"})), "406 PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': received 'quorum' but current is 'classic'"),
        (lambda: BASE.bind(Binding.to_queue("nope", "q")), "404 NOT_FOUND - no exchange 'nope' in vhost '/'"),
        (lambda: BASE.bind(Binding.to_queue("x", "nope")), "404 NOT_FOUND - no queue 'nope' in vhost '/'"),
        (lambda: BASE.bind(Binding.to_queue("", "q")), "403 ACCESS_REFUSED - operation not permitted on the default exchange"),
        (lambda: BASE.bind(Binding.to_exchange("x", "")), "403 ACCESS_REFUSED - operation not permitted on the default exchange"),
        (lambda: BASE.unbind(Binding.to_queue("", "q")), "403 ACCESS_REFUSED - operation not permitted on the default exchange"),
        (lambda: BASE.bind(Binding.to_queue("x", "q", "#.#.#")), "406 PRECONDITION_FAILED - Topic binding key '#.#.#' uses 3 '#' wildcards, at most 2 are allowed"),
        (lambda: HEADERS.bind(Binding.to_queue("h", "q", "", {"x-match": "some"})), '406 PRECONDITION_FAILED - Invalid x-match field value <<"some">>; expected all, any, all-with-x, or any-with-x'),
        (lambda: HEADERS.bind(Binding.to_queue("h", "q", "", {"x-match": 1})), "406 PRECONDITION_FAILED - Invalid x-match field type long (value 1); expected longstr"),
        (lambda: HEADERS.bind(Binding.to_queue("h", "q", "", {"x-match": True})), "406 PRECONDITION_FAILED - Invalid x-match field type bool (value true); expected longstr"),
        (lambda: HEADERS.bind(Binding.to_queue("h", "q", "", {"x-match": ""})), "406 PRECONDITION_FAILED - Invalid x-match field value <<>>; expected all, any, all-with-x, or any-with-x"),
        (lambda: HEADERS.bind(Binding.to_queue("h", "q", "", {"x-match": b"\xff"})), '406 PRECONDITION_FAILED - Invalid x-match field type binary (value <<"ÿ">>); expected longstr'),
        (lambda: declare_history(True), "406 PRECONDITION_FAILED - Invalid argument true, 'x-recent-history-length' must be a positive integer"),
        (lambda: declare_history(None), "406 PRECONDITION_FAILED - Invalid argument undefined, 'x-recent-history-length' must be a positive integer"),
        (lambda: declare_history("é"), "406 PRECONDITION_FAILED - Invalid argument <<\"é\"/utf8>>, 'x-recent-history-length' must be a positive integer"),
        (lambda: declare_history("a\x01"), "406 PRECONDITION_FAILED - Invalid argument <<97,1>>, 'x-recent-history-length' must be a positive integer"),
        (lambda: BASE.bind(TO_Q).delete_exchange("x", if_unused=True), "406 PRECONDITION_FAILED - exchange 'x' in vhost '/' in use"),
        (lambda: BASE.delete_exchange("amq.topic"), "403 ACCESS_REFUSED - deletion of system exchange 'amq.topic' in vhost '/' not allowed"),
        (lambda: BASE.delete_exchange(""), "403 ACCESS_REFUSED - operation not permitted on the default exchange"),
    ],
)  # fmt: skip
def test_edits_that_rabbitmq_refuses_are_refused_with_its_texts(edit: Callable[[], Any], answer: str) -> None:
    """The reply code, its name and the text, as a client would see them."""
    with pytest.raises(BrokerError) as caught:
        edit()
    assert str(caught.value) == answer


@pytest.mark.parametrize(
    "edit",
    [
        lambda: BASE.declare_exchange(X),
        lambda: BASE.declare_exchange(Exchange("amq.topic", "topic")),
        lambda: BASE.declare_exchange(Exchange("f", "fanout", arguments={"anything": 1})),
        lambda: BASE.declare_queue(Queue("q", arguments={"x-queue-type": "classic"})),
        lambda: BASE.unbind(Binding.to_queue("nope", "nope", "k")),
        lambda: BASE.delete_exchange("nope"),
        lambda: BASE.delete_queue("nope"),
        lambda: BASE.bind(TO_Q).bind(TO_Q).unbind(TO_Q),
    ],
)
def test_declarations_that_change_nothing_are_accepted(edit: Callable[[], Topology]) -> None:
    """Declaring again, binding again, and removing what is not there."""
    assert edit() == BASE


def test_more_hashes_than_a_release_allows_still_route_when_they_are_there() -> None:
    """The limit of 4.3.5 is on binding: what was stored before stays, routes and can be unbound."""
    old = Topology(BASE.exchanges.values(), BASE.queues.values(), [Binding.to_queue("x", "q", "#.#.#")])
    assert old.unbind(Binding.to_queue("x", "q", "#.#.#")) == BASE
    assert BASE.with_profile("rabbitmq-4.0").bind(Binding.to_queue("x", "q", "#.#.#")).bindings


def test_other_parts_leave_the_rest_as_it_was() -> None:
    """Policies of both kinds, release, virtual host and what was not read: a copy that forgets one proves too much."""
    policies = [Policy("p", "q", {"max-length": 1}), Policy("o", "q", {"max-length": 1}, operator=True)]
    unread = UnreadPart("unknown", "d.json", "cannot be read")
    whole = Topology([X], [Queue("q")], [TO_Q], policies, vhost="v", profile="rabbitmq-4.0", unread=[unread])
    for topology in (whole, whole.with_unread([unread], allowed=True)):
        same = topology.with_parts()
        assert (same, same.allows_unread) == (topology, topology.allows_unread)
        for kind in ("exchanges", "queues", "bindings", "policies"):
            changed = topology.with_parts(**{kind: []})
            assert changed != topology
            again = changed.with_parts(
                exchanges=topology.exchanges.values(), queues=topology.queues.values(), bindings=topology.bindings,
                policies=topology.all_policies,
            )  # fmt: skip
            assert (again, again.allows_unread) == (topology, topology.allows_unread)


def test_arguments_make_bindings_different() -> None:
    """Same key, other arguments or other types in them: another binding, unbound apart."""
    bindings = [Binding.to_queue("f", "q", "", {"a": value}) for value in (1, 1.0, True, "1")]
    topology = BASE
    for binding in bindings:
        topology = topology.bind(binding)
    assert len(topology.bindings) == 4
    assert len(topology.unbind(bindings[0]).bindings) == 3
    assert topology.unbind(Binding.to_queue("f", "q", "")) == topology


def test_names_lose_their_line_ends() -> None:
    """RabbitMQ strips CR and LF from names in 0-9-1 methods without a word."""
    topology = BASE.declare_exchange(Exchange("a\r\nb")).bind(Binding.to_queue("a\nb", "q\r", "k\n"))
    assert "ab" in topology.exchanges
    assert Binding.to_queue("ab", "q", "k\n") in topology.bindings


def test_an_auto_delete_exchange_goes_with_its_last_binding_and_takes_others_along() -> None:
    """Deleting D removes C, B and A, each the source of the binding that goes; one never bound stays."""
    topology = Topology()
    for name in "ABCD":
        topology = topology.declare_exchange(Exchange(name, "fanout", auto_delete=name != "D"))
    topology = topology.declare_exchange(Exchange("never", "fanout", auto_delete=True))
    for source, destination in ("AB", "BC", "CD"):
        topology = topology.bind(Binding.to_exchange(source, destination))
    topology = topology.delete_exchange("D")
    assert {"A", "B", "C", "D"}.isdisjoint(topology.exchanges)
    assert "never" in topology.exchanges
    assert not topology.bindings


def test_bindings_go_with_what_they_connect() -> None:
    """Deleting a queue or an exchange removes the bindings from and to it."""
    topology = BASE.bind(TO_Q).bind(Binding.to_exchange("x", "f", "#")).bind(Binding.to_queue("f", "q"))
    assert list(topology.delete_queue("q").bindings) == [Binding.to_exchange("x", "f", "#")]
    assert list(topology.delete_exchange("f").bindings) == [TO_Q]
    assert topology.bindings_to(Destination("queue", "q"))
    assert not topology.delete_queue("q").bindings_to(Destination("queue", "q"))


def test_x_local_random_takes_classic_queues_without_a_key() -> None:
    """Its three refusals, and a binding it takes."""
    topology = BASE.declare_exchange(Exchange("r", "x-local-random"))
    quorum = topology.declare_queue(Queue("qq", arguments={"x-queue-type": "quorum"}))
    for binding, text in (
        (Binding.to_queue("r", "q", "k"), "Non empty binding 'k' key not permitted"),
        (Binding.to_queue("r", "qq"), "Queue type rabbit_quorum_queue not valid for this exchange type"),
        (Binding.to_exchange("r", "f"), "Destination not found"),
    ):
        with pytest.raises(PreconditionFailed, match=text):
            quorum.bind(binding)
    assert topology.bind(Binding.to_queue("r", "q")).bindings


def test_a_topology_cannot_be_changed() -> None:
    """No attribute can be set and no mapping written to; a wrong profile is named with the right ones."""
    with pytest.raises(AttributeError):
        BASE.vhost = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        BASE.exchanges["y"] = X  # type: ignore[index]
    with pytest.raises(ValueError, match=r"rabbitmq-4\.0"):
        Topology(profile="rabbitmq-5")
