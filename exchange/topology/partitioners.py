"""The code of partitioners that a topology names: ``python:package.module:function``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from exchange.entities.indexes import Change
from exchange.errors import InputError
from exchange.partition.partitioning.specification import Partitioning
from exchange.partition.python_function import PythonFunction
from exchange.topology.topology import Topology


def find_python_partitionings(topology: Topology) -> Mapping[str, Partitioning]:
    """Return the partitionings by functions of the user's own: queue -> partitioning."""
    return {
        name: queue.partitioning
        for name, queue in topology.queues.items()
        if queue.partitioning is not None and isinstance(queue.partitioning.partitioner, PythonFunction)
    }


def import_partitioners(topology: Topology, folder: str = "") -> Topology:
    """Return the topology with the code of its partitioners imported.

    Importing runs code that the topology names: do it only with topologies that you trust as you trust that code.
    ``folder`` is searched after all installed packages. Raises InputError, which names the queue.
    """
    tables = topology.tables()
    for name, partitioning in find_python_partitionings(topology).items():
        try:
            changed = replace(topology.queues[name], partitioning=partitioning.imported(folder))
        except InputError as error:
            raise InputError(f"queue {name!r}: {error}") from error
        tables.apply(Change(True, changed))
    return Topology.from_tables(tables, topology.vhost, topology.profile)
