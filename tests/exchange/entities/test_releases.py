"""One table knows the releases of RabbitMQ: all other code asks for what a release does, by name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from exchange.entities.entities import Queue
from exchange.entities.queue_arguments import refuse_queue
from exchange.entities.releases import LATEST_PROFILE, PROFILES, ROWS, SERIES, find_profile, find_row
from exchange.errors import PreconditionFailed
from tests.support.releases import NEWEST_KNOWN, NEWEST_SERIES, NEXT_PATCH, NEXT_SERIES, newest_of
from tests.support.syntax import read_modules, walk

TABLE = {f"exchange/entities/{name}.py" for name in ("releases", "release_profiles", "release_settings")}
NAME = re.compile(r"(rabbitmq[-:])?v?[345]\.\d{0,2}(\.(\d+|x))?")
"""A release, a series, or the beginning of their names."""
HINT = re.compile(r"""['"}](rabbitmq[-:])?v?[345]\.|\b[345]\s*,\s*\d""")
"""What a module that names a release has in its text: without it, there is no need to parse."""
OTHER_SYSTEMS = (
    "exchange/selector/", "exchange/partition/clients/", "bridge/rocketmq/", "bindings/auditing/spark/", "bindings/spark/",
)  # fmt: skip
"""Where releases of RocketMQ, Kafka and Spark stand."""
NO_RELEASES = {
    "bindings/drawing/svg/shapes.py": "sizes in pixels",
    "bindings/sources/definitions/entries.py": "numbers of fields of a binding",
    "bindings/sources/formats/asyncapi_reader.py": "the version of AsyncAPI",
    "bindings/sources/formats/asyncapi_writer.py": "the version of AsyncAPI",
}
"""Modules with numbers that are no releases -> what they are."""
ROWS_OF_FACTS = frozenset({"Fact", "Transformation", "SectionTransformation", "notes"})
"""Calls that make a row of a table of facts, which is dated: it holds from a release on."""


def _is_release(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and NAME.fullmatch(node.value) is not None
    if not isinstance(node, ast.Tuple) or not 2 <= len(node.elts) <= 3:
        return False
    numbers = [each.value for each in node.elts if isinstance(each, ast.Constant) and type(each.value) is int]
    return len(numbers) == len(node.elts) and numbers[0] in (3, 4, 5)


def names_of_releases(source: str) -> Iterator[int]:
    """Yield the lines on which a module names a release, but for rows of facts."""
    nodes = list(walk(ast.parse(source))) if HINT.search(source) else []
    in_rows = {
        id(inner)
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ROWS_OF_FACTS
        for inner in walk(node)
    }
    for node in nodes:
        if id(node) not in in_rows and _is_release(node):
            yield node.lineno  # type: ignore[attr-defined]


def test_only_the_table_and_dated_facts_name_a_release() -> None:
    """With a comparison elsewhere a new release would silently be none of those that are named."""
    named = [
        f"{path}:{line}"
        for path, text in read_modules().items()
        if path not in TABLE and not path.startswith(OTHER_SYSTEMS)
        for line in names_of_releases(text)
    ]
    assert [place for place in named if place.partition(":")[0] not in NO_RELEASES] == []
    assert {place.partition(":")[0] for place in named} == {*NO_RELEASES}


@pytest.mark.parametrize(
    "code",
    [
        'profile.settings == "4.3"',
        'profile.settings in ("4.0", "4.3")',
        'profile.settings.startswith("4.")',
        'RULES = {"4.3": 1}',
        "release.numbers >= (4, 3, 0)",
        "release[:2] < (4, 3)",
        'match name:\n case "rabbitmq-4.3": pass',
        'denies("global_qos", (4, 3, 0))',
    ],
)
def test_a_comparison_with_a_release_is_found(code: str) -> None:
    assert [*names_of_releases(code)]


def test_rows_are_in_order_and_each_series_can_be_reached() -> None:
    assert all(one.since < other.since for one, other in pairwise(ROWS))
    assert ROWS[-1].profile is LATEST_PROFILE is [*PROFILES.values()][-1]
    for one, other in pairwise(SERIES):
        assert one in SERIES[other].upgraded_from
        assert find_row((*SERIES[other].since[:2], 0)).series == other
    assert all(row.since[2] <= row.newest_patch for row in ROWS)


@pytest.mark.parametrize("newer", ["4.99", "5.0", "5.1.2", "rabbitmq-6.0", f"v{NEXT_SERIES}.0-rc.1"])
def test_an_unknown_newer_release_is_judged_by_the_newest_and_says_so(newer: str) -> None:
    profile = find_profile(newer)
    assert profile == LATEST_PROFILE
    assert profile.caveat.startswith(f"RabbitMQ {profile.applied_to} is newer than all that are known here")
    assert find_profile(profile.written).caveat == profile.caveat


@pytest.mark.parametrize(
    ("release", "words", "rules"),
    [
        (
            NEXT_PATCH,
            f"newer than {NEWEST_KNOWN}, the newest of {NEWEST_SERIES} that is known here",
            LATEST_PROFILE.name,
        ),
        ("4.3.99", f"newer than {newest_of('4.3')}, the newest of 4.3 that is known here", "rabbitmq-4.3"),
        (
            "rabbitmq-4.2.99",
            f"newer than {newest_of('4.2')}, the newest of 4.2 that is known here",
            f"rabbitmq-{newest_of('4.2')}",
        ),
        ("3.14", "not known here", "rabbitmq-3.13"),
    ],
)
def test_an_unknown_patch_release_is_judged_by_the_newest_of_its_series(release: str, words: str, rules: str) -> None:
    profile = find_profile(release)
    name = release.removeprefix("rabbitmq-")
    assert profile.caveat == f"RabbitMQ {name} is {words}: the rules of {rules} are applied"
    assert profile.name == rules
    assert profile == find_profile(".".join(rules.removeprefix("rabbitmq-").split("."))) or rules == "rabbitmq-3.13"


@pytest.mark.parametrize("known", [*PROFILES, "4.4.0", "4.4.x", NEWEST_KNOWN, "4.2.6", "3.8"])
def test_nothing_is_said_of_a_release_that_is_known_or_older(known: str) -> None:
    assert find_profile(known).caveat == ""


@pytest.mark.parametrize(
    ("release", "kind", "argument", "refused"),
    [
        ("4.3", "stream", {"x-stream-initial-offset": -1}, False),
        ("4.4", "stream", {"x-stream-initial-offset": -1}, True),
        ("4.4", "stream", {"x-stream-initial-offset": 9}, False),
        ("4.4", "quorum", {"x-stream-initial-offset": 9}, True),
        ("4.4", "quorum", {"x-member-placement-tag": "zone"}, False),
        ("4.4", "quorum", {"x-member-placement-tag": ""}, True),
        ("4.4", "classic", {"x-member-placement-tag": "zone"}, True),
        ("4.3", "classic", {"x-member-placement-tag": "zone"}, False),
    ],
)
def test_4_4_knows_two_arguments_more(release: str, kind: str, argument: dict[str, object], refused: bool) -> None:
    queue = Queue("q", arguments={"x-queue-type": kind, **argument})
    try:
        refuse_queue(queue, "queue 'q'", find_profile(release))
    except PreconditionFailed:
        assert refused
    else:
        assert not refused
