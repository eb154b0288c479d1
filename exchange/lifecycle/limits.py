"""What limits the life of a message in a queue: the settings in force, as numbers and names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

from exchange.entities.entities import Queue
from exchange.entities.in_force import NO_DEAD_LETTERS, DeadLetters, Overflow, Policies, SettingsInForce
from exchange.entities.odd_numbers import explain_odd_number
from exchange.entities.profile import Profile
from exchange.entities.queue_arguments import explain_crash, has_odd_timeout
from exchange.text.display import write_milliseconds

NOT_MODELLED: Final[Mapping[str, str]] = {
    name: what
    for names, what in (
        ("consumer-timeout", "when the channel of a slow consumer is closed, up to 4.2"),
        ("consumer-disconnected-timeout", "when a queue takes messages back from a consumer on a lost node"),
        ("queue-mode queue-version", "storage of classic queues"),
        ("queue-leader-locator queue-master-locator member-placement-tag", "the node of a queue"),
        ("quorum-initial-group-size quorum-target-group-size target-group-size initial-cluster-size",
         "the number of replicas"),
        ("ha-mode ha-params ha-sync-mode ha-sync-batch-size ha-promote-on-shutdown ha-promote-on-failure", "mirrors"),
        ("max-in-memory-length max-in-memory-bytes", "memory of quorum queues; read by no release since 3.10"),
        ("max-age stream-max-segment-size-bytes stream-filter-size-bytes stream-initial-offset",
         "retention, files and offsets of streams"),
        ("federation-upstream federation-upstream-set federation-upstream-pattern shards-per-node routing-key",
         "plugins"),
    )
    for name in names.split()
}  # fmt: skip
"""Setting that the model of a message's life leaves out, as policies name it -> what it does."""
NOT_MODELLED_OF_STREAMS: Final = {"max-length-bytes": NOT_MODELLED["max-age"]}
"""Setting of streams that the model leaves out -> what it does; of other queues it is modelled."""


def explain_not_modelled(name: str, queue_type: str, profile: Profile) -> str | None:
    """Return what a setting that the model leaves out does; None for one that it has."""
    if name == "consumer-timeout" and profile.lives.consumer_timeout is not None:
        return None
    return NOT_MODELLED.get(name) or (NOT_MODELLED_OF_STREAMS.get(name) if queue_type == "stream" else None)


RetryKind = Literal["all", "failed", "returned"]
RETRIES: Final[tuple[RetryKind, ...]] = get_args(RetryKind)


class RetryDelay(NamedTuple):
    """How long a message waits that comes back to a quorum queue."""

    kind: RetryKind
    """Which messages wait: those of failed deliveries, those that are only given back, or both."""
    least: int
    """Milliseconds for each failed delivery, and for a message that has none."""
    most: int
    """Maximum number of milliseconds."""

    def applies_to(self, *, failed: bool) -> bool:
        """Return whether a message waits whose delivery failed, or was only given back."""
        return self.kind in ("all", "failed" if failed else "returned")

    def milliseconds(self, failures: int | None) -> int:
        """Return how long a message waits after a number of failed deliveries."""
        return min(self.least * max(failures or 1, 1), self.most)


RETURNS: Final[Mapping[RetryKind, str]] = {
    "all": "given back", "failed": "given back as failed", "returned": "given back, not as failed",
}  # fmt: skip
"""Which messages wait -> the same in words."""


