"""Questions to a group's coordinator while there is none yet: librdkafka's clients must not crash the process."""

from __future__ import annotations

import subprocess
import sys

from tests.support.kafka.broker import brokers
from tests.support.kafka.topics import topics_at
from tests.support.waiting import find_limit

ASKING = """
import sys
from threading import Thread
from confluent_kafka import KafkaException
from bridge.endpoints.kafka.consumer.fetching import explain_idle
from bridge.endpoints.kafka.consumer.topic_ids import Asker

url, topic = sys.argv[1:]

def ask(number):
    settings = {"bootstrap.servers": url, "group.id": f"group-{number}"}
    if number % 3 == 0:
        print(explain_idle(settings, topic, 0))
        return
    asker = Asker(settings)
    while True:
        try:
            ids = asker.ask([topic], [(topic, 0)])
        except (KafkaException, TimeoutError):
            continue
        asker.end()
        print(sorted(ids.now))
        return

threads = [Thread(target=ask, args=(number,)) for number in range(24)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_groups_can_be_asked_about_while_their_first_coordinator_starts() -> None:
    """It answers that it is no coordinator, as brokers do when a group moves between them during restarts."""
    with brokers() as broker, topics_at(broker.url) as topics:
        topic = topics.make()
        done = subprocess.run(
            [sys.executable, "-c", ASKING, broker.url, topic],
            capture_output=True,
            text=True,
            timeout=find_limit(),
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count(str([topic])) == 16
    assert done.stdout.count("librdkafka has not begun to fetch") == 8
