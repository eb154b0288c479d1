"""Queues and bindings as a new release wants them: one function for each transformation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

from bindings.upgrading.transform.transformation import Draft, Left, TransformedPart
from exchange.entities.entities import Binding, Queue
from exchange.entities.profile import Profile
from exchange.entities.queue_arguments import find_rules, refuse_queue
from exchange.errors import BrokerError
from exchange.kinds import KeyUse, find_kind
from exchange.topology import rules
from exchange.values.field_values import resolve_type

WILDCARDS: Final = ("*", "#")


def make_quorum(draft: Draft) -> Iterator[TransformedPart | Left]:
    """Make quorum queues of the classic queues that were mirrored."""
    for name, queue in draft.now.queues.items():
        before = draft.before.queues[name]
        modes = {settings.text("ha-mode") for settings in draft.old_policies.possible_settings(before)}
        if queue.type != "classic" or modes == {None}:
            continue
        fault = _why_not_quorum(queue, modes)
        changed = convert_to_quorum(queue, draft.now.profile)
        fault = fault or _refusal(changed, draft)
        yield Left(queue, fault) if fault else TransformedPart(queue, changed)


def _why_not_quorum(queue: Queue, modes: set[str | None]) -> str:
    if None in modes:
        return "it is not known here which policy was in force, so neither whether it was mirrored"
    if not queue.durable:
        return "it was mirrored, but is transient, which a quorum queue cannot be: it is on one node only"
    if queue.auto_delete:
        return "it was mirrored, but is auto-delete, which a quorum queue cannot be: it is on one node only"
    return ""


def convert_to_quorum(queue: Queue, profile: Profile) -> Queue:
    """Return a classic queue as a quorum queue: without arguments that it would be refused for, or with others."""
    accepted, known = profile.settings.quorum_arguments, profile.settings.all_arguments
    arguments: dict[str, Any] = {
        name: value
        for name, value in queue.arguments.items()
        if (name in accepted or name not in known) and not name.startswith("x-ha-")
    }
    if arguments.get("x-overflow") == "reject-publish-dlx":
        arguments["x-overflow"] = "reject-publish"
    return replace(queue, arguments={**arguments, "x-queue-type": "quorum"})


def _refusal(queue: Queue, draft: Draft) -> str:
    """Return why the new release refuses a queue, "" if it does not."""
    profile = draft.now.profile
    try:
        refuse_queue(queue, rules.VirtualHost(draft.now.vhost, profile).describe("queue", queue.name), profile)
    except BrokerError as error:
        return f"as a quorum queue it would be refused: {error}"
    return ""


def make_durable(draft: Draft) -> Iterator[TransformedPart | Left]:
    """Make the transient queues durable; exclusive ones are not part of a topology."""
    for queue in draft.now.queues.values():
        if not queue.durable:
            yield TransformedPart(queue, replace(queue, durable=True))


def remove_lazy_mode(draft: Draft) -> Iterator[TransformedPart | Left]:
    """Remove the argument of lazy mode."""
    yield from _without(draft, "x-queue-mode")


def remove_old_versions(draft: Draft) -> Iterator[TransformedPart | Left]:
    """Remove the version of classic queues that the new release refuses."""
    rule = find_rules(draft.now.profile.settings)["x-queue-version"]
    for queue in draft.now.queues.values():
        version = queue.arguments.get("x-queue-version")
        if version is not None and rule(*resolve_type(version), {}) is not None:
            yield TransformedPart(queue, _drop_argument(queue, "x-queue-version"))


def remove_locators(draft: Draft) -> Iterator[TransformedPart | Left]:
    """Remove queue-master-locator: with another argument in its place, declarations without any would be refused."""
    yield from _without(draft, "x-queue-master-locator")


def shorten_topic_keys(draft: Draft) -> Iterator[TransformedPart | Left]:
    """Write the binding keys of topic exchanges that have more ``#`` than the new release accepts with fewer."""
    most = draft.now.profile.max_many
    for name, exchange in draft.now.exchanges.items():
        if most is None or find_kind(exchange).key_use is not KeyUse.PATTERN:
            continue
        for binding in draft.now.bindings_from(name):
            if binding.routing_key.split(".").count("#") > most:
                shorter = Binding(name, binding.destination, shorten_pattern(binding.routing_key), binding.arguments)
                if shorter.routing_key.split(".").count("#") > most:
                    yield Left(binding, f"no key with {most} '#' or fewer matches the same keys")
                else:
                    yield TransformedPart(binding, shorter)


def shorten_pattern(pattern: str) -> str:
    """Return the shortest pattern of the same meaning: a run of ``*`` and ``#`` is as many ``*``, then one ``#``.

    >>> shorten_pattern("#.a.#.*.#.#"), shorten_pattern("*.#.*")
    ('#.a.*.#', '*.*.#')
    """
    words: list[str] = []
    for wild, group in groupby(pattern.split("."), WILDCARDS.__contains__):
        run = [*group]
        words += ["*"] * run.count("*") + ["#"] * ("#" in run) if wild else run
    return ".".join(words)


def _without(draft: Draft, argument: str) -> Iterator[TransformedPart]:
    for queue in draft.now.queues.values():
        if argument in queue.arguments:
            yield TransformedPart(queue, _drop_argument(queue, argument))


def _drop_argument(queue: Queue, argument: str) -> Queue:
    return replace(queue, arguments={name: value for name, value in queue.arguments.items() if name != argument})
