"""A plan and its meaning as JSON values.

Fields may be added; none is renamed, removed or given another meaning. docs/topology.md describes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NotRequired, TypedDict

from bindings.diff.against import FileDiff, State
from bindings.diff.comparison.meaning import Meaning, Verdict
from bindings.diff.diff import Diff
from bindings.diff.forms.words import describe_term
from bindings.diff.messages import MovedJson
from bindings.diff.planning.fields import find_changes
from bindings.diff.planning.plan import Plan
from bindings.diff.planning.step import Part, describe_part
from bindings.diff.settings.changes import SettingsChange
from exchange.entities.entities import Destination
from exchange.entities.precedence import ValueJson, value_json
from exchange.topology.unread import UnreadPartJson, unread_to_json
from exchange.values.field_json import message_to_json
from exchange.values.json_types import MessageJson

__all__ = [
    "AgainstJson", "DiffJson", "FieldChangeJson", "MeaningJson", "PlanJson", "SettingsChangeJson", "fields_to_json",
    "files_to_json", "meaning_to_json", "plan_to_json", "settings_to_json", "to_json",
]  # fmt: skip


class FieldChangeJson(TypedDict):
    """A property of a part that differs; null where one side does not have it."""

    name: str
    """`durable`, `arguments.x-max-length`, `definition.max-length` ..."""
    before: Any
    after: Any


class StepJson(TypedDict):
    """A step of a plan."""

    verb: str
    """`declare`, `bind` or `set`; `delete`, `unbind` or `clear`."""
    part: str
    danger: str | None
    """Why the step may lose messages or lead them to wrong queues; null if it does not."""
    changes: list[FieldChangeJson]
    """What differs between the part and what it takes the place of; empty for a new part."""


class RefusedStepJson(TypedDict):
    """A step that the broker would refuse."""

    step: str
    error: str


class PlanJson(TypedDict):
    """Steps from one topology to another, in an order that loses no message on the way."""

    steps: list[StepJson]
    refused: list[RefusedStepJson]
    left_alone: list[str]
    """What differs but is not touched: the broker's own, and what belongs to exclusive queues."""


class AccessJson(TypedDict):
    """An exchange that can be published to now, or no longer."""

    exchange: str
    opened: bool
    """Whether it can be published to now; else it no longer can."""
    reason: Literal["declared", "deleted", "internal"]


class EffectJson(TypedDict):
    """Messages that a queue gains or loses."""

    exchange: str
    """The exchange that they are published to; "" is the default exchange."""
    queue: str
    change: Literal["gained", "lost"]
    messages: list[str]
    """Descriptions of the messages."""
    exact: bool
    """Whether the descriptions are exact; else the messages are among those that match."""
    certain: bool
    """Whether it happens to each of these messages; else a random choice decides."""
    witness: MessageJson
    """A shortest message that shows it."""
    timing: NotRequired[Literal["at once", "later"]]
    """When the messages get to the queue, if they are only those that an exchange delays; else absent."""


class UnroutableJson(TypedDict):
    """Messages that go nowhere now, or no longer do."""

    exchange: str
    now: bool
    """Whether they go nowhere now; else they no longer do."""
    witness: MessageJson


class ChoiceJson(TypedDict):
    """An exchange that chooses otherwise among its bindings."""

    exchange: str
    """The exchange that the messages are published to."""
    at: str
    """The exchange that chooses."""
    by: str
    """What it chooses by: `chance`, `hash`, `selector` or `unknown`."""
    certain: bool
    witness: MessageJson


class PartitionChangeJson(TypedDict):
    """A queue whose partitioning changes."""

    queue: str
    before: str | None
    after: str | None
    witness: MessageJson | None
    """A message that goes to another partition."""
    moved: tuple[str | None, str | None]
    """The witness's partitions before and after; null where its key decides none."""


class DestinationJson(TypedDict):
    """A queue or exchange."""

    kind: str
    """`queue` or `exchange`."""
    name: str


class UndecidedJson(TypedDict):
    """A question that could not be answered."""

    exchange: str | None
    destination: DestinationJson | None
    reason: str


class MeaningJson(TypedDict):
    """Which messages are routed differently."""

    verdict: Verdict
    """`changed`: routes differ for sure; `same`: it is proved that none does; else `undecided`."""
    access: list[AccessJson]
    effects: list[EffectJson]
    unroutable: list[UnroutableJson]
    choices: list[ChoiceJson]
    partitions: list[PartitionChangeJson]
    undecided: list[UndecidedJson]
    unread: list[UnreadPartJson]
    """Parts that are missing in the topologies. If there are any, the verdict is `undecided`."""


class SettingChangeJson(TypedDict):
    """A setting whose value in force differs."""

    name: str
    """As policies name it, without `x-`."""
    before: list[ValueJson | None]
    """The value before, null for none. More than one where it is not known which of several policies was in force."""
    after: list[ValueJson | None]
    means: str | None
    """What that means to messages; null where no message is lost by it, or where `meaning` has it."""
    loses: bool
    """Whether a message may be lost that was not, or leave the queue that kept it."""


class SettingsChangeJson(TypedDict):
    """Queues or exchanges whose settings in force differ in the same way."""

    kind: Literal["exchange", "queue"]
    names: list[str]
    changes: list[SettingChangeJson]
    example: str | None
    """A message that is dead-lettered otherwise; null where none is known."""


