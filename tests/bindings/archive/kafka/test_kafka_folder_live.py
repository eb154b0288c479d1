"""The data folder of a running Kafka broker: the command shows what Kafka's own tools show at the same time."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from click.testing import CliRunner

from bridge.cli import hashstar
from tests.recorders.jvm import PROGRAMS, find_classpath
from tests.support.archives.containers import copy_out, run_inside
from tests.support.kafka.folder import GROUP_OPTIONS, ask_groups, ask_tools, check_json, dump, filled
from tests.support.servers import Server, missing
from tests.support.unique import unique_name


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
        # The tool of Kafka 3.9 has 25 characters for a group in its table of states: longer names move what follows.
        prefix = f"{unique_name('folder').removeprefix('hashstar-folder-')}-"
        with filled(server.url, is_modern=server.version_info >= (4,), prefix=prefix):
            paid = f"{prefix}paid-0"
            where = run_inside(server, "sh", "-c", f"ls -d /*/{paid} /*/*/{paid} /*/*/*/{paid} 2>/dev/null || true")
            folder = str(Path(where.strip()).parent)
            for number in range(5):  # until no group changed its state between the answers before and after the copy
                tools = ask_tools(version, server.url, prefix)
                (tmp_path / version / str(number)).mkdir(parents=True)
                data = copy_out(server, folder, tmp_path / version / str(number))
                if ask_groups(version, server.url, prefix) == {name: tools[name] for name in GROUP_OPTIONS}:
                    break
        arguments = ["archive", "inspect", str(data), "--routing-key", "=k", "--json"]
        result = CliRunner().invoke(hashstar, arguments)
        assert result.exit_code == 0, result.output
        dumped = {name: each for name, each in dump(version, data).items() if name.startswith(prefix)}
        assert len(dumped) == 5
        check_json(json.loads(result.stdout)["kafka"], tools, dumped, prefix)
