"""What differs between two parts of one name: flags, arguments, the definition of a policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from bindings.diffing.planning.plan import normalise_arguments
from exchange.entities.entities import Exchange, Policy, Queue
from exchange.entities.part import Part
from exchange.entities.precedence import encode_setting
from exchange.values.documents import document
from exchange.values.field_json import encode

NO_FIELD: Final = object()


@document("FieldChangeJson")
class FieldChange(NamedTuple):
    """A property of a part that differs; None where one side does not have it."""

    name: str
    """``durable``, ``arguments.x-max-length``, ``definition.max-length`` ..."""
    before: Any
    after: Any


def find_changes(before: Part, after: Part) -> Iterator[FieldChange]:
    """Yield what differs between two parts of one kind, as a broker sees them; nothing of bindings."""
    if isinstance(before, Policy) and isinstance(after, Policy):
        yield from _compare(_of_policy(before), _of_policy(after))
    elif isinstance(before, Exchange | Queue) and isinstance(after, Exchange | Queue):
        yield from _compare(_of_flags(before), _of_flags(after))
        old, new = normalise_arguments(before), normalise_arguments(after)
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                yield FieldChange(f"arguments.{name}", _argument(before, name), _argument(after, name))


def _argument(part: Exchange | Queue, name: str) -> Any:
    return encode(part.arguments[name]) if name in part.arguments else None


def _of_flags(part: Exchange | Queue) -> dict[str, Any]:
    names = ("type", "durable", "auto_delete", "internal") if isinstance(part, Exchange) else ("durable", "auto_delete")
    return {name: getattr(part, name) for name in names}


def _of_policy(policy: Policy) -> dict[str, Any]:
    definition = {f"definition.{name}": encode_setting(value) for name, value in policy.definition.items()}
    return {"pattern": policy.pattern, "apply_to": policy.apply_to, "priority": policy.priority, **definition}


def _compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[FieldChange]:
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name, NO_FIELD), after.get(name, NO_FIELD)
        if old != new or type(old) is not type(new):
            yield FieldChange(name, None if old is NO_FIELD else old, None if new is NO_FIELD else new)
