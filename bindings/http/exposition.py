"""Metrics in Prometheus's text format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isinf, isnan
from typing import Final

METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Content type of the format."""


def format_family(
    name: str, kind: str, meaning: str, values: Mapping[tuple[tuple[str, str], ...], float]
) -> Iterator[str]:
    """Yield the lines of a metric: its meaning, its kind, and a value for each set of labels."""
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {kind}"
    for labels, value in values.items():
        yield f"{name}{format_labels(labels)} {format_number(value)}"


def format_number(value: float) -> str:
    """Return a number exactly, in Prometheus's notation: a sum rounded to six digits would stop growing one day."""
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if isinstance(value, int) else repr(value)


def format_labels(pairs: Sequence[tuple[str, str]]) -> str:
    """Return labels as in Prometheus's text format; bytes that are not UTF-8 are escaped."""
    escaped = [
        f'{name}="{value}"'
        for name, raw in pairs
        for text in [raw.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")]
        for value in [text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")]
    ]
    return "{" + ",".join(escaped) + "}" if escaped else ""
