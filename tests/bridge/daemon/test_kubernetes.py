"""The chart for Kubernetes: its default bridge is valid, and the plain manifests are what it renders."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from bridge.daemon.config import Http, read_config
from bridge.daemon.keys import HTTP

EXAMPLES = Path(__file__).parents[3] / "examples"
CHART = EXAMPLES / "helm/hashstar-bridge"
MANIFESTS = EXAMPLES / "kubernetes/bridge.yaml"


def manifests() -> dict[str, Any]:
    """Return the plain manifests by kind."""
    return {manifest["kind"]: manifest for manifest in yaml.safe_load_all(MANIFESTS.read_text())}


def test_the_bridge_of_the_chart_is_a_valid_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RABBITMQ_PASSWORD", "secret")
    for name, text in manifests()["ConfigMap"]["data"].items():
        (tmp_path / name).write_text(text)
    assert read_config(tmp_path / "bridge.toml").http == Http("0.0.0.0", 9410)  # noqa: S104  of a pod


def test_probes_and_grace_period_fit_the_bridge() -> None:
    pod = manifests()["Deployment"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    port = int(HTTP.default.rpartition(":")[2])
    assert [port["containerPort"] for port in container["ports"]] == [port]
    assert container["livenessProbe"]["httpGet"]["path"] == "/live"
    assert container["readinessProbe"]["httpGet"]["path"] == "/ready"
    drain = re.search(r"^drain = (\d+)$", manifests()["ConfigMap"]["data"]["bridge.toml"], re.MULTILINE)
    assert drain is not None
    assert pod["terminationGracePeriodSeconds"] == int(drain[1]) + 15


def test_the_manifests_are_what_the_chart_renders() -> None:
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("helm is not installed")
    command = [helm, "template", "bridge", str(CHART), "--kube-version", "1.31.0"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == MANIFESTS.read_text()
