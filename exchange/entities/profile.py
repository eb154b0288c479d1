"""What can differ between RabbitMQ releases in how they route, what they accept, and what becomes of messages.

A profile is part of a row of `exchange.entities.releases`: code reads a difference by its name, and never compares
versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from exchange.entities.entities import Destination


@dataclass(frozen=True, slots=True, repr=False)
class SettingRules:
    """What RabbitMQ accepts and reads of the arguments of queues, and of policies."""

    name: str
    """The first release for which they hold, for representations: fingerprints of kept counts have it."""
    classic_arguments: tuple[str, ...]
    """Arguments of classic queues, in the order in which a second declaration is compared with them."""
    quorum_arguments: tuple[str, ...]
    stream_arguments: tuple[str, ...]
    classic_consumer_arguments: frozenset[str]
    """Arguments of consumers of classic queues. What no type of queues has is accepted for all."""
    quorum_consumer_arguments: frozenset[str]
    stream_consumer_arguments: frozenset[str]
    unchecked_arguments: frozenset[str]
    """Arguments that are accepted with any value, and with valid ones only in a later release (4.3.0 and 4.3.1)."""
    crashes_on_ages: bool
    """A maximum age or an offset of a stream that begins with no digit crashes the channel (until 4.2.7 and 4.3.1)."""
    crashes_on_timeouts: bool
    """A channel crashes that consumes or gets from a queue whose x-consumer-timeout is no integer (since 4.3)."""
    has_version_1: bool
    """Classic queues have two versions, and x-queue-mode is checked (up to 4.2)."""
    sorts_arguments: bool
    """The arguments of a queue without x-queue-type are checked sorted by name (since 3.13.4)."""
    texts_for_no_type: frozenset[str]
    """Texts that as x-queue-type are as good as none: ``undefined`` since 3.13.4, "" since 4.2.8 and 4.3.2."""
    max_segment_bytes: int | None
    """Maximum size of a segment of a stream, in bytes (since 3.10.6); None for none."""
    has_plugin_types: bool
    """Plugins can add types of queues (since 4.0)."""
    denies_master_locator: bool
    """queue-master-locator is a deprecated feature that is not permitted by default (since 4.3)."""
    filter_size_refusal: str | None
    """Text that refuses an invalid x-stream-filter-size-bytes (since 3.13); None if none is refused."""
    apply_to: tuple[str, ...]
    """What a policy can apply to."""
    policy_settings: frozenset[str]
    """Settings that a policy can have, but for those of plugins."""
    operator_settings: frozenset[str]
    """Settings that an operator policy can have."""
    mirrors_queues: bool
    """Policies have settings of mirrored queues, ha-*, and checks of their own for their locator (up to 3.13)."""
    stricter_counts: bool
    """Of the expiries of a quorum queue by argument and by policy the lower counts, and of its delivery limits the
    stricter (since 4.0); before that, the policy's expiry and the lower limit."""
    classic_unsupported: frozenset[str]
    """Settings of policies that classic queues do not support: a policy with one does not apply to them."""
    quorum_unsupported: frozenset[str]
    stream_unsupported: frozenset[str]
    classic_ignores: frozenset[str]
    """Settings that classic queues do not read, and do in some other release."""
    quorum_ignores: frozenset[str]
    stream_ignores: frozenset[str]

    def __repr__(self) -> str:
        return repr(self.name)

    def arguments(self, queue_type: str) -> tuple[str, ...]:
        """Return the arguments of a type of queues; of a plugin's type, those of classic queues."""
        by_type = {"quorum": self.quorum_arguments, "stream": self.stream_arguments}
        return by_type.get(queue_type, self.classic_arguments)

    def consumer_arguments(self, queue_type: str) -> frozenset[str] | None:
        """Return the arguments of consumers of a type of queues; None, which is any, of a plugin's type."""
        return {
            "classic": self.classic_consumer_arguments, "quorum": self.quorum_consumer_arguments,
            "stream": self.stream_consumer_arguments,
        }.get(queue_type)  # fmt: skip

    @property
    def all_consumer_arguments(self) -> frozenset[str]:
        """The arguments of consumers of all types of queues."""
        return self.classic_consumer_arguments | self.quorum_consumer_arguments | self.stream_consumer_arguments

    @property
    def all_arguments(self) -> frozenset[str]:
        """The arguments of all types of queues."""
        return frozenset((*self.classic_arguments, *self.quorum_arguments, *self.stream_arguments))

    def unsupported(self, queue_type: str) -> frozenset[str]:
        """Return the settings of policies that a type of queues does not support; none of a plugin's type."""
        return {
            "classic": self.classic_unsupported, "quorum": self.quorum_unsupported, "stream": self.stream_unsupported,
        }.get(queue_type, frozenset())  # fmt: skip

    def ignores(self, queue_type: str) -> frozenset[str]:
        """Return the settings that a type of queues does not read, and does in some other release."""
        return {
            "classic": self.classic_ignores, "quorum": self.quorum_ignores, "stream": self.stream_ignores,
        }[queue_type]  # fmt: skip


