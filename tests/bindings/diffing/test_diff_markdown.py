"""``hashstar diff --format markdown``: what stands first, what is folded, what is escaped, how long it gets."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bindings.diffing.against import FileDiff, VhostDiff
from bindings.diffing.diff import diff
from bindings.diffing.forms.markdown import LONGEST, to_markdown
from bindings.sources.document import Document
from exchange.entities.entities import Binding, Exchange, Queue
from exchange.errors import InputError
from exchange.topology.topology import Topology
from tests.bindings.diffing.test_diff_cli import BEFORE
from tests.support.git import make_repository
from tests.support.program import invoke
from tests.support.tiers import scale

GITHUB = MarkdownIt("commonmark").enable(["table", "strikethrough"])
"""A parser of GitHub's Markdown."""


run = partial(invoke, "diff", "--format", "markdown")


def compare(before: str, after: str) -> FileDiff:
    """Return the difference of two texts."""
    old, new = (Document.loads(text).topology() for text in (before, after))
    return FileDiff("b.bindings", "a.bindings", "changed", (VhostDiff("/", old.profile.name, diff(old, new)),))


def test_what_it_means_stands_first_and_the_plan_is_folded(tmp_path: Path) -> None:
    """The whole of a small example."""
    (tmp_path / "a.bindings").write_text(BEFORE)
    (tmp_path / "b.bindings").write_text(
        BEFORE.replace('"order.*.paid"', '"invoice.#"').replace("unrouted -> lost\n", "")
    )
    result = run(str(tmp_path / "a.bindings"), str(tmp_path / "b.bindings"))
    assert result.exit_code == 1
    assert (
        result.stdout.replace(f"{tmp_path}/", "")
        == """\
### hashstar diff: **messages are lost**

`b.bindings` against `a.bindings`: **messages are lost**.

| queue |  | published to | messages | such as |
| --- | --- | --- | --- | --- |
| `billing` | **loses** | `orders` | `'order.*.paid'` | `'order.x.paid'` |
| `lost` | **loses** | `orders` | `all messages where exchange 'orders' had no match` | `''` |
| `lost` | **loses** | `unrouted` | `all messages` | `''` |
| `billing` | gains | `orders` | `'invoice.#'` | `'invoice'` |

- published to exchange 'orders', '' goes nowhere now
- published to exchange 'unrouted', '' goes nowhere now

All other messages go where they went: proved for all keys and headers.

<details><summary>Plan: 3 steps</summary>

```diff
+ bind exchange 'orders' 'invoice.#' -> queue 'billing'
- unbind exchange 'orders' 'order.*.paid' -> queue 'billing'
- unbind exchange 'unrouted' '' -> queue 'lost'
```

</details>
"""
    )


@pytest.mark.parametrize(
    ("old", "new", "title"),
    [
        ("queue lost", "queue lost", "no difference"),
        ('"order.#"', '"order.#", "order.*.#"', "no message goes elsewhere"),
        ('"order.*.paid"', '"order.*.paid", "order.*.sent"', "queues get more messages"),
        ('"order.*.paid"', '"order.x.paid"', "**messages are lost**"),
        ("over 12", "over 16", "no message is lost"),
        ("queue lost\n", "queue lost: x-expires = 1000\n", "**messages are lost**"),
    ],
)
def test_the_title_has_the_worst_that_it_means(old: str, new: str, title: str) -> None:
    assert to_markdown([compare(BEFORE, BEFORE.replace(old, new))]).startswith(f"### hashstar diff: {title}\n")


def test_what_is_undecided_is_not_called_proved(tmp_path: Path) -> None:
    (tmp_path / "a.bindings").write_text(BEFORE)
    (tmp_path / "b.bindings").write_text(BEFORE.replace("paid", "sent"))
    text = run(str(tmp_path / "a.bindings"), str(tmp_path / "b.bindings"), "--wait", "0").stdout
    assert text.startswith("### hashstar diff: **messages may be lost**")
    assert "could not be decided: messages may be lost or gained." in text
    assert "proved" not in text


def test_dangerous_steps_are_marked() -> None:
    text = to_markdown([compare(BEFORE, BEFORE.replace("unrouted -> lost\n", "").replace("queue lost\n", ""))])
    assert "<summary>Plan: 2 steps, <strong>1 dangerous</strong></summary>" in text
    assert "- delete queue 'lost'\n!   the messages in it are lost with it\n" in text


def test_files_that_lose_messages_come_first_and_those_without_a_difference_are_counted() -> None:
    gains = compare(BEFORE, BEFORE.replace('"order.*.paid"', '"order.*.paid", "order.*.sent"'))
    loses = compare(BEFORE, BEFORE.replace('"order.*.paid"', '"order.x.paid"'))
    same = compare(BEFORE, BEFORE)
    failed = FileDiff("bad.bindings", "main", "changed", error=InputError("bad.bindings:1:1: no <b>"))
    text = to_markdown([gains, same, loses, failed])
    headings = re.findall("^#+ (.*)$", text, re.MULTILINE)
    assert headings == [
        "hashstar diff: **1 file not compared**, **messages are lost**",
        "`b.bindings` against `a.bindings`: **messages are lost**",
        "`b.bindings` against `a.bindings`: queues get more messages",
    ]
    assert "- `bad.bindings` was not compared: bad.bindings:1:1: no &lt;b>\n" in text
    assert text.endswith("1 file without a difference.\n")


