"""Laws that hold for each kind of exchange, delayed or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange import LATEST_PROFILE, Binding, BrokerError, Exchange, Message, Queue, Router, Topology
from exchange.entities.profile import Profile
from exchange.entities.releases import PROFILES
from exchange.kinds import KINDS, Decider, KeyUse, Kind, UnknownExchange, find_kind
from exchange.kinds.condition import ALWAYS, Condition, HeadersCondition
from exchange.kinds.headers import normalise_headers
from exchange.patterns.pattern import ExactKey
from exchange.values.field_values import Typed, resolve_type
from tests.support import topologies
from tests.support.tiers import examples

SEED = st.integers(0, 2**32)
DELAYED = "x-delayed-message"
ROUTING = tuple(name for name in KINDS if name != DELAYED)
"""The types that route, of which each may be delayed."""

KEYS = ("", "1", "2", "a", "a.b", "a.*", "*.b", "#", "a.#", "*")
SELECTORS = ("{'=',{ident,<<\"h\">>},1}.", '{is_null,{ident,<<"h">>}}.', "true.")


def exchange_of(name: str, type_: str, arguments: dict[str, object], *, delayed: bool) -> Exchange:
    """Return an exchange of the type, or a delayed one with this inner type."""
    return Exchange(
        name, DELAYED if delayed else type_, arguments=arguments | ({"x-delayed-type": type_} if delayed else {})
    )


def bindings_of(rng: Random, type_: str) -> list[Binding]:
    """Draw bindings that mean something to the type."""
    found = []
    for _ in range(rng.randint(1, 6)):
        key = rng.choice(topologies.WEIGHTS) if type_ == "x-consistent-hash" else rng.choice(KEYS)
        arguments: dict[str, object] = {}
        if type_ == "headers":
            arguments = topologies.headers(rng, 2) | {"x-match": rng.choice(("all", "any", "all-with-x"))}
        elif type_ == "x-jms-topic":
            arguments = {"rjms_erlang_selector": rng.choice(SELECTORS)}
        found.append(Binding.to_queue("x", f"q{rng.randrange(4)}", key, arguments))
    return found


def topology_of(type_: str, bindings: Sequence[Binding], *, delayed: bool, seed: int = 0) -> Topology:
    rng = Random(seed)
    arguments = {"hash-header": "h"} if type_ == "x-consistent-hash" and rng.random() < 0.5 else {}
    exchange = exchange_of("x", type_, dict(arguments), delayed=delayed)
    return Topology([exchange], [Queue(f"q{number}") for number in range(4)], bindings)


def message_of(rng: Random) -> Message:
    headers = {name: rng.choice((1, 2, "a")) for name in ("h", "k") if rng.random() < 0.5}
    return Message("x", rng.choice(("", "1", "a", "a.b", "c.b", "a.b.c")), headers)


@pytest.mark.parametrize("type_", ROUTING)
def test_a_delayed_exchange_is_of_the_kind_of_its_inner_type(type_: str) -> None:
    """So that it has all of its traits."""
    assert find_kind(exchange_of("x", type_, {}, delayed=True)) is find_kind(Exchange("x", type_)) is KINDS[type_]


@pytest.mark.parametrize("inner", [DELAYED, "nonsense", 1, None, ["topic"]])
def test_a_delayed_exchange_of_no_known_type_is_unknown(inner: object) -> None:
    """As one is whose type is another plugin's."""
    assert find_kind(Exchange("x", DELAYED, arguments={"x-delayed-type": inner})) is UnknownExchange
    assert find_kind(Exchange("x", DELAYED)) is find_kind(Exchange("x", "nonsense")) is UnknownExchange


@pytest.mark.parametrize("type_", ROUTING)
@examples(25)
@given(SEED)
def test_a_delayed_exchange_routes_and_explains_as_its_inner_type(type_: str, seed: int) -> None:
    """The queues, the reasons of each hop, and the obstacles before each queue that does not get a message."""
    rng = Random(seed)
    bindings = bindings_of(rng, type_)
    routers = [
        Router(topology_of(type_, bindings, delayed=delayed, seed=seed), choose=lambda _: 0)
        for delayed in (False, True)
    ]
    for _ in range(5):
        message = message_of(rng)
        for queue in ("q0", "q1", "q2", "q3"):
            plain, delayed = (_explained(router, message, queue) for router in routers)
            assert plain == delayed


