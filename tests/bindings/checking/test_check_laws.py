"""What findings claim, held against the router: for all short keys, and for odd messages with headers, CC and BCC."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from bindings.checking.check import check
from bindings.checking.rules.finding import Finding
from exchange import Binding, Destination, Exchange, Message, Queue, Router, Topology
from exchange.entities.profile import Profile
from exchange.entities.releases import LATEST_PROFILE, PROFILES
from exchange.errors import BrokerError
from tests.support import topologies
from tests.support.patterns import all_keys, words_in
from tests.support.tiers import examples

SETTINGS = examples(150)
NEEDLESS = ("HS103", "HS104", "HS105", "HS106", "HS111", "HS207")
OTHER_REASONS = ("HS102", "HS110", "HS202")
EXCHANGES = ("x0", "x1", "x2", "x3")
QUEUES = ("q0", "q1", "q2")
KEYS = tuple(key for key in all_keys("amqp") if words_in("amqp", key) <= 4)

PATTERNS = st.lists(st.sampled_from(["a", "b", "*", "#", "#", ""]), max_size=3).map(".".join)
KINDS = ("topic", "topic", "topic", "direct", "fanout")


@st.composite
def small(draw: st.DrawFn, *, alternates: bool, kinds: Sequence[str] = KINDS) -> Topology:
    """Draw a topology of few exchanges and queues, and many bindings between them."""
    names = EXCHANGES[: draw(st.integers(1, 4))]
    exchanges = []
    for name in names:
        given_up = {"alternate-exchange": draw(st.sampled_from((*names, "nowhere", "")))} if alternates else {}
        arguments = given_up if draw(st.booleans()) else {}
        internal = draw(st.integers(0, 3)) == 0
        exchanges.append(Exchange(name, draw(st.sampled_from(kinds)), internal=internal, arguments=arguments))
    ends = st.tuples(st.just("queue"), st.sampled_from(QUEUES)) | st.tuples(st.just("exchange"), st.sampled_from(names))
    make = {"queue": Binding.to_queue, "exchange": Binding.to_exchange}
    drawn = draw(st.lists(st.tuples(st.sampled_from(names), ends, PATTERNS), min_size=1, max_size=12))
    bindings = [make[kind](source, name, key) for source, (kind, name), key in drawn]
    return Topology(exchanges, map(Queue, QUEUES), bindings)


def make(topology: Topology) -> Topology:
    """Return what a broker has of a topology: not what it refuses, which is no reason for anything else."""
    return without(topology, topology.find_refused())


def open_to_all(topology: Topology) -> Router:
    """Return a router in which messages can be published to internal exchanges, as others hand them on."""
    topology = make(topology)
    exchanges = [replace(exchange, internal=False) for exchange in topology.exchanges.values() if exchange.name]
    parts = topology.queues.values(), topology.bindings, topology.policies.values()
    return Router(Topology(exchanges, *parts, profile=topology.profile), choose=lambda n: 0)


Routes = dict[tuple[str, str], tuple[str, ...]]


def keys_for(topology: Topology) -> list[str]:
    """Return all short keys, and those of bindings of direct exchanges, in which wildcards are characters."""
    return [*dict.fromkeys((*KEYS, *(binding.routing_key for binding in topology.bindings)))]


def routes(topology: Topology, keys: Sequence[str]) -> Routes:
    """Return the routes of these keys from all exchanges."""
    router = open_to_all(topology)
    names = [name for name in EXCHANGES if name in topology.exchanges]
    return {(name, key): router.route(Message(name, key)).queues for name in names for key in keys}


def go_as(topology: Topology, before: Routes) -> bool:
    """Return whether these keys still go where they went before."""
    router = open_to_all(topology)
    return all(router.route(Message(*place)).queues == queues for place, queues in before.items())


def without(topology: Topology, bindings: Iterable[Binding]) -> Topology:
    gone = set(bindings)
    parts = topology.exchanges.values(), topology.queues.values()
    kept = [binding for binding in topology.bindings if binding not in gone]
    return Topology(*parts, kept, topology.policies.values(), profile=topology.profile)


def bindings_of(findings: Iterable[Finding]) -> list[Binding]:
    return [finding.part for finding in findings if isinstance(finding.part, Binding)]


@SETTINGS
@given(small(alternates=True))
def test_all_needless_bindings_can_go_together(topology: Topology) -> None:
    """Without them, no key goes elsewhere from any exchange."""
    found = bindings_of(f for f in check(topology) if f.code in NEEDLESS and f.code != "HS207")
    keys = keys_for(topology)
    assert routes(without(topology, found), keys) == routes(topology, keys)


@SETTINGS
@given(small(alternates=False))
def test_every_needless_binding_is_found(topology: Topology) -> None:
    """One that could go without a key going elsewhere is named by a finding, or by one that names it needed instead."""
    findings = check(topology)
    named: set[object] = set()
    for finding in findings:
        if finding.code in (*NEEDLESS, *OTHER_REASONS):
            named |= {finding.part, *finding.related}
    before = routes(topology, keys_for(topology))
    for binding in make(topology).bindings:
        if go_as(without(topology, [binding]), before):
            assert binding in named or topology.exchanges.get(binding.destination.name) in named


@SETTINGS
@given(st.integers(0, 2**32), st.sampled_from(list(PROFILES.values())))
def test_needless_bindings_decide_nothing_for_odd_messages(seed: int, profile: Profile) -> None:
    """Headers of all types, CC and BCC, and exchanges of all kinds that do not pick at random."""
    rng = Random(seed)
    kinds = topologies.Kinds(types=("direct", "fanout", "topic", "headers", "headers", "x-recent-history",
                                    "x-consistent-hash", "x-modulus-hash"))  # fmt: skip
    topology = topologies.topology(rng, profile, kinds)
    codes = [code for code in NEEDLESS if code not in ("HS111", "HS207")]
    found = bindings_of(finding for finding in check(topology) if finding.code in codes)
    before, after = open_to_all(topology), open_to_all(without(topology, found))
    for _ in range(60):
        message = topologies.message(rng, topology)
        assert outcome(after, message) == outcome(before, message)


def outcome(router: Router, message: Message) -> tuple[str, ...] | str:
    """Return the queues of a message, or why the broker refuses it: 3.13 hashes no header that is an empty array."""
    try:
        return router.route(message).queues
    except BrokerError as error:
        return str(error)


@SETTINGS
@given(st.integers(0, 2**32), st.sampled_from(list(PROFILES.values())))
def test_no_finding_claims_that_a_broker_refuses_what_it_accepts(seed: int, profile: Profile) -> None:
    """Topologies that come about by the broker's rules have none of the findings that say it would refuse them."""
    topology = topologies.topology(Random(seed), profile)
    refused = {"HS101", "HS102", "HS404", "HS405", "HS601", "HS602", "HS603"}
    assert refused.isdisjoint(finding.code for finding in check(topology))


