"""The tiers of the tests: what each one runs, and with how many examples.

==========  ==============================================================================  =======================
tier        what it runs                                                                    examples of a property
==========  ==============================================================================  =======================
``quick``   all that needs no server, browser, Spark or other process, and what is `smoke`  a tenth, the same each day
``rest``    what `quick` leaves out, its properties with all their examples, what `scaled`  all, the same each day
``all``     everything                                                                      all, the same each day
``night``   everything                                                                      ten times as many, random
==========  ==============================================================================  =======================

What a test needs is a mark: `live` (a server), `spark`, `browser` and `process` (programs of its own, and slow). Tests
in files `*_live.py`, and those that use the fixtures of Spark or of the browser, carry theirs already. `smoke` marks
one of a kind that always runs: in `quick` if it needs neither server nor browser, and else with the tests of a part
that has not changed (`tests.support.parts`). In `quick`, a test without a mark may take `CPU_LIMIT` seconds of
processor time. What takes more is named at the end, and fails where it runs with ``--limit-cpu``, as it does in CI,
alone: beside other work, the same test takes several times as long.
What tries `some` of many cases, or a smaller input, in `quick`, is marked `scaled`, and runs whole in `rest`, too. A
loop of `scale` cases that has no such mark runs in full in `all` and `night` only.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, Literal, TypeVar, cast, get_args

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.support.parts.table import PARTS, find_part
from tests.support.waiting import measure_slowness

T = TypeVar("T")
Tier = Literal["quick", "rest", "all", "night"]
TIERS: Final[tuple[Tier, ...]] = get_args(Tier)

CPU_LIMIT: Final = 5.0
"""Maximum processor time of a test without a mark in `quick`, with that of the processes it started, in seconds: on a
usual machine without other work."""
COSTLY: Final = "processor seconds"
"""Name of the property in which the report of a test has its processor time, if that is more."""

NEEDS: Final = ("live", "spark", "browser", "process")
"""Marks of tests that `quick` leaves out."""
ALONE: Final = frozenset({"live", "browser"})
"""Marks of tests that `quick` leaves out although they are `smoke`: not every machine has what they need."""

GROUPS: Final = frozenset({"spark", "servers", "commands"})
"""Groups of tests that share something in one process of xdist, which has them behind the names of tests, and an @."""

FIXTURES: Final = {"spark": "spark", "browser": "browser"}
"""Fixtures whose tests carry a mark without writing it, and that mark."""

SEVERAL: Final = frozenset({"rabbitmq_servers", "kafka_servers", "rocketmq_servers"})
"""Fixtures with servers of all releases."""

FEW: Final = 8
"""Maximum number of tests of a module that comes before larger ones: its time cannot be told from their number."""

_VARIABLE: Final = "HASHSTAR_TIER"
"""Name of the environment variable that holds the tier for decorators, and for pytest in a process of a test."""


def choose(tier: Tier) -> None:
    """Set the tier of this process and of those it starts, before test modules are imported."""
    os.environ[_VARIABLE] = tier
    # How long an example takes says how busy the machine is, not whether the law holds.
    shared: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
    if tier != "night":
        shared |= {"derandomize": True, "database": None}
    settings.register_profile("tier", settings(), max_examples=scale(100), **shared)
    # `make mutants` asks the same of each mutant, so that what one is killed by is no luck; how simply does not matter.
    settings.register_profile(
        "mutants", settings(), max_examples=200, derandomize=True, database=None, deadline=None,
        suppress_health_check=[HealthCheck.too_slow], phases=(Phase.explicit, Phase.generate),
    )  # fmt: skip
    settings.load_profile("tier")


def parse_parts(value: str) -> frozenset[str] | None:
    """Parse the names of parts that run whole, as `tests.support.parts` prints them; None is all of them."""
    if value == "all":
        return None
    names = frozenset(value.split(",")) - {"none"}
    if unknown := names - {part.name for part in PARTS}:
        raise pytest.UsageError(f"--parts: there is no {', '.join(sorted(unknown))}")
    return names


def scale(count: int, share: int = 10) -> int:
    """Return how many cases the tier tries of a law that has `count` in the tier `all`.

    `quick` tries one of `share`: fewer than a tenth where a case takes a tenth of a second.
    """
    tier = cast("Tier", os.environ.get(_VARIABLE, "all"))
    if tier == "quick":
        return min(count, max(5, count // share))
    return 10 * count if tier == "night" else count


def some(cases: Sequence[T], share: int = 10) -> Sequence[T]:
    """Return one of `share` cases in the tier `quick`, from the first on at equal distances, and else all of them."""
    return cases[:: share if os.environ.get(_VARIABLE) == "quick" else 1]


def examples(count: int, share: int = 10, **others: Any) -> settings:
    """Build the settings of a property that is tried with `count` examples in the tier `all`; `others` as they are."""
    return settings(max_examples=scale(count, share), deadline=None, **others)


def is_live(path: str) -> bool:
    """Return whether all tests of a file need a server."""
    return path.endswith("_live.py")


def mark(items: list[pytest.Item]) -> None:
    """Mark items by their files and the fixtures that they use.

    Those that share what starts slowly stay in one process of xdist: Spark, servers, and the process that runs commands
    (`tests.support.command_server`).
    """
    for item in items:
        names = getattr(item, "fixturenames", ())
        marks = _marks_of(item)
        for fixture, name in FIXTURES.items():
            if fixture in names and name not in marks:
                item.add_marker(name)
                marks.add(name)
        if is_live(_module_of(item)):
            item.add_marker("live")
            marks.add("live")
        if "spark" in marks:
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif "live" in marks:
            item.add_marker(pytest.mark.xdist_group("servers"))
        elif hasattr(getattr(item, "module", None), "command_server"):
            item.add_marker(pytest.mark.xdist_group("commands"))


def order(items: list[pytest.Item], *, is_shared: bool = False) -> None:
    """Put modules with all servers of a kind first, those with RocketMQ's last: servers compute as long as they run.

    Of a run that processes share, which have collected in different orders, what may take long comes first, so that at
    its end none waits for another: what needs Spark, whose start takes as long as hundreds of tests, modules of few
    tests, one of which may take as long, and then what one process is given at once, by the number of tests.
    """
    if is_shared:
        items.sort(key=_module_of)
    modules = {_module_of(item) for item in items if "rocketmq_set" in getattr(item, "fixturenames", ())}
    several = {_module_of(item) for item in items if not SEVERAL.isdisjoint(getattr(item, "fixturenames", ()))}
    items.sort(key=lambda item: (_module_of(item) in modules, _module_of(item) not in several))
    if is_shared:
        shares = {item: _share_of(item) for item in items}
        counts = Counter(shares.values())
        items.sort(key=lambda item: (
            _module_of(item) in modules, shares[item] != "spark", counts[shares[item]] > FEW, -counts[shares[item]],
            shares[item],
        ))  # fmt: skip


def _share_of(item: pytest.Item) -> str:
    """Return what one process is given at once: the group of a mark, or the module."""
    group = item.get_closest_marker("xdist_group")
    return _module_of(item) if group is None else str(group.args[0])


def _module_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def select(
    items: list[pytest.Item], tier: Tier, whole: frozenset[str] | None = None
) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the items that a tier runs and those that it leaves out, both in order.

    Of the parts that are not in `whole`, only `smoke` runs beside what `quick` runs; None is all parts.
    """
    chosen: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        (chosen if _runs(item, tier, whole) else left).append(item)
    return chosen, left