@dataclass(frozen=True, slots=True)
class QueueBehaviour:
    """What becomes of messages in RabbitMQ's queues."""

    deaths_are_headers: bool
    """The dead-letter history is the header x-death itself, which a publisher may set (up to 3.12)."""
    published_deaths_count: bool
    """A header x-death that a publisher sets counts for the history and for cycles (up to 3.12, and in 3.13 since
    3.13.3)."""
    sorts_deaths: bool
    """Deaths are kept by queue and reason: cycles are looked for in this order, not from the latest death on, and each
    entry of x-death has the keys of CC (3.13.0 to 3.13.2)."""
    names_last_death: bool
    """Dead letters have headers ``x-last-death-*`` beside ``x-first-death-*`` (since 3.13)."""
    delivery_limit: int | None
    """Delivery limit of a quorum queue that sets none: 20 since 4.0, before that none."""
    negative_limit_is_none: bool
    """A negative x-delivery-limit is no limit (since 4.0); before that it is one of 0."""
    any_number_limits: bool
    """A delivery limit can be any number, and what is no number is no limit (up to 4.2.4); later it is as good as none
    given."""
    get_shows_no_returns: bool
    """A message that basic.get takes from a quorum queue has x-delivery-count even if it is 0 (up to 3.11)."""
    limit_gives_credit: bool
    """A consumer that exceeds the delivery limit of a quorum queue may hold one message more from then on (3.10)."""
    discards_need_consumer: bool
    """A quorum queue ignores that a message is discarded whose consumer was cancelled: it stays unacknowledged until
    the channel is closed (4.0.0 to 4.0.2)."""
    cancel_delivers: bool
    """When the active consumer of a classic queue is cancelled, the next one gets what is ready (since 4.0)."""
    active_yields: bool
    """The single active consumer of a quorum queue yields to one of higher priority (since 4.0)."""
    return_strands: bool
    """If it yields by giving its last message back, no consumer is active until one comes or goes (4.0.0 to 4.1.1)."""
    least_max_priority: int
    """Highest priority of a classic queue with x-max-priority = 0: 1 since 3.13.4, before that 0."""
    failures_are_limited: bool
    """The delivery limit counts failed deliveries only (since 4.3), before that all returns to the queue."""
    counts_failures: bool
    """Dead letters of quorum queues take the number of failed deliveries along (since 4.0)."""
    classic_counts_failures: bool
    """Dead letters of classic queues do so, too, and are redelivered messages then (since 4.3)."""
    nack_is_no_failure: bool
    """basic.nack gives a message back without a failed delivery, unlike basic.reject (since 4.3)."""
    unlimited_returns_go_last: bool
    """What is given back to a quorum queue without a delivery limit goes to its end (up to 4.2), not to its place."""
    quorum_priorities: int
    """Number of priorities of a quorum queue: 1; 2 since 4.0, which take turns; 32 since 4.3, in strict order."""
    drops_in_order: bool
    """A quorum queue that drops several messages at once dead-letters the oldest first (since 4.3), not last."""
    hears_own_limit_late: bool
    """A quorum queue that a dead message fills takes its dead letter all the same, if it must arrive there (since 4.3).

    Not the first dead letter that the queue ever sends to itself.
    """
    properties_have_size: bool
    """The encoded properties of a message count for the max-length-bytes of a quorum queue (since 4.3)."""
    refusals_name_streams: bool
    """Refusals of consumers of a stream name it ``stream queue`` (since 4.0)."""
    get_quotes_type: bool
    """The refusal of basic.get by a single active consumer has the queue's type as a term, ``<<"quorum">>`` (since
    4.2)."""
    consumer_timeout: int | None
    """Milliseconds after which a quorum queue that sets no other time takes back what a consumer has not settled (since
    4.3); None if a channel is closed for that, at its next check once a minute."""

    @property
    def overlooks_cycles(self) -> bool:
        """Whether a message that was rejected once may go round by expiry alone, for ever (up to 3.13.2)."""
        return self.deaths_are_headers or self.sorts_deaths