def _explained(router: Router, message: Message, queue: str) -> object:
    try:
        explanation = router.explain(message, queue)
    except BrokerError as error:
        return str(error)
    hops = [(hop.matched, hop.steps, hop.chosen_by, hop.undecided, hop.unsure) for hop in explanation.hops]
    return explanation.route, hops, explanation.obstacles, explanation.obstacles != ()


CONDITIONAL = [type_ for type_ in ROUTING if KINDS[type_].decider.has_conditions]


@pytest.mark.parametrize("type_", CONDITIONAL)
@examples(60)
@given(SEED)
def test_a_message_takes_the_bindings_whose_condition_it_meets(type_: str, seed: int) -> None:
    """And no others: what analyses conclude from conditions is what the router does."""
    rng = Random(seed)
    bindings = dict.fromkeys(bindings_of(rng, type_))
    kind = filled(KINDS[type_], list(bindings))
    message = message_of(rng)
    conditions = {binding: KINDS[type_].condition(binding, LATEST_PROFILE) for binding in bindings}
    expected = {binding for binding, condition in conditions.items() if met(condition, message)}
    assert {*kind.match(message, message.routing_keys())} == expected


def filled(kind: type[Kind], bindings: Sequence[Binding], choose: Callable[[int], int] = lambda _: 0) -> Kind:
    """Build an instance of the kind with the bindings."""
    made = kind(Exchange("x", kind.routes_as), LATEST_PROFILE, choose)
    for binding in dict.fromkeys(bindings):
        made.bind(binding)
    return made


def met(condition: Condition | None, message: Message) -> bool:
    """Return whether a message meets a condition."""
    assert condition is not None
    if isinstance(condition, HeadersCondition):
        return condition.holds(normalise_headers(message, LATEST_PROFILE))
    return condition.matches(message.routing_key)


@pytest.mark.parametrize("type_", CONDITIONAL)
@examples(40)
@given(SEED)
def test_an_additional_binding_takes_no_message_from_others_where_bindings_have_conditions(
    type_: str, seed: int
) -> None:
    """The bindings are additive, and their order means nothing."""
    rng = Random(seed)
    bindings = list(dict.fromkeys(bindings_of(rng, type_)))
    message = message_of(rng)
    before = {*filled(KINDS[type_], bindings[:-1]).match(message, message.routing_keys())}
    after = {*filled(KINDS[type_], bindings).match(message, message.routing_keys())}
    assert before <= after
    assert after == {*filled(KINDS[type_], bindings[::-1]).match(message, message.routing_keys())}
    assert KINDS[type_].sequence(bindings) is None


@pytest.mark.parametrize("type_", ROUTING)
@examples(40)
@given(SEED)
def test_a_kind_decides_by_the_key_and_by_what_reads_returns_only(type_: str, seed: int) -> None:
    """Messages that agree in these take the same bindings, and where the key alone decides, no header is read."""
    rng = Random(seed)
    bindings = bindings_of(rng, type_)
    topology = topology_of(type_, bindings, delayed=False, seed=seed)
    exchange = topology.exchanges["x"]
    reads = KINDS[type_].reads(exchange, bindings, LATEST_PROFILE)
    router = Router(topology, choose=lambda _: 0)
    message = message_of(rng)
    other = Message("x", message.routing_key, {k: v for k, v in message.headers.items() if k in reads.headers})
    try:
        assert router.route(message) == router.route(other)
    except BrokerError as error:
        with pytest.raises(type(error)):
            router.route(other)
    if find_kind(exchange)(exchange, LATEST_PROFILE, lambda _: 0).by_key:
        assert not reads.headers
        assert not reads.properties


@pytest.mark.parametrize("type_", ROUTING)
@examples(40)
@given(SEED)
def test_a_binding_misses_a_message_with_a_reason_exactly_when_it_is_not_taken(type_: str, seed: int) -> None:
    """Where bindings compete, one that is passed over has a reason, whether it could have been taken or not."""
    rng = Random(seed)
    bindings = list(dict.fromkeys(bindings_of(rng, type_)))
    message = message_of(rng)
    kind = KINDS[type_]
    if kind is KINDS["x-jms-topic"]:
        bindings = bindings[:1]  # selectors of bindings with one key and destination replace each other
    taken = {*filled(kind, bindings).match(message, message.routing_keys())}
    for binding in bindings:
        miss = kind.miss(binding, message, LATEST_PROFILE)
        if kind.decider in (Decider.CHANCE, Decider.HASH):
            assert miss.reason
        else:
            assert (miss.reason == "") == (binding in taken), binding
            assert (miss.distance > 0) == (binding not in taken), binding


