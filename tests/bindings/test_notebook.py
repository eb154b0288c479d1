"""Results as notebooks show them: their parts as lists of HTML, with nothing in it that a name could break."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import bindings
from exchange.text.notebook import MAX_SHOWN_ROWS, write_html

ODD = "<b>&q"
OLD = f"""exchange orders: topic
queue "{ODD}"
queue rest: transient
orders -> "{ODD}": "order.*.paid"
orders -> rest: "never.#"
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder: Path = tmp_path_factory.mktemp("notebook")
    old, new, archive = folder / "old.bindings", folder / "new.bindings", folder / "traffic.jsonl"
    old.write_text(OLD)
    new.write_text(OLD.replace("paid", "sent"))
    archive.write_text(
        '{"exchange": "orders", "routing_key": "order.eu.paid"}\n{"exchange": "orders", "routing_key": "x"}\n'
    )
    return {
        "report": bindings.audit(old, archive),
        "diff": bindings.diff(old, new),
        "upgrade": bindings.upgrade(old, "4.3", old="3.13"),
    }


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("report", ["1 unroutable", "Dead bindings: 1", "never.#", "Unroutable messages: 1"]),
        ("diff", ["Steps: 2", "order.*.sent", "&lt;b&gt;&amp;q", "Queues with other messages: 2", "such as"]),
        ("upgrade", ["from 3.13 to 4.3", "Virtual host &#x27;/&#x27;", "queue &#x27;rest&#x27;"]),
    ],
)
def test_a_result_is_html_in_a_notebook(results: dict[str, Any], name: str, parts: list[str]) -> None:
    html = results[name]._repr_html_()
    assert [part for part in parts if part not in html] == []
    assert ODD not in html
    assert "\n" not in repr(results[name])


def test_of_long_lists_the_first_items_are_shown() -> None:
    html = write_html("<x>", {"<y>": [f"<{n}>" for n in range(MAX_SHOWN_ROWS + 3)]})
    assert html.count("<li>") == MAX_SHOWN_ROWS + 1
    assert "and 3 more" in html
    assert html.startswith("<p>&lt;x&gt;</p><p>&lt;y&gt;: 13</p><ul><li>&lt;0&gt;</li>")
