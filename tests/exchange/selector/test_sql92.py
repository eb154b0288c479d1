"""SQL92 filters: as recorded from RocketMQ's own classes, and the fast test equal to the definition."""

from __future__ import annotations

import pickle
from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exchange.errors import HashstarError
from exchange.selector import Selector, SelectorError, SelectorFailure
from exchange.selector.compiled import compile_expression
from exchange.selector.expression import (
    And,
    ComparisonExpression,
    Constant,
    Expression,
    In,
    IsNull,
    Negative,
    Not,
    Or,
    Property,
    TextTest,
    Truth,
)
from exchange.selector.meaning import evaluate
from exchange.selector.reading import MAX_LEVELS
from tests.recorders import golden
from tests.recorders.rocketmq_filter import DIGEST, EXPRESSIONS, NUMBERS, PROPERTIES, VALUES
from tests.support.cases import with_each
from tests.support.tiers import some

RECORDED = golden.names("rocketmq-filter-")
OUTCOMES = {True: "t", False: "f", None: "n"}


@cache
def outcomes(text: str, release: str) -> str | None:
    """Return the result of `RocketmqFilter.java` for an expression."""
    try:
        selector = Selector.parse(text, release, exact=True)
    except SelectorError:
        return None
    return "".join(map(outcome(selector), PROPERTIES))


def outcome(selector: Selector):  # type: ignore[no-untyped-def]  # noqa: ANN201
    def of(properties: dict[str, str]) -> str:
        try:
            return OUTCOMES[selector.evaluate(properties)]
        except SelectorFailure:
            return "x"

    return of


@pytest.mark.scaled
@pytest.mark.parametrize("name", RECORDED)
def test_every_expression_is_parsed_and_evaluated_as_by_rocketmq(name: str) -> None:
    """4,000 expressions with 16 maps each: refused, true, false, unknown or failing exactly there."""
    recorded = golden.read(name)
    assert recorded["corpus"] == DIGEST, "recorded of another corpus: run tests.recorders.rocketmq_filter"
    release = "4.1" if recorded["version"].startswith("4.") else "5.1.3"
    different = {
        text: (ours, theirs)
        for text, theirs in some([*zip(EXPRESSIONS, recorded["answers"], strict=True)], 5)
        if (ours := outcomes(text, release)) != theirs
    }
    assert not different


def test_the_corpus_has_many_cases_of_every_outcome() -> None:
    """A corpus of errors alone would show nothing."""
    answers = golden.read(RECORDED[-1])["answers"]
    assert sum(answer is None for answer in answers) > 1_000
    for letter in "tfnx":
        assert sum(letter in answer for answer in answers if answer) > 500


# The fast test and the definition.

names = st.sampled_from(["a", "b", "c"])
properties = st.dictionaries(names, st.sampled_from(VALUES) | st.text(max_size=3) | st.integers().map(str))
numbers = st.one_of(
    st.integers(0, 2**31 - 1).map(lambda value: Constant(value, "Integer")),
    st.integers(2**31, 2**63 - 1).map(lambda value: Constant(value, "Long")),
    st.floats(min_value=5e-324, allow_infinity=False).map(lambda value: Constant(value, "Double")),
    st.sampled_from([Constant(5, "Integer"), Constant(9, "Integer"), Constant(2.5, "Double")]),
)
constants = st.one_of(
    numbers,
    st.sampled_from(VALUES).map(lambda value: Constant(value, "String")),
    st.booleans().map(lambda value: Constant(value, "Boolean")),
)
named = names.map(Property)
order = st.sampled_from(["<", "<=", ">", ">="])


