"""Read the state of transactional producers from the topic ``__transaction_state``, as their coordinator keeps it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, TypedDict

from bindings.archive.figures import Timestamp
from bindings.archive.kafka.partition import LoggedRecord
from bindings.archive.kafka.schemas import INT8, INT16, INT32, INT64, NEVER, STRING, Array, Field, ValueSchema
from bindings.archive.reading import Bad, take_sample
from bindings.archive.sums import Unread
from exchange.errors import InputError
from exchange.values.documents import document

TOPIC: Final = "__transaction_state"
KEY: Final = ValueSchema(0, NEVER, (Field("transactional_id", STRING),))
VALUE: Final = ValueSchema(
    1, 1,
    (
        Field("producer_id", INT64), Field("epoch", INT16), Field("timeout", INT32), Field("state", INT8),
        Field("topics", Array((Field("topic", STRING), Field("partitions", Array(INT32))))),
        Field("updated", INT64), Field("started", INT64),
    ),
)  # fmt: skip
"""`TransactionLogValue`."""
STATES: Final = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
)  # fmt: skip
"""Names of states, by number (`TransactionState`)."""


class KafkaTopicPartitionJson(TypedDict):
    """A partition that is assigned to a member, or in a transaction."""

    topic: str | None
    """Null if only the id of the topic is known."""
    topic_id: str | None
    partition: int


def _partitions_json(state: TransactionState) -> list[KafkaTopicPartitionJson]:
    """The partitions in the transaction; empty once it has ended."""  # noqa: D401  it describes a field
    return [{"topic": topic, "topic_id": None, "partition": number} for topic, number in state.partitions]


@document(
    "KafkaTransactionJson",
    "transactional_id, producer_id, epoch, state, timeout_ms = timeout, partitions, started, updated",
    partitions=_partitions_json,
)
class TransactionState(NamedTuple):
    """The state of a transactional producer and of its newest transaction."""

    transactional_id: str
    producer_id: int
    epoch: int
    timeout: int
    """Milliseconds."""
    state: str
    """`Empty`, `Ongoing`, `PrepareCommit` ...: one of ``STATES``."""
    partitions: tuple[tuple[str, int], ...]
    """Topic and number of the partitions in the transaction; empty once it has ended."""
    updated: Timestamp
    started: Timestamp | None
    """None if there was no transaction."""


def read_transaction_states(
    partitions: Iterable[tuple[str, Iterable[LoggedRecord]]], problems: Unread
) -> list[TransactionState]:
    """Return the states of producers, sorted by transactional id; ``partitions`` are folders with their records.

    Records that the coordinator has not written are added to the problems.
    """
    found: dict[str, TransactionState] = {}
    for source, records in partitions:
        for record in records:
            try:
                name = KEY.read_versioned(record.key or b"")["transactional_id"] or ""
                if record.value is None:
                    found.pop(name, None)
                else:
                    found[name] = _read_state(name, record.value)
            except InputError as error:
                reason = f"a record of {TOPIC} that cannot be read: {error}"
                problems.add_bad(Bad(source, record.offset, reason, take_sample(record.key or b"")))
    return [found[name] for name in sorted(found)]


def _read_state(name: str, data: bytes) -> TransactionState:
    value = VALUE.read_versioned(data)
    if not 0 <= value["state"] < len(STATES):
        raise InputError(f"its state {value['state']} is not known")
    partitions = [(each["topic"] or "", number) for each in value["topics"] for number in each["partitions"]]
    return TransactionState(
        name, value["producer_id"], value["epoch"], value["timeout"], STATES[value["state"]],
        tuple(sorted(partitions)), value["updated"], value["started"] if value["started"] >= 0 else None,
    )  # fmt: skip
