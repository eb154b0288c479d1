"""x-jms-topic in the analyses: counted as routed, compared by trial, checked as brokers since 4.3 do."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bindings.archive.record import Record, build_batch
from bindings.checking.check import check
from bindings.counts.columnar.counting import Tallier
from bindings.counts.outcome import OutcomeExplorer
from bindings.counts.tally import compute_fingerprint
from bindings.diffing.comparison.compare import compare
from exchange import Binding, Destination, Exchange, Message, Queue, Topology
from tests.support.tiers import examples

SEED = st.integers(0, 2**32)
SELECTORS = (
    "true.", "{'=',{ident,<<\"n\">>},1}.", '{like,{ident,<<"s">>},<<"a%">>,no_escape}.', '{is_null,{ident,<<"n">>}}.',
    "{'and',{'>',{ident,<<\"n\">>},0},{not_like,{ident,<<\"s\">>},<<\"_\">>,no_escape}}.",
    '{like,{ident,<<"s">>},regex,<<"a|ab">>}.',
)  # fmt: skip
HEADERS: tuple[dict[str, Any], ...] = (
    {},
    {"n": 1},
    {"n": 2, "s": "ab"},
    {"s": "a"},
    {"n": 1, "s": "b"},
    {"s": 5},
    {"m": 1},
)


def jms(*selectors: str, profile: str = "rabbitmq-4.3") -> Topology:
    """Return a topic exchange that leads to one with a queue for each selector, and to a queue."""
    exchanges = [Exchange("t", "topic"), Exchange("j", "x-jms-topic")]
    queues = [Queue(f"q{number}") for number in range(len(selectors))]
    bindings = [Binding("t", Destination("exchange", "j"), "a.#"), Binding.to_queue("t", "q0", "b")]
    for number, text in enumerate(selectors):
        bindings.append(Binding.to_queue("j", f"q{number}", "k", {"rjms_erlang_selector": text}))
    return Topology(exchanges, queues, bindings, profile=profile)


@examples(80)
@given(SEED)
def test_messages_are_counted_as_they_are_routed(seed: int) -> None:
    """In batches, of which only the headers are read that selectors name."""
    rng = Random(seed)
    topology = jms(*rng.choices(SELECTORS, k=3))
    messages = [Message(rng.choice("tj"), rng.choice(("a.b", "b", "c")), rng.choice(HEADERS)) for _ in range(40)]
    counter = Tallier(topology)
    counter.add(build_batch([Record(message, None) for message in messages]))
    found = {outcome: facts.messages for outcome, facts in counter.result().facts.items()}
    explorer = OutcomeExplorer(topology)
    expected: dict[object, int] = {}
    for message in messages:
        outcome = explorer.outcome(message)
        expected[outcome] = expected.get(outcome, 0) + 1
    assert found == expected


def test_another_selector_is_a_choice_that_differs_by_selectors() -> None:
    """A trial shows it where it can; the same selectors in another order of bindings are the same."""
    choices = compare(jms("true.", "true."), jms("true.", "false.")).choices
    found = [(choice.exchange, choice.at, choice.by, choice.certain) for choice in choices]
    assert found == [("j", "j", "selector", True), ("t", "j", "selector", True)]
    before = jms("true.", "false.")
    after = Topology(
        before.exchanges.values(), before.queues.values(), [*before.bindings][::-1], profile=before.profile
    )
    assert compare(before, after).choices == ()
    assert compute_fingerprint(before) == compute_fingerprint(after)


def test_check_reports_the_selectors_that_a_broker_refuses() -> None:
    """With its words since 4.3; before, the channel crashes."""
    bad = "{nonsense,1}.", "true"
    found = {finding.code: finding.message for finding in check(jms(bad[0], "true."))}
    assert "invalid JMS selector" in found["HS603"]
    assert "HS603" not in {finding.code for finding in check(jms("true."))}
    messages = [finding.message for finding in check(jms(*bad, profile="rabbitmq-4.0")) if finding.code == "HS603"]
    assert len(messages) == 1
    assert "full stop" in messages[0]
