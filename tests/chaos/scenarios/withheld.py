"""A transaction that does not end in a topic that is read: nothing behind its first record is given out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka import Producer

from tests.chaos.places import Queue, Topic, Writable
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.trial import LIMIT, Trial

HALF: Final = 1_000
NAMED_AFTER: Final = 60.0
"""Maximum number of seconds until it is named: transactions of up to 30 s are usual."""
LONG: Final = 600_000
"""Time limit of the transaction, in milliseconds."""


def _open_transaction(trial: Trial) -> Sequence[Writable]:
    source = trial.use(Topic(False, trial.brokers, "source", trial.folder, partitions=1))
    target = trial.use(Queue("classic", trial.brokers, "target", trial.folder))
    daemon = trial.bridge(source, target)
    trial.put(source, HALF)
    trial.wait_for_written(HALF)
    writer = Producer({
        "bootstrap.servers": source.topics.settings["bootstrap.servers"], "transactional.id": source.name,
        "transaction.timeout.ms": LONG, "log_level": 0,
    })  # fmt: skip
    writer.init_transactions(LIMIT)
    writer.begin_transaction()
    writer.produce(source.name, b"never ended", b"key.0")
    writer.flush(LIMIT)
    source.skip(1)  # the record of the transaction, which nobody gets
    began = time.monotonic()
    trial.put(source, HALF)
    trial.wait_until(
        lambda: sum(trial.metric("hashstar_withheld_messages")) == HALF + 1, "all that is withheld is counted", LIMIT
    )
    trial.wait_for_reason(f"{source.name}-0", NAMED_AFTER)
    trial.result.notes.append(f"named after {time.monotonic() - began:.0f} s")
    trial.require(trial.count_written() == HALF, "something behind an open transaction was given out")
    writer.abort_transaction(LIMIT)
    trial.wait_until(lambda: trial.count_written() == 2 * HALF and daemon.is_ready, "it goes on after the abort")
    trial.drain(source)
    trial.bound = 0
    return [target]


SCENARIOS: Final = [Scenario("open-transaction", "in the source, aborted", ["kafka", "rabbitmq"], _open_transaction)]
