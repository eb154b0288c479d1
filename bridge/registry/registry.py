"""The schemas that bodies are framed with: known ones are kept, and messages wait for others where they are read.

A body is framed as Confluent's serializers do: a zero byte, four bytes with the id of a schema, then the value. Or a
header has the id, a GUID, and the body is the value alone. Which field is a key, only the schema shows. So a delivery
goes on once its schema is known, and those behind it in its source wait: each of them may have the same key. Schemas
are asked for aside, one at a time, and never change. A registry that does not answer is asked again and again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol
from uuid import UUID

from bridge.aside import call_aside
from bridge.endpoint import Delivery, Disconnected, Endpoint, Finding, to_disconnected
from bridge.registry.client import RegistryClient, Schema, SchemaId
from bridge.registry.keys import URL
from exchange.errors import HashstarError
from exchange.limits import SCHEMAS, SCHEMAS_BYTES
from exchange.partition.partitioning.key_source import EncodedBody
from exchange.values.field_values import resolve_type
from exchange.values.message import Message, assemble_message

LOG: Final = logging.getLogger(__name__)

HEADER: Final = "__value_schema_id"
"""Header with the GUID of a schema, which Confluent's newer serializers write."""
GUID: Final = 17
"""Number of bytes of that header: 1, then the GUID."""
FRAME: Final = 5
"""Number of bytes before a framed value."""
WANTED: Final = 100
"""Maximum number of schemas that are asked for before it is looked again which ones are needed."""
BACKOFF: Final = 0.5, 5.0
"""Seconds until the second try to get a schema, which double, and their maximum."""
ANEW: Final = 1.0
"""Seconds after which the registry is asked again for an id that it does not know: one of several servers may learn of
a schema later than those who use it. What it does not know then is no schema, for `UNKNOWN` seconds."""
UNKNOWN: Final = 60.0
RECENT: Final = 2.0
"""Seconds for which a message that waits is taken to wait still; each looks again four times a second."""


class Schemas(Protocol):
    """Gets schemas; the functions of `RegistryClient`, which may wait."""

    def fetch(self, schema_id: SchemaId) -> Schema | None:
        """Return a schema; None if there is none of this id. Raises Disconnected."""

    def fetch_types(self) -> Sequence[str]:
        """Return the types of schemas that the registry has. Raises Disconnected."""


