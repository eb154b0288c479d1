"""Where a group goes on: its offsets, beside what its partitions have now and the topics' ids that it committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaException

from bridge.endpoint import Finding
from bridge.endpoints.kafka.cluster.errors import describe_error
from bridge.endpoints.kafka.consumer.topic_ids import EARLIEST_OFFSET, Asker, fetch_bounds
from bridge.endpoints.positions import MAX_LISTED, KeptPosition, Reset, judge_positions
from exchange.text.display import list_some

RESETS: Final[Mapping[str, Reset]] = {
    **dict.fromkeys(["smallest", "earliest", "beginning"], "start"),
    **dict.fromkeys(["largest", "latest", "end"], "end"),
    "error": "refuse",
}
"""librdkafka's values of ``auto.offset.reset``."""


def check_positions(settings: Mapping[str, Any], partitions: Sequence[tuple[str, int]]) -> list[Finding]:
    """Return where a group goes on in partitions; wait for answers."""
    group, asker = f"group {settings['group.id']!r}", Asker(settings)
    value = str(settings.get("auto.offset.reset", "earliest")).lower()
    try:
        ids = asker.ask({topic for topic, _ in partitions}, partitions, partitions)
        starts = fetch_bounds(asker.connect()[0], partitions, EARLIEST_OFFSET)
    except (KafkaException, TimeoutError) as error:
        reason = describe_error(error.args[0]) if isinstance(error, KafkaException) else "no answer"
        return [Finding("not checked", f"{group}: where it goes on: {reason}", "group")]
    finally:
        asker.end()
    reset = RESETS.get(value, "start")
    found, shortened = [], []
    for topic, partition in partitions:
        at = topic, partition
        if at in starts and at in ids.ends:
            committed, now = ids.committed.get(at, ""), ids.now.get(topic, "")
            is_other = bool(committed and now and committed != now)
            log, offset, end = f"{topic}-{partition}", ids.offsets.get(at), ids.ends[at]
            if at in ids.epochs and committed and committed == now and ids.offsets[at] > end and reset != "refuse":
                shortened.append(log)
                offset = end
            found.append(KeptPosition(log, offset, starts[at], end, is_other))
    way_out = f"auto.offset.reset is {value!r}: reset the group's offsets (kafka-consumer-groups.sh --reset-offsets)"
    text = f"{group}: {list_some(shortened, MAX_LISTED)}: ends before what was read: read on where it differs"
    return [
        *([Finding("warning", text, "group")] if shortened else []),
        *judge_positions(found, group, "group", reset, way_out),
    ]