class ResultJson(TypedDict):
    """What it takes to get from one topology to another, and what that means to messages."""

    profile: str
    """The release of RabbitMQ whose rules were applied, of two that of the new topology."""
    old_profile: NotRequired[str]
    """The release of the old topology, only if it is another one."""
    plan: PlanJson
    meaning: MeaningJson
    settings: list[SettingsChangeJson]
    """The settings in force that differ, by arguments, policies and operator policies."""


class DiffJson(ResultJson):
    """What it takes to get from one topology to another, and what that means to messages: `hashstar diff --json`."""

    messages: NotRequired[MovedJson]
    """Only with `--messages`."""


class VhostDiffJson(ResultJson):
    """The difference of a virtual host."""

    vhost: str


class FileDiffJson(TypedDict):
    """The difference of a file."""

    file: str
    before: str
    """What it is compared with."""
    old_name: str | None
    """Its name at the revision, from the root of the repository; null for a new file."""
    state: State
    error: str | None
    """Why it cannot be compared; null if it can."""
    vhosts: list[VhostDiffJson]
    """Virtual hosts whose topologies differ."""


class AgainstJson(TypedDict):
    """Files compared with a revision of their git repository: `hashstar diff --against REF --json`."""

    against: str
    """The revision."""
    files: list[FileDiffJson]


def to_json(result: Diff, profile: str, old_profile: str | None = None) -> DiffJson:
    """Return a plan and its meaning, with the names of the profiles that they follow; ``old_profile`` if it differs."""
    values: DiffJson = {
        "profile": profile,
        "plan": plan_to_json(result.plan),
        "meaning": meaning_to_json(result.meaning),
        "settings": settings_to_json(result.settings),
    }
    if old_profile is not None:
        values["old_profile"] = old_profile
    return values


def files_to_json(files: Sequence[FileDiff], revision: str) -> AgainstJson:
    """Return the comparison of files with a revision; ``vhosts`` has the virtual hosts whose topologies differ."""
    return {
        "against": revision,
        "files": [
            {
                "file": file.name,
                "before": file.before,
                "old_name": file.old_name,
                "state": file.state,
                "error": None if file.error is None else str(file.error),
                "vhosts": [
                    {
                        "vhost": each.vhost,
                        "profile": each.profile,
                        "plan": plan_to_json(each.diff.plan),
                        "meaning": meaning_to_json(each.diff.meaning),
                        "settings": settings_to_json(each.diff.settings),
                    }
                    for each in file.vhosts
                ],
            }
            for file in files
        ],
    }


def plan_to_json(todo: Plan) -> PlanJson:
    """Return the plan as JSON values."""
    return {
        "steps": [
            {
                "verb": step.verb,
                "part": describe_part(step.part),
                "danger": step.danger,
                "changes": [] if step.old is None else fields_to_json(step.old, step.part),
            }
            for step in todo.steps
        ],
        "refused": [{"step": str(step), "error": str(error)} for step, error in todo.refused],
        "left_alone": [describe_part(part) for part in todo.left_alone],
    }


def fields_to_json(before: Part, after: Part) -> list[FieldChangeJson]:
    """Return what differs between two parts of one kind as JSON values."""
    return [{"name": each.name, "before": each.before, "after": each.after} for each in find_changes(before, after)]


def meaning_to_json(difference: Meaning) -> MeaningJson:
    """Return the meaning as JSON values; messages as `hashstar route` takes them."""
    return {
        "verdict": difference.verdict,
        "access": [
            {"exchange": access.exchange, "opened": access.opened, "reason": access.reason}
            for access in difference.access
        ],
        "effects": [
            {
                "exchange": effect.exchange,
                "queue": effect.queue,
                "change": "gained" if effect.gained else "lost",
                "messages": [describe_term(term, gained=effect.gained) for term in effect.terms],
                "exact": effect.exact,
                "certain": effect.certain,
                "witness": message_to_json(effect.witness),
                **({} if effect.timing is None else {"timing": effect.timing}),  # type: ignore[typeddict-item]
            }
            for effect in difference.effects
        ],
        "unroutable": [
            {"exchange": lost.exchange, "now": lost.now, "witness": message_to_json(lost.witness)}
            for lost in difference.unroutable
        ],
        "choices": [
            {
                "exchange": choice.exchange,
                "at": choice.at,
                "by": choice.by,
                "certain": choice.certain,
                "witness": message_to_json(choice.witness),
            }
            for choice in difference.choices
        ],
        "partitions": [
            {
                "queue": change.queue,
                "before": None if change.before is None else str(change.before),
                "after": None if change.after is None else str(change.after),
                "witness": None if change.witness is None else message_to_json(change.witness),
                "moved": change.moved,
            }
            for change in difference.partitions
        ],
        "undecided": [
            {
                "exchange": undecided.exchange,
                "destination": _destination_json(undecided.destination),
                "reason": undecided.reason,
            }
            for undecided in difference.undecided
        ],
        "unread": unread_to_json(difference.unread),
    }


def settings_to_json(changes: Iterable[SettingsChange]) -> list[SettingsChangeJson]:
    """Return the settings in force that differ as JSON values."""
    return [
        {
            "kind": change.kind,
            "names": list(change.names),
            "changes": [
                {
                    "name": each.name,
                    "before": [None if value is None else value_json(value) for value in each.before],
                    "after": [None if value is None else value_json(value) for value in each.after],
                    "means": None if each.consequence is None else each.consequence.text,
                    "loses": each.consequence is not None and each.consequence.loses,
                }
                for each in change.changes
            ],
            "example": change.example or None,
        }
        for change in changes
    ]


def _destination_json(destination: Destination | None) -> DestinationJson | None:
    return None if destination is None else {"kind": destination.kind, "name": destination.name}
