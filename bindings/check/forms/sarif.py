"""A check's findings as a SARIF 2.1.0 log, so that code hosts show them beside the lines of a change."""

from __future__ import annotations

import json
from hashlib import sha256
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import quote

from bindings.check.report import Report, part_json
from bindings.check.rules.finding import RULES, Finding, Part

__all__ = ["SCHEMA", "to_sarif"]

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def to_sarif(report: Report, uri: str) -> dict[str, Any]:
    """Return the log; ``uri`` is a path relative to the root of the repository, or the address of a broker."""
    codes = sorted({finding.code for _, finding in report.findings()})
    driver = {"name": "hashstar", "version": version("hashstar"), "rules": list(map(_rule, codes))}
    location = uri if "://" in uri else quote(uri)
    results = [_result(vhost, finding, codes, location) for vhost, finding in report.findings()]
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _rule(code: str) -> dict[str, Any]:
    rule = RULES[code]
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.name.replace("-", " ")},
        "fullDescription": {"text": rule.meaning},
        "help": {"text": f"{rule.meaning}\n\nWay out: {rule.way_out}."},
        "defaultConfiguration": {"level": rule.severity},
    }


def _result(vhost: str, finding: Finding, codes: list[str], uri: str) -> dict[str, Any]:
    location: dict[str, Any] = {
        # Code hosts require a line; line 1 stands for the file as a whole.
        "physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": finding.line or 1}},
    }
    if finding.part is not None:
        location["logicalLocations"] = [_logical(vhost, finding.part)]
    result = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": finding.rule.severity,
        "message": {"text": f"{finding.message}. Way out: {finding.rule.way_out}."},
        "locations": [location],
        "partialFingerprints": {"part/v1": _fingerprint(vhost, finding)},
    }
    if finding.related:
        related = [{"logicalLocations": [_logical(vhost, part)]} for part in finding.related]
        result["relatedLocations"] = [{"id": at, **other} for at, other in enumerate(related)]
    return result


def _logical(vhost: str, part: Part) -> dict[str, Any]:
    fields = part_json(part)
    kind = fields.pop("kind")
    return {"fullyQualifiedName": json.dumps([vhost, *fields.values()], ensure_ascii=False), "kind": kind}


def _fingerprint(vhost: str, finding: Finding) -> str:
    """Return a hash that stays the same when the part moves to another line."""
    about = finding.message if finding.part is None else part_json(finding.part)
    return sha256(json.dumps([finding.code, vhost, about]).encode()).hexdigest()
