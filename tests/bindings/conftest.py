"""A Spark for the tests that need one, started with the first of them: a process has one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exchange.errors import InputError
from tests.support import spark_classes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]

CONF = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",  # it makes a job of each stage, which costs more than these jobs
    "spark.sql.session.timeZone": "Asia/Kolkata",  # half an hour off, and not what anything here should depend on
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Yield a Spark on this machine with two workers, which runs failed tasks again."""
    from bindings.auditing.spark.session import open_session

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]))
        # What workers import of the tests, they import from there.
        started = open_session(
            "local[2,3]", conf={**CONF, "spark.driver.extraJavaOptions": " ".join(spark_classes.find_options())}
        )
        try:
            found = started.__enter__()
        except InputError as reason:
            if os.environ.get("HASHSTAR_REQUIRE_LIVE") == "1":
                pytest.fail(f"HASHSTAR_REQUIRE_LIVE=1 promises Spark, but: {reason}")
            pytest.skip(str(reason))
        try:
            yield found
        finally:
            started.__exit__(None, None, None)
