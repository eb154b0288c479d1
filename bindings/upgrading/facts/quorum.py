"""Facts about quorum queues."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bindings.upgrading.facts.crossing import Crossing, Seen, build_queue_finder, may_dead_letter
from bindings.upgrading.facts.fact import ALWAYS, Fact, link_notes, link_pull_request
from exchange.entities.entities import Queue
from exchange.entities.in_force import SettingsInForce
from exchange.entities.odd_numbers import explain_odd_number
from exchange.entities.part import Part
from exchange.entities.profile import Profile
from exchange.lifecycle.limits import find_crash, ignores_policies


def find_quorum_queues_with_a_limit(crossing: Crossing) -> Iterator[Seen]:
    """Yield the quorum queues in which a delivery limit is in force, the default one included."""
    default = crossing.before.profile.lives.delivery_limit
    for queue, old, _ in crossing.in_force:
        given = [settings.integer("delivery-limit") for settings in old]
        limits = [default if limit is None else limit for limit in given]
        if queue.type == "quorum" and all(limit is not None and limit >= 0 for limit in limits):
            yield queue, ""


def find_limited_queues_in_circles(crossing: Crossing) -> Iterator[Seen]:
    """Yield the quorum queues with a delivery limit that a message may come back to as a dead letter."""
    for queue, _, new in crossing.in_force:
        is_limited = not any(_is_negative(settings) for settings in new)
        if queue.type == "quorum" and is_limited and queue.name in crossing.dead_letters.circles:
            yield queue, ""


def find_deaf_queues(crossing: Crossing) -> Iterator[Seen]:
    """Yield the queues in which no policy comes into force any more by the rules of the new release."""
    for queue, _, new in crossing.in_force:
        if any(ignores_policies(settings, queue, crossing.new) for settings in new):
            yield queue, ""


def find_odd_numbers(crossing: Crossing) -> Iterator[Seen]:
    """Yield the queues with a number that RabbitMQ does not mean, of which the new release makes something else."""
    for queue, old, new in crossing.in_force:
        if _describe_odd_numbers(crossing, queue, old, new):
            yield queue, ""


def describe_odd_numbers(crossing: Crossing, part: Part) -> str:
    """Return what the new release makes of the odd numbers of a queue of which the old one makes something else."""
    if not isinstance(part, Queue):
        return ""
    return _describe_odd_numbers(crossing, part, crossing.old_in_force[part.name], crossing.new_in_force[part.name])


def _describe_odd_numbers(
    crossing: Crossing, queue: Queue, old: tuple[SettingsInForce, ...], new: tuple[SettingsInForce, ...]
) -> str:
    read_old = [_read_odd_numbers(settings, queue, crossing.before.profile) for settings in old]
    read_new = [_read_odd_numbers(settings, queue, crossing.new) for settings in new]
    texts = []
    for name in dict.fromkeys(name for read in (*read_old, *read_new) for name in read):
        was, becomes = ({read.get(name, "") for read in which} for which in (read_old, read_new))
        if was != becomes and not any(find_crash(settings, queue, crossing.new) for settings in new):
            texts.append(f"{name}: {' or '.join(sorted(becomes - {''})) or 'it has no effect any more'}")
    return "; ".join(texts)


def _read_odd_numbers(settings: SettingsInForce, queue: Queue, profile: Profile) -> dict[str, str]:
    """Return name -> what becomes of an odd number that is in force, but for those that other facts are about."""
    odd = {
        name: explain_odd_number(name, setting.value, queue.type, profile)
        for name, setting in settings.values.items()
        if name != "consumer-disconnected-timeout"
    }
    hidden = {name.removeprefix("x-"): str(why) for name, (_, why) in settings.only_hides.items()}
    return {**hidden, **{name: each.text for name, each in odd.items() if each is not None}}


def _sets_no_limit(possible: tuple[SettingsInForce, ...]) -> bool:
    return all(settings.integer("delivery-limit") is None for settings in possible)


def _is_negative(settings: SettingsInForce, source: str | None = None) -> bool:
    limit = settings.integer("delivery-limit")
    return limit is not None and limit < 0 and source in (None, settings.values["delivery-limit"].source)


def _gives(possible: tuple[SettingsInForce, ...], *names: str) -> bool:
    return any(settings.get(name) is not None for settings in possible for name in names)


quorum_queues: Final = build_queue_finder(lambda queue, old, new: True, "quorum")
without_a_limit: Final = build_queue_finder(lambda queue, old, new: _sets_no_limit(new), "quorum")
that_drop: Final = build_queue_finder(
    lambda queue, old, new: _sets_no_limit(new) and not may_dead_letter(queue, new), "quorum"
)
that_dead_letter: Final = build_queue_finder(
    lambda queue, old, new: _sets_no_limit(new) and may_dead_letter(queue, new), "quorum"
)
with_a_negative_limit: Final = build_queue_finder(
    lambda queue, old, new: any(_is_negative(settings, "argument") for settings in old), "quorum"
)
with_no_limit: Final = build_queue_finder(lambda queue, old, new: all(map(_is_negative, new)), "quorum")
with_a_limit_by_policy: Final = build_queue_finder(
    lambda queue, old, new: any(
        "policy" in settings.values["delivery-limit"].source for settings in new if "delivery-limit" in settings.values
    ),
    "quorum",
)
with_an_active_consumer: Final = build_queue_finder(
    lambda queue, old, new: any(settings.get("single-active-consumer") is True for settings in old), "quorum"
)
with_a_number_of_bytes: Final = build_queue_finder(lambda queue, old, new: _gives(new, "max-length-bytes"), "quorum")
that_dead_letter_what_is_too_much: Final = build_queue_finder(
    lambda queue, old, new: _gives(new, "max-length", "max-length-bytes") and may_dead_letter(queue, new), "quorum"
)
that_dead_letter_at_least_once: Final = build_queue_finder(
    lambda queue, old, new: any(settings.text("dead-letter-strategy") == "at-least-once" for settings in new), "quorum"
)

FACTS: Final[tuple[Fact, ...]] = (
    Fact("HSU007", (4, 0, 0), "error",
         "a quorum queue without a delivery limit has one of 20: a message that comes back more often is dropped, "
         "as the queue has no dead letter exchange; 4.3 counts rejects and lost consumers only",
         "set a dead letter exchange; or, before the upgrade, a high delivery-limit by policy", "trial",
         that_drop, link_notes("4.0.1")),
    Fact("HSU008", (4, 0, 0), "warning",
         "a quorum queue without a delivery limit has one of 20: a message that comes back more often is "
         "dead-lettered; 4.3 counts rejects and lost consumers only",
         "set a higher delivery-limit by policy, before the upgrade, if consumers return messages more often",
         "trial", that_dead_letter, link_notes("4.0.1")),
    Fact("HSU016", (4, 3, 0), "warning",
         "basic.nack with requeue is no failed delivery: the delivery limit counts rejects and lost consumers only, so "
         "a message that is given back again and again stays",
         "call basic.reject for messages that cannot be processed", "trial",
         find_quorum_queues_with_a_limit, link_notes("4.3.0")),
    Fact("HSU030", (4, 0, 0), "warning",
         "a message that is given back goes to its old place, no longer to the end of the queue: one that fails is "
         "tried again at once, before all others, up to the delivery limit",
         "wait before a message is given back, or reject it to a queue from which it comes back later",
         "trial", without_a_limit, link_notes("3.10.0")),
    Fact("HSU052", (4, 3, 0), "warning",
         "without a delivery limit, too, a message that is given back goes to its old place, no longer to the end of "
         "the queue: one that fails is tried again at once, before all others, for ever",
         "set a delivery limit and a dead letter exchange, or wait before a message is given back", "trial",
         with_no_limit),
    Fact("HSU031", (4, 0, 0), "note",
         "the priority of a message counts: above 4 it is high, and overtakes others; before 4.0 it has no effect",
         "publish without priority what must stay in order", "trial", quorum_queues, link_notes("4.0.1"),
         until=(4, 3, 0)),
    Fact("HSU032", (4, 3, 0), "note",
         "each priority of a message counts, up to 31, and the highest comes first; from 4.0 to 4.2 there are two, "
         "which take turns, and before 4.0 there is one",
         "publish without priority what must stay in order", "trial", quorum_queues, link_notes("4.3.0")),
    Fact("HSU033", (4, 0, 0), "note",
         "the single active consumer yields to one of a higher priority, once its messages are acknowledged",
         "consume with equal priorities if the active consumer should stay", "trial",
         with_an_active_consumer, link_notes("4.0.1")),
    Fact("HSU062", (4, 0, 0), "warning",
         "if the single active consumer yields to one of a higher priority by giving its last message back, the queue "
         "stands still until a consumer comes or goes, up to 4.1.1",
         "upgrade to 4.1.2 or later, or consume with equal priorities", "trial", with_an_active_consumer,
         link_notes("4.1.2"), until=(4, 1, 2)),
    Fact("HSU063", (4, 0, 0), "note",
         "when the single active consumer goes, the next one is that of the highest priority, and of these the one of "
         "the highest prefetch; before 4.0 it is the one that came first",
         "consume with equal priorities and prefetch if they should take turns", "trial", with_an_active_consumer),
    Fact("HSU068", (4, 0, 0), "warning",
         "up to 4.0.2, basic.reject and basic.nack without requeue are ignored after basic.cancel: the message is not "
         "dead-lettered, and comes back when the channel is closed",
         "upgrade to 4.0.3 or later, or settle all messages before basic.cancel", "source", quorum_queues,
         "https://github.com/rabbitmq/rabbitmq-server/commit/3147a0c4ab02b4d9da6b866bd7726317a900bc3b",
         until=(4, 0, 3)),
    Fact("HSU034", (4, 3, 0), "note",
         "the properties and headers of messages count for max-length-bytes, no longer their bodies alone: the queue "
         "holds fewer messages",
         "raise max-length-bytes", "trial", with_a_number_of_bytes),
    Fact("HSU035", (4, 2, 1), "note",
         "several messages that are dropped at once become dead letters in their order, no longer the last one first",
         "nothing is to be done", "trial", that_dead_letter_what_is_too_much, link_notes("4.2.1")),
    Fact("HSU036", (3, 12, 0), "note",
         "a message that basic.get takes for the first time has no header x-delivery-count, no longer 0",
         "read a missing header as 0", "trial", quorum_queues, link_notes("3.12.0")),
    Fact("HSU037", (4, 3, 0), "note",
         "the header x-delivery-count has the failed deliveries only; x-acquired-count has all earlier ones",
         "read x-acquired-count where each return counts", "trial", quorum_queues, link_notes("4.3.0")),
    Fact("HSU038", (4, 0, 0), "warning",
         "a negative x-delivery-limit is no limit; before 4.0 it is one of 0, and the first return is the last",
         "expect messages to come back, or set the limit that was meant", "trial", with_a_negative_limit),
    Fact("HSU039", (4, 1, 5), "warning",
         "a delivery-limit that a policy sets or changes takes no effect in a queue that exists",
         "set the policy before the queue is declared, or the argument x-delivery-limit; 4.3 heeds such policies",
         "release notes", with_a_limit_by_policy, link_notes("4.3.0"), until=(4, 3, 0)),
    Fact("HSU040", (4, 3, 0), "note",
         "a purge also removes the dead letters that wait for their targets to confirm them",
         "do not purge while dead letters wait", "release notes", that_dead_letter_at_least_once, link_notes("4.3.0")),
    Fact("HSU041", (4, 3, 0), "warning",
         "a consumer that exceeds consumer-timeout, half an hour unless it is set, is cancelled at once: the queue "
         "takes the messages back, and gives it no more until it has settled these; before 4.3 its channel is closed "
         "with 406, up to a minute later",
         "acknowledge what was delivered before basic.cancel, too, or close the channel",
         "trial", quorum_queues, link_notes("4.3.0")),
    Fact("HSU042", (4, 3, 0), "note",
         "a consumer on a channel with a global prefetch is accepted, with a prefetch of its own; before 4.3 it is "
         "refused with 540",
         "set a prefetch per consumer, which all releases accept", "trial", quorum_queues, link_notes("4.3.0")),
    Fact("HSU043", (4, 3, 0), "warning",
         "a message that comes back as a dead letter keeps the number of its failed deliveries: after as many "
         "rejections as the delivery limit allows, it ends when it is given back once",
         "set a delivery limit above the number of retries", "trial", find_limited_queues_in_circles),
    Fact("HSU054", (4, 4, 0), "note",
         "a message whose header x-opt-delivery-time is an integer, in milliseconds since 1970, waits in the queue "
         "until then; before 4.4 it is delivered at once",
         "set the header only on messages that should wait", "source", quorum_queues, link_pull_request(16583)),
    Fact("HSU058", (4, 3, 0), "error",
         "policies do not come into force in the queue any more, nor can it get new members: its "
         "x-consumer-disconnected-timeout, of which 4.2 takes no notice, is no integer",
         "declare the queue anew, with an integer or without the argument, before the upgrade, in the application, too",
         "observed", find_deaf_queues),
    Fact("HSU059", ALWAYS, "warning",
         "a number of the queue is none that RabbitMQ means, and the new release makes something else of it",
         "give a positive integer or remove it, in the application that declares the queue, too", "observed",
         find_odd_numbers, explain=describe_odd_numbers),
)  # fmt: skip
"""What is seen in quorum queues."""
