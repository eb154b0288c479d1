"""What a share group of Kafka (KIP-932) is like: its settings, which brokers have, and what they cost a bridge.

A record that a member gets is locked for it. Each time that a lock ends without an acknowledgement, because the member
is late or has ended, the record comes again, until it has come as often as the group's limit says: then brokers drop
it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from bridge.endpoint import Finding
from bridge.endpoints.kafka.cluster.asking import ANSWER, SHARE_GROUPS, find_missing_request
from bridge.endpoints.kafka.cluster.errors import describe_error
from exchange.text.display import list_some

LOCK_SECONDS: Final = 30.0
"""Seconds that a record is locked for the member that gets it, by brokers' default."""

SAFE_DELIVERIES: Final = 10
"""Deliveries of a record that leave time to mend what keeps it from being settled; brokers allow no more by default."""

MAX_LISTED_QUEUES: Final = 3
"""Maximum number of queues that a finding names."""

LIMIT: Final = "share.delivery.count.limit"


class ShareGroup(NamedTuple):
    """A share group as brokers have it."""

    name: str
    lock_seconds: float = LOCK_SECONDS
    limit: int | None = None
    """Number of deliveries after which a record is dropped; None: this user may not see it."""
    missing: tuple[tuple[str, str], ...] = ()
    """Settings that it should have, as ``name=value``, and what it costs that it has others."""

    @property
    def warnings(self) -> Sequence[str]:
        """What its settings cost, each with the command that changes it."""
        command = f"kafka-configs.sh --alter --entity-type groups --entity-name {self.name} --add-config"
        return [f"group {self.name!r}: {cost}; {command} {setting}" for setting, cost in self.missing]


def fetch_share_group(admin: AdminClient, name: str) -> ShareGroup:
    """Return a group, of which only the name is known if this user may not see its settings; wait for the answer."""
    [answer] = admin.describe_configs(
        [ConfigResource(ConfigResource.Type.GROUP, name)], request_timeout=ANSWER
    ).values()
    try:
        found = {key: str(entry.value) for key, entry in answer.result(ANSWER + 1).items()}
        limit = int(found[LIMIT])
        lock = int(found["share.record.lock.duration.ms"]) / 1_000
    except (KafkaException, KeyError, ValueError, TimeoutError):
        return ShareGroup(name)
    return ShareGroup(name, lock, limit, tuple(_find_missing(found, limit)))


def _find_missing(found: Mapping[str, str], limit: int) -> Iterator[tuple[str, str]]:
    if found.get("share.auto.offset.reset") == "latest":
        yield (
            "share.auto.offset.reset=earliest",
            "it begins at the end: records that a partition has before the group first reads it are never read",
        )
    if found.get("share.isolation.level") == "read_uncommitted":
        yield "share.isolation.level=read_committed", "it is given the records of aborted transactions, too"
    if limit < SAFE_DELIVERIES:
        yield (
            f"{LIMIT}={SAFE_DELIVERIES}",
            f"brokers drop a record that came {limit} times and was not settled, as when processes are killed",
        )


def check_share_group(
    admin: AdminClient,
    settings: Mapping[str, Any],
    ordered: Collection[str],
    *,
    one_at_a_time: bool,
    give_up_after: float | None,
) -> Iterator[Finding]:
    """Yield what `hashstar bridge check` finds about a group; ``ordered`` are the queues that are partitioned.

    The group is not joined. No coordinator is asked, as `bridge.endpoints.kafka.cluster.asking` says why.
    """
    name = str(settings["group.id"])
    if problem := find_missing_request(settings, SHARE_GROUPS):
        yield Finding("error", problem, "group_type")
        return
    try:
        listed = admin.list_consumer_groups(request_timeout=ANSWER).result(ANSWER + 1)
    except (KafkaException, TimeoutError) as error:
        reason = describe_error(error.args[0]) if isinstance(error, KafkaException) else "no answer"
        yield Finding("not checked", f"group {name!r}: whether it is a consumer group: {reason}", "group")
    else:
        if any(each.group_id == name for each in listed.valid):
            yield Finding("error", describe_other_type(name), "group")
            return
    group = fetch_share_group(admin, name)
    if group.limit is None:
        text = f"group {name!r}: its settings: this user is not shown them; allow DESCRIBE_CONFIGS of the group"
        yield Finding("not checked", text, "group")
    else:
        text = f"group {name!r}: records come at most {group.limit} times, and are locked for {group.lock_seconds:g} s"
        yield Finding("ok", text, "group")
    for warning in group.warnings:
        yield Finding("warning", warning, "group")
    if give_up_after is not None and give_up_after >= group.lock_seconds:
        text = (
            f"give_up_after: after {give_up_after:g} s, when a message becomes a dead letter, its lock of "
            f"{group.lock_seconds:g} s has ended: it comes again, and may become one once more, until brokers drop it; "
            "make it less, or share.record.lock.duration.ms of the group more"
        )
        yield Finding("warning", text, "group_type")
    promises = ["one_at_a_time"] if one_at_a_time else []
    if ordered:
        promises.append(f"the partitions of {list_some(list(map(repr, ordered)), MAX_LISTED_QUEUES)}")
    if promises:
        text = f"{' and '.join(promises)} promise an order per key, and a share group has none"
        yield Finding("warning", f'{text}; write group_type = "consumer" if it matters', "group_type")
    else:
        yield Finding("ok", "a share group: messages of a key may come in any order", "group_type")


def describe_other_type(name: str) -> str:
    """Return the problem of a group that is there, and is no share group."""
    return (
        f"group {name!r} is a consumer group, and none is both: choose another name for group, or delete that one "
        f"(kafka-consumer-groups.sh --delete --group {name})"
    )
