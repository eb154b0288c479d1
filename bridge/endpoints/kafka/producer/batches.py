"""Whether messages go to the brokers in batches, or each alone: a broker's verdict on a batch is none on its messages.

A broker refuses a batch as a whole for one of its messages, or for the size of the batch. So messages that were refused
in a batch are suspects, and are written again one by one, with all that follows them: only what is refused alone is at
fault. The producer of batches must write nothing behind a batch that was refused, or suspects would be overtaken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError

from bridge.endpoint import Outgoing
from bridge.endpoints.kafka.cluster.errors import LOG, describe_error

BATCH_BYTES: Final = 1_000_000
"""librdkafka's default of ``batch.size``, in bytes."""

SMALLEST: Final = 1_000
"""Size below which batches are not made smaller, in bytes."""

CALM: Final = 2.0
"""Seconds without a refusal after which messages go in batches again."""

ONE_BY_ONE: Final[Mapping[str, Any]] = {"batch.num.messages": 1, "linger.ms": 0}
"""Settings of a producer whose batches have one message each."""

SIZES: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
"""Refusals that a smaller batch may escape."""


class Batching:
    """How the messages of one connection go: in batches of up to ``batch_bytes``, or each alone."""

    def __init__(self, batch_bytes: int = BATCH_BYTES) -> None:
        self.batch_bytes = batch_bytes
        self.alone = False
        self.suspects: set[int] = set()
        """Numbers of messages that were refused in a batch and have no answer of their own yet."""
        self._latest: KafkaError | None = None
        """Latest refusal of a batch."""
        self._too_large = [0, 0]
        """Number and bytes of the suspects whose batch was too large."""
        self._calm_at = 0.0

    def suspect(self, outgoing: Outgoing, error: KafkaError) -> None:
        """Take note that a message was refused in a batch."""
        self.suspects.add(outgoing.number)
        self._latest = error
        if error.code() in SIZES:
            self._too_large[0] += 1
            self._too_large[1] += len(outgoing.message.body)

    def clear(self, outgoing: Outgoing) -> None:
        """Take note that a message that went alone has its answer."""
        self.suspects.discard(outgoing.number)

    def part(self, now: float) -> None:
        """Have messages go alone from now on; at least for `CALM` seconds, and until no message is suspected."""
        LOG.info(
            "%d messages are tried one by one, as a batch was refused: %s", len(self.suspects),
            "" if self._latest is None else describe_error(self._latest),
        )  # fmt: skip
        self.alone = True
        self._calm_at = now + CALM
        count, size = self._too_large
        self._too_large = [0, 0]
        if count > 1:  # so the limit is below this
            self.batch_bytes = max(min(self.batch_bytes, size) // 2, SMALLEST)

    def note_refusal(self, now: float) -> None:
        """Take note that a message was refused alone: more may follow."""
        self._calm_at = now + CALM

    def may_join(self, now: float) -> bool:
        """Return whether messages that go alone may go in batches again."""
        return self.alone and not self.suspects and now >= self._calm_at

    def join(self) -> Mapping[str, Any]:
        """Have messages go in batches again, and return the settings of their producer."""
        self.alone = False
        return {"batch.size": self.batch_bytes}
