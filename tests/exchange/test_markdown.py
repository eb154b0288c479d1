"""Text from outside in Markdown: it is shown as it is, whatever markup it holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from exchange.text.display import escape_line
from exchange.text.markdown import escape_text, fold, quote_block, quote_code, write_rows

GITHUB = MarkdownIt("commonmark").enable(["table", "strikethrough"])
"""A parser of GitHub's Markdown."""
TEXTS = st.text(st.sampled_from("`|\\<>&@#*_~[]()!-. \n\ta\u202e"), min_size=1, max_size=20)


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_a_block_of_code_ends_where_its_lines_end(lines: list[str]) -> None:
    """Even if a line is a fence."""
    for given_lines in (lines, ["```", *lines, "`````"]):
        [token] = GITHUB.parse("\n".join(quote_block(given_lines, "diff")))
        assert (token.type, token.info) == ("fence", "diff")
        assert token.content == "".join(f"{escape_line(line)}\n" for line in given_lines)


@given(TEXTS)
def test_code_shows_its_text_in_a_sentence_and_in_a_cell(text: str) -> None:
    shown = escape_line(text)
    [code] = GITHUB.parseInline(f"x {quote_code(text, 200, in_cell=False)} x")[0].children[1:-1]  # type: ignore[index]
    assert (code.type, code.content.strip()) == ("code_inline", shown.strip())
    tokens = GITHUB.parse("\n".join(write_rows(("a", "b"), [(quote_code(text, 200), "end")])))
    cells = [token.content for token in tokens if token.type == "inline"]
    assert len(cells) == 4
    assert cells[3] == "end"


@given(TEXTS)
def test_a_sentence_is_plain_text(text: str) -> None:
    """No markup, and nobody is mentioned; entities show the characters."""
    [inline] = GITHUB.parseInline(f"x {escape_text(text, 200)} x")
    assert {child.type for child in inline.children or ()} <= {"text", "text_special"}
    shown = "".join(child.content for child in inline.children or ())
    assert shown.replace("\u200b", "").split() == ["x", *escape_line(text).split(), "x"]
    assert "@a" not in shown


def test_long_texts_are_clipped() -> None:
    assert len(quote_code("x" * 500, 100)) <= 110
    assert len(escape_text("x" * 500, 100)) <= 100


def test_a_fold_hides_its_lines() -> None:
    assert list(fold("Plan", ["one"])) == ["<details><summary>Plan</summary>", "", "one", "", "</details>", ""]
