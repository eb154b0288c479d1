"""Policy patterns: the engine answers what brokers answered in the recordings, or that it does not know."""

from __future__ import annotations

import pytest

from exchange import Binding, Exchange, Message, Policy, Queue, Router, Topology
from exchange.patterns import pcre
from exchange.patterns.pcre import parse_expression
from tests.recorders import golden
from tests.recorders.policy_patterns import NAMES, PATTERNS
from tests.support.cases import with_each

RELEASES = ("3.10", "4.0", "4.3")


@pytest.mark.parametrize("release", RELEASES)
def test_a_pattern_applies_to_the_names_to_which_the_broker_applies_it(release: str) -> None:
    """Never another answer, and hardly ever none."""
    answers = golden.read(f"rabbitmq-patterns-{release}")["answers"]
    known, wrong = 0, []
    for pattern, applied in zip(PATTERNS, answers, strict=True):
        if parse_expression(pattern).error and applied is not None:
            wrong.append((pattern, "refused here"))
        for name in NAMES if applied is not None else ():
            ours = Policy("p", pattern).is_found_in(name)
            known += ours is not None
            if ours not in (None, name in applied):
                wrong.append((pattern, name))
    assert wrong == []
    assert known > 0.75 * len(NAMES) * sum(applied is not None for applied in answers)


@with_each("pattern", [p for p in PATTERNS if len(p) < 200])
def test_a_pattern_that_is_refused_here_is_refused_by_all(pattern: str) -> None:
    """So that nothing is called an error which some broker accepts."""
    answers = [golden.read(f"rabbitmq-patterns-{release}")["answers"][PATTERNS.index(pattern)] for release in RELEASES]
    assert not parse_expression(pattern).error or answers == [None] * 3


def test_the_patterns_of_many_policies_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the number of those who ask, as all rules of a check do."""
    patterns = [f"^once{number}$" for number in range(4_500)]
    for pattern in patterns:
        parse_expression(pattern)
    monkeypatch.setattr(pcre, "Expression", None)
    for pattern in patterns:
        assert parse_expression(pattern).error == ""


UNSURE = Policy("p", "(a)\\1", {"alternate-exchange": "rest"}, "exchanges")


def alternates(*policies: Policy) -> Router:
    exchanges = [Exchange("aa", "topic"), Exchange("rest", "fanout")]
    bindings = [Binding.to_queue("aa", "q", "k"), Binding.to_queue("rest", "r")]
    return Router(Topology(exchanges, [Queue("q"), Queue("r")], bindings, policies))


def test_a_route_that_depends_on_an_unknown_pattern_is_undecided() -> None:
    """Where the exchange's own bindings match it does not depend on it."""
    router = alternates(UNSURE)
    assert router.route(Message("aa", "other")).undecided == ("aa",)
    assert router.route(Message("aa", "k")) == alternates().route(Message("aa", "k"))
    assert "depends on which policy applies" in str(router.explain(Message("aa", "other")))


def test_a_policy_of_higher_priority_makes_an_unknown_pattern_harmless() -> None:
    """So does a policy that sets the same alternate exchange."""
    above = Policy("o", "^a", {"alternate-exchange": "rest"}, "all", 5)
    assert alternates(UNSURE, above).route(Message("aa", "other")).queues == ("r",)
    same = Policy("o", "^a", {"alternate-exchange": "rest"}, "all", -5)
    assert alternates(UNSURE, same).route(Message("aa", "other")).queues == ("r",)


def test_an_edit_keeps_undecided_routes_apart() -> None:
    """A policy that is set and cleared leaves the router as one made of its topology."""
    router = alternates()
    router.set_policy(UNSURE)
    assert router.route(Message("aa", "other")).undecided == ("aa",)
    router.clear_policy("p")
    assert router.route(Message("aa", "other")).unroutable is True
