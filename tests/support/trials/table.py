"""The trials of all facts that live brokers show, by the facts' ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tests.support.trials import applications, exchanges, queues, quorum
from tests.support.trials.lab import Lab

Trial = Callable[[Lab], bool | None]
"""Return whether a broker behaves as the fact says; None if it is not as RabbitMQ ships it, and cannot show it."""

TRIALS: Final[Mapping[str, Trial]] = {
    "HSU007": quorum.drops_after_20, "HSU008": quorum.dead_letters_after_20, "HSU011": exchanges.numbers_have_kinds,
    "HSU012": exchanges.timestamps_are_milliseconds, "HSU014": queues.ignores_published_deaths,
    "HSU016": quorum.nack_is_no_failure, "HSU017": queues.transient_queues_are_deprecated,
    "HSU019": queues.master_locators_are_deprecated, "HSU020": queues.next_active_consumer_gets_what_waits,
    "HSU025": queues.names_last_death, "HSU026": queues.ends_circles_without_rejection,
    "HSU028": quorum.dead_letter_of_classic_has_its_count, "HSU029": quorum.dead_letter_has_its_count,
    "HSU030": quorum.goes_back_to_its_place, "HSU031": quorum.has_two_priorities,
    "HSU032": quorum.has_strict_priorities, "HSU033": quorum.active_consumer_yields, "HSU034": quorum.counts_properties,
    "HSU035": quorum.drops_in_order, "HSU036": quorum.first_delivery_has_no_count, "HSU037": quorum.counts_are_two,
    "HSU038": quorum.negative_limit_is_none, "HSU041": quorum.cancels_consumers_that_take_long,
    "HSU042": quorum.accepts_global_prefetch, "HSU043": quorum.retries_count_for_the_limit,
    "HSU044": queues.dead_letters_reach_streams, "HSU045": exchanges.hashes_values_without_types,
    "HSU046": exchanges.fails_on_empty_arrays, "HSU047": exchanges.zeros_have_signs,
    "HSU052": quorum.goes_back_to_its_place_without_a_limit, "HSU051": exchanges.deaths_are_not_seen,
    "HSU060": exchanges.fails_without_the_header, "HSU061": exchanges.counts_the_first_weight,
    "HSU062": quorum.return_strands_the_queue, "HSU063": quorum.next_active_consumer_has_the_highest_prefetch,
    "HSU064": queues.priority_0_is_two,
    "HSU101": applications.unknown_types_close_the_channel, "HSU102": applications.refuses_17_mebibytes,
    "HSU103": applications.refuses_small_frames, "HSU104": applications.prefetch_is_of_each_consumer,
    "HSU113": applications.replies_count_as_routed, "HSU115": applications.asks_permission_for_passive_declares,
    "HSU116": applications.virtual_hosts_have_a_default_type, "HSU117": applications.queues_show_their_type,
    "HSU210": applications.serves_no_rabbitmqadmin, "HSU211": applications.has_no_auth_address,
    "HSU212": applications.tests_no_aliveness,
}  # fmt: skip

ELSEWHERE: Final = {"HSU001", "HSU002", "HSU003", "HSU004", "HSU005", "HSU050", "HSU055", "HSU056"}
"""What releases refuse, which other tests compare with live brokers, one declaration at a time; and what needs a broker
of its own."""
