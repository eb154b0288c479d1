"""Releases of RabbitMQ as users, brokers, packages and images write them, and the profiles that hold for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bridge.cli import hashstar
from exchange.entities.profile import NEWEST_PATCH, read_release
from exchange.entities.releases import PROFILES, find_profile, find_profile_by_name
from tests.support.cases import with_each

WRITTEN = {
    "4.2.6": (4, 2, 6),
    "v4.2.6": (4, 2, 6),
    "rabbitmq-4.2.6": (4, 2, 6),
    "RabbitMQ 4.2.6": (4, 2, 6),
    "rabbitmq:4.2.6-management-alpine": (4, 2, 6),
    "4.2.6-1": (4, 2, 6),  # a package of Debian
    "4.2.6-1~bpo12+1": (4, 2, 6),
    "4.2.6_1": (4, 2, 6),
    "4.3.0-rc.1": (4, 3, 0),
    "3.13.7+10.gabc": (3, 13, 7),
    " 3.12.14\n": (3, 12, 14),
    "4.1": (4, 1, NEWEST_PATCH),
    "v4.1": (4, 1, NEWEST_PATCH),
    "3.12.x": (3, 12, NEWEST_PATCH),
    "4.1.X": (4, 1, NEWEST_PATCH),
    "rabbitmq-4.1.*": (4, 1, NEWEST_PATCH),
    "rabbitmq:4.1-management": (4, 1, NEWEST_PATCH),
}
UNCLEAR = (
    "", "4", "v4", "4.x", "x.4", "4.1.x.2", "4.1.y", "4.3-rc.1", "4.2-1", "4.2+10.gabc", "4..1", "-4.1", "latest",
    "%%VSN%%", "4.1.2 or newer", "\u0664.\u0661", "10000.1", "4.04", "04.4", "4.4.01",
)  # fmt: skip


@with_each("text", WRITTEN)
def test_a_release_is_read_in_each_form_in_which_it_is_written(text: str) -> None:
    assert read_release(text) == WRITTEN[text]


@with_each("text", UNCLEAR)
def test_what_names_no_release_or_leaves_it_open_is_refused(text: str) -> None:
    """``4.3-rc.1`` has no number of a patch release: its candidate is not the newest patch release of 4.3."""
    assert read_release(text) is None
    assert find_profile_by_name(text) is None


@given(
    st.sampled_from(["", "v", "rabbitmq-", "rabbitmq:", "RabbitMQ "]),
    st.tuples(st.integers(3, 5), st.integers(0, 20), st.integers(0, 40)),
    st.from_regex(r"([-+~_][-+~_.0-9A-Za-z]{0,12})?", fullmatch=True),
)
def test_what_stands_around_three_numbers_changes_nothing(
    before: str, numbers: tuple[int, int, int], behind: str
) -> None:
    plain = ".".join(map(str, numbers))
    assert read_release(f"{before}{plain}{behind}") == numbers
    assert find_profile_by_name(f"{before}{plain}{behind}") == find_profile_by_name(plain)
    assert find_profile(f"{plain}{behind}") == find_profile(plain)


def test_the_revision_of_a_package_is_no_part_of_the_number() -> None:
    """4.2.5-1 is no release from 4.2.6 on."""
    assert find_profile("4.2.5-1").max_weight is None
    assert find_profile("4.2.6-1").max_weight == 10_000


def test_each_name_of_a_profile_is_that_profile() -> None:
    assert {name: find_profile_by_name(name) for name in PROFILES} == PROFILES


RING = 'exchange ring: x-consistent-hash\nqueue a\nring -> a: "20000"\n'


@pytest.mark.parametrize(
    ("release", "is_refused"),
    [
        ("4.1", False),
        ("4.2.5", False),
        ("4.2.5-1", False),
        ("4.2.6", True),
        ("4.2", True),
        ("4.2.x", True),
        ("4.3", True),
    ],
)
def test_commands_refuse_a_large_weight_from_4_2_6_on(tmp_path: Path, release: str, is_refused: bool) -> None:
    """No patch release of 4.1 and 4.0 has the maximum."""
    file = tmp_path / "ring.bindings"
    file.write_text(RING)
    run = CliRunner().invoke(hashstar, ["check", str(file), "--profile", release, "--select", "HS603"])
    assert (run.exit_code, "must not exceed 10000" in run.output) == (int(is_refused), is_refused)
    upgrade = CliRunner().invoke(hashstar, ["upgrade", str(file), "--from", "4.0", "--to", release])
    assert (upgrade.exit_code, "HSU003" in upgrade.output) == (int(is_refused), is_refused)


@pytest.mark.parametrize(
    ("version", "profile"),
    [("4.2.6-1", "rabbitmq-4.2.6"), ("4.1.x", "rabbitmq-4.1"), ("3.13.7+10.gabc", "rabbitmq-3.13")],
)
@pytest.mark.parametrize("key", ["rabbitmq_version", "rabbit_version"])
def test_an_export_names_its_release_in_the_same_forms_and_check_names_the_profile(
    tmp_path: Path, key: str, version: str, profile: str
) -> None:
    file = tmp_path / "export.json"
    file.write_text(json.dumps({key: version, "queues": [{"name": "q", "vhost": "/"}]}))
    result = CliRunner().invoke(hashstar, ["check", str(file)])
    assert f"by the rules of {profile}, as its rabbitmq_version is {version}" in result.output
    assert "is no release" not in result.output
