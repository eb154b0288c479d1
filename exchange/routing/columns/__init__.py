"""Route whole columns of messages. Needs numpy and pyarrow (extra ``audit``); imported only where they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exchange.arrays.arrow import import_arrow
from exchange.kinds import Choose
from exchange.topology.topology import Topology

if TYPE_CHECKING:
    from exchange.routing.columns.column_router import ColumnRouter, MakeRouter

__all__ = ["build_column_router"]


def build_column_router(topology: Topology, choose: Choose, make_router: MakeRouter) -> ColumnRouter:
    """Return a router of columns. Raises InputError naming the extra if numpy or pyarrow is not installed."""
    import_arrow()
    from exchange.routing.columns.column_router import ColumnRouter

    return ColumnRouter(topology, choose, make_router)
