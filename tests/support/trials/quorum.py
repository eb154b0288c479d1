"""Trials of facts about quorum queues."""

from __future__ import annotations

import time

from tests.support.trials.lab import Lab, code_of, drain, give_back, headers, publish, take
from tests.support.waiting import wait_until

RETURNS = 31
"""How often a message is given back to see whether a limit of 20 holds."""


def drops_after_20(lab: Lab) -> bool:
    """HSU007."""
    channel = lab.channel()
    queue = lab.queue(channel, queue_type="quorum")
    publish(channel, queue, "again")
    times = give_back(channel, queue, RETURNS, channel.basic_reject)
    assert times in (21, RETURNS)
    return times == 21


def dead_letters_after_20(lab: Lab) -> bool:
    """HSU008."""
    channel = lab.channel()
    dead = lab.queue(channel)
    queue = lab.queue(channel, queue_type="quorum", dead_letter_exchange="", dead_letter_routing_key=dead)
    publish(channel, queue, "again")
    give_back(channel, queue, RETURNS, channel.basic_reject)
    return bool(drain(channel, dead, 1))


def nack_is_no_failure(lab: Lab) -> bool:
    """HSU016."""
    channel = lab.channel()
    queue = lab.queue(channel, queue_type="quorum", delivery_limit=2)
    publish(channel, queue, "again")
    return give_back(channel, queue, 6, channel.basic_nack) == 6


def goes_back_to_its_place(lab: Lab) -> bool:
    """HSU030."""
    channel = lab.channel()
    queue = lab.queue(channel, queue_type="quorum")
    publish(channel, queue, "first", "second")
    channel.basic_reject(take(channel, queue)[0].delivery_tag)
    return drain(channel, queue, 2) == ["first", "second"]


def goes_back_to_its_place_without_a_limit(lab: Lab) -> bool:
    """HSU052; before 4.0, where a negative limit is one of 0, the message is dropped."""
    channel = lab.channel()
    queue = lab.queue(channel, queue_type="quorum", delivery_limit=-1)
    publish(channel, queue, "first", "second")
    channel.basic_nack(take(channel, queue)[0].delivery_tag)
    return bool(take(channel, queue)[2] == "first")


def has_two_priorities(lab: Lab) -> bool:
    """HSU031."""
    return order_of_priorities(lab) == ["5", "9", "0"]


def has_strict_priorities(lab: Lab) -> bool:
    """HSU032."""
    return order_of_priorities(lab) == ["9", "5", "0"]


def order_of_priorities(lab: Lab) -> list[str]:
    """Return the priorities of messages in the order in which they are delivered."""
    channel = lab.channel()
    queue = lab.queue(channel, queue_type="quorum")
    for priority in (0, 5, 9):
        publish(channel, queue, str(priority), priority=priority)
    return drain(channel, queue, 3)


def active_consumer_yields(lab: Lab) -> bool:
    """HSU033."""
    channel = lab.channel()
    queue = lab.queue(channel, queue_type="quorum", single_active_consumer=True)
    got: list[str] = []
    for name, priority in (("first", 0), ("later", 5)):
        channel.basic_consume(
            queue, lambda *_, to=name: got.append(to), auto_ack=True, arguments={"x-priority": priority}
        )
    channel.connection.process_data_events(0.2)
    publish(channel, queue, "m")
    channel.connection.process_data_events(0.5)
    return got == ["later"]


def return_strands_the_queue(lab: Lab) -> bool:
    """HSU062: both messages are ready after the active consumer gave one back and left its turn."""
    channel, other = lab.channel(), lab.channel()
    queue = lab.queue(channel, queue_type="quorum", single_active_consumer=True)
    publish(channel, queue, "1", "2")
    tags: list[int] = []
    for each, priority in ((channel, 0), (other, 5)):
        each.basic_qos(prefetch_count=1)
        each.basic_consume(queue, lambda *m: tags.append(m[1].delivery_tag), arguments={"x-priority": priority})
        wait_until(lambda: tags or channel.connection.process_data_events(0.1))
    channel.basic_nack(tags[0])

    def is_back() -> bool:
        for each in (channel, other):
            each.connection.process_data_events(0.05)
        return len(tags) > 1 or channel.queue_declare(queue, passive=True).method.message_count == 2

    wait_until(is_back)
    return len(tags) == 1


def next_active_consumer_has_the_highest_prefetch(lab: Lab) -> bool:
    """HSU063."""
    channels = [lab.channel() for _ in range(3)]
    queue = lab.queue(channels[0], queue_type="quorum", single_active_consumer=True)
    tags = []
    for channel, prefetch in zip(channels, (1, 1, 3), strict=True):
        channel.basic_qos(prefetch_count=prefetch)
        tags.append(channel.basic_consume(queue, lambda *_: None))
    channels[0].basic_cancel(tags[0])
    publish(channels[1], queue, "1", "2", "3")
    return bool(channels[1].queue_declare(queue, passive=True).method.message_count == 0)


