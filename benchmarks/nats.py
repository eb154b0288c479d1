"""The matcher of NATS as a peer: ``benchmarks/gsl`` is a Go program around the generic sublist of nats-server.

It is built where Go is installed; Go fetches the module over its proxy, once. NATS has no ``#`` in the middle of a
pattern, and its ``>`` stands for one word or more. So the peer gets the patterns that end with ``#`` twice, with and
without ``>``, and not those that have ``#`` anywhere else.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.measure import Contestant
from exchange import Matcher, Pattern
from exchange.patterns.pattern import MANY, NATS, normalise_wildcards

FOLDER: Final = Path(__file__).parent / "gsl"
SECONDS: Final = 300


def time_gsl(patterns: Sequence[str], keys: Sequence[str], rounds: int) -> Contestant:
    """Return the peer's row: its microseconds a key of each round, or the reason why there are none."""
    translated, left = _translate(patterns)
    name = "NATS gsl"
    with TemporaryDirectory() as folder:
        program = Path(folder) / "gsl"
        if (reason := _build(program)) is not None:
            return Contestant(name, None, "peer", reason)
        work = json.dumps({"patterns": list(translated), "keys": list(keys), "rounds": rounds})
        done = subprocess.run(  # noqa: S603  the program that was just built
            [program], input=work, capture_output=True, text=True, timeout=SECONDS, check=True
        )
    answer = json.loads(done.stdout)
    same = answer["Matches"] == _count_matches(translated, keys)
    note = f"without {left} patterns it cannot express; matches agree: {same}"
    return Contestant(name, None, "peer", note, answer["Microseconds"])


@cache
def _go() -> str | None:
    return shutil.which("go")


def _build(program: Path) -> str | None:
    """Build the program; return the reason if that is not possible."""
    go = _go()
    if go is None:
        return "Go is not installed"
    try:
        subprocess.run(  # noqa: S603  no input is run
            [go, "build", "-o", program, "."], cwd=FOLDER, capture_output=True, timeout=SECONDS, check=True
        )
    except subprocess.CalledProcessError as error:
        return f"go build: {error.stderr.decode(errors='replace').strip().splitlines()[-1]}"
    except subprocess.TimeoutExpired:
        return f"go build took more than {SECONDS} s"
    return None


def _translate(patterns: Sequence[str]) -> tuple[dict[str, list[str]], int]:
    """Return pattern in NATS' notation -> the AMQP pattern it came from; and the number of those left out."""
    translated: dict[str, list[str]] = {}
    left = 0
    for pattern in patterns:
        words = normalise_wildcards(Pattern.of_binding_key(pattern).words)
        if MANY in words[:-1] or words == (MANY,):
            left += 1
            continue
        text = [word if isinstance(word, str) else "*" for word in words if word is not MANY]
        translated.setdefault(".".join(text), []).append(pattern)
        if words[-1] is MANY:
            translated.setdefault(".".join([*text, ">"]), []).append(pattern)
    return translated, left


def _count_matches(translated: dict[str, list[str]], keys: Sequence[str]) -> int:
    """Return how many of the peer's patterns match, over all keys, as our matcher finds."""
    ours: Matcher[str] = Matcher(NATS)
    for pattern in translated:
        ours.bind(Pattern(pattern, "nats"), pattern)
    return sum(map(len, map(ours.match, keys)))
