"""Print the parts that run whole, separated by commas; with `prove`, note which of these have passed.

That is `prove PARTS SECONDS` if all has passed: the other parts had been proved, and nothing of them has changed, so
that each is proved now. A row is added to ``docs/measured.md``, which tells other machines if it is committed. Else it
is `prove PARTS SECONDS FILE...` with the outcomes of the runs: those of the parts are proved that have no failed test.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.measured import PAGE, CompleteRun, add_complete_run
from tests.support.parts.changes import find_changes, find_failing, find_proof, keep_proofs
from tests.support.parts.choice import find_contents, find_reasons
from tests.support.parts.graph import read_graph
from tests.support.parts.table import PARTS

TOP: Final = Path(__file__).parents[3]
SHOWN: Final = 3
"""Maximum number of changed files shown for a part."""


def main(arguments: Sequence[str]) -> None:
    """Choose, or keep what was proved."""
    if arguments:
        _, names, seconds, *outcomes = arguments
        _prove([] if names == "none" else names.split(","), int(seconds), [Path(name) for name in outcomes])
        return
    graph = read_graph(TOP)
    whole = []
    for part in PARTS:
        proof = find_proof(TOP, part.name)
        if isinstance(proof, str):
            whole.append(part.name)
            _say(f"{part.name}: whole: {proof}")
            continue
        contents = find_contents(part, graph)
        since = f"since {proof.commit[:8]} ({proof.origin})"
        if not (reasons := find_reasons(contents, graph, find_changes(TOP, proof.commit))):
            count = len(contents.product) + len(contents.around)
            _say(f"{part.name}: smoke tests: nothing of the {count} modules that it is made of has changed {since}")
            continue
        whole.append(part.name)
        _say(f"{part.name}: whole: {len(reasons)} files of it have changed {since}:")
        for reason in reasons[:SHOWN]:
            _say(f"    {reason}")
    print(",".join(whole) or "none")


def _prove(whole: Sequence[str], seconds: int, outcomes: Sequence[Path]) -> None:
    if outcomes:
        failing = find_failing(outcomes)
        proved = [] if failing is None else [name for name in whole if name not in failing]
        if proved and keep_proofs(TOP, proved) is not None:
            _say(f"have passed, and need not run again: {', '.join(proved)}")
        return
    commit = keep_proofs(TOP, [part.name for part in PARTS])
    if commit is not None and whole:
        figures = "CI with every part whole" if len(whole) == len(PARTS) else f"CI with {', '.join(whole)} whole"
        add_complete_run(TOP, CompleteRun.of_today(commit, f"{figures}, in {seconds:,} s; no night"))
        _say(f"all has passed: a row was added to {PAGE}: commit it, and other machines know")


def _say(text: str) -> None:
    print(f"parts: {text}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
