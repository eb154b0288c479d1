"""The data folder of a running Kafka broker: the command shows what Kafka's own tools show at the same time."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import uuid
from pathlib import Path

import pytest
from click.testing import CliRunner

from bridge.cli import hashstar
from tests.recorders.jvm import PROGRAMS, find_classpath
from tests.support.archives.containers import copy_out, run_inside
from tests.support.kafka.folder import ask_tools, check_json, dump, filled
from tests.support.servers import Server, missing

pytestmark = pytest.mark.live


@pytest.mark.timeout(300)
def test_every_figure_is_that_of_kafkas_own_tools(kafka_servers: list[Server], tmp_path: Path) -> None:
    for program in PROGRAMS:
        if shutil.which(program) is None:
            missing(f"there is no {program} to run Kafka's tools with")
    for server in kafka_servers:
        version = server.version
        try:
            find_classpath(f"org.apache.kafka:kafka-tools:{version}", f"org.apache.kafka:kafka_2.13:{version}")
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as reason:
            missing(f"Maven cannot fetch the tools of Kafka {version} ({reason})")
        prefix = f"f{uuid.uuid4().hex[:8]}-"
        with filled(server.url, is_modern=server.version_info >= (4,), prefix=prefix):
            time.sleep(1)
            tools = ask_tools(version, server.url, prefix)
            (found,) = run_inside(
                server,
                "sh",
                "-c",
                f"ls -d /*/{prefix}paid-0 /*/*/{prefix}paid-0 /*/*/*/{prefix}paid-0 2>/dev/null || true",
            ).split()
            (tmp_path / version).mkdir()
            data = copy_out(server, str(Path(found).parent), tmp_path / version)
        arguments = ["archive", "inspect", str(data), "--routing-key", "=k", "--json"]
        result = CliRunner().invoke(hashstar, arguments)
        assert result.exit_code == 0, result.output
        dumped = {name: each for name, each in dump(version, data).items() if name.startswith(prefix)}
        assert len(dumped) == 5
        check_json(json.loads(result.stdout)["kafka"], tools, dumped, prefix)
