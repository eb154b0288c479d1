"""The forms of the findings of a check, one module each: for people, for programs, for CI.

To add a form, write a module with a `REPORTER` and add a row to `FORMS`, from which the choices of
``hashstar check --format`` are made.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from bindings.checking.forms.reporter import Reporter

__all__ = ["FORMS", "Form"]


class Form(NamedTuple):
    """A form of findings."""

    module: str
    """The module of this folder, which is imported when the form is wanted."""

    @property
    def reporter(self) -> Reporter:
        """The reporter of its module."""
        reporter: Reporter = import_module(f"{__name__}.{self.module}").REPORTER
        return reporter


FORMS: Final = {
    "text": Form("text"),
    "json": Form("as_json"),
    "sarif": Form("sarif"),
    "github": Form("github"),
    "gitlab": Form("gitlab"),
    "junit": Form("junit"),
}
"""Name of a form, as ``--format`` takes it -> the form."""
