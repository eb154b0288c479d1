"""Trials of facts about classic queues and about dead letters."""

from __future__ import annotations

import time
from typing import Any

from tests.support.trials.lab import Lab, drain, headers, publish, take


def phase_of(lab: Lab, feature: str) -> str | None:
    """Return the phase of a deprecated feature; None if the broker does not list it."""
    if lab.status("deprecated-features") == 404:
        return None
    phases = {each["name"]: each["deprecation_phase"] for each in lab.manage("GET", "deprecated-features")}
    return phases.get(feature)


def transient_queues_are_deprecated(lab: Lab) -> bool | None:
    """HSU017; Debian's package of 4.3 permits what 4.3 denies."""
    permitted = phase_of(lab, "transient_nonexcl_queues") == "permitted_by_default"
    return None if permitted and lab.server.version_info >= (4, 3) else permitted


def master_locators_are_deprecated(lab: Lab) -> bool:
    """HSU019."""
    return phase_of(lab, "queue_master_locator") == "permitted_by_default"


def next_active_consumer_gets_what_waits(lab: Lab) -> bool:
    """HSU020."""
    channel = lab.channel()
    queue = lab.queue(channel, single_active_consumer=True)
    channel.basic_qos(prefetch_count=1)
    got: list[Any] = []
    tags = [channel.basic_consume(queue, lambda *m, to=n: got.append((to, m[3]))) for n in ("first", "next")]
    publish(channel, queue, "1", "2")
    channel.connection.process_data_events(0.3)
    channel.basic_cancel(tags[0])
    channel.connection.process_data_events(0.5)
    assert got[0] == ("first", b"1")
    return got[1:] == [("next", b"2")]


def priority_0_is_two(lab: Lab) -> bool:
    """HSU064."""
    channel = lab.channel()
    queue = lab.queue(channel, max_priority=0)
    for priority in (0, 1):
        publish(channel, queue, str(priority), priority=priority)
    return drain(channel, queue, 2) == ["1", "0"]


def ignores_published_deaths(lab: Lab) -> bool:
    """HSU014."""
    channel = lab.channel()
    dead = lab.queue(channel)
    queue = lab.queue(channel, message_ttl=1, dead_letter_exchange="", dead_letter_routing_key=dead)
    publish(channel, queue, "m")
    first = take(channel, dead)
    publish(channel, queue, "m", headers=first[1].headers)
    [death] = headers(take(channel, dead))["x-death"]
    assert death["count"] in (1, 2)
    return bool(death["count"] == 1)


def names_last_death(lab: Lab) -> bool:
    """HSU025."""
    channel = lab.channel()
    dead = lab.queue(channel)
    queue = lab.queue(channel, message_ttl=1, dead_letter_exchange="", dead_letter_routing_key=dead)
    publish(channel, queue, "m")
    return headers(take(channel, dead)).get("x-last-death-reason") == "expired"


def ends_circles_without_rejection(lab: Lab) -> bool:
    """HSU026: two queues let messages expire into one fanout exchange; the message was rejected before."""
    channel = lab.channel()
    fanout = lab.exchange(channel, "fanout")
    for _ in range(2):
        queue = lab.queue(channel, message_ttl=20, dead_letter_exchange=fanout)
        channel.queue_bind(queue, fanout)
    first = lab.queue(channel, dead_letter_exchange=fanout)
    publish(channel, first, "m")
    channel.basic_reject(take(channel, first)[0].delivery_tag, requeue=False)
    time.sleep(0.8)
    message = take(channel, queue, 0.3)
    return message is None


def dead_letters_reach_streams(lab: Lab) -> bool:
    """HSU044."""
    channel = lab.channel()
    stream = lab.queue(channel, queue_type="stream")
    queue = lab.queue(channel, message_ttl=1, dead_letter_exchange="", dead_letter_routing_key=stream)
    publish(channel, queue, "m")
    time.sleep(0.3)
    channel.basic_qos(prefetch_count=10)
    got: list[Any] = []
    channel.basic_consume(stream, lambda *m: got.append(m), arguments={"x-stream-offset": "first"})
    channel.connection.process_data_events(1.0)
    return len(got) == 1