def describe_retry(least: int, most: int | None) -> str:
    """Return for how long a message waits at first, and at most if that is longer."""
    later = "" if most is None else f", later up to {write_milliseconds(most)}"
    return f"waits {write_milliseconds(least)}{later}, then delivered again"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a queue and where its dead letters go; None means no limit.

    ``ttl`` and ``expires`` are milliseconds, ``max_length`` and ``max_bytes`` count messages that are ready.
    """

    type: str
    max_length: int | None = None
    max_bytes: int | None = None
    ttl: int | None = None
    expires: int | None = None
    overflow: Overflow = "drop-head"
    delivery_limit: int | None = None
    max_priority: int = 0
    """Highest priority of a classic queue; 0 for a queue without priorities."""
    single_active_consumer: bool = False
    dead_letters: DeadLetters = NO_DEAD_LETTERS
    retry_delay: RetryDelay | None = None
    consumer_timeout: int | None = None
    """Milliseconds after which the queue takes back what a consumer has not settled."""
    crash: str = ""
    """Why each channel crashes that consumes or gets from the queue; "" if none does."""
    heeds_policies: bool = True
    """Whether policies that are set later come into force in the queue."""

    @property
    def dead_letter_address(self) -> tuple[str, str | None] | None:
        """Dead letter exchange and its routing key, None to keep a message's keys; None for no dead letters."""
        exchange, key, _ = self.dead_letters
        return None if exchange is None else (exchange, key)

    @property
    def has_length(self) -> bool:
        """Whether the number or the bytes of its messages are limited."""
        return self.max_length is not None or self.max_bytes is not None

    @property
    def drops_head(self) -> bool:
        """Whether the queue drops its oldest messages when it is full."""
        return self.has_length and self.overflow == "drop-head"

    @property
    def loses_dead_letters(self) -> bool:
        """Whether the queue, when it is full, refuses dead letters that need not arrive. Quorum queues take them."""
        return self.type != "quorum" and self.overflow == "reject-publish" and self.has_length


def find_limits(queue: Queue, policies: Policies) -> Limits:
    """Return the limits of a queue under these policies.

    Where RabbitMQ does not define which of several policies is in force, one of them is taken.
    """
    return build_limits(policies.possible_settings(queue)[0], queue, policies.profile)


def build_limits(settings: SettingsInForce, queue: Queue, profile: Profile) -> Limits:
    """Return the limits of a queue with these settings."""
    queue_type = queue.type
    is_quorum, is_stream = queue_type == "quorum", queue_type == "stream"
    return Limits(
        queue_type,
        None if is_stream else settings.integer("max-length"),
        None if is_stream else settings.integer("max-length-bytes"),
        None if is_stream else settings.integer("message-ttl"),
        None if is_stream else settings.integer("expires"),
        settings.overflow,
        find_delivery_limit(settings.get("delivery-limit"), profile) if is_quorum else None,
        0 if is_quorum or is_stream else _find_max_priority(settings.integer("max-priority"), profile),
        settings.get("single-active-consumer") is True,
        settings.dead_letters,
        find_retry_delay(settings) if is_quorum else None,
        _find_consumer_timeout(settings, profile) if is_quorum else None,
        find_crash(settings, queue, profile),
        not ignores_policies(settings, queue, profile),
    )


def ignores_policies(settings: SettingsInForce, queue: Queue, profile: Profile) -> bool:
    """Return whether a queue with these settings cannot be given others by policies (since 4.3)."""
    name = "consumer-disconnected-timeout"
    return name in settings.values and explain_odd_number(name, settings.get(name), queue.type, profile) is not None


def find_crash(settings: SettingsInForce, queue: Queue, profile: Profile) -> str:
    """Return why each channel crashes that consumes or gets from a queue with these settings; "" if none does."""
    if not has_odd_timeout(queue):
        return ""
    return explain_crash(queue, settings.policy_definition.get("consumer-timeout"), profile)


def find_retry_delay(settings: SettingsInForce) -> RetryDelay | None:
    """Return how long messages wait that come back to a quorum queue with these settings; None for no time."""
    kind, least = settings.text("delayed-retry-type"), settings.integer("delayed-retry-min")
    if kind not in RETRIES or least is None:
        return None
    most = settings.integer("delayed-retry-max")
    return RetryDelay(kind, least, least if most is None else most)


def _find_consumer_timeout(settings: SettingsInForce, profile: Profile) -> int | None:
    default, given = profile.lives.consumer_timeout, settings.integer("consumer-timeout")
    return default if default is None or given is None else given


def find_delivery_limit(given: Any, profile: Profile) -> int | None:
    """Return the delivery limit of a quorum queue whose settings give this one, or none; None for no limit."""
    release, odd = profile.lives, explain_odd_number("delivery-limit", given, "quorum", profile)
    limit: int | None = given if odd is None else odd.counts_as
    if limit is None:
        return release.delivery_limit
    if limit >= 0:
        return limit
    return None if release.negative_limit_is_none else 0


def _find_max_priority(given: int | None, profile: Profile) -> int:
    """Return the highest priority; a topology from a file may have one that a broker refuses."""
    return 0 if given is None else min(max(given, profile.lives.least_max_priority), 255)
