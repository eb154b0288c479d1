"""What releases accept is what the tables in the broker's source say, as `tests.recorders.release_tables` recorded them."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from bindings.checking.check import check
from exchange import Exchange, Policy, Queue, Topology
from exchange.entities.effects import OF_QUEUES
from exchange.entities.policy_definitions import PLUGINS
from exchange.entities.queue_arguments import RULES, find_rules
from exchange.entities.releases import ROWS, SERIES, find_profile
from exchange.lifecycle.limits import NOT_MODELLED, NOT_MODELLED_OF_STREAMS, find_limits
from tests.recorders.release_tables import RECORDING, TYPES, compare, main, tables_of
from tests.support.cases import with_each
from tests.support.git import needs_git

RECORDED = json.loads(RECORDING.read_text("utf-8"))
NO_RULE = {"x-queue-type"}
"""Arguments whose values are checked apart from the others, or not at all."""
NO_POLICY = {"single-active-consumer"}
"""What releases up to 4.1 call unsupported by types of queues, and no policy can have."""
AFTER = {"4.4.0": {"x-stream-initial-offset"}}
"""Release -> what its notes add to the source that was recorded, which is older."""
AFTER_NAMES = {name.removeprefix("x-") for names in AFTER.values() for name in names}


def find_number(release: str) -> int:
    """Return a number that orders releases."""
    major, minor, patch = map(int, release.split("."))
    return (major * 100 + minor) * 100 + patch


KNOWN = [f"{row.series}.{patch}" for row in SERIES.values() for patch in range(row.newest_patch + 1)]
"""Each release from 3.10.0 on."""


@with_each("release", KNOWN)
def test_the_table_of_releases_has_the_arguments_and_settings_of_the_source(release: str) -> None:
    """The tables of each tag were compared with those of the one before it: where they differ, there is a recording."""
    newest = [each for each in RECORDED if find_number(each) <= find_number(release)][-1]
    theirs, ours = RECORDED[newest]["tables"], tables_of(release)
    mirroring = (
        {name for name in OF_QUEUES if name.startswith("ha-")} if "ha-mode" in ours["policy_validator"] else set()
    )
    checked_apart = PLUGINS | mirroring | NO_POLICY | AFTER.get(newest, set())
    stripped = [{table: [*{*tables[table]} - checked_apart] for table in ours} for tables in (theirs, ours)]
    assert [*compare(*stripped)] == []


@with_each("release", RECORDED)
def test_each_argument_that_a_release_checks_has_a_rule(release: str) -> None:
    tables, settings = RECORDED[release]["tables"], find_profile(release).settings
    checked = {*tables["declare_args"]} & settings.all_arguments - settings.unchecked_arguments
    assert checked - NO_RULE <= find_rules(settings).keys()
    assert (find_rules(settings).keys() & settings.all_arguments) - settings.unchecked_arguments <= checked | AFTER.get(
        release, set()
    )


def test_no_rule_is_of_an_argument_that_no_release_has() -> None:
    every = frozenset().union(*(find_profile(release).settings.all_arguments for release in RECORDED))
    assert RULES.keys() <= every


MODELLED = {
    "alternate-exchange", "dead-letter-exchange",
    "dead-letter-routing-key", "dead-letter-strategy",
    "delayed-retry-max", "delayed-retry-min", "delayed-retry-type", "delivery-limit", "expires", "max-length", "max-length-bytes", "max-priority", "message-ttl", "overflow",
    "queue-type", "single-active-consumer",
}  # fmt: skip
"""Settings that the life of a message depends on here."""


def test_what_is_not_modelled_is_listed() -> None:
    page = (Path(__file__).parents[3] / "docs" / "life.md").read_text("utf-8")
    section = page.partition("### Not modelled")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([a-z].*?) \| (.*) \|$", section, re.MULTILINE)
    listed = {name: what for names, what in rows[1:] for name in names.split(", ")}
    of_streams = {f"{name} of streams": what for name, what in NOT_MODELLED_OF_STREAMS.items()}
    assert listed == {**NOT_MODELLED, **of_streams}
    every = {
        name.removeprefix("x-")
        for recorded in RECORDED.values()
        for table in (
            "declare_args",
            "policy_validator",
            "operator_policy_validator",
            *map("queue_arguments of {}".format, TYPES),
        )
        for name in recorded["tables"][table]
    }
    outside = {"quorum-target-group-size"}  # read by a module beside the queue, and in none of its tables
    assert NOT_MODELLED.keys() | MODELLED == every | AFTER_NAMES | outside
    assert NOT_MODELLED.keys() & MODELLED == set()


TWO_VALUES: dict[str, tuple[Any, Any]] = {
    "overflow": ("drop-head", "reject-publish"),
    "single-active-consumer": (False, True),
    "dead-letter-exchange": ("", "d"),
    "dead-letter-routing-key": ("a", "b"),
    "dead-letter-strategy": ("at-most-once", "at-least-once"),
    "delayed-retry-type": ("disabled", "all"),
    "max-age": ("1D", "2D"),
}
BESIDE = {
    "x-dead-letter-exchange": "", "x-overflow": "reject-publish", "x-delayed-retry-type": "all",
    "x-delayed-retry-min": 3, "x-delayed-retry-max": 90,
}  # fmt: skip
"""Other arguments, without which some have no effect."""
FOR_ALL = {"queue-type", "message-deduplication", "internal-purpose"}
"""What is the type itself, and arguments of plugins."""


@pytest.mark.parametrize("kind", TYPES)
def test_an_argument_with_an_effect_counts_for_the_life_of_a_message_or_is_said_to_be_left_out(kind: str) -> None:
    """In each release that reads it, for each type of queues."""
    names = [name for name, reach in OF_QUEUES.items() if reach.argument and name not in FOR_ALL]
    wrong, compared = [], set()
    for row in ROWS:
        accepted = {key: given for key, given in BESIDE.items() if key in row.profile.settings.arguments(kind)}
        queues = {
            (name, at): Queue(f"{name} {at}", arguments={"x-queue-type": kind, **accepted, f"x-{name}": value})
            for name in names
            for at, value in enumerate(TWO_VALUES.get(name, (20, 40)))
        }
        topology = Topology(queues=queues.values(), profile=row.profile)
        found = defaultdict(set)
        for each in check(topology):
            found[each.part].add((each.code, each.detail))
        for name in names:
            one, other = queues[name, 0], queues[name, 1]
            if {("HS606", f"x-{name}"), ("HS607", f"x-{name}")} & (found[one] | found[other]):
                continue  # nothing reads it
            if any(code == "HS605" for code, _ in found[one]):
                continue  # the queue is refused
            limits = [find_limits(topology.queues[each.name], topology.policies_in_force()) for each in (one, other)]
            compared.add(name)
            if (limits[0] != limits[1]) == (("HS326", name) in found[one]):
                wrong.append((row.profile.name, name, limits[0]))
    assert wrong == []
    assert compared


def test_check_reports_each_setting_that_is_not_modelled_where_it_has_an_effect() -> None:
    """In some release, as an argument or by policy, and as a note: all of the list but what nothing reads any more."""
    values = {"queue-mode": "default", "max-age": "1D", "queue-master-locator": "random"}
    settings = {name: values.get(name, 5) for name in NOT_MODELLED}
    policies = [Policy(f"p {name}", f"^(shards )?{name}$", {name: value}) for name, value in settings.items()]
    shards = [Exchange(f"shards {name}", "x-modulus-hash") for name in settings]
    reported = set()
    for row, kind in product(ROWS, ("classic", "quorum", "stream")):
        kinds = {"x-queue-type": kind}
        by_argument = [Queue(name, arguments={**kinds, f"x-{name}": value}) for name, value in settings.items()]
        by_policy = [Queue(name, arguments=kinds) for name in settings]
        for topology in (
            Topology(queues=by_argument, profile=row.profile),
            Topology(shards, by_policy, policies=policies, profile=row.profile),
        ):
            reported |= {each.detail for each in check(topology) if each.code == "HS326"}
    assert reported == NOT_MODELLED.keys() - {"max-in-memory-length", "max-in-memory-bytes"}


@pytest.mark.parametrize(
    ("release", "source"), [("4.4.1", "4.4.0 (main)"), ("4.3.6", "4.3.5 (v4.3.5)"), ("4.2", "4.2.9 (v4.2.9)")]
)
def test_a_release_is_checked_against_the_newest_recording_before_it(
    release: str, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["check", release])
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == f"our row of {release}, beside the source of {source}:"
    assert [*filter(None, rest)] == ["+ queue_arguments of stream: x-stream-initial-offset"] * (release == "4.4.1")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["check", "3.9"], 2, "nothing is recorded of '3.9', only of 3.10.0, 3.10.25, "),
        (["check", "nonsense"], 2, "nothing is recorded of 'nonsense'"),
        pytest.param(["compare", "no-such-folder", "v1", "v2"], 2, "no-such-folder", marks=needs_git),
        (["record", ".", "4.4.0"], 2, "'4.4.0': give RELEASE=REVISION"),
        (["check"], 2, "the following arguments are required: RELEASE"),
        (["--help"], 0, "keeps them in ``tests/golden/rabbitmq-tables.json``"),
    ],
)
def test_the_script_says_what_is_wrong(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    printed = capsys.readouterr()
    assert ended.value.code == code
    assert words in printed.out + printed.err
