"""The forms of an upgrade: text, JSON, Markdown, and a page."""

from __future__ import annotations

from typing import Final

from exchange.values.forms import Form, Forms

__all__ = ["FORMS"]

FORMS: Final[Forms] = {
    "text": Form("bindings.upgrading.forms.text:to_text"),
    "json": Form("bindings.upgrading.forms.as_json:Upgrade"),
    "markdown": Form("bindings.upgrading.forms.markdown:to_markdown"),
    "html": Form("bindings.upgrading.forms.html:to_html", is_printed=False),
}
