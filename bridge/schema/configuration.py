"""The JSON Schema of ``bridge.toml``, made of the keys that its readers read.

It is draft-07, which every editor with schemas for TOML has. The keys of an endpoint depend on the scheme of its URL: a
table has the keys of all systems, so that editors complete them, and for each scheme a condition with its own ones, so
that a mistake is reported at its key. A URL that begins with a variable may be of any system.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bridge.daemon import keys
from bridge.endpoints import SCHEMES, list_keys
from bridge.keys import Keys
from bridge.pump.keys import OWN_POLICY, POLICY
from exchange.values.json_schema import DRAFT_07, identify

ROLES: Final = {"source": "SOURCE", "target": "TARGET", "dead-letters": "DEAD_LETTERS"}
"""Name of a definition -> name of the keys in the modules ``keys`` of the endpoints."""


def build_bridge_schema() -> dict[str, Any]:
    """Return the schema."""
    definitions: dict[str, Any] = {"policy": _table(POLICY)}
    for name, role in ROLES.items():
        by_system = {folder: list_keys(folder, role) for folder in dict.fromkeys(SCHEMES.values())}
        for folder, own in by_system.items():
            definitions[f"{folder}-{name}"] = _table(own)
        definitions[name] = _endpoint(name, by_system)
    definitions["replies"] = _table(keys.REPLIES_OF)
    definitions["pipeline"] = _refer(_table(keys.PIPELINE))
    root = _refer(_table(keys.FILE))
    names = {"pattern": f"^{keys.PIPELINE_NAME.pattern}$"}
    root["properties"][keys.PIPELINES.name] |= {
        "additionalProperties": {"$ref": "#/definitions/pipeline"}, "propertyNames": names, "minProperties": 1,
    }  # fmt: skip
    of_one = {"required": root.pop("required")}
    has_none = {"properties": {key.name: False for key in keys.OF_EACH}}
    root["allOf"] = [{"if": {"required": [keys.PIPELINES.name]}, "then": has_none, "else": of_one}]
    title = "The configuration of a bridge, bridge.toml"
    return {"$schema": DRAFT_07, "$id": identify("bridge"), "title": title, **root, "definitions": definitions}


def _refer(table: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a pipeline, or of the file, with the definitions of the tables in it."""
    properties = table["properties"]
    for key, definition in ((keys.SOURCES, "source"), (keys.TARGETS, "target"), (keys.REPLIES, "replies")):
        properties[key.name]["additionalProperties"] = {"$ref": f"#/definitions/{definition}"}
    properties[keys.SOURCES.name]["minProperties"] = 1
    properties[keys.POLICY.name] = {"$ref": "#/definitions/policy"}
    properties[keys.DEAD_LETTERS.name] = {"$ref": "#/definitions/dead-letters"}
    return table


def _table(table: Keys) -> dict[str, Any]:
    """Return the schema of a table; a policy of its own is as any other."""
    schema = table.schema
    if OWN_POLICY in table.keys:
        schema["properties"][OWN_POLICY.name] = {"$ref": "#/definitions/policy"}
    return schema


def _any_of(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _endpoint(name: str, by_system: Mapping[str, Keys]) -> dict[str, Any]:
    """Return the schema of an endpoint of any system: one condition for each."""
    forms: dict[str, dict[int, dict[str, Any]]] = {}
    conditions = []
    for folder, own in by_system.items():
        definition = f"#/definitions/{folder}-{name}"
        for key in own.keys:  # a key that several systems share is one object
            forms.setdefault(key.name, {}).setdefault(id(key), {"$ref": f"{definition}/properties/{key.name}"})
        schemes = "|".join([scheme for scheme, each in SCHEMES.items() if each == folder])
        is_of_system = {"properties": {"url": {"pattern": f"^({schemes}):"}}, "required": ["url"]}
        conditions.append({"if": is_of_system, "then": {"$ref": definition}})
    return {
        "type": "object",
        "properties": {key: _any_of([*each.values()]) for key, each in forms.items()},
        "required": ["url"],
        "additionalProperties": False,
        "allOf": conditions,
    }
