"""All targets, by name: one for each parser and decoder of what comes from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bindings.sources.formats import FORMATS
from tests.fuzz import archives, crossings, documents, languages, wire
from tests.fuzz.target import Target

NOTHING: Final[tuple[type[Exception], ...]] = ()
"""For readers that promise not to raise."""
HEAVY: Final = frozenset({
    "bindings-language", "definitions", "selector", "content-header", "amqp-abroad", "kafka-abroad", "kafka-segment",
    "kafka-batches", "rocketmq-log", "rocketmq-messages", "rocketmq-store", "json-lines", "json-lines-splits",
    "tracing-text", "parquet", "detect", "bridge-config",
})  # fmt: skip
"""Targets with many branches: they get three times as much time."""

TARGETS: Final[Mapping[str, Target]] = {
    name: target._replace(weight=3 if name in HEAVY else 1)
    for name, target in {
        **{f"pattern-{name}": Target(languages.patterns(name)) for name in ("amqp", "mqtt", "nats")},
        "bindings-language": Target(languages.bindings_language),
        "definitions": Target(languages.definitions),
        **{name: Target(languages.other_format(name)) for name in FORMATS},
        "message-line": Target(languages.message_line),
        "message-value": Target(languages.message_from_value),
        "typed-value": Target(languages.typed_value),
        "selector": Target(languages.selector),
        "partitioning": Target(languages.partitioning),
        "body-keys": Target(languages.body_keys),
        "field-table": Target(wire.field_table),
        "field-value": Target(wire.field_value),
        "field-text": Target(wire.field_text),
        "content-header": Target(wire.content_header),
        "frames": Target(wire.frames),
        "remoting": Target(wire.remoting),
        "answer-json": Target(wire.answer_json),
        "stored": Target(wire.stored),
        "batch": Target(wire.batch),
        "properties": Target(wire.properties),
        "offset-table": Target(wire.offset_table),
        "ids": Target(wire.ids),
        "management": Target(wire.management),
        "amqp-abroad": Target(crossings.amqp_abroad),
        "kafka-abroad": Target(crossings.kafka_abroad),
        "rocketmq-abroad": Target(crossings.rocketmq_abroad),
        "archived": Target(crossings.archived),
        **{name: Target(run, raises=NOTHING) for name, run in archives.FORMATS.items()},
        "erlang-terms": Target(archives.erlang_terms),
        "settings": Target(documents.settings),
        "bridge-config": Target(documents.bridge_config),
        **{f"saved-{kind}": Target(documents.saved(kind)) for kind in documents.LOADERS},
        "tally-bytes": Target(documents.tally_bytes),
        "ledger": Target(documents.ledger),
        "growth": Target(documents.growth),
        "state-files": Target(documents.state_files),
        "baseline": Target(documents.baseline),
        "recognised": Target(documents.recognised),
        "addresses": Target(documents.addresses),
    }.items()
}
"""Name -> target; its corpus is in the folder of this name."""
