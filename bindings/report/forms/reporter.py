"""The interface of all forms of a report: write it to a file or to standard output."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bindings.report.model import Report
from bindings.sources.files import make_folders, replacing
from exchange.errors import InputError

__all__ = ["BytesReporter", "Reporter", "write_file"]


class Reporter(Protocol):
    """Writes reports in one form. Each form's module has one, ``REPORTER``."""

    def write(self, report: Report, path: Path | None, *, whole: bool = False) -> None:
        """Write a report to a file, or to a folder if the form is many files; to standard output without a path.

        Some forms shorten lists; with ``whole`` they do not. Raises InputError if the report cannot be written.
        """


@dataclass(frozen=True, slots=True)
class BytesReporter:
    """Writes reports in a form that is rendered as bytes and never shortens lists."""

    render: Callable[[Report], bytes]

    def write(self, report: Report, path: Path | None, *, whole: bool = False) -> None:
        """Write a report, as every `Reporter`."""
        data = self.render(report)
        if path is not None:
            write_file(path, data)
            return
        sys.stdout.buffer.write(data.rstrip(b"\n") + b"\n")
        sys.stdout.flush()


def write_file(path: Path, data: bytes) -> None:
    """Replace a file, in a folder that is made if it is missing. Raises InputError if that fails."""
    try:
        make_folders(path.parent)
        with replacing(path) as file:
            file.write(data)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