def counts_properties(lab: Lab) -> bool:
    """HSU034."""
    channel = lab.channel()
    queue = lab.queue(channel, queue_type="quorum", max_length_bytes=500)
    publish(channel, queue, "small", headers={"h": "x" * 1000})
    return drain(channel, queue, 1) == []


def drops_in_order(lab: Lab) -> bool:
    """HSU035."""
    channel = lab.channel()
    dead = lab.queue(channel)
    queue = lab.queue(
        channel, queue_type="quorum", max_length_bytes=800, dead_letter_exchange="", dead_letter_routing_key=dead
    )
    publish(channel, queue, "1" * 200, "2" * 200, "3" * 200)
    publish(channel, queue, "4" * 700)
    return [body[0] for body in drain(channel, dead, 3)] == ["1", "2", "3"]


def first_delivery_has_no_count(lab: Lab) -> bool:
    """HSU036."""
    channel = lab.channel()
    queue = lab.queue(channel, queue_type="quorum")
    publish(channel, queue, "m")
    return "x-delivery-count" not in headers(take(channel, queue))


def counts_are_two(lab: Lab) -> bool:
    """HSU037."""
    channel = lab.channel()
    queue = lab.queue(channel, queue_type="quorum")
    publish(channel, queue, "m")
    channel.basic_nack(take(channel, queue)[0].delivery_tag)
    counts = headers(take(channel, queue))
    return counts.get("x-acquired-count") == 1 and "x-delivery-count" not in counts


def negative_limit_is_none(lab: Lab) -> bool:
    """HSU038."""
    channel = lab.channel()
    queue = lab.queue(channel, queue_type="quorum", delivery_limit=-1)
    publish(channel, queue, "again")
    return give_back(channel, queue, 25, channel.basic_reject) == 25


def cancels_consumers_that_take_long(lab: Lab) -> bool:
    """HSU041."""
    channel = lab.channel()
    queue = lab.queue(channel, queue_type="quorum", consumer_timeout=500)
    cancelled: list[object] = []
    channel.add_on_cancel_callback(cancelled.append)
    channel.basic_consume(queue, lambda *_: None)
    publish(channel, queue, "m")
    end = time.monotonic() + 2
    while time.monotonic() < end and not cancelled:
        channel.connection.process_data_events(0.2)
    return bool(cancelled)


def accepts_global_prefetch(lab: Lab) -> bool:
    """HSU042."""
    channel = lab.channel()
    queue = lab.queue(channel, queue_type="quorum")
    channel.basic_qos(prefetch_count=2, global_qos=True)
    code = code_of(lambda: channel.basic_consume(queue, lambda *_: None))
    assert code in (None, 540)
    return code is None


def dead_letter_has_its_count(lab: Lab) -> bool:
    """HSU029."""
    channel = lab.channel()
    dead = lab.queue(channel, queue_type="quorum")
    queue = lab.queue(channel, queue_type="quorum", dead_letter_exchange="", dead_letter_routing_key=dead)
    publish(channel, queue, "m")
    channel.basic_reject(take(channel, queue)[0].delivery_tag)
    channel.basic_reject(take(channel, queue)[0].delivery_tag, requeue=False)
    return bool(headers(take(channel, dead)).get("x-delivery-count"))


def dead_letter_of_classic_has_its_count(lab: Lab) -> bool:
    """HSU028."""
    channel = lab.channel()
    dead = lab.queue(channel, queue_type="quorum")
    queue = lab.queue(channel, dead_letter_exchange="", dead_letter_routing_key=dead)
    publish(channel, queue, "m")
    channel.basic_reject(take(channel, queue)[0].delivery_tag)
    channel.basic_reject(take(channel, queue)[0].delivery_tag, requeue=False)
    return bool(headers(take(channel, dead)).get("x-delivery-count"))


def retries_count_for_the_limit(lab: Lab) -> bool:
    """HSU043."""
    channel = lab.channel()
    queue, wait = lab.name(), lab.name()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": wait}
    channel.queue_declare(queue, durable=True, arguments={**arguments, "x-queue-type": "quorum", "x-delivery-limit": 3})
    back = {"x-message-ttl": 5, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    channel.queue_declare(wait, durable=True, arguments=back)
    publish(channel, queue, "m")
    for _ in range(5):
        message = take(channel, queue)
        channel.basic_reject(message[0].delivery_tag, requeue=False)
    channel.basic_reject(take(channel, queue)[0].delivery_tag)
    return take(channel, queue, 0.5) is None