@pytest.mark.parametrize("type_", ["x-random", "x-local-random", "x-consistent-hash", "x-modulus-hash"])
@examples(40)
@given(SEED)
def test_kinds_whose_bindings_compete_take_one_of_the_candidates(type_: str, seed: int) -> None:
    """Every message takes one where `always_takes_one` is true."""
    rng = Random(seed)
    bindings = bindings_of(rng, type_)
    message = message_of(rng)
    taken = filled(KINDS[type_], bindings, rng.randrange).match(message, message.routing_keys())
    assert {*taken} <= {*KINDS[type_].candidates(bindings)}
    assert len(taken) <= 1
    assert taken or not KINDS[type_].always_takes_one


def test_a_binding_s_only_key_is_its_condition() -> None:
    """And a fanout binding asks the same as the pattern #."""
    to = Binding.to_queue("x", "q", "a.b")
    assert (
        KINDS["direct"].condition(to, LATEST_PROFILE) == KINDS["topic"].condition(to, LATEST_PROFILE) == ExactKey("a.b")
    )
    everything = Binding.to_queue("x", "q", "#")
    assert (
        KINDS["fanout"].condition(to, LATEST_PROFILE) == KINDS["topic"].condition(everything, LATEST_PROFILE) == ALWAYS
    )
    assert KINDS["direct"].literal_key(everything) == "#"
    assert KINDS["topic"].literal_key(everything) is None
    assert {kind.key_use for kind in KINDS.values() if kind.decider is Decider.KEY} == {KeyUse.PATTERN, KeyUse.LITERAL}


@pytest.mark.parametrize("type_", ROUTING)
@examples(40)
@given(SEED)
def test_removing_a_binding_empties_its_slot_and_changes_no_other_s(type_: str, seed: int) -> None:
    """Of kinds whose bindings share slots; elsewhere each binding stands for itself."""
    rng = Random(seed)
    kind = KINDS[type_]
    bindings = list(dict.fromkeys(bindings_of(rng, type_)))
    gone = rng.choice(bindings)
    made = filled(kind, bindings)
    made.unbind(gone)
    slot = kind.slot(gone)
    others = [each for each in bindings if each != gone and (slot is None or kind.slot(each) != slot)]
    expected = filled(kind, others)
    for _ in range(20):
        message = message_of(rng)
        assert {*made.match(message, message.routing_keys())} == {*expected.match(message, message.routing_keys())}


VALUES = (
    None, True, False, 0, 1, 1000, 0.0, -0.0, 1.0, Typed("long", 1), Typed("timestamp", 0), Typed("timestamp", 1),
    Typed("timestamp", 1000), "1", b"1", Typed("binary", b"1"),
)  # fmt: skip


def is_met(argument: object, header: object, profile: Profile) -> bool:
    """Return whether a header is what a binding wants, spelt out: by class of value, then by value."""
    (wants, wanted), (has, given_) = resolve_type(argument), resolve_type(header)
    if has == "timestamp" and profile.timestamps_in_milliseconds:  # a message's, but not a binding's
        given_ *= 1000
    classes = ["bytes" if isinstance(value, bytes) else type(value).__name__ for value in (wanted, given_)]
    if wants == "void":
        return True
    if set(classes) == {"int", "float"}:
        return profile.integers_equal_floats and wanted == given_
    same_sign = classes[0] != "float" or not profile.signed_zeros_differ or str(wanted) == str(given_)
    return classes[0] == classes[1] and wanted == given_ and same_sign


@pytest.mark.parametrize("profile", PROFILES.values(), ids=str)
def test_each_release_compares_a_header_with_an_argument_by_its_own_rules(profile: Profile) -> None:
    for argument in VALUES:
        router = Router(
            Topology(profile=profile)
            .declare_queue(Queue("q"))
            .bind(Binding.to_queue("amq.headers", "q", "", {"h": argument}))
        )
        for header in VALUES:
            found = bool(router.route(Message("amq.headers", "", {"h": header})).queues)
            assert found == is_met(argument, header, profile), (argument, header)
