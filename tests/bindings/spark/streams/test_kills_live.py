"""An executor that is killed while streams go to Parquet: one of those of `tests.soak_spark_stream`."""

from __future__ import annotations

from pathlib import Path

from tests.soak_spark_stream import soak
from tests.support.servers import Server


def test_each_message_is_in_parquet_once_though_an_executor_is_killed(rabbitmq: Server, tmp_path: Path) -> None:
    outcome = soak(rabbitmq.url, 2_000, 1, 1, tmp_path, "local-cluster[1,1,512]", ("executor",))
    assert (outcome.killed, outcome.starts) == ({"executor": 1}, 1)
