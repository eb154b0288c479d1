"""Print the leaves that run whole, separated by commas; with `prove LEAVES`, note that these have passed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.leaves.changes import find_changes, find_proof, keep_proofs
from tests.support.leaves.choice import find_parts, find_reasons
from tests.support.leaves.graph import read_graph
from tests.support.leaves.table import LEAVES

TOP: Final = Path(__file__).parents[3]
SHOWN: Final = 3
"""Maximum number of changed files shown for a leaf."""


def main(arguments: Sequence[str]) -> None:
    """Choose, or keep what was proved."""
    if arguments:
        keep_proofs(TOP, arguments[1].split(",") if arguments[1] != "none" else [])
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
