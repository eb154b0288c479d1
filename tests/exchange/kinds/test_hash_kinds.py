"""x-consistent-hash and x-modulus-hash: rings with a history, lists in order, and what brokers refuse."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations, product
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange import PROFILES, Binding, Exchange, Message, Profile, Queue, Router, Topology, Typed, kinds
from exchange.entities.releases import find_profile
from exchange.errors import BrokerError, PreconditionFailed
from exchange.kinds import Kind
from exchange.kinds.consistent_hash import build_ring_after_restart
from exchange.partition.hashing.erlang import jump, phash2
from exchange.values.field_values import EMPTY
from tests.support.tiers import examples

KEYS = [f"order-{number}" for number in range(400)]
WEIGHT = st.integers(1, 12).map(str)
PROFILE = st.sampled_from(list(PROFILES.values()))
SEED = st.integers(0, 2**32)
LATEST = PROFILES["rabbitmq-4.3"]


def kind_of(name: str, arguments: Mapping[str, str] = EMPTY, profile: Profile = LATEST) -> Kind:
    """Build the kind of an exchange, without bindings."""
    exchange = Exchange("x", name, arguments=arguments)
    return kinds.find_kind(exchange)(exchange, profile, lambda _: 0)


def to(queue: str, key: str = "1") -> Binding:
    """Build a binding from "x"."""
    return Binding.to_queue("x", queue, key)


def went(kind: Kind, message: Message) -> list[str]:
    """Return the destinations that a message goes to."""
    return [binding.destination.name for binding in kind.match(message, message.routing_keys())]


def spread(kind: Kind) -> dict[str, str]:
    """Return the destination of each key."""
    return {key: went(kind, Message("x", key))[0] for key in KEYS}


class SlowRing:
    """The ring as the broker has it: a map of numbered buckets, and the number of the next one."""

    def __init__(self, profile: Profile = LATEST) -> None:
        self.map: dict[int, str] = {}
        self.next = 0
        self._counts_each = profile.counts_each_binding

    def bind(self, binding: Binding) -> None:
        name = binding.destination.name
        if self._counts_each or name not in self.map.values():
            end = self.next + int(binding.routing_key)
            self.map |= dict.fromkeys(range(self.next, end), name)
            self.next = end

    def unbind(self, binding: Binding) -> None:
        own = [number for number, name in self.map.items() if name == binding.destination.name]
        if own:
            before = {number: name for number, name in self.map.items() if number < min(own)}
            behind = {number - len(own): name for number, name in self.map.items() if number > max(own)}
            self.map = before | behind
            self.next -= len(own)

    def route(self, key: str) -> list[str]:
        bucket = self.map.get(jump(phash2(key.encode()), len(self.map))) if self.map else None
        return [] if bucket is None else [bucket]


@pytest.mark.parametrize("release", ["3.10.5", "3.10.6", "4.3"])
@given(seed=SEED)
def test_a_ring_equals_the_slow_one_after_any_history(release: str, seed: int) -> None:
    """Bindings in any order, of a destination twice, and unbindings of either."""
    rng, profile = Random(seed), find_profile(release)
    fast, slow, present = kind_of("x-consistent-hash", EMPTY, profile), SlowRing(profile), list[Binding]()
    for _ in range(30):
        binding = to(rng.choice("abcdef"), str(rng.randint(1, 9)))
        if present and rng.random() < 0.4:
            binding = present.pop(rng.randrange(len(present)))
            fast.unbind(binding)
            slow.unbind(binding)
        elif binding not in present:
            present.append(binding)
            fast.bind(binding)
            slow.bind(binding)
        for key in KEYS[:5]:
            assert went(fast, Message("x", key)) == slow.route(key)


@pytest.mark.parametrize("release", ["3.10.5", "3.10.6"])
def test_after_a_restart_the_ring_has_the_order_of_keys_and_then_of_destinations(release: str) -> None:
    """By their bytes: a weight of 10 is before one of 2, and decides for a destination with both."""
    profile = find_profile(release)
    for bindings in permutations(product("ab", ("1", "2", "10")), 3):
        slow = SlowRing(profile)
        for key, name in sorted((key, name) for name, key in bindings):
            slow.bind(to(name, key))
        ring = build_ring_after_restart([to(name, key) for name, key in bindings], profile)
        assert [destination.name for destination, weight in ring for _ in range(weight)] == [*slow.map.values()]


@examples(20)
@given(st.lists(WEIGHT, min_size=1, max_size=8), WEIGHT)
def test_a_new_binding_takes_keys_and_moves_no_others(weights: list[str], weight: str) -> None:
    """And when it goes again, all is as before."""
    ring = kind_of("x-consistent-hash")
    for number, each in enumerate(weights):
        ring.bind(to(f"q{number}", each))
    before = spread(ring)
    ring.bind(to("new", weight))
    assert all(name in ("new", before[key]) for key, name in spread(ring).items())
    ring.unbind(to("new", weight))
    assert spread(ring) == before


def test_the_order_of_bindings_counts_and_a_binding_made_again_is_the_last() -> None:
    """A topology keeps the order through unbinding: routers built from it have the ring of one edited alike."""
    topology = Topology(exchanges=[Exchange("x", "x-consistent-hash")], queues=[Queue(name) for name in "abc"])
    for name in "abc":
        topology = topology.bind(to(name))
    again = topology.unbind(to("a")).bind(to("a"))
    edited = Router(topology)
    edited.unbind(to("a"))
    edited.bind(to("a"))
    assert [binding.destination.name for binding in again.bindings_from("x")] == ["b", "c", "a"]
    routes = {key: Router(again).route(Message("x", key)) for key in KEYS}
    assert {key: edited.route(Message("x", key)) for key in KEYS} == routes
    assert {key: Router(topology).route(Message("x", key)) for key in KEYS} != routes


def test_a_queue_bound_twice_and_unbound_once_gets_nothing_until_it_has_a_new_binding() -> None:
    """As on every live broker; the same binding again is none."""
    router = Router(Topology(exchanges=[Exchange("x", "x-consistent-hash")], queues=[Queue("a"), Queue("b")]))
    for binding in (to("a"), to("b"), to("a", "5")):
        router.bind(binding)
    router.unbind(to("a"))
    assert {router.route(Message("x", key)).queues for key in KEYS} == {("b",)}
    router.bind(to("a", "5"))
    assert {router.route(Message("x", key)).queues for key in KEYS} == {("b",)}
    router.bind(to("a", "1"))
    assert {router.route(Message("x", key)).queues for key in KEYS} == {("a",), ("b",)}


def test_a_router_does_not_cache_by_key_what_a_header_decides() -> None:
    """The key is the same, the header and the queue are not."""
    exchange = Exchange("x", "x-consistent-hash", arguments={"hash-header": "h"})
    topology = Topology([exchange], [Queue("a"), Queue("b")], [to("a"), to("b")])
    router = Router(topology)
    assert {router.route(Message("x", "", {"h": key})).queues for key in KEYS} == {("a",), ("b",)}
    assert kind_of("x-consistent-hash").by_key
    assert not kind_of("x-consistent-hash", {"hash-header": "h"}).by_key
    assert not kind_of("x-consistent-hash", {"hash-property": "message_id"}).by_key


@pytest.mark.parametrize("arguments", [{"hash-header": "h"}, {"hash-property": "message_id"}])
def test_messages_without_what_is_hashed_go_to_one_queue(arguments: dict[str, str]) -> None:
    """Whatever their key."""
    ring = kind_of("x-consistent-hash", arguments)
    for name in "abc":
        ring.bind(to(name))
    assert len({tuple(went(ring, Message("x", key, {"i": key}, {"app_id": key}))) for key in KEYS}) == 1


def test_a_timestamp_is_hashed_as_text_in_a_property_and_as_a_number_in_a_header() -> None:
    """There in seconds, here in milliseconds."""
    by_property = kind_of("x-consistent-hash", {"hash-property": "timestamp"})
    by_header = kind_of("x-consistent-hash", {"hash-header": "h"})
    names = [f"q{number}" for number in range(50)]
    for name in names:
        by_property.bind(to(name))
        by_header.bind(to(name))
    for time in range(100):
        expected = names[jump(phash2(str(time).encode()), 50)]
        assert went(by_property, Message("x", "", {}, {"timestamp": time})) == [expected]
        assert went(by_property, Message("x", "", {}, {"timestamp": Typed("timestamp", time)})) == [expected]
        assert went(by_header, Message("x", "", {"h": Typed("timestamp", time)})) == [names[jump(time * 1000, 50)]]


def test_up_to_3_12_a_header_is_hashed_with_its_type() -> None:
    """Texts and numbers go elsewhere than since 3.13."""
    old, new = (kind_of("x-consistent-hash", {"hash-header": "h"}, PROFILES[f"rabbitmq-{v}"]) for v in ("3.12", "3.13"))
    for name in "abcdefgh":
        old.bind(to(name))
        new.bind(to(name))
    for values in (KEYS, range(400)):
        moved = [
            value
            for value in values
            if went(old, Message("x", "", {"h": value})) != went(new, Message("x", "", {"h": value}))
        ]
        assert 300 < len(moved) < 400


@pytest.mark.parametrize(
    ("version", "crashes"),
    [("3.10.8", False), ("3.12.14", False), ("3.13.7", True), ("4.0.5", True), ("4.2.9", True), ("4.3.4", True),
     ("4.3.5", False)],
)  # fmt: skip
def test_empty_arrays_crash_some_brokers(version: str, crashes: bool) -> None:
    """Where there is more than one bucket: 541, as the broker answers."""
    ring = kind_of("x-consistent-hash", {"hash-header": "h"}, find_profile(version))
    ring.bind(to("a"))
    assert went(ring, Message("x", "", {"h": []})) == ["a"]
    ring.bind(to("b"))
    empty: tuple[Any, ...] = ([], {})
    for value in empty:
        if crashes:
            with pytest.raises(BrokerError, match=r"541 INTERNAL_ERROR - .* empty array"):
                went(ring, Message("x", "", {"h": value}))
        else:
            assert went(ring, Message("x", "", {"h": value}))


@pytest.mark.parametrize(
    ("version", "crashes"),
    [("3.12.14", False), ("3.13.0", True), ("3.13.4", True), ("3.13.6", True), ("3.13.7", False), ("4.0.5", False)],
)
def test_a_message_without_the_hashed_header_crashes_some_brokers(version: str, crashes: bool) -> None:
    """With one bucket, too, and not with none; the broker takes BCC away before it routes."""
    for header in ("h", "BCC"):
        ring = kind_of("x-consistent-hash", {"hash-header": header}, find_profile(version))
        message = Message("x", "", {"BCC": ["b"]})
        assert went(ring, message) == []
        ring.bind(to("a"))
        if crashes:
            with pytest.raises(BrokerError, match=f"541 INTERNAL_ERROR - .* without the hash-header '{header}'"):
                went(ring, message)
        else:
            assert went(ring, message) == ["a"]


def test_only_the_first_element_of_an_array_counts() -> None:
    """Since 3.13, and not before."""
    new, old = (
        kind_of("x-consistent-hash", {"hash-header": "h"}, profile) for profile in (LATEST, PROFILES["rabbitmq-3.10"])
    )
    for number in range(100):
        new.bind(to(f"q{number}"))
        old.bind(to(f"q{number}"))
    one, more = Message("x", "", {"h": ["a"]}), Message("x", "", {"h": ["a", "b", 1]})
    assert went(new, one) == went(new, more)
    assert went(old, one) != went(old, more)


@given(
    st.lists(st.tuples(st.sampled_from("abcdé"), st.sampled_from(("", "x", "10", "2"))), unique=True, min_size=1),
    PROFILE,
)
def test_a_list_is_in_the_order_of_its_release_however_it_was_made(
    pairs: list[tuple[str, str]], profile: Profile
) -> None:
    """By destination since 4.3, by binding key and destination before; bindings of one destination all count."""
    made, slow = kind_of("x-modulus-hash", profile=profile), [to(*pair) for pair in pairs]
    for binding in slow:
        made.bind(binding)
    extra = to("e", "e")
    made.bind(extra)
    made.unbind(extra)
    slow.sort(
        key=lambda b: (b"" if profile.modulus_hash_sorts else b.routing_key.encode(), b.destination.name.encode())
    )
    for key in KEYS[:20]:
        place = phash2([key.encode(), b"cc"]) % len(slow)
        message = Message("x", key, {"CC": ["cc"]})
        assert went(made, message) == [slow[place].destination.name]


@pytest.mark.parametrize("name", ["x-consistent-hash", "x-modulus-hash"])
def test_keys_that_are_not_utf_8_are_hashed_too(name: str) -> None:
    """A byte in a surrogate escape is that byte; other lone surrogates, of JSON, are some bytes."""
    kind = kind_of(name)
    for number in range(50):
        kind.bind(to(f"q{number:02}"))
    hashed = b"a\xff" if name == "x-consistent-hash" else [b"a\xff"]
    place = jump(phash2(hashed), 50) if name == "x-consistent-hash" else phash2(hashed) % 50
    assert went(kind, Message("x", "a\udcff")) == [f"q{place:02}"]
    assert went(kind, Message("x", "a\ud800")) != went(kind, Message("x", "a\ud801"))


def test_without_bindings_nothing_matches() -> None:
    """So an alternate exchange is taken."""
    for name in ("x-consistent-hash", "x-modulus-hash"):
        kind = kind_of(name)
        assert went(kind, Message("x", "k")) == []
        kind.bind(to("a"))
        assert went(kind, Message("x", "k")) == ["a"]
        kind.unbind(to("a"))
        assert went(kind, Message("x", "k")) == []


def test_the_choice_of_a_hash_is_described() -> None:
    """The hash, what of, and the bucket."""
    message = Message("x", "order-1", {"h": 7}, {"message_id": "m"})
    keys = message.routing_keys()
    for arguments, what, seed in (
        ({}, "the routing key", phash2(b"order-1")),
        ({"hash-header": "h"}, "header 'h'", 7),
        ({"hash-property": "message_id"}, "message_id", phash2(b"m")),
    ):
        ring = kind_of("x-consistent-hash", arguments)
        assert ring.describe_choice(message, keys) == "the ring has no buckets"
        ring.bind(to("a"))
        assert ring.describe_choice(message, keys) == "the ring has only one bucket"
        ring.bind(to("b", "9"))
        assert (
            ring.describe_choice(message, keys) == f"hash {seed} of {what} jumps to bucket {jump(seed, 10)} of 0 to 9"
        )
    listed = kind_of("x-modulus-hash")
    assert listed.describe_choice(message, keys) == "there are no bindings"
    for name in "abc":
        listed.bind(to(name))
    h = phash2([b"order-1"])
    assert listed.describe_choice(message, keys) == f"hash {h} of the routing keys, modulo 3 bindings, is {h % 3}"
    assert kind_of("topic").describe_choice(message, keys) is None


@pytest.mark.parametrize(("release", "depends"), [("3.13", False), ("4.0", True), ("4.2.6", True), ("4.3", False)])
def test_the_choice_of_a_list_names_the_store_whose_order_it_takes_where_there_are_two(
    release: str, depends: bool
) -> None:
    """From 4.0 to 4.2; with one destination, there is nothing to order."""
    profile = find_profile(release)
    listed = kind_of("x-modulus-hash", profile=profile)
    listed.bind(to("a", "1"))
    text = listed.describe_choice(Message("x", "k"), ["k"])
    assert text is not None
    assert "Mnesia" not in text
    listed.bind(to("b", "1"))
    text = listed.describe_choice(Message("x", "k"), ["k"])
    assert text is not None
    assert ("as Mnesia orders them" in text) == depends


def test_the_obstacle_of_a_queue_is_that_the_hash_chose_another() -> None:
    """The obstacle on the way to it."""
    topology = Topology([Exchange("x", "x-consistent-hash")], [Queue("a"), Queue("b")], [to("a"), to("b")])
    router = Router(topology)
    (got,) = router.route(Message("x", "k")).queues
    (obstacle,) = router.explain(Message("x", "k"), "a" if got == "b" else "b").obstacles
    assert obstacle.reason == "the message's hash chose another binding"


ANY = "rabbitmq-3.10", "rabbitmq-4.0", "rabbitmq-4.3"


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({"hash-header": "h", "hash-property": "message_id"},
         "406 PRECONDITION_FAILED - hash-header and hash-property are mutually exclusive"),
        ({"hash-header": "h", "hash-property": "nope"},
         "406 PRECONDITION_FAILED - hash-header and hash-property are mutually exclusive"),
        ({"hash-property": "app_id"}, "406 PRECONDITION_FAILED - Unsupported property: app_id"),
        ({"hash-property": ""}, "406 PRECONDITION_FAILED - Unsupported property: "),
        ({"hash-header": b"h"}, "541 INTERNAL_ERROR - the channel crashes on a 'hash-header' that is not a long string"),
        ({"hash-property": None, "hash-header": "h"},
         "541 INTERNAL_ERROR - the channel crashes on a 'hash-property' that is not a long string"),
    ],
)  # fmt: skip
def test_declarations_that_are_refused(arguments: dict[str, Any], answer: str) -> None:
    """In the broker's words; x-modulus-hash takes any arguments."""
    for profile in ANY:
        topology = Topology(profile=profile)
        with pytest.raises(BrokerError) as refused:
            topology.declare_exchange(Exchange("x", "x-consistent-hash", arguments=arguments))
        assert str(refused.value) == answer
        topology.declare_exchange(Exchange("x", "x-modulus-hash", arguments=arguments))