@dataclass(frozen=True, slots=True)
class Profile:
    """The behaviour of RabbitMQ from a release on, up to the next one in `exchange.entities.releases.PROFILES`."""

    name: str
    integers_equal_floats: bool
    """In headers, 1 matches 1.0 (up to 3.12, which compares with Erlang's `==`; later releases use `=:=`)."""
    timestamps_in_milliseconds: bool
    """A message's timestamp header is multiplied by 1000 before it is compared, a binding's is not (since 3.13)."""
    signed_zeros_differ: bool
    """In headers, 0.0 does not match -0.0 (Erlang/OTP 27 and later, which 4.0 can run on and 4.2 must)."""
    max_many: int | None
    """Maximum number of ``#`` in a new topic binding, None for no maximum (since 4.3.5). Older bindings still route."""
    unknown_type_closes_connection: bool
    """Up to 3.13, for representations alone: fingerprints of kept counts have it."""
    unknown_type_closes_channel: bool = field(repr=False)
    """An unknown exchange type is a 406 (since 3.13.3), and not a 503, which closes the connection."""
    queues_have_a_type: bool
    """A queue declared without x-queue-type gets the argument, with the value classic (4.0; not in 3.10)."""
    local_random: bool
    """There is the exchange type x-local-random (since 4.0)."""
    hash_headers_have_types: bool
    """x-consistent-hash hashes the value of a header with its AMQP type, ``{longstr, V}`` (up to 3.12)."""
    counts_each_binding: bool = field(repr=False)
    """A destination of x-consistent-hash has buckets for each of its bindings, not the first alone (up to 3.10.5)."""
    needs_hash_header: bool = field(repr=False)
    """A message without the header that x-consistent-hash hashes crashes the channel (3.13.0 to 3.13.6)."""
    hashes_empty_arrays: bool
    """x-consistent-hash takes an empty array as the value of a header; from 3.13 to 4.3.4 the channel crashes."""
    max_weight: int | None
    """Maximum weight, the key of a binding to x-consistent-hash (since 4.3, and 4.2.6)."""
    modulus_hash_sorts: bool
    """x-modulus-hash counts bindings in the order of their destinations, not of the broker's table (since 4.3)."""
    modulus_hash_depends_on_store: bool = field(repr=False)
    """The order in which x-modulus-hash counts bindings is another one in Khepri than in Mnesia (from 4.0 to 4.2)."""
    hash_rings_are_kept: bool = field(repr=False)  # a tally's fingerprint has the representation in it
    """A restart keeps the ring of x-consistent-hash; before 4.3 it builds a new one, in an order of its own."""
    selectors_are_checked: bool = field(repr=False)
    """x-jms-topic accepts only selectors of its grammar (since 4.3, and 4.2.6)."""
    selector_patterns_are_checked: bool = field(repr=False)
    """Their patterns must compile and not be too long (since 4.3.3, and 4.2.9)."""
    like_without_text_matches_nothing: bool = field(repr=False)
    """x-jms-topic takes no binding at all if a LIKE is applied to a value that is no text (4.3.6; in 4.0, the channel
    crashes)."""
    delay_is_annotation: bool = field(repr=False)
    """x-delayed-message reads x-delay as an annotation (since 3.13): bytes are text, a signed byte is no delay, void
    crashes the channel, and consumers get the negated delay."""
    names_queues_by_prefix: bool = field(repr=False)
    """The argument x-name-prefix begins the name of a queue that the broker names, and is not kept (since 4.4)."""
    import_needs_queue_flags: bool = field(repr=False)
    """An import of definitions refuses queues without durable or auto_delete (3.10)."""
    import_needs_durable: bool = field(repr=False)
    """An import of definitions refuses exchanges without durable (up to 4.2.1)."""
    import_skips_bindings: bool = field(repr=False)
    """An import leaves bindings out in silence whose ends are missing (up to 3.13.5); later it refuses the file."""
    import_checks_topic_exchanges: bool = field(repr=False)
    """An import refuses topic permissions for an exchange that does not exist (since 4.3.2)."""
    import_sets_topic_permissions_first: bool = field(repr=False)
    """An import sets topic permissions before their exchanges, which fails with Khepri (4.0.0 to 4.1.3)."""
    import_skips_generated: bool = field(repr=False)
    """An import leaves out bindings to queues ``amq.*`` that are missing, with a warning (since 4.4.1)."""
    import_takes_any_metadata: bool = field(repr=False)
    """An import takes metadata of a virtual host that are no object, and reads none of it (since 4.2.6)."""
    values_for_no_default_type: frozenset[str | None] | None = field(repr=False)
    """Values of the default queue type of a virtual host that are as good as none for an import; None if it does not
    read the default type at all (up to 3.10.7)."""
    import_gives_default_types: bool = field(repr=False)
    """An import gives a queue without a type the default type of its virtual host (since 3.11)."""
    import_keeps_queue_limits: bool = field(repr=False)
    """An import leaves out queues over the limit of their virtual host, without a word (since 3.13.3)."""
    max_regex_bytes: int | None = field(repr=False)
    """Maximum size of a regular expression of a policy or permission, in bytes (since 4.3.2, and 4.2.8); None for
    none."""
    max_user_tags: int | None = field(repr=False)
    """Maximum number of tags of a user (since 4.3.1, and 4.2.7); None for none."""
    denied_features: frozenset[str] = field(repr=False)
    """Deprecated features that are denied by default, of those that the models have (since 4.3)."""
    settings: SettingRules
    """What it accepts and reads of the arguments of queues, and of policies."""
    lives: QueueBehaviour = field(repr=False)
    """What becomes of messages in queues."""
    routes_as: str = field(default="", repr=False)
    """Name of another profile with the same rules of routing; "" for none. Kept counts of both add."""
    applied_to: str = field(default="", repr=False, compare=False)
    """The release, newer than all of its series or than all series that are known here, that the profile is applied to;
    "" for none."""
    caveat: str = field(default="", repr=False, compare=False)
    """What is shown before anything that is derived from the profile; "" for nothing."""

    def leaves_out(self, destination: Destination) -> bool:
        """Return whether an import leaves out bindings to this destination if it does not exist, with a warning."""
        return self.import_skips_generated and destination.kind == "queue" and destination.name.startswith("amq.")

    def caveat_under(self, rules: Profile) -> str:
        """Return the caveat where other rules are applied to the release, as where it is compared with another one."""
        if not self.caveat or rules == self:
            return self.caveat
        return f"{self.caveat.partition(': ')[0]}: the rules of {rules.name} are applied"

    @property
    def written(self) -> str:
        """The name by which a file names it, which keeps the release that it is applied to."""
        return f"rabbitmq-{self.applied_to}" if self.applied_to else self.name


