"""Write the manual pages and the shell completions of the command ``hashstar``.

``python -m docs.scripts.man_pages FOLDER`` writes them as they are installed below ``share/``. The wheel's build calls
`write_pages` (`docs/scripts/build_hook.py`), so what is installed is always that of the commands as they are.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import click
from click.shell_completion import get_completion_class
from click_man.core import write_man_pages

from bridge.cli import hashstar

COMPLETIONS: Final[Mapping[str, str]] = {
    "bash": "bash-completion/completions/hashstar",
    "zsh": "zsh/site-functions/_hashstar",
    "fish": "fish/vendor_completions.d/hashstar.fish",
}
"""Shell -> where its completion is looked for, below ``share/``."""

RELEASE: Final = re.compile(r"^## (\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\)$", re.MULTILINE)
"""The heading of a release in the CHANGELOG: its version and its date."""


def write_pages(folder: Path, version: str, changelog: str) -> Iterator[Path]:
    """Write all pages and completions below ``folder``, and yield the path of each, relative to it.

    The date of the pages is that of the release in the CHANGELOG, not of today: two builds give equal bytes.
    """
    dates = dict(RELEASE.findall(changelog))
    pages = folder / "man" / "man1"
    pages.mkdir(parents=True, exist_ok=True)
    program = _with_all_commands(hashstar, "hashstar")
    write_man_pages("hashstar", program, version=version, target_dir=str(pages), date=dates.get(version, "unreleased"))
    for shell, name in COMPLETIONS.items():
        completion = get_completion_class(shell)
        assert completion is not None
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(completion(hashstar, {}, "hashstar", "_HASHSTAR_COMPLETE").source(), encoding="utf-8")
    yield from sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def _with_all_commands(command: click.Command, name: str) -> click.Command:
    """Return the command with its commands in the table that click-man reads; ours are found when they are called."""
    command.short_help = command.get_short_help_str(limit=1_000)
    if not isinstance(command, click.Group):
        return command
    context = click.Context(command, info_name=name)
    found = [command.get_command(context, each) for each in command.list_commands(context)]
    commands = {each.name or "": _with_all_commands(each, each.name or "") for each in found if each is not None}
    return click.Group(
        name, commands, params=command.params, help=command.help, short_help=command.short_help, epilog=command.epilog
    )


if __name__ == "__main__":
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    for page in write_pages(Path(sys.argv[1]), project["version"], (root / "CHANGELOG.md").read_text("utf-8")):
        print(page)
