"""The boot of nodes with definitions (load_definitions): what `check` passes is there; what it refuses, starts none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from exchange.entities.releases import find_profile
from tests.bindings.checking.test_import_live import management
from tests.support.bindings.import_law import OF_NO_USE, ImportLaw, JudgedFile, draw_file, merge_files
from tests.support.servers import SERVERS, amqp_url, amqp_version, started
from tests.support.starting import wait_for_service
from tests.support.tiers import scale
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

FIRST: Final = 900_000
"""Seed of the first file."""
IMAGES: Final = [image for image in SERVERS["rabbitmq"].images() if not image.endswith(":4.0")]
"""The oldest and the newest release: each boot takes half a minute."""
STARTED: Final = b"Server startup complete"
LOCATOR: Final = "Feature `queue_master_locator` is deprecated"
"""What 4.3 says to clients that declare such a queue; imports leave it out, without a word."""


@pytest.mark.parametrize("image", IMAGES)
def test_a_node_has_all_that_check_passes_and_does_not_start_with_what_it_refuses(image: str, tmp_path: Path) -> None:
    """All files that `check` passes are one; of those that it refuses, one is tried by itself.

    A node of 3.10 starts all the same, without a word, and has what the import made before it stopped. One of 4.3
    starts without a queue whose argument it denies, which its management API leaves out without a word, too.
    """
    from testcontainers.core.docker_client import DockerClient

    version = DockerClient().client.containers.run(image, ["rabbitmqctl", "version"], remove=True).decode().split()[-1]
    judged = [draw_file(version, seed) for seed in range(FIRST, FIRST + scale(60))]
    fine = [each.file for each in judged if each.verdict == "fine"]
    queues = [
        {"vhost": "/", "name": name, "durable": True, "auto_delete": False, "arguments": arguments}
        for name, arguments in (("kept", {}), ("left-out", {"x-queue-master-locator": "client-local"}))
    ]
    document = with_user(merge_files(fine))
    document["queues"] += queues
    with booted(image, tmp_path, document) as container:
        law = law_at(container, image, version)
        assert not law.refusal_of({"queues": queues[1:]})
        is_denied = find_profile(version).settings.denies_master_locator
        there = {each["name"] for each in law.broker.request("GET", "/api/queues/%2F")}
        assert there == ({"kept"} if is_denied else {"kept", "left-out"})
        wrong = [*law.losses(fine)]
        law.imported = fine
        assert not [*wrong, *law.ineffective()], (version, wrong)
    for words, refused in differently_refused(judged).items():
        with booted(image, tmp_path, refused.file[1]) as container:
            state = container.get_wrapped_container()

            def is_over(state: Any = state) -> bool:
                state.reload()
                return state.status == "exited" or STARTED in state.logs()

            wait_until(is_over, partial(" ".join, [version, words, *refused.messages]))
            assert (STARTED in state.logs()) == version.startswith("3."), (version, words, refused.messages)


def differently_refused(judged: list[JudgedFile]) -> dict[str, JudgedFile]:
    """Return some files that `check` refuses in different words, but for what a boot leaves out."""
    found: dict[str, JudgedFile] = {}
    for each in judged:
        text = " ".join(each.messages)
        if each.verdict == "refused" and not OF_NO_USE.search(text) and LOCATOR not in text:
            found.setdefault(re.sub(r"'[^']*'|[0-9]+", "", text)[:40], each)
    return dict([*found.items()][: scale(1)])


def with_user(document: dict[str, Any]) -> dict[str, Any]:
    """Return definitions with the virtual host / and a user: a node that loads a file has none of its own."""
    document["vhosts"].append({"name": "/"})
    document["users"].append({"name": "guest", "password": "guest", "tags": "administrator"})
    document["permissions"].append({"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"})
    return document


def law_at(container: DockerContainer, image: str, version: str) -> ImportLaw:
    """Return the law at a node that is starting."""
    port, name = container.get_docker_client().port, container.get_container_id()
    url = amqp_url("127.0.0.1", int(port(name, 5672)))
    wait_for_service(f"a container of {image}", lambda: amqp_version(url))
    at = "127.0.0.1", int(port(name, 15672))
    return ImportLaw.at(container, url, wait_for_service("its management API", lambda: management(url, *at)), version)


@contextmanager
def booted(image: str, folder: Path, document: dict[str, Any]) -> Iterator[DockerContainer]:
    """Start a node that loads definitions at boot."""
    from testcontainers.core.container import DockerContainer

    file, settings = folder / "definitions.json", folder / "99-law.conf"
    file.write_text(json.dumps(document))
    settings.write_text("load_definitions = /definitions.json\n")
    container = DockerContainer(image)
    cast("dict[Any, Any]", container.ports).update(dict.fromkeys((5672, 15672), ("127.0.0.1",)))
    container.with_volume_mapping(str(file), "/definitions.json")
    container.with_volume_mapping(str(settings), "/etc/rabbitmq/conf.d/99-law.conf")
    started(container, image)
    try:
        yield container
    finally:
        container.stop()
