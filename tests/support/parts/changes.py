"""Which files have changed since a part was last proved.

A proof is a run of all tests of a part that passed. Proofs are known from, in this order:

- the environment variable `HASHSTAR_PROVED`: a commit, or ``none``;
- ``proved.json`` in the folder `HASHSTAR_CACHE`: what CI has proved on this machine, part by part;
- the last row of ``docs/measured.md``, which a night or a run of CI of all parts adds: a new machine has it, too.

A commit that this clone does not have proves nothing.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.support.measured import PAGE, read_complete_runs
from tests.support.parts.table import find_part

VARIABLE: Final = "HASHSTAR_PROVED"
STYLE: Final = ("importlinter", "ruff", "mypy")
"""Tables of ``pyproject.toml`` below ``tool`` that no test depends on."""


class Proof(NamedTuple):
    """A commit at which the tests of a part have passed, and who says so."""

    commit: str
    origin: str


def find_proof(top: Path, part: str, environ: Mapping[str, str] = os.environ) -> Proof | str:
    """Return the last proof of a part, or why there is none."""
    if named := environ.get(VARIABLE):
        return _known(top, named, VARIABLE) or f"{VARIABLE} is {named}, which is no commit here"
    if (commit := _read_kept(environ).get(part)) and (proof := _known(top, commit, "CI on this machine")):
        return proof
    for run in reversed(read_complete_runs(top)):
        if proof := _known(top, run.commit, f"docs/measured.md, {run.date}"):
            return proof
    return "no complete run is known whose commit is in this clone"


def find_changes(top: Path, commit: str) -> frozenset[str]:
    """Return the paths that differ between a commit and the files here, those that git does not know yet included."""
    changed = _git(top, "diff", "--name-only", "--no-renames", "-z", commit).split("\0")
    unknown = _git(top, "ls-files", "--others", "--exclude-standard", "-z").split("\0")
    paths = {*filter(None, changed), *filter(None, unknown)} - {PAGE.as_posix()}  # to note a proof changes nothing
    if "pyproject.toml" in paths and _read_project(_git(top, "show", f"{commit}:pyproject.toml")) == _read_project(
        (top / "pyproject.toml").read_text("utf-8")
    ):
        paths.remove("pyproject.toml")
    return frozenset(paths)


def keep_proofs(top: Path, parts: list[str], environ: Mapping[str, str] = os.environ) -> str | None:
    """Note in `HASHSTAR_CACHE` that these parts are proved at the commit that is checked out, and return that.

    Nothing is noted, and None returned, if there are other files than those of the commit.
    """
    if _git(top, "status", "--porcelain"):
        return None
    commit = _git(top, "rev-parse", "HEAD").strip()
    kept = {**_read_kept(environ), **dict.fromkeys(parts, commit)}
    _kept_file(environ).write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    return commit


def find_failing(files: Iterable[Path]) -> frozenset[str] | None:
    """Return the parts that have failed tests, by the outcomes of runs (`tests.support.unsteady`).

    None if a run did not end by itself: what it would have found is not known.
    """
    failing: set[str] = set()
    for file in files:
        outcome: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.exists() else {}
        if outcome.get("exit") not in {0, 1}:
            return None
        parts = [find_part(str(each["test"]).partition("::")[0]) for each in outcome["failures"]]
        failing.update(part.name for part in parts if part is not None)
    return frozenset(failing)


def _kept_file(environ: Mapping[str, str]) -> Path:
    return Path(environ["HASHSTAR_CACHE"]) / "proved.json"


def _read_kept(environ: Mapping[str, str]) -> dict[str, str]:
    if "HASHSTAR_CACHE" not in environ or not _kept_file(environ).exists():
        return {}
    kept: dict[str, str] = json.loads(_kept_file(environ).read_text("utf-8"))
    return kept


def _known(top: Path, commit: str, origin: str) -> Proof | None:
    if not re.fullmatch(r"[\w./~^-]+", commit) or commit.startswith("-"):
        return None
    done = _run(top, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    return Proof(done.stdout.strip(), origin) if done.returncode == 0 else None


def _read_project(text: str) -> dict[str, Any]:
    project = tomllib.loads(text)
    tools = project.pop("tool", {})
    return project | {"tool": {name: tools[name] for name in tools if name not in STYLE}}


def _git(top: Path, *arguments: str) -> str:
    done = _run(top, *arguments)
    if done.returncode:
        raise SystemExit(f"parts: git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout


def _run(top: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=top, capture_output=True, text=True, check=False)