@pytest.mark.parametrize("arguments", [{"hash-header": ""}, {"hash-property": "timestamp"}, {"other": 1}])
def test_declarations_that_are_accepted(arguments: dict[str, Any]) -> None:
    """A header with an empty name is one."""
    Topology().declare_exchange(Exchange("x", "x-consistent-hash", arguments=arguments))


@pytest.mark.parametrize(
    ("key", "answer"),
    [
        ("0", "The binding key must be greater than 0"),
        ("-3", "The binding key must be greater than 0"),
        ("", "The binding key must be an integer: <<>>"),
        (" 1", 'The binding key must be an integer: <<" 1">>'),
        ("1_0", 'The binding key must be an integer: <<"1_0">>'),
        ("1.5", 'The binding key must be an integer: <<"1.5">>'),
        ('"\\\n', 'The binding key must be an integer: <<"\\"\\\\\\n">>'),
        ("\x00a", "The binding key must be an integer: <<0,97>>"),
        ("é日", 'The binding key must be an integer: <<"é日"/utf8>>'),
        ("٣", 'The binding key must be an integer: <<"٣"/utf8>>'),
    ],
)  # fmt: skip
def test_binding_keys_that_are_no_weights(key: str, answer: str) -> None:
    """Erlang's integers are of ASCII digits alone, with a sign."""
    for profile in ANY:
        topology = Topology([Exchange("x", "x-consistent-hash")], [Queue("a")], profile=profile)
        with pytest.raises(PreconditionFailed) as refused:
            topology.bind(to("a", key))
        assert refused.value.text == answer


