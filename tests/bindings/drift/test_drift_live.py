"""``hashstar drift`` of a live RabbitMQ: nothing after `apply`, and what others have changed since."""

from __future__ import annotations

import json
from random import Random
from typing import Any
from urllib.parse import quote

import pika
import pytest
from click.testing import CliRunner

from bindings.commands.drift import drift_command
from bindings.sources.definitions import Definitions
from exchange import Exchange, Queue, Topology
from exchange.entities.releases import find_profile
from tests.bindings.applying.test_apply_live import PASSWORD, Place, place
from tests.support.bindings import pairs
from tests.support.differential import manage
from tests.support.program import run_program

__all__ = ["place"]  # the fixture


def drift(place: Place, wanted: Topology, *options: str) -> tuple[int, Any]:
    file = place.folder / "file.json"
    topology = Topology(
        wanted.exchanges.values(), wanted.queues.values(), wanted.bindings, wanted.policies.values(), vhost=place.vhost
    )
    Definitions(place.vhost).with_topology(topology).save(file)
    result = CliRunner().invoke(drift_command, [str(file), place.management, "--format", "json", *options])
    assert PASSWORD not in result.output
    assert result.exit_code in (0, 1), result.output
    return result.exit_code, json.loads(result.stdout)


@pytest.mark.smoke
def test_there_is_no_drift_after_apply_and_the_right_one_before(place: Place) -> None:
    profile = find_profile(place.server.version)
    for seed in range(4):
        before, after = (each.with_profile(profile) for each in pairs.pair(Random(seed)))
        assert place.run(before, "--yes", "--prune", "--replace").exit_code == 0
        code, value = drift(place, before, "--auto-delete")
        assert (code, value["objects"]) == (0, []), f"seed {seed}"
        code, value = drift(place, after, "--auto-delete")
        assert (code == 1) == bool(value["objects"])
        assert place.run(after, "--yes", "--prune", "--replace").exit_code == 0
        code, value = drift(place, after, "--auto-delete")
        assert (code, value["objects"]) == (0, []), f"seed {seed}"


def test_what_consumers_leave_is_counted_and_ignored(place: Place) -> None:
    wanted = Topology(queues=[Queue("q")], profile=find_profile(place.server.version))
    assert place.run(wanted, "--yes").exit_code == 0
    vhost = quote(place.vhost, safe="")
    manage(place.server, "PUT", f"queues/{vhost}/reply", {"durable": True, "auto_delete": True})
    manage(place.server, "POST", f"bindings/{vhost}/e/amq.topic/q/reply", {"routing_key": "a.*"})
    code, value = drift(place, wanted)
    assert (code, value["objects"], value["ignored"]) == (0, [], {"auto-delete": 2})
    manage(place.server, "PUT", f"queues/{vhost}/by-hand", {"durable": True})
    code, value = drift(place, wanted)
    assert [(item["change"], item["part"]["name"]) for item in value["objects"]] == [("extra", "by-hand")]
    assert drift(place, wanted, "--ignore-extra")[0] == 0


def test_exclusive_queues_are_counted_and_nothing_is_proved_of_them(place: Place) -> None:
    """No export has them, and since 4.4.1 none has their bindings; `drift` goes on, all others say so."""
    wanted = Topology([Exchange("ev", "fanout")], [Queue("q")], profile=find_profile(place.server.version))
    assert place.run(wanted, "--yes").exit_code == 0
    here = f"{place.management}/{quote(place.vhost, safe='')}"
    assert run_program("check", here)[0] == 0
    host = place.amqp.removeprefix("amqp://")
    address = f"amqp://{place.vhost}:{PASSWORD}@{host}/{quote(place.vhost, safe='')}"
    connection = pika.BlockingConnection(pika.URLParameters(address))
    channel = connection.channel()
    for name in ("", "mine"):
        channel.queue_bind(channel.queue_declare(name, exclusive=True).method.queue, "ev")
    try:
        code, value = drift(place, wanted)
        assert (code, value["state"], value["objects"]) == (0, "same", [])
        assert value["ignored"]["exclusive"] >= 2
        code, value = drift(place, Topology([Exchange("ev", "fanout")], profile=wanted.profile))
        [unread] = value["meaning"]["unread"]
        assert unread["where"] == f"virtual host '{place.vhost}'"
        assert unread["text"].startswith("2 exclusive queues ('amq.gen-")
        assert unread["text"].endswith(", 'mine') with all bindings, which no export has")
        for command in (["check", "--fail-on", "warning", here], ["diff", here, str(place.folder / "file.json")]):
            returned, printed, _ = run_program(*command)
            assert returned == 1
            assert "2 exclusive queues" in printed
            assert "not proved: 1 part was not read" in printed
        planned = place.run(Topology(profile=wanted.profile), "--dry-run", "--prune", "--prune").output
        assert "not proved: 1 part was not read" in planned
    finally:
        connection.close()