def _runs(item: pytest.Item, tier: Tier, whole: frozenset[str] | None) -> bool:
    marks = _marks_of(item)
    needed, is_smoke = marks.intersection(NEEDS), "smoke" in marks
    is_quick = not needed or (is_smoke and not ALONE & needed)
    if tier == "quick":
        return is_quick
    if whole is not None and (part := _find_part(_module_of(item))) and part.name not in whole:
        return is_smoke and (tier != "rest" or not is_quick)
    return tier != "rest" or not is_quick or "scaled" in marks or _is_property(item)


_find_part = cache(find_part)
"""As it is; files have many tests."""


def name_groups(items: list[pytest.Item]) -> None:
    """Append the group of a mark to the name of its tests, by which one process is given all of them.

    xdist 3.8 does so where pytest is older than 9.2, whose names it no longer changes.
    """
    for item in items:
        group = item.get_closest_marker("xdist_group")
        if group is not None and not item.nodeid.endswith(suffix := f"@{group.args[0]}"):
            named: Any = item
            named._id = named.id.parse(item.nodeid + suffix)


def strip_group(nodeid: str) -> str:
    """Return the name of a test without that of its group."""
    name, _, group = nodeid.rpartition("@")
    if name.endswith("]"):
        group = group.removesuffix("]")  # which pytest 9.2 adds in reports of other processes
    return name if group in GROUPS else nodeid


def needs(item: pytest.Item) -> list[str]:
    """Return the marks of what an item needs beside a processor."""
    marks = _marks_of(item)
    return [name for name in NEEDS if name in marks]


def _marks_of(item: pytest.Item) -> set[str]:
    return {each.name for each in item.iter_markers()}


@contextmanager
def note_cpu(item: pytest.Item, *, fails: bool) -> Iterator[None]:
    """Note that the test within takes more than `CPU_LIMIT` although it has no mark, or fail it.

    How slow the machine is, is measured beside a test that seems to take more.
    """
    began = _cpu_seconds()
    yield
    took = _cpu_seconds() - began
    if took <= CPU_LIMIT or needs(item) or took <= (limit := CPU_LIMIT * measure_slowness()):
        return
    item.user_properties.append((COSTLY, round(took, 1)))
    # Threads that share a core get half of it each.
    if fails and took > 2 * limit:
        pytest.fail(
            f"took {took:.1f} s of processor time: make it cheaper, or mark what it needs ({', '.join(NEEDS)})",
            pytrace=False,
        )


def read_cost(report: pytest.TestReport) -> float | None:
    """Return the processor time in seconds that was noted for a test, in the report of its call; None if none."""
    found = dict(report.user_properties).get(COSTLY) if report.when == "call" else None
    return found if isinstance(found, float) else None


def _is_property(item: pytest.Item) -> bool:
    return bool(getattr(getattr(item, "obj", None), "is_hypothesis_test", False))


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
