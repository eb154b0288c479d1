"""Compare two topologies: the plan from one to the other, what it means to messages, and to the settings in force."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Final, NamedTuple

from bindings.analysis.crawl import Deadline
from bindings.diffing.comparison.compare import compare
from bindings.diffing.comparison.meaning import ChoiceChange, Meaning, UndecidedQuestion
from bindings.diffing.planning.plan import Plan, make_plan
from bindings.diffing.settings.changes import SettingsChange, compare_settings
from bindings.diffing.words import describe_effect, describe_undecided, describe_unroutable, name_parts, quote_message
from bindings.sources.open import load
from exchange.entities.entities import Queue
from exchange.text.display import count_noun
from exchange.text.notebook import write_html
from exchange.topology.topology import Topology

SECONDS: Final = 60.0
"""Maximum duration in seconds of a comparison, unless the caller gives one."""
PLAN_SHARE: Final = 4
"""The search for a safe order of steps gets the time left divided by this."""


class Diff(NamedTuple):
    """The plan from one topology to another, and which messages go elsewhere afterwards.

    >>> result = diff(Topology(), Topology(queues=[Queue("billing")]))
    >>> result
    <Diff: changed; 1 step, 1 queue with other messages, 0 changes of settings>
    >>> result.differs, result.loses, result.gains
    (True, False, True)
    """

    plan: Plan
    meaning: Meaning
    settings: tuple[SettingsChange, ...] = ()
    """The settings in force of queues and exchanges that differ, operator policies included."""

    def __repr__(self) -> str:
        """Return a line: the parts may have thousands of terms."""
        meaning, steps = self.meaning, len(self.plan.steps)
        elsewhere = len({effect.queue for effect in meaning.effects})
        return (
            f"<Diff: {meaning.verdict}; {count_noun(steps, 'step')}, "
            f"{count_noun(elsewhere, 'queue')} with other messages, "
            f"{count_noun(len(self.settings), 'change')} of settings>"
        )

    def _repr_html_(self) -> str:
        """Return the steps, and what they mean to messages and settings, as HTML, which notebooks show."""
        meaning = self.meaning
        lists = {
            "Steps": [f"{step}{f': {step.danger}' if step.danger else ''}" for step in self.plan.steps],
            "Queues with other messages": [
                f"{describe_effect(effect)}, such as {quote_message(effect.witness)}" for effect in meaning.effects
            ],
            "Messages that go nowhere, or no longer do": [describe_unroutable(each) for each in meaning.unroutable],
            "Undecided": [describe_undecided(each) for each in meaning.undecided],
            "Not read": [str(part) for part in meaning.unread],
            "Settings in force": [name_parts(change) for change in self.settings],
        }
        return write_html(repr(self).strip("<>"), {title: items for title, items in lists.items() if items})

    @property
    def differs(self) -> bool:
        """Whether there is a step to do, a message that goes elsewhere, or may, or a setting that differs."""
        return bool(self.plan.steps or self.settings) or self.meaning.verdict != "same"

    @property
    def loses(self) -> bool:
        """Whether a queue or a publisher may lose messages; undecided cases, and parts not read, included."""
        meaning = self.meaning
        return (
            bool(meaning.unread)
            or self._has_open_question(opened=True)
            or any(isinstance(part, Queue) for part in self.plan.replaced)
            or any(not effect.gained for effect in meaning.effects)
            or any(lost.now for lost in meaning.unroutable)
            or any(not access.opened for access in meaning.access)
            or any(change.loses for change in self.settings)
        )

    @property
    def gains(self) -> bool:
        """Whether a queue may get messages that it did not get; undecided cases, and parts not read, included."""
        meaning = self.meaning
        return (
            bool(meaning.unread)
            or self._has_open_question(opened=False)
            or any(effect.gained for effect in meaning.effects)
        )

    def _has_open_question(self, *, opened: bool) -> bool:
        """Return whether something is undecided or left to chance, but for exchanges that are opened, or closed.

        What is published to an exchange that could not be used before is not lost; to one that no longer can be, not
        gained.
        """
        but_for = {access.exchange for access in self.meaning.access if access.opened == opened}
        questions: tuple[UndecidedQuestion | ChoiceChange, ...] = self.meaning.undecided + self.meaning.choices
        return any(question.exchange not in but_for for question in questions)


def diff(
    old: Topology | str | PathLike[str],
    new: Topology | str | PathLike[str],
    *,
    upgraded: bool = False,
    seconds: float = SECONDS,
    progress: Callable[[int, int], None] | None = None,
) -> Diff:
    """Return the plan that makes the new topology of the old one, and what that means to messages.

    Each is a topology, or what `load` takes: a path, or the address of a live broker.

    Each routes by the rules of its own profile: if these are two releases, the result is what an upgrade means, and the
    plan is to be carried out on the release of ``new``. If the broker is ``upgraded`` between them, also to a release
    of the same profile, nothing is proved of exchanges whose choice depends on its metadata store. What is not decided
    within ``seconds`` is reported as undecided, and no difference is reported only where that is proved. ``progress``
    is called with the numbers of destinations compared and to compare.

    Raises InputError for a path that cannot be read, and where a topic exchange has a binding whose key is longer than
    AMQP allows: no router takes it.

    >>> old = Topology(queues=[Queue("billing")]).bind(Binding.to_queue("amq.topic", "billing", "order.*.paid"))
    >>> new = old.bind(Binding.to_queue("amq.topic", "billing", "order.eu.#"))
    >>> for step in diff(old, new).plan.steps:
    ...     print(step)
    bind exchange 'amq.topic' 'order.eu.#' -> queue 'billing'
    """
    old, new = (each if isinstance(each, Topology) else load(each) for each in (old, new))
    deadline = Deadline(seconds)
    steps = make_plan(old.with_profile(new.profile), new, deadline=deadline.share(PLAN_SHARE))
    return Diff(
        steps, compare(old, new, upgraded=upgraded, deadline=deadline, progress=progress), compare_settings(old, new)
    )
