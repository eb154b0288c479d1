"""A small .bindings file cannot expand to more than a machine holds: loops, lists and variables have bounds."""

from __future__ import annotations

import pytest

from bindings.sources.document import Document
from bindings.sources.language import values
from bindings.sources.language.errors import LanguageError
from exchange.errors import InputError

DOUBLING = 'let a0 = "0123456789"\n' + "".join(f'let a{n} = "{{a{n - 1}}}{{a{n - 1}}}"\n' for n in range(1, 40))
BOMBS = {
    "products of for": 'for a in 1..1000:\n  for b in 1..1000:\n    queue "{a}.{b}"\n',
    "five for": "".join(f"{'  ' * n}for v{n} in 1..1000:\n" for n in range(5)) + f"{'  ' * 5}e -> q: x\n",
    "for of nothing new": "for a in 1..100000:\n  for b in 1..100000:\n    let c = x\n",
    "products of lists": f"e -> {', '.join(map('q{}'.format, range(99)))}: {', '.join(map('k{}'.format, range(99)))}\n",
    "doubling let": DOUBLING,
    "doubled names": DOUBLING[: DOUBLING.index("let a12")] + 'for i in 1..100:\n  queue "{a11}{i}"\n',
    "long range": f"for a in {'1' * 5_000}..{'1' * 5_001}:\n  queue q{{a}}\n",
    "long number": f"queue q: x = {'1' * 5_000}\n",
    "deep value": f"queue q: x = {'[' * 20_000}\n",
    "deep for": "".join(f"{' ' * n}for v{n} in 1:\n" for n in range(1_500)) + f"{' ' * 1_500}queue q\n",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_with_its_place(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "STATEMENTS", 9_000)
    monkeypatch.setattr(values, "TEXT_BYTES", 1 << 20)
    with pytest.raises((LanguageError, InputError), match=r"bindings:") as caught:
        Document.loads(BOMBS[name])
    assert len(str(caught.value)) < 1_000


def test_what_real_files_have_is_no_bomb() -> None:
    """A million bindings one by one are a large file, not a bomb; a range of its greatest length can be used."""
    text = "exchange e: topic\nqueue q\n" + "".join(f'e -> q: "k{n}", "l{n}"\n' for n in range(3_000))
    assert len(Document.loads(text).topology().bindings) == 6_000
    assert len(Document.loads('for n in 1..20000:\n  queue "q{n}"\n').topology().queues) == 20_000
