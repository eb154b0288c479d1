"""``python -m benchmarks [--quick] [--only NAME ...]``: one table for each workload."""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Final

from benchmarks import (
    audit,
    audit_kernel,
    bindings,
    bridge,
    bridge_keys,
    bridge_spans,
    broker,
    check_lives,
    codec,
    columns,
    dense_outcomes,
    dispatcher,
    groups,
    lives,
    matching,
    page,
    partition,
    partition_single,
    recording,
    rocketmq,
    selector,
    spark_route,
    structures,
    threads,
    upgrade,
)

BENCHMARKS: Final[Mapping[str, Callable[[bool], None]]] = {
    "dense-1k": matching.dense,
    "sparse-100k": matching.sparse,
    "unique-ids": matching.unique,
    "million": bindings.million,
    "million-wild": bindings.million_wild,
    "headers": bindings.headers,
    "columns": columns.columns,
    "partition": partition.partition,
    "partition-single": partition_single.partition_single,
    "selector": selector.selector,
    "audit-kernel": audit_kernel.audit_kernel,
    "dense-outcomes": dense_outcomes.dense_outcomes,
    "audit": audit.audit,
    "spark-route": spark_route.spark_route,
    "upgrade": upgrade.upgrade,
    "page": page.page,
    "codec": codec.codec,
    "dispatcher": dispatcher.dispatcher,
    "groups": groups.groups,
    "lives": lives.lives,
    "check-lives": check_lives.check_lives,
    "bridge": bridge.bridge,
    "bridge-keys": bridge_keys.bridge_keys,
    "bridge-spans": bridge_spans.bridge_spans,
    "recording": recording.recording,
    "rocketmq": rocketmq.rocketmq,
    "structures": structures.structures,
    "threads": threads.threads,
}
"""Name -> what runs it; its argument is whether to be quick."""


def main() -> None:
    """Run the benchmarks that the command line names, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer keys and rounds: a look, not a measurement")
    parser.add_argument("--only", action="append", choices=BENCHMARKS, metavar="NAME", help=", ".join(BENCHMARKS))
    arguments = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # tables are seen when they are done
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # containers are removed then, too
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores; medians and minima")
    print(f"{broker.VARIABLE}: {', '.join(broker.images()) or 'not set, so RabbitMQ is not measured'}")
    for name in arguments.only or BENCHMARKS:
        BENCHMARKS[name](arguments.quick)


if __name__ == "__main__":
    main()
