"""Findings about lives hold on the model: each witness is played there, and what it finds by trying is found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st

from bindings.checking.check import check
from bindings.checking.rules.finding import Finding
from exchange import Binding, Destination, Exchange, Message, Queue, Topology
from exchange.lifecycle.broker import Broker
from exchange.topology.graph import find_cycles
from tests.support.lives.witnesses import find_states, play
from tests.support.tiers import examples

LIVES = ("HS321", "HS322", "HS323", "HS324")
OPTIONAL = ("HS323", "HS324")
PROFILES = ("rabbitmq-3.10", "rabbitmq-3.12", "rabbitmq-3.13.2", "rabbitmq-3.13", "rabbitmq-4.0", "rabbitmq-4.3")
NAMES = ("a", "b", "c", "d")
KEYS = ("a", "b", "c", "d", "x", "a.x", "x.b")


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Draw a few queues whose dead letters go anywhere; in each a message stays for some time."""
    names = NAMES[: draw(st.integers(1, 4))]
    exchanges = [Exchange("f", "fanout"), Exchange("t", "topic"), Exchange("h", "headers", internal=True)]
    queues = [draw_queue(draw, name, names) for name in names]
    ends = st.tuples(
        st.sampled_from(["f", "t", "h"]), st.sampled_from(names), st.sampled_from(["a", "*.b", "#", "a.*"])
    )
    bindings = [Binding.to_queue(*end) for end in draw(st.lists(ends, max_size=4))]
    return Topology(exchanges, queues, bindings, profile=draw(st.sampled_from(PROFILES)))


def draw_queue(draw: st.DrawFn, name: str, names: Iterable[str]) -> Queue:
    """Draw a queue that all releases accept."""
    kind = draw(st.sampled_from(["classic", "classic", "quorum"]))
    given: dict[str, Any] = {
        "queue-type": kind,
        "max-length": draw(st.none() | st.none() | st.integers(1, 3)),
        "max-length-bytes": draw(st.none() | st.none() | st.none() | st.integers(64, 200)),
        "message-ttl": draw(st.none() | st.sampled_from([10, 50])),
        "expires": draw(st.none() | st.none() | st.none() | st.sampled_from([90, 1000])),
        "overflow": draw(st.sampled_from([None, None, "drop-head", "reject-publish"])),
        "dead-letter-strategy": draw(st.sampled_from([None, "at-least-once"])) if kind == "quorum" else None,
        "delivery-limit": draw(st.none() | st.integers(0, 30)) if kind == "quorum" else None,
    }
    if draw(st.integers(0, 4)):
        given["dead-letter-exchange"] = draw(st.sampled_from(["", "", "", "f", "t", "h", "gone"]))
        given["dead-letter-routing-key"] = draw(st.sampled_from([None, *names, "a.x"]))
    durable = {f"x-{key}": value for key, value in given.items() if value is not None}
    return Queue(name, auto_delete=kind == "classic" and not draw(st.integers(0, 8)), arguments=durable)


def publishes(topology: Topology) -> list[tuple[str, str]]:
    """Return the messages that publishers may send: by name only to queues for which that matters."""
    named = [
        name
        for name, queue in topology.queues.items()
        if "x-dead-letter-routing-key" in queue.arguments or not topology.bindings_to(Destination("queue", name))
    ]
    return [*(("", name) for name in named), *((exchange, key) for exchange in "ft" for key in KEYS)]


def show(topology: Topology) -> None:
    """Show a topology if the test fails."""
    note("\n".join(map(str, [topology.profile.name, *topology.queues.values(), *topology.bindings])))


def keeps_dead_letters(queue: Queue) -> bool:
    """Return whether a queue keeps a message until its dead letter has arrived."""
    wanted = {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
    return "x-dead-letter-exchange" in queue.arguments and wanted.items() <= dict(queue.arguments).items()


def names_of(findings: Iterable[Finding]) -> set[str]:
    """Return the names of all queues that findings are about."""
    return {part.name for each in findings for part in (each.part, *each.related) if isinstance(part, Queue)}


@examples(80)
@given(topologies())
def test_every_witness_does_on_the_model_what_it_says(topology: Topology) -> None:
    show(topology)
    for finding in check(topology, optional=OPTIONAL):
        if finding.code in LIVES:
            note(f"{finding.code}: {finding.message}: {finding.life}")
            assert finding.life is not None
            play(topology, finding.life)


@examples(40)
@given(topologies())
def test_what_goes_round_or_ends_on_the_model_is_found(topology: Topology) -> None:
    """By rejections and expiry: all that a search finds that plays each of the first lives."""
    show(topology)
    found = find_states(topology, publishes(topology))
    if found is None:
        return
    following, ends = found
    findings = check(topology, optional=OPTIONAL)
    rounds = names_of(each for each in findings if each.code in ("HS321", "HS322"))
    for circle in [*find_cycles(following), *([state] for state, then in following.items() if state in then)]:
        names = {str(state[0]) for state in circle}
        assert names & rounds, circle
    losing = names_of(each for each in findings if each.code in ("HS311", "HS312", "HS314", "HS323"))
    for event in ends:
        assert keeps_dead_letters(topology.queues[event.queue]) or event.queue in losing, event


@examples(40)
@given(topologies())
def test_a_queue_without_a_finding_ends_what_is_given_back_often(topology: Topology) -> None:
    """Where a message may come back more than 20 times, there is a finding, and nowhere else."""
    show(topology)
    found = names_of(each for each in check(topology, optional=OPTIONAL) if each.code == "HS324")
    for name in topology.queues:
        most = 0
        for method in ("nack", "reject"):
            broker = Broker(topology)
            broker.publish(Message("", name))
            tries = 0
            while (
                tries <= 21 and (delivery := broker.get(name)) is not None and "x-death" not in delivery.message.headers
            ):
                getattr(broker, method)(delivery)
                tries += 1
            most = max(most, tries)
        assert (most > 21) == (name in found)
