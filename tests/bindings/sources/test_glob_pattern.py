"""Patterns match what a shell's do, and no pattern and no tree makes their expansion endless."""

from __future__ import annotations

import glob
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from bindings.sources import glob_pattern
from bindings.sources.glob_pattern import expand_pattern, is_pattern
from exchange.errors import InputError
from exchange.limits import GLOB_CHARACTERS
from tests.support.tiers import examples

TREE = (
    "a.json", "b.json", "ab.bindings", "[x].json", "a/a.json", "a/b/a.json", "a/b/c/ab.bindings", "b/a/a.json",
    ".h/a.json", "a/.h/b.json", ".a.json", "c/d/e/f/a.json",
)  # fmt: skip
PARTS = st.sampled_from(
    ["a", "b", "*", "**", "?", "[ab]", "[!a]", "a*", "*.json", "a.*", ".*", "[", "[[]x].json", "*b*"]
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a tree without links."""
    folder = tmp_path_factory.mktemp("tree")
    for name in TREE:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def expand(pattern: str) -> list[str]:
    try:
        return expand_pattern(pattern)
    except InputError:
        return []


@examples(300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PARTS, min_size=1, max_size=5))
def test_a_pattern_matches_what_glob_matches(tree: Path, parts: list[str]) -> None:
    """In a tree without links; Python's glob may have a match several times, and up to 3.12 one that is not there."""
    pattern = "/".join([str(tree), *parts])
    if not is_pattern(pattern):
        return
    found = {name.rstrip("/") for name in glob.glob(pattern, recursive=True)}  # noqa: PTH207
    expected = {name for name in found if Path(name).exists()}
    assert expand(pattern) == sorted(expected)


@examples(100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PARTS, min_size=1, max_size=4))
def test_a_relative_pattern_gives_relative_names(tree: Path, parts: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tree)
        pattern = "/".join(parts)
        if is_pattern(pattern):
            found = [str(tree / name) for name in expand(pattern)]
            assert found == [name for name in expand(f"{tree}/{pattern}") if name != str(tree)]


def test_links_to_folders_are_followed_by_names_and_not_by_two_stars(tmp_path: Path) -> None:
    """So a tree with links to itself is walked once."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/x.json").touch()
    (tmp_path / "a/loop1").symlink_to(tmp_path)
    (tmp_path / "a/self").symlink_to(tmp_path / "a/self")
    assert expand(f"{tmp_path}/**/*.json") == [f"{tmp_path}/a/x.json"]
    assert expand(f"{tmp_path}/a/loop1*/a/x.*")[0] == f"{tmp_path}/a/loop1/a/x.json"


def test_other_peoples_folders_are_not_entered_by_two_stars(tmp_path: Path) -> None:
    for name in ("node_modules/p/package.json", "a/node_modules/package.json", "a/b.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert expand(f"{tmp_path}/**/*.json") == [f"{tmp_path}/a/b.json"]
    assert expand(f"{tmp_path}/a/*/*.json") == [f"{tmp_path}/a/node_modules/package.json"]


@pytest.mark.parametrize("pattern", ["**/" * 1_300 + "x", "[" * 4_000, "*a" * 2_000, "?" * 4_000, "[a" * 2_000])
def test_any_pattern_ends(pattern: str, tree: Path) -> None:
    """Python's glob takes a time exponential in the number of ``**``."""
    with pytest.raises(InputError, match="no file matches"):
        expand_pattern(f"{tree}/{pattern}"[:GLOB_CHARACTERS])


def test_what_is_too_long_for_a_path_is_no_pattern() -> None:
    assert is_pattern("*" * GLOB_CHARACTERS)
    assert not is_pattern("*" * (GLOB_CHARACTERS + 1))
    assert not is_pattern("http://host/*")


def test_the_number_of_matches_is_bounded(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glob_pattern, "FOLDER_FILES", 3)
    with pytest.raises(InputError, match="matches more than 3 files"):
        expand_pattern(f"{tree}/**/*.json")
