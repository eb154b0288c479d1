"""Route messages inside Spark: DataFrames, also streaming ones, and a function for SQL. Needs the extra ``spark``.

`register_streams` makes streams of RabbitMQ sources of Spark; it needs the extra ``rabbitmq``, too.

``import bindings.spark`` loads neither Spark nor Arrow: that is done by the first call.
"""

from typing import TYPE_CHECKING, Final

from exchange.public_names import import_lazily

if TYPE_CHECKING:
    from bindings.spark.frames import register as register
    from bindings.spark.frames import route as route
    from bindings.spark.streams.source import register_streams as register_streams

MODULES: Final = {"route": "frames", "register": "frames", "register_streams": "streams.source"}
"""Public name -> the module of this package that defines it."""

__all__ = tuple(MODULES)

if not TYPE_CHECKING:  # a type checker would take any name for one of the package
    __getattr__, __dir__ = import_lazily(__name__, MODULES)
