"""x-jms-topic: the engine answers what brokers answered in the recordings, or that it does not know."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange import LATEST_PROFILE, PROFILES, Binding, BrokerError, Exchange, Message, Queue, Router, Topology
from exchange.entities.indexes import Tables
from exchange.kinds import KINDS
from exchange.kinds.jms_grammar import find_refusal
from exchange.kinds.jms_selector import NotKnown, evaluate, parse_selector
from exchange.values.field_values import Typed
from tests.recorders import golden
from tests.recorders.jms_selectors import MESSAGES, SELECTORS, TWO, selector
from tests.support.tiers import examples

RELEASES = ("3.10", "4.0", "4.3")
TEXT_LIKE = '{like,{ident,<<"s">>},<<"bl%">>,no_escape}.'


def to(queue: str, text: str, key: str = "k") -> Binding:
    """Build a binding with a selector."""
    return Binding.to_queue("j", queue, key, selector(text))


def router_of(*bindings: Binding, release: str = "4.3", **arguments: Any) -> Router:
    """Build a router with one exchange, and an alternate one."""
    exchanges = [Exchange("j", "x-jms-topic", arguments=arguments), Exchange("rest", "fanout")]
    queues = [Queue("q"), Queue("r"), Queue("other")]
    bindings = (*bindings, Binding.to_queue("rest", "other"))
    return Router(Topology(exchanges, queues, bindings, profile=f"rabbitmq-{release}"))


def routed(router: Router, headers: Mapping[str, Any]) -> tuple[str, ...] | str | None:
    """Return the queues; None where the broker fails, ``?`` where it is unknown."""
    try:
        route = router.route(Message("j", "k", headers))
    except BrokerError:
        return None
    return "?" if route.undecided else route.queues


@pytest.mark.parametrize("release", RELEASES)
def test_a_selector_answers_each_message_as_the_broker_does(release: str) -> None:
    """Never otherwise, and unknown only for regular expressions, for terms not read here, and for malformed patterns."""
    wrong, known, asked = [], 0, 0
    for text, answers in zip(SELECTORS, golden.read(f"rabbitmq-jms-selectors-{release}")["answers"], strict=True):
        if isinstance(answers, str):
            continue
        router = router_of(to("q", text), release=release)
        for headers, answer in zip(MESSAGES, answers, strict=True):
            ours = routed(router, headers)
            asked += 1
            known += ours != "?"
            if ours not in ("?", None if answer is None else ("q",) if answer else ()):
                wrong.append((text, headers, answer, ours))
    assert wrong == []
    assert known > 0.97 * asked > 5_000


@pytest.mark.parametrize("release", RELEASES)
def test_a_selector_that_is_refused_here_is_refused_by_the_broker(release: str) -> None:
    """And since 4.3, all that brokers refuse are, with the same code."""
    recorded = golden.read(f"rabbitmq-jms-selectors-{release}")
    profile = PROFILES[f"rabbitmq-{release}"]
    for text, answers in zip(SELECTORS, recorded["answers"], strict=True):
        try:
            KINDS["x-jms-topic"].check_binding(Exchange("j", "x-jms-topic"), to("q", text), Tables(), profile)
        except BrokerError as error:
            refused = f"{error.code} {error.name}"
        else:
            refused = ""
        assert isinstance(answers, str) or not refused, text
        if profile.selectors_are_checked or refused:
            assert isinstance(answers, list) != (refused != "" and answers.startswith(refused)), text
    with pytest.raises(BrokerError, match="without a long string") as without:
        KINDS["x-jms-topic"].check_binding(
            Exchange("j", "x-jms-topic"), Binding.to_queue("j", "q", "k"), Tables(), profile
        )
    assert recorded["without"].startswith(f"{without.value.code} ")


def test_the_last_selector_counts_for_bindings_that_differ_only_in_it() -> None:
    """The broker keeps selectors by key and destination; without one of the two, the other matches nothing."""
    first, last = to("q", "true."), to("q", "false.")
    router = router_of(first, last)
    assert routed(router, {}) == ()
    router.unbind(last)
    assert routed(router, {}) == ()
    router.bind(last)
    router.bind(to("r", "true."))
    assert routed(router, {}) == ("r",)
    assert routed(router_of(last, first), {}) == ("q",)
    kind = KINDS["x-jms-topic"]
    assert kind.sequence([first, last]) != kind.sequence([last, first])
    assert kind.sequence([first, to("r", "true.")]) == kind.sequence([to("r", "true."), first])


@pytest.mark.parametrize("release", RELEASES)
def test_like_of_a_value_that_is_no_text_fails_or_since_4_3_matches_nothing(release: str) -> None:
    """In whichever order the bindings were made."""
    for selectors, answer in zip(
        (TWO, TWO[::-1]), golden.read(f"rabbitmq-jms-selectors-{release}")["of_two"], strict=True
    ):
        bindings = [to(queue, text) for queue, text in zip("qr", selectors, strict=True)]
        assert routed(router_of(*bindings, release=release), {"s": True}) == (None if answer is None else ())
        assert answer is not True
        assert routed(router_of(*bindings, release=release), {"s": "blue"}) == ("q", "r")


def test_which_of_two_failures_comes_first_is_not_known() -> None:
    """One makes a 4.3 match nothing, the other one crashes the channel."""
    router = router_of(to("q", TEXT_LIKE), to("r", '{is_null,{ident,<<"t">>}}.'))
    assert routed(router, {"s": True, "t": Typed("timestamp", 5)}) == "?"
    assert routed(router, {"s": "blue", "t": Typed("timestamp", 5)}) is None


def test_a_binding_whose_answer_is_not_known_leaves_the_route_undecided_and_keeps_the_others() -> None:
    """Its exchange may take its alternate exchange or not, and so that is not taken."""
    unsure = to("q", '{like,{ident,<<"s">>},regex,<<"a|ab">>}.')
    router = router_of(unsure, to("r", "{'=',{ident,<<\"n\">>},1}."), **{"alternate-exchange": "rest"})
    certain = router.route(Message("j", "k", {"s": "c", "n": 1}))
    assert (certain.queues, certain.undecided) == (("r",), ())
    unknown = router.route(Message("j", "k", {"s": "ab", "n": 1}))
    assert (unknown.queues, unknown.undecided, unknown.unroutable) == (("r",), ("j",), False)
    nowhere = router.route(Message("j", "k", {"s": "ab"}))
    assert (nowhere.queues, nowhere.undecided, nowhere.unroutable) == ((), ("j",), None)
    assert router.route(Message("j", "k", {"s": "c"})).queues == ("other",)
    text = str(router.explain(Message("j", "k", {"s": "ab", "n": 1}), "q"))
    assert "? more bindings may match: a regular expression of 'like' may match" in text
    assert "'k'" in text


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, r"its selector .* is not true; header 's' is not there"),
        ({"s": "red"}, r"its selector \{like,\{ident,<<\"s\">>\},<<\"bl%\">>,no_escape\}\. is false"),
        ({"s": 5}, "'like' wants a text"),
    ],
)
def test_an_explanation_says_why_a_selector_is_not_true(headers: dict[str, Any], reason: str) -> None:
    """And which of its headers are not there."""
    (obstacle,) = router_of(to("q", TEXT_LIKE)).explain(Message("j", "k", headers), "q").obstacles
    assert obstacle.binding == to("q", TEXT_LIKE)
    assert re.fullmatch(reason, obstacle.reason)


def test_like_of_many_wildcards_in_a_long_text_is_not_known() -> None:
    """The broker's limit on the work may end the match."""
    term = parse_selector('{like,{ident,<<"s">>},<<"%a%a%a%">>,no_escape}.')
    assert evaluate(term, {b"s": ("longstr", b"aaa")}, signed_zeros_differ=True) == "true"
    with pytest.raises(NotKnown, match="more steps than"):
        evaluate(term, {b"s": ("longstr", b"b" * 200)}, signed_zeros_differ=True)


