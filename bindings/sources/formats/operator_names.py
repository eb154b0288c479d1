"""Names of Kubernetes objects, made of the names of exchanges, queues and virtual hosts.

A name is made of the part's own identity alone: adding another part changes no name, or ``kubectl apply`` would delete
and declare what did not change. What Kubernetes does not allow in a name is replaced, and a hash keeps apart what would
become equal.
"""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import Any, Final

__all__ = ["Names"]

ALLOWED: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
"""A DNS subdomain of RFC 1123, as Kubernetes defines it."""
OTHERS: Final = re.compile(r"[^a-z0-9]+")
MOST: Final = 253
"""Maximum number of characters of a name."""
LONGEST: Final = MOST - 13
"""Maximum number of characters before the hash."""
HASH_DIGITS: Final = 10


class Names:
    """The names given so far, by kind of object: equal names of different kinds do not meet."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], tuple[Any, ...]] = {}

    def of(self, kind: str, vhost: str, name: str) -> str:
        """Return the name of an object: the part's own name if it is in the virtual host / and Kubernetes allows it."""
        is_plain = vhost == "/" and len(name) <= LONGEST and ALLOWED.fullmatch(name)
        return self._give(kind, name if is_plain else None, name if vhost == "/" else f"{vhost}-{name}", (vhost, name))

    def of_identity(self, kind: str, vhost: str, words: str, *identity: Any) -> str:
        """Return the name of an object that has no name of its own: of words for people, and the hash of all of it."""
        return self._give(kind, None, words if vhost == "/" else f"{vhost}-{words}", (vhost, *identity))

    def _give(self, kind: str, plain: str | None, words: str, identity: tuple[Any, ...]) -> str:
        digest = sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        slug = OTHERS.sub("-", words.lower())[:LONGEST].strip("-")
        hashed = (f"{slug}-{digest[:most]}".lstrip("-")[-MOST:] for most in (HASH_DIGITS, len(digest)))
        candidates = (plain, *(name.lstrip("-") for name in hashed))
        return next(
            each
            for each in candidates
            if each is not None and self._given.setdefault((kind, each), identity) == identity
        )
