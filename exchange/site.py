"""The address of the documentation on the web, for programs that print links to its pages."""

from __future__ import annotations

from typing import Final

__all__ = ["SITE", "page_address"]

SITE: Final = "https://hashstar.readthedocs.io/en/latest/"
"""The front page. All addresses of pages begin with it, so that a move of the site is a change of this line."""


def page_address(page: str) -> str:
    """Return the address of a page of ``docs/``, such as ``findings/HS101``; of the front page for ``""``."""
    return f"{SITE}{page}/" if page else SITE
