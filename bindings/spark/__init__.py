"""Route messages inside Spark: DataFrames, also streaming ones, and a function for SQL. Needs the extra ``spark``.

``import bindings.spark`` loads neither Spark nor Arrow: that is done by the first call.
"""

from typing import TYPE_CHECKING, Final

from exchange.public_names import import_lazily

if TYPE_CHECKING:
    from bindings.spark.frames import register as register
    from bindings.spark.frames import route as route

MODULES: Final = {"route": "frames", "register": "frames"}
"""Public name -> the module of this package that defines it."""

__all__ = tuple(MODULES)

if not TYPE_CHECKING:  # a type checker would take any name for one of the package
    __getattr__, __dir__ = import_lazily(__name__, MODULES)
