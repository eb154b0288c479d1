"""Validators of our JSON Schemas, and documents as they see them."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from functools import cache
from typing import Any

from bridge.schema.names import SCHEMAS
from exchange.values.json_schema import DRAFT_07


def validator_class(draft: str = "") -> Any:
    """Return the class of validators of a draft, 2020-12 if it is not draft 7."""
    import jsonschema  # not in all processes

    return jsonschema.Draft7Validator if draft == DRAFT_07 else jsonschema.Draft202012Validator


@cache
def build(name: str) -> dict[str, Any]:
    """Return the schema of a name."""
    return SCHEMAS[name].build(name)


@cache
def validator(name: str) -> Any:
    """Return the validator of a schema."""
    schema = build(name)
    return validator_class(schema["$schema"])(schema)


@cache
def closed(name: str) -> Any:
    """Return the validator of a schema that allows no other fields than it has."""
    return validator_class()(close(build(name)))


def close(schema: Any) -> Any:
    """Return a schema in which every object with ``properties`` has no others."""
    if isinstance(schema, list):
        return [close(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    within = {key: close(value) for key, value in schema.items()}
    is_object = isinstance(schema.get("properties"), dict) and schema.get("type") == "object"
    return {"additionalProperties": False, **within} if is_object else within


def as_json(value: Any) -> Any:
    """Return values of TOML as JSON has them: dates are texts."""
    if isinstance(value, dict):
        return {key: as_json(each) for key, each in value.items()}
    if isinstance(value, list):
        return [as_json(each) for each in value]
    if isinstance(value, date):
        return value.isoformat()
    return float(value) if isinstance(value, Decimal) else value
