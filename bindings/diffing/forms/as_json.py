"""A plan and its meaning as JSON: which fields of their values the documents have.

Fields may be added; none is renamed, removed or given another meaning. docs/topology.md describes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypedDict

from bindings.diffing.against import Comparison, FileDiff, VhostDiff
from bindings.diffing.comparison.meaning import Effect
from bindings.diffing.diff import Diff
from bindings.diffing.messages import Moved
from bindings.diffing.planning.fields import FieldChange, find_changes
from bindings.diffing.planning.plan import Plan
from bindings.diffing.planning.step import Step, describe_part
from bindings.diffing.words import describe_term
from exchange.values.documents import document, encode_as


def _part(step: Step) -> str:
    return describe_part(step.part)


def _changes(step: Step) -> list[FieldChange]:
    """What differs between the part and what it takes the place of; empty for a new part."""  # noqa: D401
    return [] if step.old is None else list(find_changes(step.old, step.part))


document("StepJson", "verb, part, danger, changes", part=_part, changes=_changes)(Step)


class RefusedStepJson(TypedDict):
    """A step that the broker would refuse."""

    step: str
    error: str


def _refused(plan: Plan) -> list[RefusedStepJson]:
    return [{"step": str(step), "error": str(error)} for step, error in plan.refused]


def _left_alone(plan: Plan) -> list[str]:
    """What differs but is not touched: the broker's own, and what belongs to exclusive queues."""  # noqa: D401
    return [describe_part(part) for part in plan.left_alone]


document("PlanJson", "steps, refused, left_alone", refused=_refused, left_alone=_left_alone)(Plan)


def _change(effect: Effect) -> Literal["gained", "lost"]:
    return "gained" if effect.gained else "lost"


def _messages(effect: Effect) -> list[str]:
    """Descriptions of the messages."""
    return [describe_term(term, gained=effect.gained) for term in effect.terms]


document(
    "EffectJson",
    "exchange, queue, change, messages, exact, certain, witness, timing if any",
    change=_change,
    messages=_messages,
)(Effect)


@document(
    "DiffJson", "profile, caveats if any, diff.plan, diff.meaning, diff.settings, old_profile if any, messages if any"
)
class DiffDocument(NamedTuple):
    """What it takes to get from one topology to another, and what that means to messages: `hashstar diff --json`."""

    diff: Diff
    profile: str
    """The release of RabbitMQ whose rules were applied, of two that of the new topology."""
    old_profile: str | None = None
    """The release of the old topology, only if it is another one."""
    messages: Moved | None = None
    """Only with `--messages`."""
    caveats: tuple[str, ...] | None = None
    """Which releases are newer than all that are known here, and by whose rules they are judged."""


document("VhostDiffJson", "vhost, profile, caveats if any, diff.plan, diff.meaning, diff.settings, old_profile if any")(
    VhostDiff
)


def _error(file: FileDiff) -> str | None:
    """Why it cannot be compared; null if it can."""
    return None if file.error is None else str(file.error)


document("FileDiffJson", "file = name, before, old_name, state, error, vhosts", error=_error)(FileDiff)


class AgainstJson(TypedDict):
    """Files compared with a revision of their git repository: `hashstar diff --against REF --json`."""

    against: str
    """The revision."""
    files: Sequence[FileDiff]


def to_json(result: Diff, profile: str, old_profile: str | None = None, messages: Moved | None = None) -> Any:
    """Return a plan and its meaning, with the names of the profiles that they follow; ``old_profile`` if it differs."""
    return encode_as(DiffDocument, DiffDocument(result, profile, old_profile, messages))


def comparison_to_json(comparison: Comparison) -> Any:
    """Return the comparison of two topologies; or of files, whose ``vhosts`` are those whose topologies differ."""
    if comparison.against is not None:
        value: AgainstJson = {"against": comparison.against, "files": comparison.files}
        return encode_as(AgainstJson, value)
    [each] = comparison.files[0].vhosts
    diff = DiffDocument(each.diff, each.profile, each.old_profile, comparison.messages, each.caveats)
    return encode_as(DiffDocument, diff)