def truths(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    """Build a strategy of the expressions that a parser can build from parts that have truth values."""
    anything = st.one_of(named, constants, inner, numbers.map(Negative), named.map(Negative), inner.map(Negative))
    ordered = st.one_of(named, numbers, numbers.map(Negative), named.map(Negative), inner.map(Negative))
    texts = st.sampled_from(VALUES)
    return st.one_of(
        st.builds(ComparisonExpression, anything, st.just("="), anything),
        st.builds(ComparisonExpression, ordered, order, ordered),
        st.builds(IsNull, anything),
        st.builds(
            TextTest, anything, st.sampled_from(["CONTAINS", "STARTSWITH", "ENDSWITH"]),
            texts | st.sampled_from("5eab"), st.booleans(),
        ),
        st.builds(Not, inner),
        st.lists(inner, min_size=2, max_size=4).map(lambda parts: And(tuple(parts))),
        st.lists(inner, min_size=2, max_size=4).map(lambda parts: Or(tuple(parts))),
    )  # fmt: skip


simple = st.one_of(
    named.map(Truth),
    st.sampled_from([Constant(None, "null"), Constant(True, "Boolean"), Constant(False, "Boolean")]),
    st.builds(ComparisonExpression, named, st.sampled_from(["=", "<", "<=", ">", ">="]), numbers),
    st.builds(ComparisonExpression, numbers, st.sampled_from(["=", "<", "<=", ">", ">="]), named),
    st.builds(ComparisonExpression, named, st.just("="), constants),
    st.builds(In, named, st.frozensets(st.sampled_from(VALUES), min_size=1), st.booleans()),
)
expressions = st.recursive(simple, truths, max_leaves=8)


def result_of(work: object) -> object:
    """Return the result of a call, or that it fails."""
    try:
        return work()  # type: ignore[operator]
    except HashstarError:
        return "fails"


@given(expressions, properties)
@example(ComparisonExpression(Property("a"), "=", Constant(2.5, "Double")), {"a": "NaN"})
@example(ComparisonExpression(Property("a"), ">", Constant(2.5, "Double")), {"a": "NaN"})
@example(ComparisonExpression(Property("a"), ">", Property("b")), {"a": "0", "b": "-0"})
def test_the_fast_test_equals_the_definition(expression: Expression, given: dict[str, str]) -> None:
    """Whatever the expression and the properties; where one fails the other does."""
    tests = compile_expression(expression)
    defined = result_of(lambda: evaluate(expression, given).value)
    assert result_of(lambda: tests.exact(given)) == defined
    assert tests.wanted(given) is (defined is True)


# What users see.


def refusal(text: str, release: str = "5.1.3") -> list[str]:
    """Return the lines of the error of a text that is refused."""
    with pytest.raises(SelectorError) as caught:
        Selector.parse(text, release)
    return str(caught.value).split("\n    ")


@with_each(
    ("text", "words", "caret"),
    [
        ("a LIKE 'x%'", "there is no LIKE", "  ^^^^"),
        ("a-b = 1", "no arithmetic", " ^"),
        ("a = 05", "does not begin with 0", "     ^"),
        ("a == 5", "written =", "   ^"),
        ("a != 5", "written <>", "  ^^"),
        ("a = 1 && b = 2", "write AND", "      ^^"),
        ("a || b", "by tags", "  ^^"),
        ("a = 'x", "has no end", "    ^"),
        ("a = 'it''", "has no end", "        ^"),
        ('a = "x"', "single quotes", "    ^"),
        ("order.id = 5", "a name has", "     ^"),
        ("größe = 5", "a name has", "  ^"),
        ("a = ", "more is expected", "    ^"),
        ("", "more is expected", "^"),
        ("(a = 1", "more is expected", "      ^"),
        ("a = 1)", "no ( to this )", "     ^"),
        ("a = 1;", "no ; at the end", "     ^"),
        ("a > 'x'", "compares numbers", "    ^^^"),
        ("a > TRUE", "compares numbers", "    ^^^^"),
        ("a > (b = 1)", "truth value", "     ^^^^^"),
        ("NOT a > 5", "write NOT (...)", "^^^^^"),
        ("NOT a IN ('x')", "write NOT (...)", "^^^^^"),
        ("a = NULL", "write IS NULL", "    ^^^^"),
        ("TRUE = 5", "truth value", "       ^"),
        ("5", "no truth value", "^"),
        ("a = 5 AND 'x'", "no truth value", "          ^^^"),
        ("a BETWEEN 5 AND 1", "first bound is above", "          ^^^^^^^"),
        ("a = 9223372036854775808", "64 bits", "    ^^^^^^^^^^^^^^^^^^^"),
        ("a = 0.0", "no zero with a point", "    ^^^"),
        ("a > 1e400", "more than a double holds", "    ^^^^^"),
        ("a NOT 5", "NOT behind a value", "      ^"),
        ("a = 5 /* x", "comment has no end", "      ^"),
    ],
)
def test_a_mistake_is_shown_with_a_caret(text: str, words: str, caret: str) -> None:
    """With what to write instead; also where the broker would ignore the rest."""
    problem, source, shown = refusal(text)
    assert words in problem
    assert source == text
    assert shown.startswith(caret)


def test_a_rest_that_the_broker_ignores_is_an_error_unless_exact() -> None:
    """Exactly, it is what the broker makes of it."""
    assert "the broker ignores" in refusal("a IS NULL LIKE 'x'")[0]
    selector = Selector.parse("a IS NULL LIKE 'x'", exact=True)
    assert selector.ignored == (10, 18)
    assert selector({})
    assert Selector.parse("a IS NULL", exact=True).ignored is None


def test_text_operators_came_with_5_1_3() -> None:
    """Before, they are names, and the broker ignores them behind a value."""
    assert Selector.parse("a CONTAINS 'b'")({"a": "abc"})
    assert Selector.parse("contains = 'x'", "4.1")({"contains": "x"})
    assert "since RocketMQ 5.1.3" in refusal("a CONTAINS 'b'", "4.1")[0]


def test_only_releases_that_changed_the_language_are_named() -> None:
    """Between two of them, it is the older one's."""
    with pytest.raises(ValueError, match=r"since 4.1, 5.1.3"):
        Selector.parse("a = 5", "5.5.0")


@pytest.mark.parametrize("operator", ["CONTAINS", "NOT CONTAINS", "STARTSWITH", "NOT ENDSWITH"])
def test_an_empty_search_is_false_before_what_it_searches_can_fail(operator: str) -> None:
    selector = Selector.parse(f"(a > 5) {operator} '' OR c = 'x'")
    assert selector({"a": "hello", "c": "x"})
    assert not selector({"a": "hello", "c": "y"})


def test_failing_and_unknown_are_no_match() -> None:
    """The broker logs the one, and silently accepts the other."""
    selector = Selector.parse("price > 10 OR region = 'eu'")
    assert not selector({"price": "9.99", "region": "eu"})
    with pytest.raises(SelectorFailure, match=r"'9.99' is not an Integer") as caught:
        selector.evaluate({"price": "9.99", "region": "eu"})
    assert caught.value.span == (0, 10)
    assert selector.evaluate({"price": "9"}) is None
    assert not selector({"price": "9"})
    assert selector({"price": "9", "region": "eu"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("NOT a = 5", ["write NOT (...)"]),
        ("NOT a IS NULL", ["write NOT (...)"]),
        ("paid", ["write paid = TRUE"]),
        ("TRUE = paid", ["fails on every message"]),
        ("-a > 5", ["always null"]),
        ("5 = TRUE", ["never equals a number"]),
        ("a CONTAINS ''", ["false for every text"]),
        ("5 CONTAINS '5'", ["always false"]),
        ("NOT (a = 5) AND b IS NOT NULL OR c > -5 AND d = TRUE", []),
        ("a BETWEEN 1 AND 5 OR b NOT IN ('x') AND 'eu' = a", []),
    ],
)
def test_parts_that_mean_something_else_have_remarks(text: str, words: list[str]) -> None:
    """The broker takes these without a word."""
    remarks = Selector.parse(text).remarks
    assert len(remarks) == len(words), remarks
    for remark, part in zip(remarks, words, strict=True):
        assert part in remark.message
        assert "^" in str(remark)


def test_deep_nesting_is_refused_and_parentheses_are_none() -> None:
    """A nested expression takes the stack of the process that evaluates it."""
    deep = "NOT " * (MAX_LEVELS - 2) + "a"
    assert Selector.parse(deep).evaluate({}) is None
    for begins, ends in (
        ("NOT ", ""), ("(", " <> 5)"), ("(", " IS NOT NULL)"), ("(", " CONTAINS 'x')"),
        ("(b AND (b OR ", "))"),
    ):  # fmt: skip
        nested = begins * 60 + "a" + ends * 60
        properties = {"a": "5", "b": "true"}
        assert (Selector.parse(nested).evaluate(properties) is True) == Selector.parse(nested)(properties)
        assert "levels deep" in refusal(begins * 2_000 + "a" + ends * 2_000)[0]
    assert "1,000,000 parts" in refusal("-(" * 60 + "a" + " BETWEEN 1 AND 2)" * 60)[0]
    assert Selector.parse("(" * 1_000 + "a = 5" + ")" * 1_000)({"a": "5"})
    many = Selector.parse(" OR ".join(f"a = {number}" for number in range(1_000)))
    assert many({"a": "999"})
    assert many.names == {"a"}


def test_selectors_are_values() -> None:
    """Equal by what is written, and pickled as it."""
    selector = Selector.parse("a = 5 b", exact=True)
    assert pickle.loads(pickle.dumps(selector)) == selector != Selector.parse("a = 5")  # noqa: S301  our own
    assert hash(selector) == hash(Selector.parse("a = 5 b", exact=True))
    assert str(selector) == "a = 5 b"


@given(st.sampled_from(NUMBERS), st.text(st.sampled_from("'ab \n"), max_size=5))
def test_texts_and_numbers_are_read_back(number: str, text: str) -> None:
    """A doubled quote is one."""
    quoted = text.replace("'", "''")
    assert Selector.parse(f"a = '{quoted}'").evaluate({"a": text}) is True
