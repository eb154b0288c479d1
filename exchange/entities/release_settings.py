"""What each release of RabbitMQ accepts and reads of arguments and policies: a part of the table of releases.

The tables are those of the broker's source, which `tests.recorders.release_tables` recorded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from exchange.entities.profile import SettingRules

_RETRIES: Final = frozenset({"delayed-retry-type", "delayed-retry-min", "delayed-retry-max"})
_MIRRORING: Final = frozenset({
    "ha-mode", "ha-params", "ha-sync-mode", "ha-sync-batch-size", "ha-promote-on-shutdown", "ha-promote-on-failure",
})  # fmt: skip
_STREAMS_ONLY: Final = frozenset({"max-age", "stream-max-segment-size-bytes", "initial-cluster-size"})
_QUORUM_ONLY: Final = frozenset({"delivery-limit", "dead-letter-strategy"})
_IN_MEMORY: Final = frozenset({"max-in-memory-length", "max-in-memory-bytes"})
_GROUP: Final = frozenset({"target-group-size"})
_SIZES: Final = _GROUP | {"quorum-target-group-size"}
_TAG: Final = frozenset({"member-placement-tag"})
_OFFSET: Final = frozenset({"stream-initial-offset"})
_JMS: Final = frozenset({"selector-fields", "selector-field-max-bytes"})
_CLASSIC_ONLY: Final = (_MIRRORING - {"ha-sync-batch-size"}) | {"max-priority", "queue-mode", "queue-master-locator"}
_NOT_OF_STREAMS: Final = _CLASSIC_ONLY | _QUORUM_ONLY | _IN_MEMORY | {
    "expires", "message-ttl", "dead-letter-exchange", "dead-letter-routing-key", "max-length", "overflow",
}  # fmt: skip
_OLD_APPLY_TO: Final = ("all", "exchanges", "queues")

SETTINGS_3_10_0: Final = SettingRules(
    name="3.10",
    classic_arguments=(
        "x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-max-length",
        "x-max-length-bytes", "x-max-priority", "x-overflow", "x-queue-mode", "x-queue-version",
        "x-single-active-consumer", "x-queue-type", "x-queue-master-locator",
    ),
    quorum_arguments=(
        "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-strategy", "x-expires", "x-max-length",
        "x-max-length-bytes", "x-max-in-memory-length", "x-max-in-memory-bytes", "x-overflow",
        "x-single-active-consumer", "x-queue-type", "x-quorum-initial-group-size", "x-delivery-limit",
        "x-message-ttl", "x-queue-leader-locator",
    ),
    stream_arguments=(
        "x-max-length-bytes", "x-queue-type", "x-max-age", "x-stream-max-segment-size-bytes",
        "x-initial-cluster-size", "x-queue-leader-locator",
    ),
    classic_consumer_arguments=frozenset({"x-cancel-on-ha-failover", "x-priority", "x-credit"}),
    quorum_consumer_arguments=frozenset({"x-priority", "x-credit"}),
    stream_consumer_arguments=frozenset({"x-stream-offset", "x-credit"}),
    unchecked_arguments=frozenset(),
    crashes_on_ages=True,
    crashes_on_timeouts=False,
    has_version_1=True,
    sorts_arguments=False,
    texts_for_no_type=frozenset(),
    max_segment_bytes=None,
    has_plugin_types=False,
    denies_master_locator=False,
    filter_size_refusal=None,
    apply_to=_OLD_APPLY_TO,
    policy_settings=frozenset({
        "alternate-exchange", "dead-letter-exchange", "dead-letter-routing-key", "dead-letter-strategy", "message-ttl",
        "expires", "max-length", "max-length-bytes", "max-in-memory-length", "max-in-memory-bytes", "queue-mode",
        "queue-version", "overflow", "max-age", "queue-leader-locator", "initial-cluster-size",
        "stream-max-segment-size-bytes", "delivery-limit", "ha-mode", "queue-master-locator",
    }),
    operator_settings=frozenset({
        "expires", "message-ttl", "max-length", "max-length-bytes", "max-in-memory-length", "max-in-memory-bytes",
        "delivery-limit",
    }),
    mirrors_queues=True,
    stricter_counts=False,
    classic_unsupported=_STREAMS_ONLY | _QUORUM_ONLY | {"queue-leader-locator"},
    quorum_unsupported=_CLASSIC_ONLY | _STREAMS_ONLY,
    stream_unsupported=_NOT_OF_STREAMS,
    classic_ignores=frozenset({"queue-leader-locator", "consumer-timeout"}),
    quorum_ignores=_RETRIES | _SIZES | _TAG | {"consumer-timeout", "consumer-disconnected-timeout"},
    stream_ignores=_OFFSET | {"consumer-timeout", "stream-filter-size-bytes"},
)  # fmt: skip
SETTINGS_3_10: Final = replace(SETTINGS_3_10_0, max_segment_bytes=3_000_000_000)
SETTINGS_3_11_10: Final = replace(
    SETTINGS_3_10, operator_settings=SETTINGS_3_10.operator_settings | {"ha-mode", "ha-params"}
)
SETTINGS_3_11_15: Final = replace(
    SETTINGS_3_11_10, operator_settings=SETTINGS_3_11_10.operator_settings | {"ha-sync-mode"}
)
SETTINGS_3_11_24: Final = replace(
    SETTINGS_3_11_15, operator_settings=SETTINGS_3_11_15.operator_settings | {"queue-version"}
)
SETTINGS_3_12_0: Final = replace(
    SETTINGS_3_11_15,
    name="3.12",
    apply_to=(*_OLD_APPLY_TO, "classic_queues", "quorum_queues", "streams"),
    policy_settings=SETTINGS_3_10.policy_settings | {"consumer-timeout"},
    classic_ignores=frozenset({"queue-leader-locator", "queue-mode"}),
    quorum_ignores=_RETRIES | _TAG | _SIZES | {"consumer-disconnected-timeout"},
    stream_ignores=_OFFSET | {"stream-filter-size-bytes"},
)
SETTINGS_3_12: Final = replace(
    SETTINGS_3_12_0,
    operator_settings=SETTINGS_3_12_0.operator_settings | {"queue-version", "overflow"},
    classic_unsupported=SETTINGS_3_12_0.classic_unsupported | _IN_MEMORY | _GROUP,
    stream_unsupported=SETTINGS_3_12_0.stream_unsupported | _GROUP,
)
SETTINGS_3_13_0: Final = replace(
    SETTINGS_3_12,
    policy_settings=SETTINGS_3_12.policy_settings | _GROUP | {"stream-filter-size-bytes"},
    operator_settings=SETTINGS_3_12.operator_settings | _GROUP,
    filter_size_refusal="Invalid value for  x-stream-filter-size-bytes",
    quorum_ignores=SETTINGS_3_12.quorum_ignores - _SIZES,
    stream_ignores=_OFFSET,
)
SETTINGS_3_13: Final = replace(SETTINGS_3_13_0, texts_for_no_type=frozenset({"undefined"}), sorts_arguments=True)
SETTINGS_4_0: Final = replace(
    SETTINGS_3_13,
    name="4.0",
    classic_arguments=(*SETTINGS_3_13.classic_arguments, "x-queue-leader-locator"),
    classic_consumer_arguments=frozenset({"x-priority"}),
    quorum_consumer_arguments=frozenset({"x-priority"}),
    stream_consumer_arguments=frozenset({"x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered"}),
    has_plugin_types=True,
    policy_settings=SETTINGS_3_13.policy_settings - {"ha-mode"},
    operator_settings=(SETTINGS_3_13.operator_settings | {"queue-master-locator"}) - _MIRRORING,
    mirrors_queues=False,
    stricter_counts=True,
    classic_unsupported=SETTINGS_3_13.classic_unsupported - {"queue-leader-locator"},
    classic_ignores=_MIRRORING | {"queue-mode", "queue-version"},
)
_CHECKED_FILTERS: Final = (
    *SETTINGS_4_0.stream_arguments[:4], "x-stream-filter-size-bytes", *SETTINGS_4_0.stream_arguments[4:],
)  # fmt: skip
SETTINGS_4_2_7: Final = replace(
    SETTINGS_4_0,
    crashes_on_ages=False,
    stream_arguments=_CHECKED_FILTERS,
    filter_size_refusal="Invalid value for x-stream-filter-size-bytes",
)
SETTINGS_4_2_8: Final = replace(SETTINGS_4_2_7, texts_for_no_type=frozenset({"undefined", ""}))
SETTINGS_4_3_0: Final = replace(
    SETTINGS_4_0,
    name="4.3",
    unchecked_arguments=frozenset({"x-consumer-disconnected-timeout", "x-consumer-timeout"}),
    quorum_consumer_arguments=SETTINGS_4_0.quorum_consumer_arguments | {"x-consumer-timeout"},
    quorum_arguments=(
        *SETTINGS_4_0.quorum_arguments,
        "x-consumer-disconnected-timeout", "x-delayed-retry-type", "x-delayed-retry-min", "x-delayed-retry-max",
    ),
    crashes_on_timeouts=True,
    has_version_1=False,
    denies_master_locator=True,
    policy_settings=SETTINGS_4_0.policy_settings | {"consumer-disconnected-timeout"},
    classic_unsupported=SETTINGS_4_0.classic_unsupported | _JMS,
    quorum_unsupported=SETTINGS_4_0.quorum_unsupported | _JMS,
    stream_unsupported=SETTINGS_4_0.stream_unsupported | _JMS,
    classic_ignores=SETTINGS_4_0.classic_ignores | {"consumer-timeout", "queue-master-locator"},
    quorum_ignores=_TAG,
    stream_ignores=_OFFSET | {"consumer-timeout"},
)  # fmt: skip
SETTINGS_4_3_1: Final = replace(
    SETTINGS_4_3_0,
    crashes_on_ages=False,
    stream_arguments=_CHECKED_FILTERS,
    filter_size_refusal="Invalid value for x-stream-filter-size-bytes",
    policy_settings=SETTINGS_4_3_0.policy_settings | _RETRIES,
    operator_settings=SETTINGS_4_3_0.operator_settings | _RETRIES,
)
SETTINGS_4_3: Final = replace(
    SETTINGS_4_3_1,
    quorum_arguments=(
        *SETTINGS_4_0.quorum_arguments, "x-consumer-disconnected-timeout", "x-consumer-timeout",
        *SETTINGS_4_3_0.quorum_arguments[-3:],
    ),
    unchecked_arguments=frozenset(),
    texts_for_no_type=SETTINGS_4_2_8.texts_for_no_type,
)  # fmt: skip
SETTINGS_4_4: Final = replace(
    SETTINGS_4_3,
    name="4.4",
    quorum_arguments=(*SETTINGS_4_3.quorum_arguments, "x-member-placement-tag"),
    stream_arguments=(*SETTINGS_4_3.stream_arguments, "x-stream-initial-offset"),
    policy_settings=SETTINGS_4_3.policy_settings | {"member-placement-tag"},
    operator_settings=SETTINGS_4_3.operator_settings | {"member-placement-tag"},
    quorum_ignores=frozenset(),
    stream_ignores=frozenset({"consumer-timeout"}),
)
