"""Record what Erlang makes of keys and terms: ``python -m tests.recorders.erlang``.

Writes tests/golden/erlang-RELEASE.json. Needs ``escript``, or as arguments a command that runs it:
``docker run -i --rm -v $PWD:$PWD --entrypoint escript hashstar/rabbitmq:4.3``. Keys are asked about as binaries, and in
lists as RabbitMQ has a routing key and those of a CC header.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from exchange.partition.hashing.erlang import UNDEFINED, Atom
from tests.recorders import golden
from tests.recorders.keys import COUNTS, KEYS

LISTS: Final = tuple([[key.encode() for key in KEYS[at : at + 1 + at % 3]] for at in range(len(KEYS))])
"""A routing key alone, with one more, and with two."""

TERMS: Final[tuple[Any, ...]] = (
    UNDEFINED, True, False, Atom("longstr"), Atom("exchange"), Atom("exotic ÿ"), [], [b""], [b"", b""], (), b"",
    *(Atom(name) for name in ("", "a", "ab", "abcdefgh", "abcdefghi", "x" * 100)),
    *(sign * (1 << bits) + step for sign in (1, -1) for bits in (0, 7, 26, 27, 28, 31, 32, 59, 60, 63, 64, 100)
      for step in (-1, 0, 1)),
    0.0, -0.0, 1.0, -1.0, 0.1, 1.5, -2.5e-300, 1e308, 1e22,
    *((Atom("longstr"), b"x" * length) for length in range(30)),
    (Atom("bool"), True), (Atom("void"), UNDEFINED), (Atom("signedint"), -3), (Atom("double"), 0.1),
    (Atom("decimal"), (2, 300)), (Atom("array"), []), (Atom("array"), [(Atom("longstr"), b"a"), (Atom("long"), 1)]),
    (Atom("table"), [(b"k", Atom("signedint"), 7), (b"l", Atom("array"), [(Atom("bool"), False)])]),
)  # fmt: skip
"""Terms at the edges of each kind, and AMQP's field values as RabbitMQ up to 3.12 hashes them."""

SEEDS: Final = (*range(40), 45914356, *(sign * (1 << bits) + step for sign in (1, -1)
                for bits in (21, 27, 31, 32, 63) for step in (-2, -1, 0)), 2**64 - 1)  # fmt: skip
BUCKETS: Final = (*range(1, 40), 100, 1000, 10_000, 1_000_000, 10**9)
"""Every seed is asked about with every number of buckets."""


def to_source(term: Any) -> str:
    """Return the term as Erlang source."""
    if isinstance(term, bytes):
        return f"<<{','.join(map(str, term))}>>"
    if isinstance(term, Atom):
        return f"'{term.name}'"
    if isinstance(term, (list, tuple)):
        left, right = "[]" if isinstance(term, list) else "{}"
        return left + ",".join(map(to_source, term)) + right
    if isinstance(term, bool):
        return str(term).lower()
    return f"{term:.17e}" if isinstance(term, float) else str(term)


def record() -> None:
    """Ask, and write the answers."""
    keys = [key.encode() for key in KEYS]
    terms = [*keys, *LISTS, *TERMS]
    hashes, _ = _ask([f"{{hash,{to_source(term)}}}." for term in terms])
    answers = [[int(number) for number in line.split()] for line in hashes]
    by_default, whole = ([answer[which] for answer in answers] for which in (0, 1))
    counts = {str(count): [f"{{jump,{h},{count}}}." for h in by_default[: len(keys)]] for count in COUNTS}
    grid = {str(seed): [f"{{jump,{seed},{buckets}}}." for buckets in BUCKETS] for seed in SEEDS}
    jumps, version = _ask([line for lines in (*counts.values(), *grid.values()) for line in lines])
    left = iter(map(int, jumps))
    lists = (len(keys), len(keys) + len(LISTS))
    golden.write(
        f"erlang-{version.split('.')[0]}", "Erlang/OTP", version,
        {
            "phash2 of keys": by_default[: lists[0]],
            "phash2 of keys, of 2^32": whole[: lists[0]],
            "phash2 of lists": by_default[slice(*lists)],
            "phash2 of terms": {to_source(term): h for term, h in zip(TERMS, whole[lists[1] :], strict=True)},
            "buckets of keys": {count: [next(left) for _ in lines] for count, lines in counts.items()},
            "buckets of seeds": {seed: [next(left) for _ in lines] for seed, lines in grid.items()},
        },
    )  # fmt: skip


def _ask(questions: list[str]) -> tuple[list[str], str]:
    """Return the answers, and the version of Erlang/OTP."""
    command = [*(sys.argv[1:] or ["escript"]), str(Path(__file__).parent / "erlang_hashes.escript")]
    text = "\n".join(questions)
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, encoding="utf-8", check=True, timeout=120)
    *answers, version = done.stdout.splitlines()
    return answers, version


if __name__ == "__main__":
    record()
