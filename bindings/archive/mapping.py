"""Map fields of foreign records to messages: those of Kafka and RocketMQ, and columns of tables and JSON lines.

Kafka and RocketMQ have only topics and keys, so the user names the places of exchange and routing key. A place is

``topic``, ``key``   topic and key of the record; in RocketMQ, the key is the first of KEYS
``tag``              RocketMQ's TAGS
``header:NAME``      a header of Kafka's record, a user property of RocketMQ's message
``=TEXT``            this text, for all records

By default the topic is the exchange and the key the routing key, which is empty for a record without a key. For
Parquet, Avro, JSON lines and CSV of other programs, `bindings.archive.columns` has the fields and the places.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from exchange.errors import InputError
from exchange.text.display import suggest

COLUMNS: Final = ("exchange", "routing_key", "headers", "properties", "timestamp", "body", "vhost", "size")
"""Fields of a message that may be given a column."""


@dataclass(frozen=True, slots=True)
class FieldMapping:
    """The places of the fields of a message. Raises InputError for a text that names no place, or no field.

    >>> FieldMapping(columns=(("exchange", "exch"), ("headers", "hdrs"))).columns[0]
    ('exchange', 'exch')
    """

    exchange: str = "topic"
    routing_key: str = "key"
    columns: tuple[tuple[str, str], ...] = ()
    """Field and column, path or constant, of tables and JSON lines; a field not listed is found by its name."""

    def __post_init__(self) -> None:
        if not isinstance(self.columns, tuple) or not isinstance(self.exchange, str):
            raise TypeError('FieldMapping: columns are pairs, columns=(("exchange", "exch"), ("headers", "hdrs"))')
        check_place(self.exchange)
        check_place(self.routing_key)
        for field, place in self.columns:
            if field not in COLUMNS or not place:
                raise InputError(f"{field}={place}: {_explain_field(field)}")

    @property
    def allows_no_key(self) -> bool:
        """Whether a record without a key is a message with an empty routing key; without another place it is bad."""
        return self.routing_key == "key"


def _explain_field(field: str) -> str:
    if field not in COLUMNS:
        return f"{field!r} is no field of a message{suggest(field, COLUMNS, or_list=True)}"
    return f"no column is named; {field}== leaves the field out"


def check_place(place: str) -> str:
    """Return the text if it names a place, else raise InputError."""
    if place in ("topic", "key", "tag") or place.startswith(("header:", "=")):
        return place
    raise InputError(
        f"{place!r} is no place for an exchange or routing key: topic, key, tag, header:NAME or =TEXT; "
        f"the text itself is written ={place}"
    )


def parse_columns(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the fields and places in texts such as ``exchange=exch``. Raises InputError for another text."""
    columns: dict[str, str] = {}
    for text in texts:
        field, equals, place = text.partition("=")
        if not equals:
            raise InputError(f"{text!r}: a column is FIELD=COLUMN, such as exchange=exch")
        if columns.setdefault(field, place) != place:
            raise InputError(f"{text!r}: {field} has a column already: {columns[field]}")
    return tuple(sorted(columns.items()))


RECORDS_NOTE: Final = "exchange and routing key of records are taken from where --exchange and --routing-key point"
"""What users are shown of archives of Kafka's records."""
USUAL: Final = FieldMapping()
"""The topic is the exchange, the key the routing key; columns are found by their names."""
