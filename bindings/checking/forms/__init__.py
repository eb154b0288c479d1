"""The forms of the findings of a check: for people, for programs, for CI."""

from __future__ import annotations

from typing import Final

from exchange.values.forms import Form, Forms

__all__ = ["FORMS"]

COLOURS: Final = (
    (r"HS[0-9]+ [a-z-]+: [0-9,]+ errors?$", "red"), (r"HS[0-9]+ [a-z-]+: [0-9,]+ warnings?$", "yellow"),
    (r"HS[0-9]+ [a-z-]+: [0-9,]+ notes?$", "bold"), (r".*: nothing found$", "green"),
)  # fmt: skip
"""Headings of the findings, by their severity."""
FORMS: Final[Forms] = {
    "text": Form("bindings.checking.forms.text:to_text", (".txt",), colours=COLOURS),
    "json": Form("bindings.checking.forms.as_json:to_json", (".json",), indent=1),
    "sarif": Form("bindings.checking.forms.sarif:to_sarif", (".sarif",), indent=1),
    "github": Form("bindings.checking.forms.github:to_workflow_commands"),
    "gitlab": Form("bindings.checking.forms.gitlab:to_code_quality", indent=1),
    "junit": Form("bindings.checking.forms.junit:to_junit", (".xml",)),
}