@dataclass(frozen=True, slots=True)
class ReleaseRow:
    """RabbitMQ from a release on, up to the next row."""

    since: tuple[int, int, int]
    """The first release."""
    profile: Profile
    """How it routes, what it accepts, and what becomes of messages. One without a name has that of each release."""
    newest_patch: int
    """Number of the newest patch release of the series that is known here."""
    upgraded_from: tuple[str, ...]
    """The series whose nodes can be upgraded to it one by one."""
    before_upgrade: tuple[str, ...]
    """What its release notes ask for before the upgrade to it."""
    needed_patch: tuple[int, str] | None = None
    """The patch number that its release notes ask for of the series before it, and the sentence; None for none."""
    min_frame_max: int | None = None
    """Minimum of frame_max, in bytes (since 4.1); None for none."""
    max_message_bytes: int = 128 << 20
    """Maximum size of a message unless it is configured: 16 MiB since 4.0."""

    @property
    def series(self) -> str:
        """The series of releases: ``4.2``."""
        return f"{self.since[0]}.{self.since[1]}"


NEWEST_PATCH: Final = 999
"""Number of the patch release that a series of releases stands for: the newest."""


def read_release(name: str) -> tuple[int, int, int] | None:
    """Return the numbers of a release as users, brokers and packages write it; None for what is no release.

    What follows three numbers does not count: the revision of a package, a build, a release candidate. A series is its
    newest patch release, with the number `NEWEST_PATCH`.

    >>> read_release("v4.2.6"), read_release("4.2.6-1~bpo12+1"), read_release("rabbitmq-4.2"), read_release("4.2.x")
    ((4, 2, 6), (4, 2, 6), (4, 2, 999), (4, 2, 999))
    >>> read_release("4"), read_release("4.3-rc.1")  # which series, or which patch release?
    (None, None)
    """
    found = VERSION.fullmatch(name.strip())
    if found is None:
        return None
    major, minor = map(int, found[1].split("."))
    return major, minor, NEWEST_PATCH if found[2] is None else int(found[2])


VERSION: Final = re.compile(
    r"(?:[Rr]abbit[Mm][Qq][- :])?v?((?:0|[1-9][0-9]{0,3})\.(?:0|[1-9][0-9]{0,3}))"
    r"(?:(?:\.[xX*])?(?:-(?:management|alpine))*|\.(0|[1-9][0-9]{0,3})(?:[-+~_][-+~_.0-9A-Za-z]*)?)"
)
"""A release as users, brokers, packages and images write it; its groups are the series, and the number of the patch
release unless the newest is meant."""
