"""The import of definitions, against the brokers: `check` names all that a release refuses, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from bindings.check.source import check_source
from bindings.sources.management import Management
from bindings.sources.open import read_source
from exchange.entities.releases import profile_for
from exchange.errors import InputError
from tests.support.bindings.imports import random_definitions
from tests.support.servers import Server
from tests.support.tiers import scale
from tests.support.unique import unique_name

pytestmark = pytest.mark.live

REFUSED_BY: Final = frozenset({
    "HS101", "HS102", "HS404", "HS405", "HS601", "HS602", "HS603", "HS605", "HS701", "HS705", "HS707", "HS903",
})  # fmt: skip
"""Codes of the errors about what an import refuses or leaves out."""


def broker_of(server: Server) -> Management:
    """Return the management API of a broker."""
    if server.management_url is None:
        pytest.skip("needs the management API")
    login = urlsplit(server.url)
    return Management.at(server.management_url.replace("//", f"//{login.username}:{login.password}@"))


def refusal_of(broker: Management, document: dict[str, Any]) -> str:
    """Return why the broker refuses to import definitions; empty if it imports them."""
    try:
        broker.request("POST", "/api/definitions", document)
    except InputError as error:
        return str(error)
    return ""


def forget(broker: Management, prefix: str) -> None:
    """Delete the virtual hosts and users of a file."""
    for kind, name in (("vhosts", f"{prefix}-v"), ("vhosts", f"{prefix}-w"), ("users", f"{prefix}-u")):
        try:
            broker.request("DELETE", f"/api/{kind}/{name}")
        except InputError:
            continue  # it was not imported


def named_in(text: str, version: str) -> list[str]:
    """Return the errors that `check` names about the import into a release, or why it cannot read the file."""
    try:
        report = check_source(read_source(text.encode(), "definitions.json"), profile=profile_for(version))
    except InputError as error:
        return [str(error)]
    return [each.message for of in report.vhosts for each in of.findings if each.code in REFUSED_BY]


def differences(broker: Management, text: str, version: str) -> Iterator[str]:
    """Yield what a broker that imported a file does not have as the file says."""
    source = read_source(text.encode(), "definitions.json")
    for vhost in source.vhosts:
        wanted = source.topology(vhost, profile_for(version))
        there = broker.definitions(vhost).topology(vhost, profile_for(version))
        for kind in ("exchanges", "queues", "policies", "bindings"):
            lost = set(getattr(wanted, kind)) ^ set(getattr(there, kind))
            if lost:
                yield f"{vhost}: {kind} {lost}"


def test_check_names_what_an_import_refuses_and_all_else_is_imported_whole(rabbitmq_servers: list[Server]) -> None:
    """What a release takes and leaves out without a word, as 3.10 does with bindings, is named as well.

    Half of the random files are valid, and all names are fresh.
    """
    wrong: list[tuple[object, ...]] = []
    refusals = imports = 0
    for server in rabbitmq_servers:
        broker = broker_of(server)
        for seed in range(scale(60)):
            prefix = unique_name(f"import-{seed}")
            document = random_definitions(Random(f"{server.version}/{seed}"), prefix)
            text = json.dumps(document)
            found = named_in(text, server.version)
            refusal = refusal_of(broker, document)
            lost = [] if refusal else [*differences(broker, text, server.version)]
            if bool(found) != bool(refusal or lost):
                wrong.append((server.version, seed, "named", found, "refused", refusal, "lost", lost, text))
            refusals, imports = refusals + bool(refusal), imports + (not refusal)
            forget(broker, prefix)
    assert not wrong, "\n".join(map(str, wrong))
    assert min(refusals, imports) > (refusals + imports) // 8
