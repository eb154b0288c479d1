"""A virtual host of a live broker that exists only as long as it is asked."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final
from urllib.parse import quote

from bindings.sources.management import Management
from exchange.entities.releases import ROWS
from exchange.errors import InputError

PREFIX: Final = "hashstar-upgrade-"
"""Beginning of the names of virtual hosts that are created, and deleted at the end."""
DENIABLE: Final = (*sorted(ROWS[-1].profile.denied_features),)
"""Deprecated features that the model of releases has."""


@contextmanager
def make_fresh_host(management: Management) -> Iterator[str]:
    """Create a virtual host, and delete it at the end, also after an error or Ctrl-C; yield its name.

    Raises InputError if the user may not.
    """
    name = f"{PREFIX}{secrets.token_hex(6)}"
    path = f"/api/vhosts/{name}"
    try:
        management.request("PUT", path, {"description": "asked by hashstar upgrade, and deleted at the end"})
        if management.token is None:  # the scopes of a token are its permissions
            everything = dict.fromkeys(("configure", "write", "read"), ".*")
            management.request("PUT", f"/api/permissions/{name}/{quote(management.user, safe='')}", everything)
        yield name
    finally:
        with suppress(InputError):  # the error that ends the block says more
            management.request("DELETE", path)


def find_permitted_features(management: Management) -> frozenset[str]:
    """Return those of `DENIABLE` that a broker permits: all that it does not name as denied. Raises InputError.

    Brokers before 3.13 do not know the question.
    """
    try:
        answer = management.request("GET", "/api/deprecated-features")
    except InputError:
        return frozenset(DENIABLE)
    features = answer if isinstance(answer, list) else []
    denied = {
        feature.get("name")
        for feature in features
        if isinstance(feature, dict) and _is_denied(feature.get("deprecation_phase"), feature.get("state"))
    }
    return frozenset(DENIABLE) - denied


def _is_denied(phase: object, state: object) -> bool:
    if state in ("denied", "permitted"):
        return state == "denied"
    return phase in ("denied_by_default", "disconnected", "removed")
