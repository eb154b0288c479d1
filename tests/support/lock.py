"""``python tests/support/lock.py LOCK NAME...``: print what pip installs for extras and groups of ``pyproject.toml``.

LOCK is ``tests/requirements.txt``, or another file that ``.ci/lock`` writes. Of it are printed the packages that one of
the names asks for, and those that these need, with versions and hashes, so that pip refuses anything else. If LOCK is
empty, any version will do: the requirements are printed as ``pyproject.toml`` has them. ``core``, what hashstar needs
without extras, is always among the names.

It runs before anything is installed: nothing but Python 3.11 is imported.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
PYPROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def find_requirements(*names: str) -> Iterator[str]:
    """Yield the requirements of the extras and groups of these names; ``core`` is what hashstar needs without any."""
    project = PYPROJECT["project"]
    lists = {"core": project["dependencies"], **project["optional-dependencies"], **PYPROJECT["dependency-groups"]}
    for name in names:
        for requirement in lists[name]:
            if isinstance(requirement, dict):
                yield from find_requirements(requirement["include-group"])
            elif match := re.fullmatch(rf"{project['name']}\[(.*)\]", requirement):
                yield from find_requirements(*match[1].split(","))
            else:
                yield requirement


def normalize(requirement: str) -> str:
    """Return the name of the package that a requirement asks for, as registries compare it."""
    name = re.match(r"[\w.-]+", requirement)
    assert name, requirement
    return re.sub("[-_.]+", "-", name[0]).lower()


def read_lock(path: Path) -> list[str]:
    """Return the entries of a lock: a package, its version and marker, its hashes, and in comments who needs it."""
    return re.findall(r"^\w.*\n(?:[ \t].*\n)*", path.read_text("utf-8"), re.MULTILINE)


def select(entries: list[str], wanted: set[str]) -> list[str]:
    """Return the entries of the packages, and of all that these need, in the order of the lock."""
    needed_by = {entry: set(re.findall(r"^ +#(?: via)? +([\w.-]+)$", entry, re.MULTILINE)) for entry in entries}
    size = 0
    wanted = set(wanted)
    while size < len(wanted):
        size = len(wanted)
        wanted |= {normalize(entry) for entry in entries if needed_by[entry] & wanted}
    return [entry for entry in entries if normalize(entry) in wanted]


def main(lock: str, *names: str) -> None:
    """Print the requirements of extras and groups, of a lock or any."""
    requirements = list(dict.fromkeys(find_requirements("core", *names)))
    if lock:
        requirements = select(read_lock(ROOT / lock), set(map(normalize, requirements)))
    sys.stdout.write("\n".join(requirements) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
