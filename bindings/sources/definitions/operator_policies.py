"""Operator policies in definitions: a broker exports them as parameters, other tools write a section of their own."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from bindings.sources.definitions.entries import SECTIONS, Entry, Object
from exchange.entities.entities import Policy
from exchange.errors import InputError

COMPONENT: Final = "operator_policy"
"""The component of the runtime parameters that are operator policies."""
SECTION: Final = "operator_policies"


def read_operator_policies(
    document: Mapping[str, Any], *, with_idle: bool = False
) -> Iterator[tuple[str | None, Policy]]:
    """Yield the virtual host and the policy of each; None for an entry that names no virtual host.

    A parameter without "apply-to" is imported and applies to nothing: those are yielded only ``with_idle``.

    Raises InputError, which names the position, for what is no policy.
    """
    for key, index, item in _items(document):
        place = f"{key}[{index}]"
        if key == SECTION:
            value = {"apply-to": "queues", **item}
        else:
            if not isinstance(item.get("value"), dict):
                raise InputError(f"{place}.value: an operator policy is an object")
            value, place = {"name": item.get("name"), **item["value"]}, f"{place}.value"
        vhost = item.get("vhost")
        policy = SECTIONS["policies"](value, place)
        if isinstance(policy, Policy) and (with_idle or "apply-to" in value):
            yield vhost if isinstance(vhost, str) else None, replace(policy, operator=True)


def write_operator_policies(
    document: Mapping[str, Any], policies: Mapping[str, Policy], names: set[str | None], vhost: str | None
) -> Object:
    """Return the sections of definitions after these policies were added, or replaced those of their names.

    ``names`` are the values that the field "vhost" has in entries of the virtual host, ``vhost`` is that of new ones.
    Other operator policies stay.
    """
    left = dict(policies)
    sections = _copy_sections(document)
    for key, index, item in _items(document):
        name = item.get("name")
        policy = left.pop(name, None) if isinstance(name, str) and item.get("vhost") in names else None
        if policy is None:
            continue
        fields = _fields(policy)
        if key == SECTION:
            sections[key][index] = {**item, **fields}
        else:
            sections[key][index] = {**item, "value": {**item["value"], **fields}}
    if left:
        new = [
            {
                **({} if vhost is None else {"vhost": vhost}),
                "component": COMPONENT,
                "name": name,
                "value": _fields(policy),
            }
            for name, policy in left.items()
        ]
        sections["parameters"] = [*sections.get("parameters", ()), *new]
    return sections


def remove_operator_policies(document: Mapping[str, Any], gone: Collection[str], names: set[str | None]) -> Object:
    """Return the sections of definitions without the operator policies of some names; ``names`` as for writing."""
    sections = _copy_sections(document)
    for key, index, item in reversed([*_items(document)]):
        if item.get("vhost") in names and item.get("name") in gone:
            del sections[key][index]
    return sections


def _copy_sections(document: Mapping[str, Any]) -> Object:
    return {key: list(document[key]) for key in ("parameters", SECTION) if isinstance(document.get(key), list)}


def _items(document: Mapping[str, Any]) -> Iterator[tuple[str, int, Object]]:
    """Yield section, index and object of each operator policy."""
    for key in ("parameters", SECTION):
        section = document.get(key)
        for index, item in enumerate(section if isinstance(section, list) else ()):
            if isinstance(item, dict) and (key == SECTION or item.get("component") == COMPONENT):
                yield key, index, item


def _fields(policy: Policy) -> Object:
    fields = Entry.new(policy, None).object()
    del fields["name"]
    return fields
