"""One test of many small cases: to begin, end and report a test takes longer than most such cases do."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import pytest

SHOWN: Final = 10
"""Maximum number of cases shown that have failed."""


def with_each(
    names: str | Sequence[str], cases: Iterable[Any], show: Callable[[Any], str] = repr
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test with each of the cases, as `pytest.mark.parametrize` does in tests of their own.

    One that fails does not keep the others from running, and is named. Fixtures of a test are those of all its cases.
    """
    given = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [tuple(case) if len(given) > 1 else (case,) for case in cases]
    assert rows, "there are no cases"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failed: list[BaseException] = []
            for row in rows:
                case = dict(zip(given, row, strict=True))
                try:
                    test(**fixtures, **case)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  the rest is to run, too
                    error.add_note("with " + ", ".join(f"{name}={show(value)}" for name, value in case.items()))
                    failed.append(error)
                except pytest.skip.Exception as reason:
                    raise AssertionError(f"one of several cases cannot be skipped: {reason}") from None
            if failed:
                raise BaseExceptionGroup(f"{len(failed)} of {len(rows)} cases failed", failed[:SHOWN])

        parameters = inspect.signature(test).parameters
        assert not {*given} - parameters.keys(), f"{test.__qualname__} takes no such parameters: {names}"
        left = [parameter for name, parameter in parameters.items() if name not in given]
        run.__signature__ = inspect.Signature(left)  # type: ignore[attr-defined]
        return run

    return decorate