def test_a_short_list_is_whole_among_many_files() -> None:
    """A list takes the room that others leave."""
    each = compare(BEFORE, BEFORE + "exchange new: x-random\nnew -> lost\nnew -> audit\nqueue more\n")
    text = to_markdown([each] * 18)
    assert text.count("exchange 'new' chooses otherwise") == 18
    assert "\nand " not in text


def test_the_comment_on_a_change_of_a_file_names_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = make_repository(tmp_path, {"shop.bindings": BEFORE})
    (tmp_path / "shop.bindings").write_text(BEFORE.replace("paid", "sent"))
    monkeypatch.chdir(tmp_path)
    assert f"`shop.bindings` against `main ({first[:7]})`: **messages are lost**." in run("--against", "main").stdout


NAMES = st.text(st.sampled_from("`|\\<>&@#*_~[]()!$:/-. \n\r\tab\u202e\u00e9\U0001f600{}'\""), min_size=1, max_size=30)


@given(NAMES, NAMES, NAMES, NAMES)
def test_no_name_is_markup(exchange: str, queue: str, key: str, file: str) -> None:
    """The only HTML, links, pictures, headings and lists are our own; cells and their number stay."""
    old = Topology([Exchange(exchange, "topic")], [Queue(queue)], [Binding.to_queue(exchange, queue, key)])
    new = Topology([Exchange(exchange, "topic")], [Queue(queue)], [Binding.to_queue(exchange, queue, f"{key}.{key}")])
    other = Topology([Exchange(queue, "fanout")], [Queue(exchange)], [Binding.to_queue(queue, exchange, key)])
    files = [
        FileDiff(file, file, "changed", (VhostDiff(key, old.profile.name, diff(old, topology)),), several=True)
        for topology in (new, other)
    ]
    files.append(FileDiff(file, file, "changed", error=InputError(f"{file}: {key}")))
    text = to_markdown(files)
    tokens = GITHUB.parse(text)
    inline = [child for token in tokens for child in token.children or ()]
    allowed = {"text", "code_inline", "html_inline", "strong_open", "strong_close", "softbreak"}
    assert {token.type for token in inline} <= allowed
    assert {token.content for token in inline if token.type == "html_inline"} <= {"<br>"}
    html = [token.content.strip() for token in tokens if token.type == "html_block"]
    assert all(re.fullmatch(r"<details><summary>Plan: [\w ,<>/]+</summary>|</details>", content) for content in html)
    assert len(html) == 4
    rows = [at for at, token in enumerate(tokens) if token.type == "tr_open"]
    cells = [token.type for token in tokens].count("td_open") + [token.type for token in tokens].count("th_open")
    assert cells == 5 * len(rows)
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h3", "h4", "h4"]
    assert not any(token.type in ("ordered_list_open", "blockquote_open", "hr", "code_block") for token in tokens)
    assert "@a" not in re.sub("`.*?`", "", "".join(token.content for token in inline if token.type == "text"))


@pytest.mark.scaled
def test_a_text_is_never_too_long_and_counts_what_it_leaves_out() -> None:
    """However many files, effects, steps and undecided questions there are, and however long their names."""
    name = "\u00e9" * 100
    parts = [Queue(f"{name}{n}") for n in range(200)]
    bound = [Binding.to_queue("amq.topic", queue.name, f"{name}.{n}") for n, queue in enumerate(parts)]
    old = Topology(queues=parts, bindings=bound)
    each = VhostDiff("/", old.profile.name, diff(old, Topology()))
    for count in (1, 2, 30, scale(500, 5)):
        files = [FileDiff(f"{n}.bindings", "main", "changed", (each,)) for n in range(count)]
        files += [FileDiff(f"{n}.json", "main", "new", error=InputError("x" * 1_000)) for n in range(count)]
        text = to_markdown(files)
        assert len(text.encode()) <= LONGEST
        assert len(text) > LONGEST // 6
        listed = text.count("#### ") if count > 1 else 1
        left = re.search(r"^And ([\d,]+) more topolog", text, re.MULTILINE)
        assert listed + (int(left[1]) if left else 0) == count
        failed = re.search(r"^and ([\d,]+) more$", text, re.MULTILINE)
        assert text.count("was not compared") + (int(failed[1]) if failed and count > 1 else 0) >= count
        assert text.count("<details>") == text.count("</details>") == listed
        assert text.count("```") == 2 * listed
    steps = len(each.diff.plan.steps)
    shown = len(re.findall(r"^[+-] ", to_markdown(files[:1]), re.MULTILINE))
    assert f"and {int(re.findall('and ([0-9,]+) more', to_markdown(files[:1]))[-1]):,} more" in to_markdown(files[:1])
    assert shown < steps