def test_a_selector_s_numbers_have_a_bound() -> None:
    """No file makes a route take long."""
    with pytest.raises(NotKnown, match="bits"):
        evaluate(
            parse_selector("{'*'," * 40 + "9" * 4_000 + ("," + "9" * 4_000 + "}") * 40), {}, signed_zeros_differ=True
        )


TERMS = st.recursive(
    st.sampled_from(["1", "1.5", "true", "undefined", '<<"a">>', '"a"', '{ident,<<"n">>}', '{ident,<<"s">>}', "[]"]),
    lambda terms: st.one_of(
        st.tuples(st.sampled_from(["'not'", "'-'", "is_null", "not_null"]), terms),
        st.tuples(st.sampled_from(["'and'", "'or'", "'='", "'>'", "'<='", "'+'", "'/'", "in", "not_in"]), terms, terms),
        st.tuples(st.sampled_from(["between", "like", "not_like"]), terms, terms, terms),
        st.lists(terms, max_size=3),
    ).map(lambda parts: f"{{{','.join(parts)}}}" if isinstance(parts, tuple) else f"[{','.join(parts)}]"),
    max_leaves=8,
)


@examples(300)
@given(TERMS, st.sampled_from(MESSAGES), st.sampled_from(RELEASES))
def test_every_term_and_message_has_a_route_or_the_broker_s_failure(
    text: str, headers: dict[str, Any], release: str
) -> None:
    """And the negation of what is true or false is the other one."""
    plain, negated = (
        routed(router_of(to("q", each + "."), release=release), headers) for each in (text, f"{{'not',{text}}}")
    )
    assert plain in (None, "?", (), ("q",))
    assert (plain in (None, "?")) == (negated in (None, "?"))
    assert not (plain == ("q",) and negated == ("q",))


@examples(300)
@given(st.text(alphabet="{}[]<>\"'.,\\ \n-+019eatruenotlikeor/", max_size=30))
def test_every_text_is_an_accepted_or_a_refused_selector(text: str) -> None:
    """Nothing else comes of it."""
    why = find_refusal(text, checks_patterns=True)
    assert why == "" or why.startswith("invalid JMS selector")
    assert routed(router_of(to("q", text)), {"n": 1}) in (None, "?", (), ("q",))


def test_reads_are_the_headers_that_selectors_name() -> None:
    """Which are all that an archive must have for it."""
    reads = KINDS["x-jms-topic"].reads(
        Exchange("j", "x-jms-topic"), [to("q", TEXT_LIKE), to("r", "true.")], LATEST_PROFILE
    )
    assert reads == (frozenset({"s"}), frozenset())
