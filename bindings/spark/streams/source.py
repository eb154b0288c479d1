"""Read streams of RabbitMQ in Spark: ``spark.readStream.format("rabbitmq-stream").option("stream", NAME).load()``.

Options:

=============================  ======================================================================================
``url``                        ``amqp://USER:PASSWORD@HOST:PORT/VHOST`` or ``amqps:``; further hosts of the cluster
                               follow behind commas
``user``, ``password``         instead of those in the URL. Neither Spark nor an error shows URL or password
``stream``                     the name of a stream
``superStream``                instead, the name of a super stream: its partitions are the streams NAME-0, NAME-1 ...
                               New ones are looked for once in a minute, and read from their beginning
``routingKeys``                its partitions are named by routing keys instead: ``eu,us`` for NAME-eu, NAME-us
``startingOffsets``            where a query without a checkpoint begins: ``first``, the default; ``last``, the last
                               chunk; ``next``, what is published from now on; an offset; a time, as
                               ``2026-11-30T08:00:00Z``, or an age as ``12h``, with the whole chunk that has it
``endingOffsets``              of ``spark.read``, the offset behind the last one; by default, all there is
``maxOffsetsPerTrigger``       maximum number of offsets in a micro-batch, over all partitions; Spark 4.2 or later
``failOnDataLoss``             ``false``: offsets that retention has removed are skipped, and counted in a warning, as
                               is a stream that was declared again; by default, they end the query
``prefetch``                   maximum number of messages on their way to a task, 256: brokers hold them in memory
``caFile``, ``certFile``,      certificates for ``amqps:`` as files of PEM, on each machine; the name in the broker's
``keyFile``, ``serverName``    certificate, if it is not the host
``columns``, ``mode``,         as of the source ``hashstar``: see `bindings.auditing.spark.source`
``columnNameOfCorruptRecord``
=============================  ======================================================================================

Rows have the columns of `bindings.archive.record`: ``source`` is the stream and ``offset`` the offset in it, which is
not among the headers; ``time`` is the property ``timestamp``. A task reads one stream, in the order of its offsets, on
a connection of its own. It reads the same rows for the same offsets whenever it runs, and the offsets are in Spark's
checkpoint: so a sink of Spark that writes each micro-batch once has each message once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import sleep
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from bindings.applying.amqp import require_pika
from bindings.archive.reading import SAMPLE_BYTES, Bad, Item
from bindings.archive.record import Rows
from bindings.auditing.spark.session import find_spark_version, register_source, ship_packages
from bindings.auditing.spark.source import RowOptions, to_rows
from bindings.auditing.spark.streaming import SupportsTriggerAvailableNow
from bindings.sources.address import parse_address
from bindings.spark.streams.client import PREFETCH, Login
from bindings.spark.streams.log import OffsetRange, Position, StreamMessage, describe_loss, read_range, report_loss
from bindings.spark.streams.offsets import decode_offsets, encode_offsets
from bindings.spark.streams.planning import Planner, StreamNames, find_whole
from exchange.amqp import MalformedHeader
from exchange.amqp.streams import OFFSET_DIGITS, STREAM_OFFSET, is_offset
from exchange.errors import InputError
from exchange.files.names import AMQP
from exchange.text.display import suggest
from exchange.text.numbers import explain_empty_range
from exchange.values.message import assemble_message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE: Final = "amqp://USER:PASSWORD@HOST:PORT/VHOST"
AGE: Final = re.compile(r"[0-9]{1,9}[YMDhms]")
MAX_PREFETCH: Final = 65_535
"""Maximum number of unacknowledged deliveries that AMQP can ask for."""
OPTIONS: Final = (
    "url", "user", "password", "stream", "superStream", "routingKeys", "startingOffsets", "endingOffsets",
    "maxOffsetsPerTrigger", "failOnDataLoss", "prefetch", "caFile", "certFile", "keyFile", "serverName", "columns",
    "mode", "columnNameOfCorruptRecord",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """The options of the source, read."""

    login: Login
    names: StreamNames
    position: Position
    end: int | None
    most: int | None
    fail_on_data_loss: bool

    @classmethod
    def read(cls, options: Mapping[str, str]) -> StreamSettings:
        """Read them. Raises InputError, which shows no password."""
        known = {name.lower() for name in OPTIONS}
        for name in options:
            if name.lower() not in known:
                raise InputError(f"there is no option {name!r}{suggest(name, OPTIONS, or_list=True)}")
        names = StreamNames(
            options.get("stream", ""), options.get("superStream", ""), _split(options.get("routingKeys", ""))
        )
        if bool(names.stream) == bool(names.super_stream):
            raise InputError('name one: .option("stream", NAME) or .option("superStream", NAME)')
        if names.keys and names.stream:
            raise InputError("routingKeys are of a superStream")
        fail = options.get("failOnDataLoss", "true").lower()
        if fail not in ("true", "false"):
            raise InputError(f"failOnDataLoss is {fail!r}; it can be true or false")
        start = parse_position(options.get("startingOffsets", "first"))
        end = _read_number(options, "endingOffsets", 0, 10**OFFSET_DIGITS)
        # Equal ones are no mistake: programs that read on where they stopped ask so if there are no new messages.
        if isinstance(start, int) and start != end and (problem := explain_empty_range(start, end, "startingOffsets")):
            raise InputError(f"endingOffsets {problem}")
        return cls(
            _read_login(options),
            names,
            start,
            end,
            _read_number(options, "maxOffsetsPerTrigger", 1, 10**OFFSET_DIGITS),
            fail == "true",
        )

    def make_planner(self) -> Planner:
        """Return what plans reading."""
        return Planner(self.login.connect, self.names, fail_on_data_loss=self.fail_on_data_loss)


def _read_login(options: Mapping[str, str]) -> Login:
    require_pika()
    url = options.get("url")
    if url is None:
        raise InputError(f'name the broker: .option("url", "{EXAMPLE}")')
    address = parse_address(url, AMQP, EXAMPLE)
    files = [name for name in ("caFile", "certFile", "keyFile", "serverName") if options.get(name)]
    if address.scheme != "amqps" and files:
        raise InputError(f"{', '.join(files)}: the url must begin with amqps:")
    user, password = options.get("user", address.user), options.get("password", address.password)
    login = Login(
        address, user or "guest", password or "guest", unquote(address.path[1:]) or "/",
        options.get("caFile"), options.get("certFile"), options.get("keyFile"), options.get("serverName"),
        _read_number(options, "prefetch", 1, MAX_PREFETCH) or PREFETCH,
    )  # fmt: skip
    login.make_context()
    return login


def _read_number(options: Mapping[str, str], name: str, least: int, most: int) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not is_offset(text) or not least <= int(text) <= most:
        raise InputError(f"{name} is {text!r}; it is a number from {least:,} to {most:,}")
    return int(text)


def _split(text: str) -> tuple[str, ...]:
    return tuple(name for each in text.split(",") if (name := each.strip()))


def parse_position(text: str) -> Position:
    """Return where a text says that reading begins. Raises InputError."""
    if text in ("first", "last", "next") or AGE.fullmatch(text):
        return text
    if is_offset(text):
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f"startingOffsets is {text!r}; it is first, last, next, an offset, an age as 12h, or a time as "
            "2026-11-30T08:00:00Z"
        ) from None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def register_streams(spark: SparkSession) -> None:
    """Register the data source ``rabbitmq-stream``, and send this package to workers that lack it.

    They need pika, numpy, pyarrow and pandas, and reach the broker.

    >>> register_streams(spark)
    >>> stream = spark.readStream.format("rabbitmq-stream").option("url", url).option("stream", "orders").load()
    """
    find_spark_version()
    require_pika()
    ship_packages(spark)
    register_source(spark, StreamSource)


class StreamSource(DataSource):
    """The data source ``rabbitmq-stream``. Wrong options raise InputError, inside an error of Spark."""

    @classmethod
    def name(cls) -> str:
        return "rabbitmq-stream"

    def schema(self) -> str:
        StreamSettings.read(self.options)
        return RowOptions.read(self.options).spark_schema

    def reader(self, schema: StructType) -> DataSourceReader:
        return _StreamBatchReader(StreamSettings.read(self.options), RowOptions.read(self.options, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return _GrowingStreamReader(StreamSettings.read(self.options), RowOptions.read(self.options, schema))


class _RangePartition(InputPartition):
    """What a task reads."""

    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(wanted)


class _RangeReader:
    """Reads in a task what was planned in the driver."""

    def __init__(self, settings: StreamSettings, row_options: RowOptions) -> None:
        self._settings = settings
        self._row_options = row_options

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return to_rows(read_items(self._settings, partition.value, self._row_options.of_records), self._row_options)


class _StreamBatchReader(_RangeReader, DataSourceReader):
    """Reads what streams have now."""

    def partitions(self) -> Sequence[InputPartition]:
        planner = self._settings.make_planner()
        try:
            ranges = find_whole(planner, self._settings.position, self._settings.end)
        finally:
            planner.close()
        return [_RangePartition(each) for each in ranges] or [_RangePartition(OffsetRange("", 0, 0))]


class _GrowingStreamReader(_RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads streams as they grow."""

    def __init__(self, settings: StreamSettings, row_options: RowOptions) -> None:
        if settings.most is not None and not hasattr(DataSourceStreamReader, "getDefaultReadLimit"):
            raise InputError("maxOffsetsPerTrigger needs pyspark 4.2 or later")
        super().__init__(settings, row_options)
        self._planner: Planner | None = None
        self._holds = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planner": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return encode_offsets(self._plan().find_start(self._settings.position))

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows  # not before Spark 4.2

        return ReadAllAvailable() if self._settings.most is None else ReadMaxRows(self._settings.most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._holds = True

    def latestOffset(self, start: dict[str, Any] | None = None, limit: object = None) -> dict[str, Any]:  # noqa: N802
        """Return how far the next micro-batch reads; all for Spark before 4.2, which does not pass ``start``."""
        planner, begun = self._plan(), decode_offsets(start or {})
        if self._holds:
            planner.hold_ends(begun)
            self._holds = False
        return encode_offsets(planner.find_ends(begun, getattr(limit, "max_rows", None)))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [_RangePartition(each) for each in self._plan().plan(decode_offsets(start), decode_offsets(end))]

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()

    def _plan(self) -> Planner:
        if self._planner is None:
            self._planner = self._settings.make_planner()
        return self._planner


def read_items(settings: StreamSettings, wanted: OffsetRange, columns: Sequence[str]) -> Iterator[Item]:
    """Yield the messages of a range as records, and `Bad` for one whose headers cannot be read."""

    def lose(lost: int, first: int) -> None:
        report_loss(describe_loss(wanted.stream, wanted.start, lost, first), fails=settings.fail_on_data_loss)

    if wanted.start == wanted.end:
        return
    rows = Rows(wanted.stream, columns, is_received=True)
    for message in read_range(settings.login.connect, wanted, lose, sleep):
        try:
            _add(rows, message, settings.login.vhost)
        except (InputError, MalformedHeader) as error:
            if len(rows):
                yield rows.batch()  # rows stay in the order of offsets
            yield Bad(wanted.stream, message.offset, str(error), message.body[:SAMPLE_BYTES])
        if rows.is_full:
            yield rows.batch()
    if len(rows):
        yield rows.batch()


def _add(rows: Rows, message: StreamMessage, vhost: str) -> None:
    """Add a message as it was published. Raises InputError, MalformedHeader."""
    content = message.content.without_header(STREAM_OFFSET)
    headers, properties = content.headers(), content.properties()
    sent = properties.get("timestamp")
    published = assemble_message(message.exchange, message.routing_key, headers, properties, message.body)
    rows.add(published, None if sent is None else sent.value * 1_000_000, vhost, offset=message.offset)
