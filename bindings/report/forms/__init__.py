"""The forms of a report: for people, for programs, for CI."""

from __future__ import annotations

from typing import Final

from exchange.values.forms import Form, Forms

__all__ = ["FORMS"]

FORMS: Final[Forms] = {
    "text": Form("bindings.report.forms.terminal.text:to_screen", (".txt",), has_screen=True),
    "markdown": Form("bindings.report.forms.markdown:to_markdown", (".md",)),
    "html": Form(
        "bindings.report.forms.html:to_html", is_printed=False, option="Write the report as one HTML page."
    ),
    "json": Form("bindings.report.forms.as_json:encode_json", (".json",), option="Write the report as JSON."),
    "junit": Form("bindings.report.forms.junit:to_junit", (".xml",), option="Write the report as JUnit XML, for CI."),
    "tables": Form(
        "bindings.report.forms.tables:write_tables", is_printed=False, option="Write the report as Parquet tables.",
        is_folder=True,
    ),
    "total": Form("bindings.report.forms.totals:to_totals"),
}  # fmt: skip
