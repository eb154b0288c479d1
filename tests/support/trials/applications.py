"""Trials of facts about what applications do, and about the management API."""

from __future__ import annotations

import time
import urllib.error
import urllib.request

import pika
import pika.exceptions

from tests.support.trials.lab import Lab, code_of, lab_of, publish, take
from tests.support.waiting import find_limit


def unknown_types_close_the_channel(lab: Lab) -> bool:
    """HSU101."""
    channel = lab.channel()
    code = code_of(lambda: channel.exchange_declare(lab.name(), "x-nothing"))
    assert code in (406, 503)
    return code == 406


def refuses_17_mebibytes(lab: Lab) -> bool:
    """HSU102."""
    channel = lab.channel()
    queue = lab.queue(channel)
    code = code_of(lambda: channel.basic_publish("", queue, bytes(17 << 20)))
    assert code in (None, 406)
    return code is not None


def refuses_small_frames(lab: Lab) -> bool:
    """HSU103."""
    try:
        lab.connect(frame_max=4096)
    except pika.exceptions.AMQPConnectionError:
        return True
    return False


def prefetch_is_of_each_consumer(lab: Lab) -> bool:
    """HSU104."""
    channel = lab.channel()
    queue = lab.queue(channel)
    publish(channel, queue, *"abcdef")
    delivered: list[object] = []
    channel.basic_qos(prefetch_count=2, global_qos=True)
    for _ in range(2):
        channel.basic_consume(queue, lambda *delivery: delivered.append(delivery))
    channel.connection.process_data_events(0.5)
    assert len(delivered) in (2, 4)
    return len(delivered) == 4


def replies_count_as_routed(lab: Lab) -> bool:
    """HSU113."""
    asks, answers = lab.channel(), lab.channel()
    queue = lab.queue(asks)
    asks.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True)
    publish(asks, queue, "question", reply_to="amq.rabbitmq.reply-to")
    address = take(answers, queue)[1].reply_to
    asks.connection.close()
    time.sleep(0.1)
    try:
        answers.basic_publish("", address, b"answer", mandatory=True)
    except pika.exceptions.UnroutableError:
        return False
    return True


def asks_permission_for_passive_declares(lab: Lab) -> bool:
    """HSU115."""
    queue = lab.queue(lab.channel())
    user = lab.vhost
    lab.manage("PUT", f"users/{user}", {"password": "p", "tags": ""})
    lab.manage("PUT", f"permissions/{{vhost}}/{user}", {"configure": "", "write": "", "read": "^another$"})
    try:
        channel = lab.connect(credentials=pika.PlainCredentials(user, "p")).channel()
        code = code_of(lambda: channel.queue_declare(queue, passive=True))
        assert code in (None, 403)
        return code is not None
    finally:
        lab.close()
        lab.manage("DELETE", f"users/{user}")


def virtual_hosts_have_a_default_type(lab: Lab) -> bool:
    """HSU116. The first releases that have it give it another name."""
    with lab_of(lab.server, default_queue_type="quorum", defaultqueuetype="quorum") as typed:
        queue = typed.queue(typed.channel())
        return bool(typed.manage("GET", f"queues/{{vhost}}/{queue}")["type"] == "quorum")


def queues_show_their_type(lab: Lab) -> bool:
    """HSU117."""
    channel = lab.channel()
    queue = lab.queue(channel)
    return "x-queue-type" in lab.manage("GET", f"queues/{{vhost}}/{queue}")["arguments"]


def serves_no_rabbitmqadmin(lab: Lab) -> bool:
    """HSU211."""
    assert lab.server.management_url is not None
    try:
        urllib.request.urlopen(f"{lab.server.management_url}/cli/rabbitmqadmin", timeout=find_limit()).close()  # noqa: S310
    except urllib.error.HTTPError as error:
        return error.code == 404
    return False


def has_no_auth_address(lab: Lab) -> bool:
    """HSU218."""
    return lab.status("auth") == 404


def tests_no_aliveness(lab: Lab) -> bool:
    """HSU212."""
    lab.status("aliveness-test/{vhost}")
    return "aliveness-test" not in {queue["name"] for queue in lab.manage("GET", "queues/{vhost}")}
