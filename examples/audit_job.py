"""``hashstar audit`` for ``spark-submit``, which needs a file. Its arguments are those of the command.

    pip wheel . --no-deps -w dist/
    spark-submit --master spark://HOST:7077 --py-files dist/hashstar-VERSION-py3-none-any.whl \
        audit_job.py -t definitions.json --json report.json /mnt/archive

The driver imports from the wheel and sends it to the executors itself, since Spark lets executors import from no file
named ``.whl``. Executors need pyarrow, numpy and pandas, as PySpark's Arrow functions do, and google-crc32c for
archives of Kafka segments. They do not need lark and click: the driver reads topologies and sends them as values. The
driver needs lark, click and rich. The executors must see the archive at the same path. If packages cannot be installed
on the machines, send an environment: ``venv-pack -o env.tar.gz``, then
``--archives env.tar.gz#env --conf spark.pyspark.python=./env/bin/python``. The minor version of Python must be the same
everywhere.
"""

from __future__ import annotations

import sys

from bridge.cli import main

if __name__ == "__main__":
    main(["audit", *sys.argv[1:]])