@pytest.mark.parametrize("key", ["1", "+5", "007", "10000"])
def test_binding_keys_that_are_weights(key: str) -> None:
    """Each weight is the number of buckets."""
    topology = Topology([Exchange("x", "x-consistent-hash")], [Queue("a")]).bind(to("a", key))
    assert Router(topology).route(Message("x", "k")).queues == ("a",)
    ring = kind_of("x-consistent-hash")
    ring.bind(to("a", key))
    ring.bind(to("b", "1"))
    assert str(ring.describe_choice(Message(), ("k",))).endswith(f"of 0 to {int(key)}")


@pytest.mark.parametrize(("version", "most"), [("3.10.8", None), ("4.2.5", None), ("4.2.6", 10_000), ("4.3.0", 10_000)])
def test_weights_have_a_limit_since_4_3_and_4_2_6(version: str, most: int | None) -> None:
    """Where there is none, any number of buckets is held in no more memory than one."""
    topology = Topology([Exchange("x", "x-consistent-hash")], [Queue("a"), Queue("b")], profile=find_profile(version))
    if most is None:
        router = Router(topology.bind(to("a", "1000000000000")).bind(to("b", "1000000000000")))
        assert {router.route(Message("x", key)).queues for key in KEYS} == {("a",), ("b",)}
        return
    topology.bind(to("a", str(most)))
    with pytest.raises(PreconditionFailed, match="The binding key must not exceed 10000"):
        topology.bind(to("a", str(most + 1)))


def test_a_binding_that_no_broker_accepts_has_no_buckets() -> None:
    """Topologies hold what they are given; such a binding comes from a file."""
    bindings = [to("a", "many"), to("a", "-1"), to("b", "2")]
    topology = Topology([Exchange("x", "x-consistent-hash")], [Queue("a"), Queue("b")], bindings)
    assert {Router(topology).route(Message("x", key)).queues for key in KEYS} == {("b",)}


@examples(30)
@given(SEED)
def test_delayed_exchanges_hash_as_their_inner_type(seed: int) -> None:
    """The plugin asks the type in x-delayed-type."""
    rng = Random(seed)
    plain = kind_of("x-consistent-hash", {"hash-header": "h"})
    delayed = kind_of("x-delayed-message", {"x-delayed-type": "x-consistent-hash", "hash-header": "h"})
    for name in "abc":
        binding = to(name, str(rng.randint(1, 5)))
        plain.bind(binding)
        delayed.bind(binding)
    message = Message("x", "", {"h": rng.random()})
    assert went(delayed, message) == went(plain, message)
    assert delayed.describe_choice(message, ("",)) == plain.describe_choice(message, ("",))
    assert not delayed.by_key
