"""Which hashstar this is, and where its documentation is on the web: for what programs print about themselves."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Final

__all__ = ["SITE", "hashstar_version", "page_address"]

SITE: Final = "https://hashstar.readthedocs.io/en/latest/"
"""The front page. All addresses of pages begin with it, so that a move of the site is a change of this line."""


def page_address(page: str) -> str:
    """Return the address of a page of ``docs/``, such as ``findings/HS101``; of the front page for ``""``."""
    return f"{SITE}{page}/" if page else SITE


def hashstar_version() -> str:
    """Return the installed version of hashstar; ``unknown`` if it is not installed."""
    try:
        return version("hashstar")
    except PackageNotFoundError:
        return "unknown"
