"""The import of definitions, against the brokers: `check` names all that a release refuses, and nothing else."""

from __future__ import annotations

import json
import os
from typing import Any, cast

import pytest

from bindings.checking.source import check_source
from bindings.sources.open import read_source
from tests.support.bindings.import_law import ImportLaw
from tests.support.servers import SERVERS, amqp_url, amqp_version, rabbitmq_management, started
from tests.support.starting import wait_for_service
from tests.support.tiers import scale

IMPORTS = int(os.environ.get("HASHSTAR_IMPORTS", "0"))
AT_ONCE = 300


@pytest.mark.parametrize("image", SERVERS["rabbitmq"].images())
def test_check_names_what_an_import_refuses_and_all_else_is_imported_whole(image: str) -> None:
    """What a release takes and leaves out without a word is named as well; and what is in force there is in force here.

    A broker that has nothing of its own exports no error. All names are fresh. ``HASHSTAR_IMPORTS=20000`` imports that
    many files into each release.
    """
    from testcontainers.core.container import DockerContainer

    container = DockerContainer(image)
    cast("dict[Any, Any]", container.ports).update(dict.fromkeys((5672, 15672), ("127.0.0.1",)))
    started(container, image)
    try:
        find = container.get_docker_client().port
        name = container.get_container_id()
        url = amqp_url("127.0.0.1", int(find(name, 5672)))
        version = wait_for_service(f"a container of {image}", lambda: amqp_version(url))
        at = "127.0.0.1", int(find(name, 15672))
        there = wait_for_service("its management API", lambda: management(url, *at))
        law = ImportLaw.at(container, url, there, version)
        own = check_source(
            read_source(json.dumps(law.broker.request("GET", "/api/definitions")).encode(), "export.json")
        )
        assert [finding for of in own.vhosts for finding in of.findings if finding.rule.severity == "error"] == []
        count = IMPORTS or scale(60)
        wrong = [
            difference
            for first in range(0, count, AT_ONCE)
            for difference in law.run(range(first, min(first + AT_ONCE, count)))
        ]
        assert not wrong, "\n".join(map(str, [version, *wrong]))
        assert min(law.counts["refused"], law.counts["fine"]) > count // 8, law.counts
    finally:
        container.stop()


def management(url: str, host: str, port: int) -> str:
    found = rabbitmq_management(url, host, port)
    if found is None:
        raise ConnectionError("it does not answer")
    return found
