"""Schemes of addresses and endings of file names, and what they stand for.

An ending decides only the text of an error and the default form of output; what a file is, its content decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*):/")
"""The beginning of an address; the group is its scheme."""
AMQP: Final = ("amqp", "amqps")
WEB: Final = ("http", "https")
BROKERS: Final = (*AMQP, *WEB, "kafka", "rocketmq")
"""Schemes of addresses of brokers."""
SCHEMES: Final[Mapping[str, str]] = {
    **dict.fromkeys((*AMQP, *WEB), "broker"),
    **dict.fromkeys(("kafka", "s3", "s3a", "gs", "abfs", "abfss", "hdfs", "iceberg"), "archive"),
}
"""Scheme -> what a command takes its address for; a topic of Kafka is read as an archive."""

YAML: Final = (".yaml", ".yml")
TOPOLOGIES: Final = (".bindings", ".json", *YAML)
"""Endings of topologies that all commands read."""
CSV: Final = (".csv", ".tsv")
ENDINGS: Final[Mapping[str, str]] = {
    **dict.fromkeys((".bindings", *YAML, ".tf"), "topology"),
    **dict.fromkeys((".parquet", ".jsonl", ".ndjson", *CSV, ".avro", ".log"), "archive"),
    ".tally": "tally",
}
"""Ending -> what is in the file; others, such as ``.json``, may be either."""
