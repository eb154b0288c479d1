"""The forms of a report, one module each: for people, for programs, for CI.

To add a form, write a module with a `REPORTER` and add a row to `FORMS`, from which the options of ``hashstar audit``
are made.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from bindings.report.forms.reporter import Reporter

__all__ = ["FORMS", "Form"]


class Form(NamedTuple):
    """A form of reports, and how a user asks for it."""

    module: str
    """The module of this folder, which is imported when the form is wanted: some need rich, others pyarrow."""
    printed: bool = True
    """Whether ``--format`` offers it."""
    option: str = ""
    """Help of the option that writes it to a file; "" if there is none."""
    metavar: str = "FILE"

    @property
    def reporter(self) -> Reporter:
        """The reporter of its module."""
        reporter: Reporter = import_module(f"{__name__}.{self.module}").REPORTER
        return reporter


FORMS: Final = {
    "text": Form("terminal"),
    "markdown": Form("markdown"),
    "html": Form("html", printed=False, option="Write the report as one HTML page."),
    "json": Form("as_json", option="Write the report as JSON."),
    "junit": Form("junit", option="Write the report as JUnit XML, for CI."),
    "tables": Form("tables", printed=False, option="Write the report as Parquet tables.", metavar="DIR"),
    "total": Form("totals"),
}
"""Name of a form, and of its option -> the form."""
