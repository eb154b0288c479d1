"""A plan and its meaning as JSON values.

Fields may be added; none is renamed, removed or given another meaning. docs/topology.md describes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bindings.diff.against import FileDiff
from bindings.diff.comparison.meaning import Meaning
from bindings.diff.diff import Diff
from bindings.diff.forms.words import describe_term
from bindings.diff.planning.plan import Plan
from bindings.diff.planning.step import describe_part
from exchange.field_json import message_to_json

__all__ = ["files_to_json", "meaning_to_json", "plan_to_json", "to_json"]


def to_json(result: Diff, profile: str) -> dict[str, Any]:
    """Return a plan and its meaning, with the name of the profile that both follow."""
    return {"profile": profile, "plan": plan_to_json(result.plan), "meaning": meaning_to_json(result.meaning)}


def files_to_json(files: Sequence[FileDiff], revision: str) -> dict[str, Any]:
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
                "vhosts": [{"vhost": each.vhost, **to_json(each.diff, each.profile)} for each in file.vhosts],
            }
            for file in files
        ],
    }


def plan_to_json(todo: Plan) -> dict[str, Any]:
    """Return the plan as JSON values."""
    return {
        "steps": [{"verb": step.verb, "part": describe_part(step.part), "danger": step.danger} for step in todo.steps],
        "refused": [{"step": str(step), "error": str(error)} for step, error in todo.refused],
        "left_alone": [describe_part(part) for part in todo.left_alone],
    }


def meaning_to_json(difference: Meaning) -> dict[str, Any]:
    """Return the meaning as JSON values; messages as `hashstar route` takes them."""
    return {
        "verdict": difference.verdict,
        "access": [access._asdict() for access in difference.access],
        "effects": [
            {
                "exchange": effect.exchange,
                "queue": effect.queue,
                "change": "gained" if effect.gained else "lost",
                "messages": [describe_term(term, gained=effect.gained) for term in effect.terms],
                "exact": effect.exact,
                "certain": effect.certain,
                "witness": message_to_json(effect.witness),
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
                "moved": list(change.moved),
            }
            for change in difference.partitions
        ],
        "undecided": [
            {
                "exchange": undecided.exchange,
                "destination": None if undecided.destination is None else undecided.destination._asdict(),
                "reason": undecided.reason,
            }
            for undecided in difference.undecided
        ],
    }
