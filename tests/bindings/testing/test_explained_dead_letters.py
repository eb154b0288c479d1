"""What `explain` says of dead letters is what the broker in memory does with a message that is rejected.

Both follow the same settings in force; the model of lives is compared with live brokers, so this compares with them.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bindings import VirtualBroker
from exchange import Binding, Exchange, Message, Policy, Queue, Router, Topology
from exchange.routing.dead_letters import follow_dead_letters

QUEUES = ["q0", "q1", "q2"]
definitions = st.fixed_dictionaries(
    {},
    optional={
        "dead-letter-exchange": st.sampled_from(["", "topic", "internal", "direct", "gone"]),
        "dead-letter-routing-key": st.sampled_from(["q1", "k", "a.b"]),
    },
)


def queue(name: str) -> st.SearchStrategy[Queue]:
    def build(type_: str, given: dict[str, str]) -> Queue:
        return Queue(name, arguments={"x-queue-type": type_, **{f"x-{key}": value for key, value in given.items()}})

    return st.builds(build, st.sampled_from(["classic", "quorum"]), definitions)


bindings = st.builds(
    Binding.to_queue,
    st.sampled_from(["topic", "internal", "direct"]), st.sampled_from(QUEUES), st.sampled_from(["q0", "k", "a.#", "#"]),
)  # fmt: skip
policies = st.builds(
    Policy,
    st.sampled_from(["one", "two"]), st.sampled_from(["", "^q0", "1$"]),
    definitions.map(lambda given: {**given, "max-length": 9}), st.just("queues"), st.integers(0, 3),
)  # fmt: skip
headers = st.sampled_from([{}, {"CC": ["q2"]}, {"BCC": ["q2"]}, {"CC": ["a.b"], "n": 1}])


@given(
    st.tuples(*map(queue, QUEUES)),
    st.lists(bindings, max_size=5),
    st.lists(policies, max_size=2, unique_by=lambda policy: policy.priority),
    headers,
)
def test_a_rejected_message_goes_where_explain_says(
    declared: tuple[Queue, ...], bound: list[Binding], made: list[Policy], carried: dict[str, Any]
) -> None:
    exchanges = [Exchange("topic", "topic"), Exchange("direct"), Exchange("internal", "fanout", internal=True)]
    topology = Topology(exchanges, declared, bound, made)
    router, message = Router(topology), Message("", "q0", carried)
    explained = follow_dead_letters(topology, router, router.explain(message)).dead_letters
    broker = VirtualBroker(topology)
    broker.publish("", "q0", b"", carried)
    for name in QUEUES[1:]:
        broker.purge(name)  # what CC and BCC brought
    delivery = broker.get("q0")
    assert delivery is not None
    broker.reject(delivery, requeue=False)
    got = tuple(name for name in QUEUES if len(broker.queues[name]))
    if not explained:
        assert got == ()
    else:
        [first] = [hop for hop in explained if hop.queue == "q0"][:1]
        assert first.queues == got
        assert (first.outcome == "routed") is bool(got)
