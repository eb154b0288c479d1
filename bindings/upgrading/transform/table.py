"""The transformations of a topology, in the order in which they are done: one row for each, in `TRANSFORMATIONS`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final

from bindings.upgrading.transform import policies, queues
from bindings.upgrading.transform.transformation import Draft, Left, Transformation, TransformedPart

Find = Callable[[Draft], Iterator[TransformedPart | Left]]

REDECLARE: Final = "who declares it otherwise gets 406 (PRECONDITION_FAILED)"


def _both(one: Find, other: Find) -> Find:
    return lambda draft: chain(one(draft), other(draft))


TRANSFORMATIONS: Final[tuple[Transformation, ...]] = (
    Transformation(
        "transient-to-durable", (4, 3, 0),
        "a transient queue becomes durable: it stays when its node restarts, unless it is auto-delete or has x-expires",
        f"declare it durable; {REDECLARE}", queues.make_durable,
    ),
    Transformation(
        "mirrored-to-quorum", (4, 0, 0),
        "a classic queue that was mirrored becomes a quorum queue, which is replicated; without the arguments that "
        "quorum queues refuse, such as x-max-priority, and with reject-publish in place of reject-publish-dlx",
        f"declare it durable, with x-queue-type = quorum; {REDECLARE}", queues.make_quorum,
    ),
    Transformation(
        "remove-lazy-mode", (3, 12, 0), "queue-mode is removed from policies: it has no effect", "",
        policies.remove_lazy_mode,
    ),
    Transformation(
        "remove-queue-version", (4, 3, 0),
        "the version of classic queues that is no longer there is removed from queues and policies",
        f"declare it without x-queue-version, or with 2; {REDECLARE}",
        _both(queues.remove_old_versions, policies.remove_old_versions),
    ),
    Transformation(
        "translate-locator", (4, 3, 0),
        "queue-master-locator is written as queue-leader-locator in policies, and removed from queues",
        f"declare it without x-queue-master-locator, which is refused; {REDECLARE}",
        _both(queues.remove_locators, policies.translate_locators),
    ),
    Transformation(
        "shorten-topic-keys", (4, 3, 0),
        "a binding key with more '#' than the release accepts is written with fewer: '#.*.#' as '*.#'",
        "bind with this key: the release refuses the old one", queues.shorten_topic_keys,
    ),
    Transformation(
        "strip-cmq-keys-from-policies", (4, 0, 0), "the keys of mirroring, ha-*, are removed from policies", "",
        policies.strip_mirroring,
    ),
    Transformation(
        "translate-overflow", (4, 0, 0),
        "a policy for queues that are quorum queues now has reject-publish in place of reject-publish-dlx, which they "
        "lack: what they refuse is no longer dead-lettered", "", policies.translate_overflow,
    ),
    Transformation(
        "keep-policies-in-force", (3, 12, 0),
        "a policy applies to the types of queues with which it is in force where it was, and nowhere else", "",
        policies.keep_in_force,
    ),
    Transformation(
        "drop-empty-policies", (3, 12, 0),
        "a policy that sets nothing is removed, as a broker refuses it; one that keeps another policy out of force "
        "gets queue-leader-locator = client-local, which moves no message: it chooses the node of a new queue, as the "
        "broker does unless queue_leader_locator is configured; before 4.0 one of classic queues gets queue-mode = "
        "default", "", policies.drop_empty,
    ),
    Transformation(
        "keep-delivery-limit", (4, 0, 0),
        "quorum queues without a delivery limit get none (-1) by policy, as before 4.0, in place of the default of 20",
        "", policies.keep_delivery_limit, default=False,
    ),
    Transformation(
        "remove-queue-mode", (3, 12, 0), "x-queue-mode is removed from queues, where it is accepted and has no effect",
        f"declare it without x-queue-mode; {REDECLARE}", queues.remove_lazy_mode, default=False,
    ),
    Transformation(
        "exclude-policies", (0, 0, 0), "policies are left out", "", policies.drop_all, default=False,
    ),
)  # fmt: skip

DEFAULT: Final = "default"
"""Name that stands for the transformations that are done unless the user chooses."""

ALIASES: Final = {
    "prepare-for-quorum-queue-migration": (
        "mirrored-to-quorum", "strip-cmq-keys-from-policies", "translate-overflow", "keep-policies-in-force",
    ),
    "no-op": (),
}  # fmt: skip
"""Other names of rabbitmqadmin -> the transformations that do the same."""
