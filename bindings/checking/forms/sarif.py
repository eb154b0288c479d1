"""A check's findings as a SARIF 2.1.0 log, so that code hosts show them beside the lines of a change."""

from __future__ import annotations

import json
import os
from typing import Any, Final
from urllib.parse import quote

from bindings.checking.fingerprint import compute_fingerprint
from bindings.checking.forms.places import find_relative_path, list_remarks
from bindings.checking.report import CheckResult
from bindings.checking.rules.finding import Finding
from bindings.checking.rules.table import RULES
from exchange.entities.part import Part, encode_part
from exchange.text.site import HASHSTAR_VERSION, build_page_address

SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def to_sarif(result: CheckResult) -> dict[str, Any]:
    """Return the log: one run, with the findings about all sources, and the sources that could not be checked.

    Locations are paths relative to the root of the repository, or addresses of brokers.
    """
    codes = sorted({finding.code for report in result.reports for _, finding in report.findings()})
    driver = {
        "name": "hashstar",
        "version": HASHSTAR_VERSION,
        "informationUri": build_page_address(""),
        "rules": list(map(_rule, codes)),
    }
    results = [
        _result(vhost, finding, codes, _as_uri(find_relative_path(report, result.root)))
        for report in result.reports
        for vhost, finding in report.findings()
    ]
    invocation = {
        "executionSuccessful": not result.errors,
        "toolExecutionNotifications": [
            {"level": remark.severity, "message": {"text": remark.text}} for remark in list_remarks(result)
        ],
    }
    run = {"tool": {"driver": driver}, "invocations": [invocation], "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _as_uri(path: str) -> str:
    return path if "://" in path else quote(os.fsencode(path))


def _rule(code: str) -> dict[str, Any]:
    rule = RULES[code]
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.name.replace("-", " ")},
        "fullDescription": {"text": rule.meaning},
        "help": {"text": f"{rule.meaning}\n\nWay out: {rule.way_out}."},
        "helpUri": rule.page,
        "defaultConfiguration": {"level": rule.severity},
    }


def _result(vhost: str, finding: Finding, codes: list[str], uri: str) -> dict[str, Any]:
    location: dict[str, Any] = {
        # Code hosts require a line; line 1 stands for the file as a whole.
        "physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": finding.line or 1}}
    }
    if finding.part is not None:
        location["logicalLocations"] = [_logical(vhost, finding.part)]
    result = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": finding.rule.severity,
        "message": {"text": f"{finding.message}. Way out: {finding.rule.way_out}."},
        "locations": [location],
        "partialFingerprints": {"part/v1": compute_fingerprint(vhost, finding)},
    }
    if finding.related:
        related = [{"logicalLocations": [_logical(vhost, part)]} for part in finding.related]
        result["relatedLocations"] = [{"id": at, **other} for at, other in enumerate(related)]
    return result


def _logical(vhost: str, part: Part) -> dict[str, Any]:
    fields = dict(encode_part(part))
    kind = fields.pop("kind")
    return {"fullyQualifiedName": json.dumps([vhost, *fields.values()], ensure_ascii=False), "kind": kind}
