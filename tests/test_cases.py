"""Many cases in one test are tried as those in tests of their own are."""

from __future__ import annotations

import pytest

from tests.support.cases import with_each


def test_each_case_runs_and_those_that_fail_are_named() -> None:
    ran: list[tuple[int, str]] = []

    @with_each("number", [1, 2])
    @with_each(("text", "length"), [("a", 1), ("bc", 2), ("", 3)])
    def run(number: int, text: str, length: int) -> None:
        ran.append((number, text))
        assert len(text) == length

    with pytest.raises(BaseExceptionGroup, match="2 of 2 cases failed") as caught:
        run()
    assert ran == [(number, text) for number in (1, 2) for text in ("a", "bc", "")]
    for number, outer in enumerate(caught.value.exceptions, 1):
        assert outer.__notes__ == [f"with number={number}"]
        assert isinstance(outer, BaseExceptionGroup)
        [failed] = outer.exceptions
        assert failed.__notes__ == ["with text='', length=3"]


def test_what_pytest_raises_for_a_failure_is_one() -> None:
    @with_each("value", [1, 2])
    def run(value: int) -> None:
        with pytest.raises(ValueError, match="1"):
            int(value)

    with pytest.raises(BaseExceptionGroup, match="2 of 2 cases failed"):
        run()


def test_no_case_can_be_left_out() -> None:
    def skip(value: int) -> None:
        pytest.skip(f"not with {value}")

    with pytest.raises(AssertionError, match="there are no cases"):
        with_each("value", [])
    with pytest.raises(AssertionError, match="takes no such parameters: values"):
        with_each("values", [1])(skip)
    with pytest.raises(AssertionError, match="cannot be skipped: not with 1"):
        with_each("value", [1])(skip)()


@with_each("number", range(3))
def test_fixtures_are_those_of_the_test(number: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert tmp_path_factory.getbasetemp().is_dir()
    assert number in range(3)
