"""How each release of RabbitMQ routes, what it accepts, and what becomes of messages: a part of the table of releases.

Each profile is its predecessor with what changed, patch releases included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from exchange.entities.profile import Profile, QueueBehaviour
from exchange.entities.release_settings import (
    SETTINGS_3_10,
    SETTINGS_3_10_0,
    SETTINGS_3_11_10,
    SETTINGS_3_11_15,
    SETTINGS_3_11_24,
    SETTINGS_3_12,
    SETTINGS_3_12_0,
    SETTINGS_3_13,
    SETTINGS_3_13_0,
    SETTINGS_4_0,
    SETTINGS_4_2_7,
    SETTINGS_4_2_8,
    SETTINGS_4_3,
    SETTINGS_4_3_0,
    SETTINGS_4_3_1,
    SETTINGS_4_4,
)

_LIVES_3_10: Final = QueueBehaviour(
    deaths_are_headers=True,
    published_deaths_count=True,
    sorts_deaths=False,
    names_last_death=False,
    delivery_limit=None,
    negative_limit_is_none=False,
    any_number_limits=True,
    get_shows_no_returns=True,
    limit_gives_credit=True,
    discards_need_consumer=False,
    cancel_delivers=False,
    active_yields=False,
    return_strands=False,
    least_max_priority=0,
    failures_are_limited=False,
    counts_failures=False,
    classic_counts_failures=False,
    nack_is_no_failure=False,
    unlimited_returns_go_last=True,
    quorum_priorities=1,
    drops_in_order=False,
    hears_own_limit_late=False,
    properties_have_size=False,
    refusals_name_streams=False,
    get_quotes_type=False,
    consumer_timeout=None,
)
_LIVES_3_11: Final = replace(_LIVES_3_10, limit_gives_credit=False)
_LIVES_3_12: Final = replace(_LIVES_3_11, get_shows_no_returns=False)
_LIVES_3_13: Final = replace(_LIVES_3_12, deaths_are_headers=False, names_last_death=True)
_LIVES_3_13_0: Final = replace(_LIVES_3_13, published_deaths_count=False, sorts_deaths=True)
_LIVES_3_13_4: Final = replace(_LIVES_3_13, least_max_priority=1)
_LIVES_4_0: Final = replace(
    _LIVES_3_13_4,
    published_deaths_count=False,
    delivery_limit=20,
    negative_limit_is_none=True,
    cancel_delivers=True,
    active_yields=True,
    return_strands=True,
    counts_failures=True,
    quorum_priorities=2,
    refusals_name_streams=True,
)
_LIVES_4_0_0: Final = replace(_LIVES_4_0, discards_need_consumer=True)
_LIVES_4_1_2: Final = replace(_LIVES_4_0, return_strands=False)
_LIVES_4_2_0: Final = replace(_LIVES_4_1_2, get_quotes_type=True)
_LIVES_4_2_1: Final = replace(_LIVES_4_2_0, drops_in_order=True)
_LIVES_4_2_5: Final = replace(_LIVES_4_2_1, any_number_limits=False)
_LIVES_4_3: Final = replace(
    _LIVES_4_2_5,
    failures_are_limited=True,
    classic_counts_failures=True,
    nack_is_no_failure=True,
    unlimited_returns_go_last=False,
    quorum_priorities=32,
    hears_own_limit_late=True,
    properties_have_size=True,
    consumer_timeout=1_800_000,
)

_UNDEFINED: Final[frozenset[str | None]] = frozenset({"undefined"})
_UNDEFINED_OR_NULL: Final = _UNDEFINED | {None}
_NO_TYPE: Final = _UNDEFINED_OR_NULL | {""}

_3_10_0: Final = Profile(
    name="",
    integers_equal_floats=True,
    timestamps_in_milliseconds=False,
    signed_zeros_differ=False,
    max_many=None,
    unknown_type_closes_connection=True,
    unknown_type_closes_channel=False,
    queues_have_a_type=False,
    local_random=False,
    hash_headers_have_types=True,
    counts_each_binding=True,
    needs_hash_header=False,
    hashes_empty_arrays=True,
    max_weight=None,
    modulus_hash_sorts=False,
    modulus_hash_depends_on_store=False,
    hash_rings_are_kept=False,
    selectors_are_checked=False,
    selector_patterns_are_checked=False,
    like_without_text_matches_nothing=False,
    delay_is_annotation=False,
    names_queues_by_prefix=False,
    import_needs_queue_flags=True,
    import_needs_durable=True,
    import_skips_bindings=True,
    import_checks_topic_exchanges=False,
    import_sets_topic_permissions_first=False,
    import_skips_generated=False,
    import_takes_any_metadata=False,
    values_for_no_default_type=None,
    import_gives_default_types=False,
    import_keeps_queue_limits=False,
    max_regex_bytes=None,
    max_user_tags=None,
    denied_features=frozenset(),
    settings=SETTINGS_3_10_0,
    lives=_LIVES_3_10,
)
_3_10_6: Final = replace(_3_10_0, routes_as="rabbitmq-3.10", counts_each_binding=False, settings=SETTINGS_3_10)
_3_10: Final = replace(_3_10_6, name="rabbitmq-3.10", routes_as="", values_for_no_default_type=frozenset())
_3_11_0: Final = replace(
    _3_10, name="", routes_as="rabbitmq-3.10", import_needs_queue_flags=False, import_gives_default_types=True,
    lives=_LIVES_3_11,
)  # fmt: skip
_3_11_10: Final = replace(_3_11_0, settings=SETTINGS_3_11_10)
_3_11_15: Final = replace(_3_11_0, settings=SETTINGS_3_11_15)
_3_11_24: Final = replace(_3_11_0, settings=SETTINGS_3_11_24)
_3_12_0: Final = replace(_3_11_0, routes_as="rabbitmq-3.12", settings=SETTINGS_3_12_0, lives=_LIVES_3_12)
_3_12_7: Final = replace(_3_12_0, settings=SETTINGS_3_12)
_3_12: Final = replace(_3_12_7, name="rabbitmq-3.12", routes_as="", values_for_no_default_type=_UNDEFINED)
_3_13_0: Final = replace(
    _3_12_7,
    routes_as="",
    integers_equal_floats=False,
    timestamps_in_milliseconds=True,
    hash_headers_have_types=False,
    needs_hash_header=True,
    hashes_empty_arrays=False,
    delay_is_annotation=True,
    settings=SETTINGS_3_13_0,
    lives=_LIVES_3_13_0,
)
_3_13_2: Final = replace(_3_13_0, values_for_no_default_type=_UNDEFINED)
_3_13_3: Final = replace(_3_13_2, unknown_type_closes_channel=True, import_keeps_queue_limits=True, lives=_LIVES_3_13)
_3_13_4: Final = replace(_3_13_3, settings=SETTINGS_3_13, lives=_LIVES_3_13_4)
_3_13_6: Final = replace(_3_13_4, import_skips_bindings=False)
_3_13: Final = replace(_3_13_6, name="rabbitmq-3.13", needs_hash_header=False)
_4_0: Final = replace(
    _3_13,
    name="rabbitmq-4.0",
    signed_zeros_differ=True,
    unknown_type_closes_connection=False,
    queues_have_a_type=True,
    local_random=True,
    import_sets_topic_permissions_first=True,
    modulus_hash_depends_on_store=True,
    settings=SETTINGS_4_0,
    lives=_LIVES_4_0,
)
_4_0_0: Final = replace(_4_0, name="", routes_as="rabbitmq-4.0", lives=_LIVES_4_0_0)
_4_1_2: Final = replace(_4_0, name="", routes_as="rabbitmq-4.0", lives=_LIVES_4_1_2)
_4_1_4: Final = replace(_4_1_2, import_sets_topic_permissions_first=False)
_4_1_8: Final = replace(_4_1_4, values_for_no_default_type=_UNDEFINED_OR_NULL)
_4_2_0: Final = replace(_4_1_4, lives=_LIVES_4_2_0)
_4_2_1: Final = replace(_4_2_0, lives=_LIVES_4_2_1)
_4_2_2: Final = replace(_4_2_1, import_needs_durable=False)
_4_2_5: Final = replace(_4_2_2, routes_as="", lives=_LIVES_4_2_5)
_4_2_6: Final = replace(_4_2_5, max_weight=10_000, selectors_are_checked=True, import_takes_any_metadata=True)
_4_2_7: Final = replace(_4_2_6, max_user_tags=32, settings=SETTINGS_4_2_7)
_4_2_8: Final = replace(_4_2_7, max_regex_bytes=1_024, settings=SETTINGS_4_2_8, values_for_no_default_type=_NO_TYPE)
_4_2_9: Final = replace(_4_2_8, selector_patterns_are_checked=True)
_4_3_0: Final = replace(
    _4_2_6,
    modulus_hash_sorts=True,
    modulus_hash_depends_on_store=False,
    hash_rings_are_kept=True,
    like_without_text_matches_nothing=True,
    values_for_no_default_type=_UNDEFINED_OR_NULL,
    denied_features=frozenset({"global_qos", "transient_nonexcl_queues"}),
    settings=SETTINGS_4_3_0,
    lives=_LIVES_4_3,
)
_4_3_1: Final = replace(_4_3_0, max_user_tags=32, settings=SETTINGS_4_3_1)
_4_3_2: Final = replace(
    _4_3_1,
    settings=SETTINGS_4_3,
    max_regex_bytes=1_024,
    values_for_no_default_type=_NO_TYPE,
    import_checks_topic_exchanges=True,
)
_4_3_3: Final = replace(_4_3_2, selector_patterns_are_checked=True)
_4_3: Final = replace(_4_3_3, name="rabbitmq-4.3", max_many=2, hashes_empty_arrays=True)
_4_4_0: Final = replace(_4_3, name="", routes_as="rabbitmq-4.3", names_queues_by_prefix=True, settings=SETTINGS_4_4)
_4_4: Final = replace(_4_4_0, name="rabbitmq-4.4", import_skips_generated=True)

PATCHES: Final[Mapping[tuple[int, int], Mapping[int, Profile]]] = {
    (3, 10): {0: _3_10_0, 6: _3_10_6, 8: _3_10},
    (3, 11): {0: _3_11_0, 10: _3_11_10, 15: _3_11_15, 24: _3_11_24},
    (3, 12): {0: _3_12_0, 7: _3_12_7, 14: _3_12},
    (3, 13): {0: _3_13_0, 2: _3_13_2, 3: _3_13_3, 4: _3_13_4, 6: _3_13_6, 7: _3_13},
    (4, 0): {0: _4_0_0, 3: _4_0},
    (4, 1): {0: _4_0, 2: _4_1_2, 4: _4_1_4, 8: _4_1_8},
    (4, 2): {0: _4_2_0, 1: _4_2_1, 2: _4_2_2, 5: _4_2_5, 6: _4_2_6, 7: _4_2_7, 8: _4_2_8, 9: _4_2_9},
    (4, 3): {0: _4_3_0, 1: _4_3_1, 2: _4_3_2, 3: _4_3_3, 5: _4_3},
    (4, 4): {0: _4_4_0, 1: _4_4},
}
"""Series -> number of each patch release that differs from those before it, and its profile."""
