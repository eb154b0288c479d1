"""Record bodies as Confluent's serializers write them, with what the registry answers about their schemas.

::

    $ pip install 'confluent-kafka[schemaregistry,avro,json]'
    $ python -m tests.recorders.serializers http://127.0.0.1:8080/apis/ccompat/v7
"""

from __future__ import annotations

import json
import sys
import urllib.request
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from confluent_kafka import libversion

GOLDEN: Final = Path(__file__).parents[1] / "golden"

KIND: Final = {"type": "enum", "name": "Kind", "namespace": "org.shop", "symbols": ["RETAIL", "WHOLESALE"]}
ORDER: Final = {
    "type": "record",
    "name": "Order",
    "namespace": "org.shop",
    "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "sku", "type": "string"}, {"name": "count", "type": "int"},
        ]}}},
        {"name": "labels", "type": {"type": "map", "values": "string"}},
        {"name": "customer", "type": ["null", {"type": "record", "name": "Customer", "fields": [
            {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
            {"name": "referrer", "type": ["null", "Customer"]},
            {"name": "kind", "type": "Kind"},
        ]}]},
    ],
}  # fmt: skip
CUSTOMER: Final = {
    "id": UUID(int=7),
    "referrer": {"id": UUID(int=8), "referrer": None, "kind": "RETAIL"},
    "kind": "WHOLESALE",
}
VALUE: Final = {
    "at": datetime(2026, 11, 30, tzinfo=UTC), "total": Decimal("12.34"), "lines": [{"sku": "ä-1", "count": 2}],
    "labels": {"region": "eu"}, "customer": CUSTOMER,
}  # fmt: skip
JSON_SCHEMA: Final = {
    "$schema": "http://json-schema.org/draft-07/schema#", "title": "Order", "type": "object",
    "properties": {"customer": {"type": "object"}, "lines": {"type": "array"}},
}  # fmt: skip
JSON_VALUE: Final = {"customer": {"id": "ä7"}, "lines": [1, 2]}


def main(url: str) -> None:
    """Register the schemas, write the values, and record both."""
    from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.schema_registry.json_schema import JSONSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    client: Any = SchemaRegistryClient({"url": url})
    client.register_schema("org.shop.Kind", Schema(json.dumps(KIND), "AVRO"))
    referring = Schema(json.dumps(ORDER), "AVRO", [SchemaReference("org.shop.Kind", "org.shop.Kind", 1)])
    write: dict[str, tuple[Any, Any]] = {
        "avro": (AvroSerializer(client, referring), VALUE),
        "json": (JSONSerializer(json.dumps(JSON_SCHEMA), client), JSON_VALUE),
    }
    bodies = {
        name: serializer(value, SerializationContext(f"recorded-{name}", MessageField.VALUE))
        for name, (serializer, value) in write.items()
    }
    paths = [f"/schemas/ids/{int.from_bytes(body[1:5])}" for body in bodies.values()]
    paths.append("/subjects/org.shop.Kind/versions/1?deleted=true")
    answers = {}
    for path in paths:
        with urllib.request.urlopen(url + path, timeout=60) as answer:  # noqa: S310  the registry of whoever records
            answers[path] = json.load(answer)
    recorded = {
        "client": f"confluent-kafka, librdkafka {libversion()[0]}",
        "answers": answers,
        "bodies": {name: body.hex() for name, body in bodies.items()},
    }
    file = GOLDEN / "confluent-serializers.json"
    file.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
