"""What identifies a finding from one run to the next: its code and what it is about, not its line and not its words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final

from bindings.checking.rules.finding import Finding
from exchange.entities.entities import Binding
from exchange.entities.part import encode_part


def compute_fingerprint(vhost: str, finding: Finding) -> str:
    """Return a hash, in hexadecimal, that stays the same when a part moves to another line.

    The same hash means the same code, virtual host, object and `Finding.detail`. It does not depend on the message,
    which also names parts that others may change, nor on the name of the file.
    """
    about: list[Any] = [finding.code, vhost, OBJECTS.get(finding.code, _part)(finding)]
    if finding.detail:
        about.append(finding.detail)
    return sha256(json.dumps(about).encode()).hexdigest()


def _part(finding: Finding) -> Any:
    return None if finding.part is None else encode_part(finding.part)


def _parts(finding: Finding) -> Any:
    parts = [encode_part(part) for part in (finding.part, *finding.related) if part is not None]
    return sorted(parts, key=json.dumps)


def _source(finding: Finding) -> Any:
    return finding.part.source if isinstance(finding.part, Binding) else _part(finding)


def _destination(finding: Finding) -> Any:
    return finding.part.destination if isinstance(finding.part, Binding) else _part(finding)


OBJECTS: Final[Mapping[str, Callable[[Finding], Any]]] = {
    # The part is the first of several bindings, which may be another one tomorrow: what they have in common counts.
    "HS101": _source,
    "HS102": _destination,
    "HS108": _source,
    "HS401": _source,
    # The parts play the same role, and their order decides which of them the finding is about.
    **dict.fromkeys(("HS103", "HS206", "HS305", "HS408", "HS505", "HS604", "HS704"), _parts),
}
"""Code -> the function that returns the object of a finding, for those whose object is not their part alone."""
