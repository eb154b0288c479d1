"""Route the messages of a DataFrame, and of SQL, on the workers of Spark: `route` and `register`.

Rows are answered by a function over columns of Arrow, which gets only the columns that decide. It keeps no state, so
streaming DataFrames are routed like others.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from bindings.archive.columns import explain_missing, find_schema_places, list_schema
from bindings.archive.formats.foreign import WrongColumn, read_foreign, select_columns
from bindings.archive.mapping import USUAL, FieldMapping
from bindings.auditing.spark.session import find_spark_version, ship_packages
from bindings.counts.columnar.counting import Tallier
from bindings.sources.open import load
from bindings.spark.answers import ANSWER, SPARK_ANSWER, RoutingSetup, build_function
from exchange.errors import InputError
from exchange.kinds import Decider, find_kind
from exchange.topology.topology import Topology

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PYSPARK: Final = (4, 1)
"""Minimum release of pyspark: the first one whose functions take columns of Arrow."""
HELD: Final = "_hashstar"
"""Column that holds the answer before it becomes columns."""
ARGUMENTS: Final = ("exchange", "routing_key", "headers", "properties", "body")
"""Arguments of the function in SQL, which may end after ``routing_key``."""

Path = str | os.PathLike[str]


def route(df: DataFrame, topology: Topology | Path, *, mapping: FieldMapping = USUAL) -> DataFrame:
    """Return a DataFrame with where each of its messages goes, as `exchange.Router.route` says of one.

    It has the columns of ``df``, and these:

    * ``queues``, an array of the names of the queues that get the message, sorted;
    * ``partitions``, a map from each partitioned queue among them to the id of the partition, which is null where the
      key does not decide: where a client would take turns or its chance, and for code of the user's own;
    * ``unroutable``, whether no queue gets it; null if that depends on an exchange of unknown type;
    * ``error``, with which the broker refuses the message, else null.

    ``mapping`` names the columns of the fields, as for `bindings.audit`: others than ``exchange``, ``routing_key``,
    ``headers``, ``properties`` ... are found by usual names. A row that is no message, or is of another virtual host,
    has nulls, and the reason in ``error``. A topology given as text or path is opened by `bindings.load`.

    ``df`` may be streaming. Behind an exchange that chooses at random, each evaluation chooses anew.

    >>> answered = route(messages, "examples/orders/orders.bindings")
    >>> answered.where("unroutable").groupBy("exchange").count().show()

    Raises InputError if columns are missing or of a type that cannot be the field, or have a name of those above.
    """
    from pyspark.sql import functions

    opened, decide = _open(topology)
    schema = df.sparkSession.createDataFrame([], df.schema).toArrow().schema  # a streaming one has no rows to convert
    taken = {name.lower() for name in df.columns} & {*ANSWER.names, HELD}
    if taken:
        raise InputError(f"there is a column {', '.join(sorted(taken))} already, which routing adds: rename it")
    places = find_schema_places(schema, mapping, "this DataFrame")
    if not {"exchange", "routing_key"} <= places.keys():
        raise InputError(f"no messages: {explain_missing(list_schema(schema), dict(mapping.columns))}")
    names = select_columns(schema.names, places, decide)
    setup = RoutingSetup(opened, decide, tuple(names), places)
    try:
        [*read_foreign(_make_empty(schema, names), "", 0, setup.wanted, places)]
    except WrongColumn as error:
        raise InputError(str(error)) from None
    answer = _build_udf(df.sparkSession, setup)
    # Without a column there would be no rows: a constant exchange and key.
    columns = [functions.col(_quote(name)) for name in names] or [functions.lit(None)]
    return df.select("*", answer(*columns).alias(HELD)).select("*", f"{HELD}.*").drop(HELD)


def register(spark: SparkSession, topology: Topology | Path, name: str = "hashstar_route") -> Any:
    """Register a function for SQL that routes messages, and return it: ``hashstar_route(exchange, routing_key)``.

    It takes headers, properties and body as further arguments, in this order, of the types that `route` takes columns
    of, and returns a struct with the fields ``queues``, ``partitions``, ``unroutable`` and ``error`` of `route`.

    >>> register(spark, "examples/orders/orders.bindings")
    >>> spark.sql("SELECT hashstar_route('orders', 'order.eu.paid').queues").first()[0]
    ['audit', 'billing', 'shipping-eu']
    """
    opened, decide = _open(topology)
    setup = RoutingSetup(opened, decide, ARGUMENTS, {name: name for name in ARGUMENTS})
    return spark.udf.register(name, _build_udf(spark, setup))


def _open(topology: Topology | Path) -> tuple[Topology, tuple[str, ...]]:
    """Return a topology, and the columns of records that decide where its messages go."""
    version = find_spark_version()
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < PYSPARK:
        raise InputError(f"routing in Spark needs pyspark {'.'.join(map(str, PYSPARK))} or later, found {version}")
    opened = topology if isinstance(topology, Topology) else load(topology)
    decide = dict.fromkeys(("vhost", *Tallier(opened, sketches=False).columns))
    return opened, tuple([name for name in decide if name not in ("exchange", "routing_key", "time")])


def _make_empty(schema: pa.Schema, names: list[str]) -> pa.RecordBatch:
    fields = [schema.field(name) for name in names]
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in fields], schema=pa.schema(fields))


def _build_udf(spark: SparkSession, setup: RoutingSetup) -> Any:
    from pyspark.sql.pandas.functions import arrow_udf

    ship_packages(spark)
    build: Any = arrow_udf  # declared for fixed numbers of columns only
    function = build(build_function(setup), SPARK_ANSWER)
    draws = any(find_kind(each).decider is Decider.CHANCE for each in setup.topology.exchanges.values())
    return function.asNondeterministic() if draws else function


def _quote(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
