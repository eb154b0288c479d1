"""Edits that are refused or interrupted: router and topology refuse alike, and neither changes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange import (
    PROFILES,
    Binding,
    Destination,
    Exchange,
    InputError,
    Message,
    Policy,
    Profile,
    Queue,
    Router,
    Topology,
)
from exchange.entities.indexes import Change, Tables
from exchange.kinds import KINDS
from exchange.kinds.kind import Kind
from tests.exchange.routing.test_router_laws import PROFILE, SEED
from tests.support import topologies
from tests.support.cases import with_each
from tests.support.tiers import examples

LONG = "é" * 127 + "ab"  # 256 bytes in 129 characters
LONGEST = "é" * 127 + "a"


TO_QUEUE, TO_EXCHANGE = Destination("queue", "q0"), Destination("exchange", "x0")
Edit = tuple[str, Any]


def bad_edits(topology: Topology) -> list[Edit]:
    """Yield edits that brokers of all releases refuse, for each kind of exchange and each sort of part."""
    edits: list[Edit] = []
    for name in topology.exchanges:
        for destination in (TO_QUEUE, TO_EXCHANGE):
            edits += [("bind", Binding(name, destination, key)) for key in (LONG, f"a.{LONG}.#", f"#.{LONG}.*.#")]
            edits += [("bind", Binding(name, destination._replace(name=other), "a")) for other in (LONG, "nowhere")]
        edits.append(("bind", Binding(name, TO_QUEUE, "a", {"x-match": "some"})))
        edits.append(("bind", Binding(name, TO_QUEUE, "#.#.#.#")))
    edits += [("bind", Binding(name, TO_QUEUE, "a")) for name in (LONG, "nowhere", "")]
    edits += [("declare_exchange", Exchange(name, kind)) for kind in KINDS for name in (LONG, "amq.new", "")]
    for kind in (*KINDS, "nonsense"):
        edits.append(("declare_exchange", Exchange("new", kind, arguments={"alternate-exchange": 5})))
    edits.append(("declare_exchange", Exchange("new", "x-delayed-message", arguments={"x-delayed-type": "none"})))
    edits.append(("declare_exchange", Exchange("new", "x-consistent-hash", arguments={"hash-property": "no"})))
    edits += [("declare_queue", Queue(name)) for name in (LONG, "amq.new", "")]
    for method in (
        "declare_exchange",
        "declare_queue",
        "bind",
        "unbind",
        "set_policy",
        "delete_queue",
        "delete_exchange",
    ):
        edits += [(method, None), (method, 5)]
    for pattern in ("(", "[", "*", None):
        edits.append(("set_policy", Policy("p1", pattern, {"alternate-exchange": "x1"})))  # type: ignore[arg-type]
    edits += [("set_policy", Policy("p1", ".*", {"alternate-exchange": other})) for other in (5, None, ["x1"])]
    edits += [("clear_policy", "no such policy"), ("delete_exchange", ""), ("delete_exchange", "amq.topic")]
    return edits


def refusal(edit: Callable[[Any], object], argument: Any) -> tuple[type[BaseException], str] | None:
    """Return the error with which an edit is refused, None if it is accepted."""
    try:
        edit(argument)
    except Exception as error:  # noqa: BLE001  whatever it is, both must raise it
        return type(error), str(error)
    return None


def assert_made_anew(router: Router, topology: Topology, rng: Random) -> None:
    """Assert that the router has this topology and behaves as a new router of it."""
    anew = Router(topology, choose=lambda n: 0)
    assert router.topology == topology
    for name in topology.exchanges:
        assert list(router.topology.bindings_from(name)) == list(topology.bindings_from(name))
    for _ in range(8):
        message = topologies.message(rng, topology)
        assert router.route(message) == anew.route(message)
        queue = rng.choice(list(topology.queues))
        assert router.explain(message, queue) == anew.explain(message, queue)


@examples(60)
@given(SEED, PROFILE)
def test_a_router_refuses_what_its_topology_refuses_and_stays_as_it_was(seed: int, profile: Profile) -> None:
    """With the same error and the same words, whatever was routed before."""
    rng = Random(seed)
    topology = topologies.topology(rng, profile).declare_queue(Queue("q0"))
    topology = topology.set_policy(topologies.policy(rng, "", 1))
    if "x0" not in topology.exchanges:
        topology = topology.declare_exchange(Exchange("x0", "topic"))
    router = Router(topology, choose=lambda n: 0)
    for method, argument in rng.sample(bad_edits(topology), 12):
        router.route(topologies.message(rng, topology))
        expected = refusal(getattr(topology, method), argument)
        if expected is None:  # a kind that does not look at it, as a fanout at its keys
            topology = getattr(topology, method)(argument)
            getattr(router, method)(argument)
        else:
            assert refusal(getattr(router, method), argument) == expected
            assert not issubclass(expected[0], (AttributeError, RecursionError, KeyError))
        assert_made_anew(router, topology, rng)


@with_each("kind", [kind for kind in KINDS if kind != "x-delayed-message"])
@with_each("profile", PROFILES)
def test_a_short_string_has_255_bytes_whatever_it_names(kind: str, profile: str) -> None:
    """Of names and keys one byte more is refused, with the number, and 255 bytes are not."""
    topology = Topology(profile=profile).declare_queue(Queue("q")).declare_queue(Queue(LONGEST))
    known = PROFILES[profile].local_random or kind != "x-local-random"
    if known:
        topology = topology.declare_exchange(Exchange("e", kind)).declare_exchange(Exchange(LONGEST, kind))
    hashes, empty = kind == "x-consistent-hash", kind == "x-local-random"
    edits: list[Edit] = [
        ("declare_queue", Queue(LONG)),
        *([("declare_exchange", Exchange(LONG, kind))] if known else []),
        ("bind", Binding.to_queue("e", "q", LONG)),
        ("bind", Binding.to_queue("e", LONG, "1")),
        ("bind", Binding.to_exchange("e", LONG, "1")),
        ("bind", Binding.to_queue(LONG, "q", "1")),
    ]
    for method, argument in edits:
        with pytest.raises(InputError, match=r"has 256 bytes; AMQP allows 255"):
            getattr(topology, method)(argument)
    if known:
        key = "" if empty else "1" if hashes else LONGEST
        arguments = {"rjms_erlang_selector": "true."} if kind == "x-jms-topic" else {}
        assert len(topology.bind(Binding.to_queue(LONGEST, LONGEST, key, arguments)).bindings) == 1


class _Failure(BaseException):
    """An unexpected error, such as an interrupt."""


@examples(60)
@given(SEED, PROFILE, st.booleans(), st.integers(1, 4))
def test_an_interrupted_edit_has_happened_completely_or_not_at_all(
    seed: int, profile: Profile, late: bool, turn: int
) -> None:
    """Wherever it is interrupted, the router is one made anew from what it holds, which is before or after the edit."""
    rng = Random(seed)
    topology = topologies.topology(rng, profile).declare_queue(Queue("q0"))
    topology = topology.declare_exchange(Exchange("auto", "topic", auto_delete=True))
    topology = topology.bind(Binding.to_exchange("auto", "auto", "a")).bind(Binding.to_queue("auto", "q0", "b.#"))
    router = Router(topology, choose=lambda n: 0)
    for _ in range(3):
        router.route(topologies.message(rng, topology))
    bindings = [one for one in topology.bindings if topology.exchanges[one.source].type != "x-consistent-hash"]
    method, argument = rng.choice([
        ("unbind", rng.choice(bindings)),
        ("delete_queue", "q0"),
        ("delete_exchange", "auto"),
        ("delete_exchange", rng.choice([name for name in topology.exchanges if name.startswith("x")])),
        ("bind", Binding.to_queue("auto", "q0", "*.b")),
        ("declare_exchange", Exchange("new", "topic")),
        ("set_policy", topologies.policy(rng, "", 1)),
    ])  # fmt: skip
    after = getattr(topology, method)(argument)
    interrupted = _interrupt_at(turn)
    with pytest.MonkeyPatch.context() as patch:
        if late:
            interrupted(patch, Tables, "apply")
        else:
            for kind in {*KINDS.values(), *[base for each in KINDS.values() for base in each.__mro__[:-1]]}:
                for name in ("bind", "unbind"):
                    if name in vars(kind) and kind is not Kind:
                        interrupted(patch, kind, name)
        try:
            getattr(router, method)(argument)
        except _Failure:
            assert router.topology == (after if late else topology)
        else:
            assert router.topology == after
    assert_made_anew(router, after if router.topology == after else topology, rng)


def _interrupt_at(turn: int) -> Callable[[pytest.MonkeyPatch, type, str], None]:
    """Make methods raise at the given call of any of them, after half or all of the work."""
    calls = [0]

    def patched(patch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        original = getattr(owner, name)

        def method(self: Any, argument: Binding | Change) -> None:
            original(self, argument)
            calls[0] += 1
            if calls[0] == turn:
                raise _Failure

        patch.setattr(owner, name, method)

    return patched


def test_a_key_that_is_too_long_for_a_router_is_an_error_with_the_binding() -> None:
    """Only a file or the management API can bring one; a direct exchange compares it with keys and never finds it."""
    topology = Topology([Exchange("t", "topic"), Exchange("d", "direct")], [Queue("q")])
    direct = Topology(topology.exchanges.values(), [Queue("q")], [Binding.to_queue("d", "q", LONG)])
    assert Router(direct).route(Message("d", "k")).unroutable
    topic = Topology(topology.exchanges.values(), [Queue("q")], [Binding.to_queue("t", "q", f"a.{LONG}")])
    expected = r"^binding of exchange 't' to queue 'q': its key has 258 bytes, AMQP allows 255: 'a\.é+\.\.\.é+ab'$"
    with pytest.raises(InputError, match=expected):
        Router(topic)
