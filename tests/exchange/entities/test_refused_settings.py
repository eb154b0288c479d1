"""Queues and policies: the engine refuses those that recorded brokers refused, with their texts."""

from __future__ import annotations

import json
from html import unescape
from typing import Any

import pytest

from exchange import Policy, Queue, Router, Topology
from exchange.entities.policy_definitions import find_wrong_settings
from exchange.entities.releases import find_profile
from exchange.errors import BadRequest, BrokerError, PreconditionFailed
from tests.recorders import golden
from tests.recorders.rabbitmq_arguments import POLICIES, QUEUES

RELEASES = ("3.10", "4.0", "4.3")


def recorded(kind: str, release: str) -> tuple[Topology, list[str | None]]:
    recording: dict[str, Any] = golden.read(f"rabbitmq-{kind}-{release}")
    return Topology(profile=find_profile(recording["version"])), recording["answers"]


def answer(topology: Topology, part: Queue | Policy) -> str | None:
    try:
        topology.declare_queue(part) if isinstance(part, Queue) else topology.set_policy(part)
    except BrokerError as error:
        return str(error)
    return None


@pytest.mark.parametrize("release", RELEASES)
def test_a_queue_is_refused_as_by_the_broker(release: str) -> None:
    """With the same reply code and text; where the broker fails (541), it is refused as well."""
    topology, answers = recorded("arguments", release)
    different = []
    for queue, expected in zip(QUEUES, answers, strict=True):
        ours = answer(topology, queue)
        if ours is None if expected is not None and expected.startswith("541") else ours != expected:
            different.append((queue, expected, ours))
    assert different == []


@pytest.mark.parametrize("release", RELEASES)
def test_a_policy_is_refused_as_by_the_broker(release: str) -> None:
    """And each reason that is given is one of the broker's."""
    topology, answers = recorded("policies", release)
    different = []
    for policy, expected in zip(POLICIES, answers, strict=True):
        ours = answer(topology, policy)
        _, _, body = (expected or "").partition(" ")
        reason = unescape(json.loads(body)["reason"]) if body else ours or ""  # a 500 has no words
        given = (ours or "").removeprefix("400 BAD_REQUEST - Validation failed: ")
        words = given.partition(" is invalid:")[0].partition(" unrecognised;")[0]
        if (ours is None) != (expected is None) or words not in reason:
            different.append((policy, expected, ours))
    assert different == []


@pytest.mark.parametrize(
    ("release", "first"),
    [("3.13.3", "x-max-age"), *((each, "x-delivery-limit") for each in ("3.13.4", "4.0.5", "4.3.6"))],
)
def test_the_first_argument_of_another_type_is_by_name_since_3_13_4(release: str, first: str) -> None:
    """Where a queue names no type: the broker adds it, and sorts the arguments by that."""
    topology = Topology(profile=find_profile(release))
    refused = answer(topology, Queue("q", arguments={"x-max-age": "1h", "x-delivery-limit": 5}))
    assert (
        refused
        == f"406 PRECONDITION_FAILED - invalid arg '{first}' for queue 'q' in vhost '/' of queue type rabbit_classic_queue"
    )


SEGMENT = 3_000_000_001
SEGMENTS: dict[str, Any] = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": SEGMENT}


@pytest.mark.parametrize(
    ("source", "arguments", "releases"),
    [
        ("rabbit_amqqueue:get_queue_type", {"x-queue-type": "undefined"},
         "+3.10.0 +3.12.14 +3.13.3 -3.13.4 -4.0.0 -4.3.0 -4.4"),
        ("rabbit_amqqueue:get_queue_type", {"x-queue-type": ""},
         "+3.10.0 +3.13.7 +4.2.7 -4.2.8 -4.2.9 +4.3.0 +4.3.1 -4.3.2 -4.4"),
        ("rabbit_stream_queue:check_max_segment_size_bytes", SEGMENTS, "-3.10.5 +3.10.6 +4.4"),
        ("rabbit_stream_queue", {**SEGMENTS, "x-stream-max-segment-size-bytes": SEGMENT - 1}, "-3.10.0 -3.10.6 -4.4"),
    ],
)  # fmt: skip
def test_a_queue_is_judged_by_the_patch_release(source: str, arguments: dict[str, Any], releases: str) -> None:
    """As the source is at the tags: ``+3.10.6`` for a release that refuses it, ``-`` for one that takes it."""
    for each in releases.split():
        refused = answer(Topology(profile=find_profile(each[1:])), Queue("q", arguments=arguments))
        assert (refused is not None) == (each[0] == "+"), (source, each, refused)


@pytest.mark.parametrize(("size", "releases"), [(SEGMENT, "-3.10.5 +3.10.6 +4.4"), (SEGMENT - 1, "-3.10.0 -4.4")])
def test_a_segment_size_by_policy_is_judged_by_the_patch_release(size: int, releases: str) -> None:
    """``rabbit_policies:validate_policy0`` at the tags."""
    for each in releases.split():
        wrong = find_wrong_settings({"stream-max-segment-size-bytes": size}, find_profile(each[1:]))
        assert wrong == [f"{size} is not a valid segment size"] * (each[0] == "+"), each


def test_router_and_topology_refuse_the_same() -> None:
    """And nothing has changed after that."""
    router = Router(Topology())
    with pytest.raises(PreconditionFailed, match="value_negative,-5"):
        router.declare_queue(Queue("q", arguments={"x-message-ttl": -5}))
    with pytest.raises(BadRequest, match="-5 is not a valid maximum length"):
        router.set_policy(Policy("p", "", {"max-length": -5}))
    assert router.topology == Topology()


def test_settings_that_a_plugin_may_know_are_accepted() -> None:
    """Types and settings of plugins, since whether these are enabled is not known."""
    Topology().declare_queue(Queue("q", arguments={"x-queue-type": "MQTT-QoS-0"}))
    Topology().set_policy(Policy("p", "", {"federation-upstream-set": "all"}))


@pytest.mark.parametrize("text", ["\ud800", "1\udcff", "1D\ud800"])
def test_a_text_that_is_not_unicode_is_a_wrong_setting_and_no_crash(text: str) -> None:
    with pytest.raises(BadRequest, match="is not a valid max age"):
        Topology().set_policy(Policy("p", "", {"max-age": text}))
