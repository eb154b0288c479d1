"""Print the leaves that run whole, separated by commas; with `prove LEAVES SECONDS`, note that these have passed.

If these are all leaves, a row is added to ``docs/measured.md``: committed, it tells other machines.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.leaves.changes import find_changes, find_proof, keep_proofs
from tests.support.leaves.choice import find_parts, find_reasons
from tests.support.leaves.graph import read_graph
from tests.support.leaves.table import LEAVES
from tests.support.measured import PAGE, CompleteRun, add_complete_run

TOP: Final = Path(__file__).parents[3]
SHOWN: Final = 3
"""Maximum number of changed files shown for a leaf."""


def main(arguments: Sequence[str]) -> None:
    """Choose, or keep what was proved."""
    if arguments:
        _, names, seconds = arguments
        commit = keep_proofs(TOP, names.split(",") if names != "none" else [])
        if commit is not None and names == ",".join(leaf.name for leaf in LEAVES):
            figures = f"CI with every leaf whole, in {int(seconds):,} s; no night"
            add_complete_run(TOP, CompleteRun.of_today(commit, figures))
            _say(f"all ran whole: a row was added to {PAGE}: commit it, and other machines know")
        return
    graph = read_graph(TOP)
    whole = []
    for leaf in LEAVES:
        proof = find_proof(TOP, leaf.name)
        if isinstance(proof, str):
            whole.append(leaf.name)
            _say(f"{leaf.name}: whole: {proof}")
            continue
        parts = find_parts(leaf, graph)
        since = f"since {proof.commit[:8]} ({proof.origin})"
        if not (reasons := find_reasons(parts, graph, find_changes(TOP, proof.commit))):
            count = len(parts.product) + len(parts.around)
            _say(f"{leaf.name}: smoke tests: nothing of the {count} modules that it is made of has changed {since}")
            continue
        whole.append(leaf.name)
        _say(f"{leaf.name}: whole: {len(reasons)} files of it have changed {since}:")
        for reason in reasons[:SHOWN]:
            _say(f"    {reason}")
    print(",".join(whole) or "none")


def _say(text: str) -> None:
    print(f"leaves: {text}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
