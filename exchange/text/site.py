"""Which hashstar this is, what it needs, and where its documentation is: for what programs print about themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

HASHSTAR_VERSION: Final = "1.0.0"
"""The version of hashstar: that of pyproject.toml, since reading it there takes a quarter of the start of a command."""

SITE: Final = "https://hashstar.readthedocs.io/en/latest/"
"""The front page. All addresses of pages begin with it, so that a move of the site is a change of this line."""


def build_page_address(page: str) -> str:
    """Return the address of a page of ``docs/``, such as ``findings/HS101``; of the front page for ``""``."""
    return f"{SITE}{page}/" if page else SITE


def build_install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra: ``pip install 'pika>=1.3'``.

    hashstar itself is on no package index, where its name is free for anybody, so it is never named.
    """
    from importlib.metadata import (  # takes as long as a quarter of the start of a command
        PackageNotFoundError,
        requires,
    )

    try:
        packages = dict.fromkeys(_list_packages(requires("hashstar") or [], extra))
    except PackageNotFoundError:  # imported from a checkout that is not installed
        packages = {}
    return f"pip install {' '.join(packages)}" if packages else f"pip install '.[{extra}]', in a checkout of hashstar"


def _list_packages(stated: list[str], extra: str) -> Iterator[str]:
    for each in stated:
        requirement, _, marker = each.partition(";")
        if re.search(rf"""extra == ["']{re.escape(extra)}["']""", marker):
            inner = re.match(r"hashstar\[([\w,-]+)\]", requirement)
            if inner is None:
                yield f"'{requirement.strip()}'"
            else:
                for name in inner[1].split(","):
                    yield from _list_packages(stated, name)
