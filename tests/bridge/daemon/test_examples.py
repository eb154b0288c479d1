"""The files of examples/bridge are valid: they are read, run, and name existing things; so do the bridge's pages."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from bindings.commands.check import check_command
from bridge.daemon.conditions import KINDS
from bridge.daemon.config import read_config
from bridge.daemon.coverage import CoverageCounter
from bridge.daemon.health import Health
from bridge.daemon.journal import Journal
from bridge.daemon.pumps import RunningPump, list_endpoints
from bridge.daemon.telemetry.metrics import FATES, Metrics
from bridge.daemon.web import Web
from bridge.endpoint import Delivery, Disconnected, Failure, Outgoing
from bridge.endpoints.memory import MemorySource
from bridge.pump.policy import Policy
from bridge.pump.pump import Inlet, Pump
from docs.scripts.schemas import DOCS
from docs.scripts.schemas import TABLES as PAGES_OF_KEYS
from exchange import Message, Router
from tests.bridge.daemon.test_metrics import Family, parse_metrics
from tests.bridge.endpoints.archive.test_archive import read_bodies, write_part
from tests.support.archives.parts import find_parts
from tests.support.bridge.events import Events
from tests.support.command_server import command_server

EXAMPLES = Path(__file__).parents[3] / "examples" / "bridge"
GUIDE = Path(__file__).parents[3] / "docs" / "bridge.md"
REFERENCE = [DOCS / name for name in PAGES_OF_KEYS]
OPERATIONS = Path(__file__).parents[3] / "docs" / "bridge-operations.md"
ENVIRONMENT = {"BRIDGE_RABBITMQ_PASSWORD": "hush", "BRIDGE_KAFKA_PASSWORD": "hush", "BRIDGE_ROCKETMQ_SECRET": "hush"}


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """Copy the examples, with the files that they expect on a machine."""
    copy = tmp_path / "bridge"
    shutil.copytree(EXAMPLES, copy)
    (copy / "password").write_text("hush\n")
    text = (copy / "kafka-to-rabbitmq.toml").read_text()
    assert "/etc/hashstar/rabbitmq-password" in text
    (copy / "kafka-to-rabbitmq.toml").write_text(
        text.replace("/etc/hashstar/rabbitmq-password", str(copy / "password"))
    )
    return copy


@pytest.mark.parametrize("name", ["rabbitmq-to-kafka", "kafka-to-rabbitmq", "rabbitmq-to-rocketmq", "replay"])
def test_each_example_configuration_is_valid(examples: Path, name: str) -> None:
    config = read_config(examples / f"{name}.toml", ENVIRONMENT)
    assert {*config.targets} | config.ignored == {"billing", "audit", "lost-and-found"}


def test_the_example_with_several_pipelines_is_valid_and_nothing_is_wrong_between_them(examples: Path) -> None:
    config = read_config(examples / "several-pipelines.toml", ENVIRONMENT)
    assert [each.name for each in config.pipelines] == ["orders", "returns"]
    assert config.warnings == ()


def test_the_topology_passes_its_own_check() -> None:
    with pytest.raises(SystemExit) as end:
        check_command.main([str(EXAMPLES / "shop.bindings")], standalone_mode=True)
    assert end.value.code == 0


def test_the_replay_runs(examples: Path) -> None:
    text = (examples / "replay.toml").read_text()
    (examples / "replay.toml").write_text(text.replace("speed = 10.0", "speed = 1000000.0"))
    keys = ["order.eu.created", "order.us.cancelled", "invoice.printed"]
    day = 1_795_219_200_000_000  # 2026-11-21
    messages = [Message("orders", keys[n % 3], {"tenant": f"t{n % 7}"}, body=b"%d" % n) for n in range(210)]
    write_part(examples / "archive", messages, [day + n * 1_000_000 for n in range(210)])
    done = command_server().run(["bridge", "run", str(examples / "replay.toml")])
    assert done.code == 0, done.err
    where = examples / "partitioned"
    assert len(read_bodies(where / "queue=billing")) == 70
    assert len(read_bodies(where / "queue=lost-and-found")) == 70
    parts = find_parts(where / "queue=audit")
    assert sum(len(read_bodies(part)) for part in parts) == 140
    assert 1 < len(parts) <= 7
    assert all(part.parts[-3].startswith("partition=") for part in parts)


def asked_by_the_dashboard() -> list[str]:
    dashboard = json.loads((EXAMPLES / "grafana-dashboard.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [each["query"]["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"]
    return asked


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((EXAMPLES / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


OF_PROMETHEUS = {"up", "job", "instance", "pipeline"}
"""A metric and labels that Prometheus adds to what it scrapes, and the label of a file with several pipelines."""


def test_the_dashboard_and_the_alerts_name_existing_metrics_and_labels() -> None:
    families = every_metric()
    there = {name for _, family in families.values() for name, _ in family} | families.keys() | {"up"}
    labels = {label for _, family in families.values() for _, pairs in family for label, _ in pairs} | OF_PROMETHEUS
    for text in [*asked_by_the_dashboard(), *[rule["expr"] for rule in rules()]]:
        named = {*re.findall(r"\b((?:hashstar|process)_\w+)", text)} | {*re.findall(r"\b(up)\{", text)}
        assert named, text
        assert named <= there, text
        by = {each.strip() for group in re.findall(r"by \(([^)]*)\)", text) for each in group.split(",")}
        matched = {*re.findall(r"(\w+)(?:=~|=)\"", text)}
        assert by | matched <= labels, text
        assert text.count("(") == text.count(")"), text
        assert {*re.findall(r'fate="([^"]*)"', text)} <= {*FATES}
        assert {kind for kinds in re.findall(r'kind=~"([^"]*)"', text) for kind in kinds.split("|")} <= {*KINDS}


def test_the_dashboard_has_each_panel_once_and_none_covers_another() -> None:
    panels = json.loads((EXAMPLES / "grafana-dashboard.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    covered = [
        (x, y)
        for panel in panels
        for grid in [panel["gridPos"]]
        for x in range(grid["x"], grid["x"] + grid["w"])
        for y in range(grid["y"], grid["y"] + grid["h"])
    ]
    assert len(set(covered)) == len(covered)
    assert max(x for x, _ in covered) < 24


def test_each_alert_says_what_it_is_and_what_to_do() -> None:
    assert len({rule["alert"] for rule in rules()}) == len(rules())
    for rule in rules():
        assert rule.keys() - {"for"} == {"alert", "expr", "labels", "annotations"}
        assert re.fullmatch(r"Hashstar[A-Z]\w+", rule["alert"])
        assert re.fullmatch(r"\d+m", rule.get("for", "1m"))
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary", "description"}
        named = {*re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])}
        aggregated = re.search(r"by \(([^)]*)\)", rule["expr"])
        if aggregated:
            assert named <= {each.strip() for each in aggregated[1].split(",")}
    alerts = {*re.findall(r"^\| `(Hashstar\w+)`", OPERATIONS.read_text(), re.MULTILINE)}
    assert alerts == {rule["alert"] for rule in rules()}


def test_the_guide_names_every_metric_and_every_kind_of_condition() -> None:
    text = OPERATIONS.read_text()
    documented = {*re.findall(r"`((?:hashstar|process)_\w+)", text)}
    assert documented == every_metric().keys()
    assert {*re.findall(r"^\| `([a-z-]+)` \|", section_of(text, "## Conditions\n"), re.MULTILINE)} == {*KINDS}


def section_of(text: str, head: str) -> str:
    """Return the part of a page from a heading to the next one."""
    return re.split(r"^## ", text.partition(head)[2], maxsplit=1, flags=re.MULTILINE)[0]


def test_the_series_of_a_configuration_are_there_from_the_start() -> None:
    metrics = Metrics()
    metrics.prepare(*list_endpoints(read_config(EXAMPLES / "rabbitmq-to-kafka.toml", ENVIRONMENT)))
    assert not any(metrics.fates.values())
    endpoints = {endpoint for endpoint, _ in metrics.fates}
    assert endpoints == {"orders", "kafka", "shelf", "dead_letters"}
    assert metrics.connections.keys() == metrics.disconnections.keys() == endpoints
    assert {queue for _, queue in metrics.written} == {"billing", "audit", "lost-and-found", ""}


def every_metric() -> dict[str, tuple[str, Family]]:
    """Return all metrics that a bridge can have."""
    metrics = Metrics()
    message = Message("orders", "order.eu.created")
    outgoing = Outgoing(message, Delivery(message), "q", context=SimpleNamespace(since=0.0))
    metrics.connected("s")
    metrics.disconnected("s", Disconnected(""), 0.0)
    metrics.read("s", [outgoing.delivery])
    metrics.redelivered["s"] += 1
    metrics.confirmed("t", [outgoing], 1.0)
    metrics.refused("t", outgoing, Failure("nack"), None)
    metrics.gave_up("t", outgoing, Failure("nack"), "drop")
    metrics.unreadable["s"] = metrics.read_messages
    config = read_config(EXAMPLES / "replay.toml", ENVIRONMENT)
    coverage = CoverageCounter("", config.topology)
    inlet = Inlet(MemorySource())
    coverage.read(inlet, [outgoing.delivery])

    pump = Pump(config.inlets, Router(config.topology), config.targets, Events(), Policy())
    health = Health(pump, config.inlets, metrics, Journal(), loop_clock=time.monotonic)
    running = RunningPump(config, pump, coverage, metrics=metrics, health=health)
    web = Web(config, {"": running}, None)  # type: ignore[arg-type]  # not started
    web._tally = lambda coverage: coverage.tally()  # type: ignore[method-assign]  # there is no loop to ask
    return parse_metrics(web.metrics_text())


def test_the_systemd_unit_is_valid(tmp_path: Path) -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # names are as they are
    text = (EXAMPLES / "hashstar-bridge.service").read_text()
    unit.read_string(text)
    assert unit["Service"]["Type"] == "exec"
    assert unit["Service"]["Restart"] == "always"
    assert float(unit["Service"]["TimeoutStopSec"]) > Policy().drain
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze to ask")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "hashstar"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    copy = tmp_path / "hashstar-bridge.service"
    copy.write_text(text.replace("/opt/hashstar/bin/hashstar", str(program)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


# The guide.


def documented_keys() -> dict[str, set[str]]:
    """Return heading of the pages -> keys in its table."""
    found: dict[str, set[str]] = {}
    heading = ""
    for line in [line for page in REFERENCE for line in page.read_text().splitlines()]:
        if line.startswith("#"):
            heading = line.strip("# ")
        elif match := re.match(r"\| `(\w+)`", line):
            found.setdefault(heading, set()).add(match[1])
    return found


TABLES = {
    "The file": "nonsense = 1\n{right}",
    "`[policy]`": "{right}\n[policy]\nnonsense = 1",
    "RabbitMQ as a source": '{right}\n[sources.x]\nurl = "amqp://h"\nqueue = "q"\nnonsense = 1',
    "RabbitMQ as a target": '{right}\n[targets.x]\nurl = "amqp://h"\nqueues = ["audit"]\nnonsense = 1',
    "Kafka as a source": '{right}\n[sources.x]\nurl = "kafka://h"\ntopics = ["t"]\nnonsense = 1',
    "Kafka as a target": '{right}\n[targets.x]\nurl = "kafka://h"\nqueues = ["audit"]\ntransactional = true\n'
    "nonsense = 1",
    "RocketMQ as a source": '{right}\n[sources.x]\nurl = "rocketmq://h"\ntopics = ["t"]\nnonsense = 1',
    "RocketMQ as a target": '{right}\n[targets.x]\nurl = "rocketmq://h"\nqueues = ["audit"]\nnonsense = 1',
    "An archive as a source": '{right}\n[sources.x]\nurl = "archive:a"\nnonsense = 1',
    "An archive as a target": '{right}\n[targets.x]\nurl = "archive:a"\nqueues = ["audit"]\nnonsense = 1',
}
"""Heading -> a configuration with an unknown key; its error lists the known keys."""


@pytest.mark.parametrize("heading", list(TABLES))
def test_every_key_is_documented_and_every_documented_key_exists(tmp_path: Path, heading: str) -> None:
    (tmp_path / "shop.bindings").write_text((EXAMPLES / "shop.bindings").read_text())
    text = TABLES[heading]
    ignored = '["audit", "lost-and-found"]' if "targets.x" not in text else '["lost-and-found"]'
    right = f"""
topology = "shop.bindings"
ignore = {ignored}
[sources.s]
url = "archive:in"
[targets.t]
url = "archive:out"
queues = ["billing"]
"""
    (tmp_path / "bridge.toml").write_text(text.format(right=right))
    with pytest.raises(Exception, match="nonsense: is not known here") as caught:
        read_config(tmp_path / "bridge.toml", {})
    known = {*str(caught.value).rpartition("known: ")[2].split("\n")[0].split(", ")}
    elsewhere = documented_keys()["A source: every kind"] if "[sources.x]" in text else set()
    assert known - elsewhere == documented_keys()[heading]
