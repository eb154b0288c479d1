"""Why messages died by their settings, and what becomes of them when they are published again, as in the model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bindings import VirtualBroker
from bindings.sources.open import read_source
from bridge.dead.conventions import Death
from bridge.dead.verdicts import Judge
from exchange import Binding, Exchange, Message, Policy, Queue, Topology
from tests.support.tiers import examples

NAMES = ("a", "b")
KEYS = ("x", "y")
arguments = st.fixed_dictionaries(
    {}, optional={
        "x-message-ttl": st.just(1_000), "x-max-length": st.just(1), "x-queue-type": st.just("quorum"),
        "x-delivery-limit": st.just(2), "x-dead-letter-exchange": st.sampled_from(("e", "", "missing")),
        "x-dead-letter-routing-key": st.sampled_from((*NAMES, *KEYS)),
    },
)  # fmt: skip
topologies = st.builds(
    lambda queues, bindings: Topology(
        exchanges=[Exchange("e", "direct")],
        queues=[Queue(name, arguments={**own, **({} if "x-queue-type" in own else {"x-delivery-limit": None})}
                      if "x-queue-type" in own else {k: v for k, v in own.items() if k != "x-delivery-limit"})
                for name, own in zip(NAMES, queues, strict=True)],
        bindings=[Binding.to_queue("e", queue, key) for queue, key in bindings],
    ),
    st.tuples(arguments, arguments), st.sets(st.tuples(st.sampled_from(NAMES), st.sampled_from(KEYS))),
)  # fmt: skip


def live_again(topology: Topology, key: str, queue: str, reason: str) -> tuple[bool, list[str], bool] | None:
    """Publish a message, and do to it in a queue what it died of.

    Return whether it died there, where it came, and whether it is lost; None if the queue does not get it.
    """
    broker = VirtualBroker(topology)
    if queue not in broker.publish("e", key, b"mine").queues:
        return None
    for name in NAMES:
        if name != queue:
            broker.purge(name)
    if reason == "rejected":
        taken = broker.get(queue)
        assert taken is not None
        broker.reject(taken, requeue=False)
    elif reason == "delivery_limit":
        for _ in range(30):
            if (taken := broker.get(queue)) is None or taken.message.body != b"mine":
                break
            broker.reject(taken, requeue=True)
            if any(each.headers.get("x-death") for name in NAMES for each in broker.queues[name]):
                break
    elif reason == "expired":
        broker.advance(1)
    elif reason == "maxlen":
        broker.publish("", queue, b"another")
    arrived = [name for name in NAMES for each in broker.queues[name]
               if each.body == b"mine" and any(death["queue"] == queue and death["reason"] == reason
                                               for death in each.headers.get("x-death", []))]  # fmt: skip
    lost = any(each.queue == queue and each.reason == reason for each in broker.lost)
    return bool(arrived) or lost, arrived, lost


@examples(300)
@given(topologies, st.sampled_from(KEYS), st.sampled_from(NAMES),
       st.sampled_from(("rejected", "expired", "maxlen", "delivery_limit")))  # fmt: skip
def test_dying_again_equals_the_life_in_the_model(topology: Topology, key: str, queue: str, reason: str) -> None:
    verdict = Judge(topology).judge(Death("RabbitMQ", reason, queue, "", "e", key, "", ""), Message("e", key))
    lived = live_again(topology, key, queue, reason)
    assert set(verdict.goes or ()) == {*VirtualBroker(topology).publish("e", key).queues}
    if lived is None:
        assert not verdict.dies_again
        return
    died, arrived, lost = lived
    assert verdict.dies_again is died
    if died:
        assert (not verdict.targets) == lost
        if reason != "maxlen":  # a full queue that takes its own dead letter drops another one at once
            assert {*arrived} <= {*verdict.targets}


def loads(text: str) -> Topology:
    return read_source(text.encode(), "shop.bindings").routable(None, None)


SHOP = """\
exchange orders: topic
exchange dead: fanout
queue billing: quorum, x-delivery-limit = 5, x-dead-letter-exchange = "dead"
queue mail: x-dead-letter-exchange = "dead"
queue audit: x-max-length = 1000
queue held
orders -> billing: "order.*"
orders -> mail: "mail.#"
orders -> audit: "#"
dead -> held
policy hour: '^mail', queues, message-ttl = 3600000
"""


def judge(reason: str, queue: str, key: str) -> tuple[str, str]:
    own = Judge(loads(SHOP))
    death = Death("RabbitMQ", reason, queue, "", "orders", key, "", "")
    verdict = own.recall(death, key)
    assert verdict is not None
    return own.explain(death), verdict.then


def test_a_death_is_explained_by_the_setting_in_force() -> None:
    assert judge("expired", "mail", "mail.eu") == (
        "message-ttl 1 h (policy 'hour')", "expired again in 'mail': to held",
    )  # fmt: skip
    assert judge("delivery_limit", "billing", "order.eu") == (
        "delivery-limit 5 (argument)", "given back too often again in 'billing': to held",
    )  # fmt: skip
    assert judge("maxlen", "audit", "order.eu") == (
        "max-length 1,000 (argument)",
        "over the limit again in 'audit': lost, as there is no dead letter exchange",
    )
    assert judge("rejected", "billing", "order.eu")[0].startswith("a consumer rejected it")


def test_what_is_not_so_any_more_is_said() -> None:
    assert judge("rejected", "billing", "mail.eu")[1] == "goes to audit, mail, and not to 'billing' any more"
    assert judge("maxlen", "mail", "mail.eu") == (
        "the queue has no max-length that drops messages",
        "goes to audit, mail; 'mail' has no max-length that drops messages any more",
    )
    assert judge("rejected", "gone", "order.eu")[0] == "the topology has no queue 'gone'"
    lost = Judge(loads("exchange orders: topic\n")).recall(
        Death("RabbitMQ", "rejected", "q", "", "orders", "k", "", ""), "k"
    )
    assert lost is not None
    assert lost.then == "lost: no queue gets it"


def test_headers_decide_where_the_exchange_reads_them() -> None:
    own = Judge(loads('exchange e: headers\nqueue q\ne -> q: all { format = "pdf" }\n'))
    death = Death("RabbitMQ", "rejected", "q", "", "e", "", "", "")
    assert own.recall(death, "") is None
    assert own.judge(death, Message("e", "", {"format": "pdf", "x-death": []})).dies_again is True
    assert own.judge(death, Message("e", "", {"format": "txt"})).then == "lost: no queue gets it"


def test_what_no_topology_routes_is_not_routed() -> None:
    own = Judge(loads(SHOP))
    assert (
        own.judge(Death("Kafka Connect", "", "orders", "", "orders", "k", "", ""), Message("orders", "k")).goes is None
    )
    missing = own.judge(Death("RabbitMQ", "rejected", "q", "", "gone", "k", "", ""), Message("gone", "k"))
    assert missing.then.startswith("refused: 404")


def test_a_policy_that_may_be_in_force_leaves_it_undecided() -> None:
    policies = [Policy(name, "^q", {"message-ttl": ttl}, "queues") for name, ttl in (("a", 1_000), ("b", 2_000))]
    own = Judge(Topology(exchanges=[Exchange("e", "fanout")], queues=[Queue("q")],
                         bindings=[Binding.to_queue("e", "q", "")], policies=policies))  # fmt: skip
    death = Death("RabbitMQ", "expired", "q", "", "e", "k", "", "")
    assert own.explain(death) == "message-ttl 1 s (policy 'a') or message-ttl 2 s (policy 'b')"
    assert own.judge(death, Message("e", "k")).dies_again is None