class Registry(Endpoint):
    """A registry of schemas, for the sources of one pipeline."""

    name = "registry"

    def __init__(self, client: Schemas | RegistryClient) -> None:
        self._client: Final = client
        self._known: Final[OrderedDict[SchemaId, Schema]] = OrderedDict()
        """The schemas that were used last."""
        self._bytes = 0
        """Size of these."""
        self._unknown: Final[OrderedDict[SchemaId, tuple[float, bool]]] = OrderedDict()
        """Id that the registry does not know -> when it was asked, and whether that was the second time."""
        self._wakes: Final = set[Callable[[], None]]()
        self._asking: asyncio.Task[None] | None = None
        self._failures = 0
        self._again_at = self._wanted_at = float("-inf")
        self._error: Disconnected | None = None

    @property
    def trouble(self) -> str | None:
        """Reason why messages wait for schemas; None if they do not."""
        is_wanted = asyncio.get_running_loop().time() - self._wanted_at < RECENT
        return f"[registry] {self._error}" if self._error is not None and is_wanted else None

    async def check(self) -> Sequence[Finding]:
        try:
            types = await call_aside(self._client.fetch_types)
        except Disconnected as error:
            return [Finding.from_error(error, URL.name)]
        return [Finding("ok", f"the registry answers, and has schemas of {', '.join(sorted(types))}")]

    def prepare(self, deliveries: Sequence[Delivery], wake: Callable[[], None]) -> int:
        """Return the number of deliveries, from the first on, whose schemas are known; their fields can be found then.

        Others are asked for; ``wake`` is called when there is news. See `bridge.pump.window.Admission`.
        """
        now, ready, wanted = asyncio.get_running_loop().time(), 0, dict[SchemaId, None]()
        for index, delivery in enumerate(deliveries):
            message = delivery.message
            if isinstance(message.body, EncodedBody) or (found := find_schema_id(message)) is None:
                schema, is_known = None, True
            else:
                schema, is_known = self._look_up(found[0], now)
            if not is_known and found is not None:
                wanted[found[0]] = None
                if len(wanted) >= min(WANTED, SCHEMAS):  # no more than are kept
                    break
            elif ready == index:
                ready += 1
                if schema is not None and schema.find is not None and found is not None:
                    body = EncodedBody(message.body)
                    body.find_field = partial(schema.find, found[1])
                    delivery.message = assemble_message(
                        message.exchange, message.routing_key, message.headers, message.properties, body
                    )
        if wanted:
            self._wanted_at = now
            self._wakes.add(wake)
            if self._asking is None and now >= self._again_at:
                self._asking = asyncio.create_task(self._ask([*wanted]))
        return ready

    def _look_up(self, schema_id: SchemaId, now: float) -> tuple[Schema | None, bool]:
        """Return a schema, and whether it is known that there is this one, or none."""
        schema = self._known.get(schema_id)
        if schema is not None:
            self._known.move_to_end(schema_id)
            return schema, True
        asked_at, is_sure = self._unknown.get(schema_id, (now, False))
        return None, is_sure and now - asked_at < UNKNOWN

    async def _ask(self, wanted: Sequence[SchemaId]) -> None:
        """Ask for schemas, one after the other, until one cannot be had."""
        loop = asyncio.get_running_loop()
        try:
            for schema_id in wanted:
                asked_at, is_sure = self._unknown.get(schema_id, (float("-inf"), False))
                if not is_sure and loop.time() - asked_at < ANEW:
                    continue
                schema = await call_aside(self._client.fetch, schema_id)
                if schema is None:
                    self._note_unknown(schema_id, loop.time(), is_second=schema_id in self._unknown)
                else:
                    self._keep(schema_id, schema)
                self._error, self._failures = None, 0
                self._wake()
        except Exception as error:  # noqa: BLE001  whatever it is, the next try may go well
            first, most = BACKOFF
            self._error = to_disconnected(error)
            self._again_at = loop.time() + min(first * 2 ** min(self._failures, 10), most)
            self._failures += 1
            LOG.warning("registry: %s", self._error)
        finally:
            self._asking = None

    def _wake(self) -> None:
        wakes = [*self._wakes]
        self._wakes.clear()
        for wake in wakes:
            wake()

    def _note_unknown(self, schema_id: SchemaId, now: float, *, is_second: bool) -> None:
        self._unknown[schema_id] = now, is_second
        self._unknown.move_to_end(schema_id)
        while len(self._unknown) > SCHEMAS:
            self._unknown.popitem(last=False)
        if is_second:
            LOG.warning("registry: there is no schema %s: bodies with it have no fields", schema_id)

    def _keep(self, schema_id: SchemaId, schema: Schema) -> None:
        self._unknown.pop(schema_id, None)
        if schema.find is None:
            LOG.warning("registry: schema %s: %s: bodies with it have no fields", schema_id, schema.problem)
        self._known[schema_id] = schema
        self._bytes += schema.size
        while len(self._known) > 1 and (len(self._known) > SCHEMAS or self._bytes > SCHEMAS_BYTES):
            self._bytes -= self._known.popitem(last=False)[1].size


def find_schema_id(message: Message) -> tuple[SchemaId, int] | None:
    """Return the id of the schema of a message's body, and the index at which the value begins; None if it has none."""
    try:
        if HEADER in message.headers:
            _, value = resolve_type(message.headers[HEADER])
            if isinstance(value, bytes) and len(value) == GUID and value[0] == 1:
                return str(UUID(bytes=value[1:])), 0
    except (HashstarError, TypeError, ValueError):  # it is not routed either
        return None
    body = message.body
    return (int.from_bytes(body[1:FRAME]), FRAME) if len(body) >= FRAME and not body[0] else None
