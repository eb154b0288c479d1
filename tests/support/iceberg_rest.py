"""Iceberg's REST catalog for tests: the server that Iceberg tries its own clients with."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_connection
from typing import Final

from tests.recorders.jvm import QUICK, find_classpath
from tests.support.unique import free_port
from tests.support.waiting import wait_until

RELEASE: Final = "1.10.0"
JARS: Final = (
    f"org.apache.iceberg:iceberg-open-api:{RELEASE}:test-fixtures",
    # What it needs, and says of none of them.
    f"org.apache.iceberg:iceberg-core:{RELEASE}",
    f"org.apache.iceberg:iceberg-core:{RELEASE}:tests",
    "org.eclipse.jetty:jetty-servlet:11.0.24",
    "org.xerial:sqlite-jdbc:3.50.1.0",
    "org.apache.hadoop:hadoop-client-runtime:3.5.0",
)


@contextmanager
def serve_rest_catalog(folder: Path) -> Iterator[str]:
    """Run a server while the context is open, with its tables in a new folder; yield its address.

    Raises OSError or CalledProcessError if there is no Java, or its jars cannot be had.
    """
    jars, port = find_classpath(*JARS), free_port()
    folder.mkdir()
    log = folder / "log"
    settings = {
        "CATALOG_WAREHOUSE": f"file://{folder}/tables", "CATALOG_URI": f"jdbc:sqlite:{folder}/catalog.db",
        "CATALOG_REST_PORT": str(port),
    }  # fmt: skip

    def answers() -> bool:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            return False
        return True

    with log.open("wb") as output:
        process = subprocess.Popen(
            ["java", *QUICK, "-cp", jars, "org.apache.iceberg.rest.RESTCatalogServer"], cwd=folder, stdout=output,
            stderr=output, env=os.environ | settings,
        )  # fmt: skip
        try:
            wait_until(answers, log.read_text)
            yield f"http://127.0.0.1:{port}/"
        finally:
            process.kill()
            process.wait()
