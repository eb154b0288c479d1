"""``hashstar audit`` for ``spark-submit``, which wants a file: all arguments are those of the command.

    pip download --no-deps hashstar
    spark-submit --master spark://HOST:7077 --py-files hashstar-VERSION-py3-none-any.whl \
        audit_job.py -t definitions.json --json report.json /mnt/archive

The driver imports from the wheel and gives it to the executors itself, as Spark lets them import from no file that is
called ``.whl``. What else they need is there where PySpark's Arrow functions run: pyarrow,
numpy and pandas; google-crc32c for archives of Kafka's segments. Not lark nor click: topologies are read by the driver,
and reach the executors as values. The driver needs lark, click and rich, and the executors must see the archive at the
same path. Where packages cannot be installed on the machines, send an environment: ``venv-pack -o env.tar.gz``, then
``--archives env.tar.gz#env --conf spark.pyspark.python=./env/bin/python``. The minor version of Python must be the same
everywhere.
"""

from __future__ import annotations

import sys

from bridge.cli import main

if __name__ == "__main__":
    main(["audit", *sys.argv[1:]])
