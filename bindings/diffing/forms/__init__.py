"""The forms of a comparison: text, JSON, Markdown."""

from __future__ import annotations

from typing import Final

from exchange.values.forms import Form, Forms

__all__ = ["COLOURS", "FORMS"]

COLOURS: Final = (
    (r" +\+ ", "green"), (r" +- ", "red"), (r" +[~?!] | +not proved", "yellow"),
    (r"[a-z ]+:( nothing to do)?$", "bold"),
)  # fmt: skip
"""Titles, and what is added, removed, changed or dangerous."""
FORMS: Final[Forms] = {
    "text": Form("bindings.diffing.forms.text:comparison_to_text", (".txt",), colours=COLOURS),
    "json": Form("bindings.diffing.forms.as_json:comparison_to_json", (".json",)),
    "markdown": Form("bindings.diffing.forms.markdown:comparison_to_markdown", (".md",)),
}
