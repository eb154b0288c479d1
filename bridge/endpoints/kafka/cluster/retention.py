"""How long topics keep their records, read or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from bridge.endpoint import Removal
from bridge.endpoints.kafka.cluster.asking import ASKING, make_admin
from bridge.endpoints.kafka.cluster.errors import Reasons
from exchange.text.display import write_milliseconds

__all__ = ["ANSWER", "fetch_removals", "look_up_removals"]

ASKED: Final = 200
"""Maximum number of topics whose configuration is asked for."""
ANSWER: Final = 4.0
"""Seconds that brokers may take to answer a question."""


def fetch_removals(admin: AdminClient, topics: Sequence[str], hidden: list[str]) -> Iterator[Removal]:
    """Yield what deletes records of these topics; ``hidden`` gets those whose settings this user is not shown."""
    names = [*dict.fromkeys(topics)]  # a name that is asked for twice spoils librdkafka's whole answer
    hidden += names[ASKED:]
    if not names:  # librdkafka takes no empty list
        return
    asked = admin.describe_configs(
        [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names[:ASKED]], request_timeout=ANSWER
    )
    for resource, answer in asked.items():
        try:
            configured = answer.result(2 * ANSWER)
            policy, milliseconds = str(configured["cleanup.policy"].value), int(configured["retention.ms"].value)
            size = int(configured["retention.bytes"].value)
        except (KafkaException, KeyError, TypeError, ValueError):
            hidden.append(resource.name)
            continue
        what = f"topic {resource.name!r} deletes records, read or not,"
        if "delete" in policy and milliseconds >= 0:
            yield Removal(f"{what} after {write_milliseconds(milliseconds)} (retention.ms)", milliseconds / 1_000)
        if "delete" in policy and size >= 0:
            yield Removal(f"{what} beyond {size:,} bytes of a partition (retention.bytes)")


def look_up_removals(settings: Mapping[str, Any], topics: Sequence[str]) -> Sequence[Removal]:
    """Return what `fetch_removals` yields, by a client of its own; nothing if brokers do not answer."""
    own = {name: value for name, value in settings.items() if name != "statistics.interval.ms"}
    try:
        return [*fetch_removals(make_admin({**own, **ASKING}, Reasons()), topics, [])]
    except KafkaException:
        return ()
