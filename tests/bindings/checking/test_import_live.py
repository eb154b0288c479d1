"""The import of definitions, against the brokers: `check` names all that a release refuses, and nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.support.bindings.import_law import OF_NO_USE, ImportLaw, draw_file, merge_files
from tests.support.servers import SERVERS, amqp_url, amqp_version, rabbitmq_management, started
from tests.support.starting import wait_for_service
from tests.support.tiers import scale
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

pytestmark = pytest.mark.live

IMPORTS = int(os.environ.get("HASHSTAR_IMPORTS", "0"))
AT_ONCE = 300
BOOTED = 900_000
"""Seed of the first file that nodes boot with."""


@pytest.mark.parametrize("image", SERVERS["rabbitmq"].images())
def test_check_names_what_an_import_refuses_and_all_else_is_imported_whole(image: str) -> None:
    """What a release takes and leaves out without a word is named as well; and what is in force there is in force here.

    All names are fresh. ``HASHSTAR_IMPORTS=20000`` imports that many files into each release.
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


@pytest.mark.parametrize("image", SERVERS["rabbitmq"].images())
def test_a_node_loads_at_boot_what_check_passes_and_does_not_start_with_what_it_refuses(
    image: str, tmp_path: Path
) -> None:
    """All that `check` passes is one file; ``HASHSTAR_IMPORTS=300`` draws that many, and boots with 20 refused ones."""
    from testcontainers.core.docker_client import DockerClient

    version = DockerClient().client.containers.run(image, ["rabbitmqctl", "version"], remove=True).decode().split()[-1]
    judged = [draw_file(version, seed) for seed in range(BOOTED, BOOTED + (IMPORTS or scale(60)))]
    fine = [each.file for each in judged if each.verdict == "fine"]
    merged = merge_files(fine)
    merged["vhosts"].append({"name": "/"})
    merged["users"].append({"name": "law", "password": "law", "tags": "administrator"})
    merged["permissions"].append({"user": "law", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"})
    with booted(image, tmp_path / "fine.json", merged) as container:
        port, name = container.get_docker_client().port, container.get_container_id()
        url = f"amqp://law:law@127.0.0.1:{port(name, 5672)}/%2F"
        wait_for_service(f"a container of {image}", lambda: amqp_version(url))
        at = "127.0.0.1", int(port(name, 15672))
        law = ImportLaw.at(
            container, url, wait_for_service("its management API", lambda: management(url, *at)), version
        )
        wrong = [*law.losses(fine)]
        law.imported = fine
        assert not [*wrong, *law.ineffective()], (version, wrong)
    refused = [each for each in judged if each.verdict == "refused" and not OF_NO_USE.search("".join(each.messages))]
    for each in refused[: 20 if IMPORTS else 1]:
        with booted(image, tmp_path / "refused.json", each.file[1]) as container:
            state = container.get_wrapped_container()

            def is_over(state: Any = state) -> bool:
                state.reload()
                return bool(state.status == "exited") or b"BOOT FAILED" in state.logs()

            wait_until(is_over, partial(" ".join, each.messages))


@contextmanager
def booted(image: str, file: Path, document: dict[str, Any]) -> Iterator[DockerContainer]:
    """Start a node that loads this file at boot."""
    from testcontainers.core.container import DockerContainer

    file.write_text(json.dumps(document))
    file.with_suffix(".conf").write_text("load_definitions = /definitions.json\n")
    container = DockerContainer(image)
    cast("dict[Any, Any]", container.ports).update(dict.fromkeys((5672, 15672), ("127.0.0.1",)))
    container.with_volume_mapping(str(file), "/definitions.json")
    container.with_volume_mapping(str(file.with_suffix(".conf")), "/etc/rabbitmq/conf.d/99-law.conf")
    started(container, image)
    try:
        yield container
    finally:
        container.stop()


def management(url: str, host: str, port: int) -> str:
    found = rabbitmq_management(url, host, port)
    if found is None:
        raise ConnectionError("it does not answer")
    return found