@SETTINGS
@given(small(alternates=True))
def test_an_unroutable_key_is_unroutable_and_none_is_shorter(topology: Topology) -> None:
    """Where no alternate exchange has a part in it, one is found if there is one."""
    found = {f.part.name: f.witness for f in check(topology, optional=["HS205"]) if f.code == "HS205"}  # type: ignore[union-attr]
    router = open_to_all(topology)
    for name, key in found.items():
        assert key is not None
        assert router.route(Message(str(name), key)).unroutable


@SETTINGS
@given(small(alternates=False))
def test_every_exchange_with_unroutable_keys_has_a_shortest_one(topology: Topology) -> None:
    """Of those that can be published to and from which a queue can be reached at all."""
    before = routes(topology, KEYS)
    findings = check(topology, optional=["HS205"])
    found = {f.part.name: f.witness for f in findings if f.code == "HS205" and isinstance(f.part, Exchange)}
    closed = {f.part.name for f in findings if f.code in ("HS201", "HS202") and isinstance(f.part, Exchange)}
    for name in EXCHANGES:
        if name not in topology.exchanges:
            continue
        lost = [words_in("amqp", key) for key in KEYS if not before[name, key]]
        if lost and name not in closed and not topology.exchanges[name].internal:
            assert words_in("amqp", str(found[name])) == min(lost)
        elif not lost:
            assert name not in found


@SETTINGS
@given(small(alternates=True))
def test_findings_about_alternates_are_true(topology: Topology) -> None:
    """Leaky ones get a key and lose it, bypassed ones never see a key that is lost, and others are never taken."""
    router = open_to_all(topology)
    for finding in check(topology):
        if finding.code == "HS302":
            name, key = finding.part.name, finding.witness  # type: ignore[union-attr]
            explained = router.explain(Message(name, str(key)))
            assert explained.route.unroutable
            assert explained.hops[0].alternate is None or explained.hops[0].alternate.taken
        elif finding.code == "HS303":
            assert isinstance(finding.part, Binding)
            explained = router.explain(Message(finding.part.source, str(finding.witness)))
            assert explained.route.unroutable
            assert finding.part in explained.hops[0].matched
        elif finding.code == "HS304":
            for key in KEYS:
                hop = router.explain(Message(finding.part.name, key)).hops[0]  # type: ignore[union-attr]
                assert hop.alternate is not None
                assert not hop.alternate.taken


@SETTINGS
@given(small(alternates=True))
def test_every_alternate_that_is_never_taken_is_found(topology: Topology) -> None:
    """As far as keys of four words tell: patterns of three words or less have no more to say."""
    found = {f.part.name for f in check(topology) if f.code == "HS304"}  # type: ignore[union-attr]
    router = open_to_all(topology)
    for name in EXCHANGES:
        exchange = topology.exchanges.get(name)
        if exchange is None or exchange.arguments.get("alternate-exchange", "nowhere") == "nowhere":
            continue
        hops = [router.explain(Message(name, key)).hops[0] for key in KEYS]
        assert (name in found) == (not any(hop.alternate is not None and hop.alternate.taken for hop in hops))


