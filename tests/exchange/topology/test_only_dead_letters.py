"""Which exchanges only dead letters get to, unless messages are published to them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exchange import Binding, Destination, Exchange, Policy, Queue, Topology
from exchange.topology.graph import TopologyGraph


def queue(name: str, dead_letter_exchange: str | None = None) -> Queue:
    arguments = {} if dead_letter_exchange is None else {"x-dead-letter-exchange": dead_letter_exchange}
    return Queue(name, arguments=arguments)


def only(
    exchanges: str, queues: list[Queue], *bindings: tuple[str, str], policies: list[Policy] | None = None
) -> set[str]:
    """Return the exchanges; a binding leads to the queue of this name, else to the exchange."""
    names = {queue.name for queue in queues}
    made = [
        Binding(source, Destination("queue" if target in names else "exchange", target), "")
        for source, target in bindings
    ]
    topology = Topology(map(Exchange, exchanges.split()), queues, made, policies or [])
    return set(TopologyGraph(topology).only_dead_letters)


def test_the_dead_letter_exchange_of_a_queue_and_what_is_behind_it() -> None:
    assert only("work dlx more free", [queue("q", "dlx"), queue("dead")], ("work", "q"), ("dlx", "more"), ("more", "dead")) == {
        "dlx", "more",
    }  # fmt: skip


def test_a_policy_in_force_counts_as_an_argument_and_one_that_may_be_in_force_does_not() -> None:
    policy = Policy("p", "^q$", {"dead-letter-exchange": "dlx"})
    assert only("dlx", [queue("q")], policies=[policy]) == {"dlx"}
    assert only("dlx", [queue("q")], policies=[policy, Policy("other", "^q", {"max-length": 5})]) == set()


def test_what_another_exchange_leads_to_gets_other_messages() -> None:
    assert only("work dlx", [queue("q", "dlx")], ("work", "q"), ("work", "dlx")) == set()
    alternate = [Exchange("work", arguments={"alternate-exchange": "dlx"}), Exchange("dlx")]
    assert TopologyGraph(Topology(alternate, [queue("q", "dlx")])).only_dead_letters == frozenset()


def test_the_first_exchange_of_a_circle_of_retries_must_be_published_to() -> None:
    retries = [queue("jobs", "retry"), queue("wait", "work")]
    assert only("work retry", retries, ("work", "jobs"), ("retry", "wait")) == set()
    # With an exchange before the circle, all of it but what that leads to gets dead letters only.
    assert only("entry work retry", retries, ("work", "jobs"), ("retry", "wait"), ("entry", "jobs")) == {
        "work",
        "retry",
    }


def test_dead_letters_to_the_default_exchange_or_to_a_missing_one_lead_to_no_exchange() -> None:
    assert only("x", [queue("q", ""), queue("r", "gone")]) == set()


NAMES = ["a", "b", "c", "d"]


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(["q", "r", "s", *NAMES])), max_size=6),
    st.tuples(*[st.sampled_from([None, *NAMES])] * 3),
)
def test_it_is_what_a_search_over_all_messages_finds(
    bindings: list[tuple[str, str]], ways: tuple[str | None, ...]
) -> None:
    """The oracle follows two kinds of messages step by step: published ones, and dead letters of what queues got."""
    queues = dict(zip("qrs", ways, strict=True))
    edges = dict.fromkeys(bindings)
    behind = set(filter(None, ways))
    for _ in NAMES:
        behind |= {target for source, target in edges if source in behind and target not in queues}
    other = set(NAMES) - behind
    for _ in NAMES:
        other |= {target for source, target in edges if source in other and target not in queues}
    got = set(other)
    for _ in range(2 * len(NAMES)):
        for name, way in queues.items():
            sources = {source for source, target in edges if target == name}
            if way is not None and (not sources or sources & got):
                got.add(way)
        got |= {target for source, target in edges if source in got and target not in queues}
    expected = (behind & got) - other
    assert only("a b c d", [queue(name, way) for name, way in queues.items()], *edges) == expected
