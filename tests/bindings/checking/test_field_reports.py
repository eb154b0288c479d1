"""What people wrote public reports about, reduced to a small input: the command names it, and the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.program import run_program

LOST = 'exchange e: direct\nqueue dlq\nqueue q: x-dead-letter-exchange = "dlq"\ne -> q: "k"\ne -> dlq: "d"\n'
STRATEGY = 'exchange e: direct\nqueue r: quorum, x-dead-letter-strategy = "at-least-once"{more}\ne -> r: "k"\n'


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("queue.bindings", LOST, "there is a queue 'dlq': dead letters go there by way of the default exchange"),
        ("none.bindings", STRATEGY.format(more=""), "dead-lettering is disabled: there is no dead letter exchange"),
        (
            "followed.bindings",  # what HS313 advises, alone
            STRATEGY.format(more=', x-overflow = "reject-publish"'),
            "dead-lettering is disabled: there is no dead letter exchange",
        ),
        ("commented.json", '// c\n{"vhosts": [{"name": "/"}], "exchanges": []}\n', "JSON has no comments"),
        ("mqtt.bindings", 'queue q\namq.topic -> q: mqtt "foo.bar/+"\n', "the '.' in it parts words there"),
    ],
)
def test_check_names_what_was_reported(name: str, text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    done = run_program("check", str(tmp_path / name))
    assert words in " ".join((done.stdout + done.stderr).split())


def test_a_selector_with_a_text_without_quotes_is_named() -> None:
    assert (
        "a text stands in single quotes: did you mean 'TagA'?" in run_program("selector", "check", "TAGS = TagA").stdout
    )