@SETTINGS
@given(small(alternates=True))
def test_every_leak_and_bypass_without_circles_is_found(topology: Topology) -> None:
    """Where an exchange with an alternate, to which messages can come, loses a key, there is a finding of why."""
    findings = check(topology)
    other_findings = {f.code for f in findings} & {
        "HS201", "HS202", "HS206", "HS207", "HS301", "HS302", "HS303", "HS305",
    }  # fmt: skip
    router = open_to_all(topology)
    never = {f.part.name for f in findings if f.code == "HS304" and isinstance(f.part, Exchange)}  # takes its alternate
    entered = entered_in(topology) - never
    for exchange in topology.exchanges.values():
        if not other_findings and "alternate-exchange" in exchange.arguments and exchange.name in entered:
            assert not any(router.route(Message(exchange.name, key)).unroutable for key in KEYS)


def entered_in(topology: Topology) -> set[str]:
    """Return the names of the exchanges to which messages can come: published, by bindings, or as an alternate."""
    entered: set[str] = set()
    found = [exchange.name for exchange in topology.exchanges.values() if not exchange.internal]
    while found:
        name = found.pop()
        if name not in entered and name in topology.exchanges:
            entered.add(name)
            found += [b.destination.name for b in topology.bindings_from(name) if b.destination.kind == "exchange"]
            found.append(topology.exchanges[name].arguments.get("alternate-exchange", name))
    return entered


@SETTINGS
@given(small(alternates=True))
def test_no_queue_gets_anything_from_an_exchange_without_exit(topology: Topology) -> None:
    """Whatever the key: an exchange leads nowhere where a finding claims it."""
    before = routes(topology, KEYS)
    for finding in check(topology):
        if finding.code in ("HS201", "HS202") and isinstance(finding.part, Exchange):
            assert not any(before[finding.part.name, key] for key in KEYS if finding.part.name in EXCHANGES)


@SETTINGS
@given(small(alternates=True))
def test_a_starved_binding_is_never_taken(topology: Topology) -> None:
    """Whatever is published, wherever that is allowed."""
    starved = set(bindings_of(finding for finding in check(topology) if finding.code == "HS110"))
    router = Router(topology)
    for name in EXCHANGES:
        if starved and name in topology.exchanges and not topology.exchanges[name].internal:
            for key in KEYS:
                for hop in router.explain(Message(name, key)).hops:
                    assert starved.isdisjoint(hop.matched)


@SETTINGS
@given(st.integers(0, 2**32))
def test_findings_about_conditions_are_true(seed: int) -> None:
    """Bindings that match everything or nothing do."""
    rng = Random(seed)
    topology = topologies.topology(rng, LATEST_PROFILE, topologies.Kinds(types=("headers",)))
    claims = {f.part: f.code for f in check(topology) if f.code in ("HS501", "HS502")}
    router = open_to_all(topology)
    for _ in range(40):
        message = topologies.message(rng, topology)
        if message.exchange:
            matched = router.explain(message).hops[0].matched
            for part, code in claims.items():
                if isinstance(part, Binding) and part.source == message.exchange:
                    assert (part in matched) == (code == "HS502")


@SETTINGS
@given(small(alternates=True))
def test_the_order_of_the_file_changes_no_count(topology: Topology) -> None:
    """The same codes as often, whichever way round the bindings stand; which of two equals goes may differ."""
    turned = Topology(topology.exchanges.values(), topology.queues.values(), [*topology.bindings][::-1])
    codes = [[f.code for f in check(one) if f.code not in NEEDLESS] for one in (topology, turned)]
    assert codes[0] == codes[1]


REFUSED_KINDS = ("topic", "fanout", "headers", "x-consistent-hash", "x-jms-topic")


def make_refused(source: Exchange, destination: Destination, odd: int) -> Binding:
    """Return a binding that RabbitMQ refuses from an exchange: each kind has a reason of its own, and all have one."""
    long = "a" * 256
    arguments = {"headers": {"x-match": ("banana", 5, "")[odd % 3], "a": 1}}.get(source.type, {})
    keys = {"topic": (long, ".".join("#" * 9)), "x-consistent-hash": ("abc", "0", "-1"), "headers": ("", "a")}
    choices = keys.get(source.type, ("", "a") if source.type == "x-jms-topic" else (long,))
    return Binding(source.name, destination, choices[odd % len(choices)], arguments)


@given(small(alternates=True, kinds=REFUSED_KINDS), st.data())
@examples(80)
def test_what_rabbitmq_refuses_is_evidence_of_nothing(topology: Topology, data: st.DataObject) -> None:
    """A check of a topology reports what it reports without these bindings, and each of them."""
    sources = st.sampled_from([each for name, each in topology.exchanges.items() if name in EXCHANGES])
    ends = st.sampled_from([Destination("queue", name) for name in QUEUES])
    drawn = data.draw(st.lists(st.tuples(sources, ends, st.integers(0, 5)), min_size=1, max_size=4))
    refused = {make_refused(*each) for each in drawn} - {*topology.bindings}
    findings = check(topology.with_parts(bindings=[*topology.bindings, *refused]))
    about = [finding for finding in findings if finding.part in refused]
    assert {finding.code for finding in about} <= {"HS404", "HS405", "HS603"}
    assert {finding.part for finding in about} == refused
    assert [finding for finding in findings if finding.part not in refused] == check(topology)
