"""What identifies a finding from one run to the next: its code and what it is about, not its line and not its words."""

from __future__ import annotations

import json
from hashlib import sha256

from bindings.check.report import part_json
from bindings.check.rules.finding import Finding

__all__ = ["fingerprint"]


def fingerprint(vhost: str, finding: Finding) -> str:
    """Return a hash, in hexadecimal, that stays the same when a part moves to another line.

    The same hash means the same code, virtual host, part and `Finding.detail`. It does not depend on the message, which
    also names parts that others may change, nor on the name of the file.
    """
    about: list[object] = [finding.code, vhost, None if finding.part is None else part_json(finding.part)]
    if finding.detail:
        about.append(finding.detail)
    return sha256(json.dumps(about).encode()).hexdigest()
