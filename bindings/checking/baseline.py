"""A baseline: findings that are known and not to be reported again, recorded in a file beside the topologies.

A finding is known if the baseline has one with the same fingerprint (`bindings.checking.fingerprint`) in the same file,
as often as it occurs; its line does not matter. The file is JSON with one finding a line, sorted, so that git shows
which findings came and went. Paths in it are relative to its folder.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Final

from bindings.checking.fingerprint import compute_fingerprint
from bindings.checking.report import GoneFinding, KnownFinding
from bindings.checking.rules.finding import Finding
from bindings.sources.files import decode_text, read_content, save_lines
from bindings.sources.management import is_address
from exchange.entities.part import encode_part
from exchange.errors import InputError
from exchange.values.json_text import parse

VERSION: Final = 1


def _encode(value: Any) -> str:
    """Return JSON, which has lone surrogates, bytes of a file's name that is not UTF-8, as escapes."""
    text = json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True, slots=True)
class Baseline:
    """The findings that are known; immutable."""

    name: str
    """Path of the file."""
    files: Mapping[str, Sequence[KnownFinding]] = field(default_factory=dict)
    """Checked file -> its known findings; a file is named by its path from the folder of the baseline."""

    @classmethod
    def load(cls, name: str) -> Baseline:
        """Read a file that `save` wrote. Raises InputError, which names the file."""
        text = decode_text(read_content(name), name)
        try:
            return cls(name, _read(parse(text)))
        except (KeyError, TypeError, AttributeError):
            raise InputError(f"{name}: not a baseline of hashstar check; write one with --write-baseline") from None
        except (InputError, ValueError) as error:
            raise InputError(f"{name}: not a baseline: {error}") from None

    @classmethod
    def open(cls, name: str, *, may_be_new: bool) -> Baseline:
        """Read a file, as `load` does; one that is not there is empty if it may be new, else an InputError."""
        if Path(name).exists():
            return cls.load(name)
        if may_be_new:
            return cls(name)
        raise InputError(f"{name}: there is no such file; --write-baseline makes it of what is found now")

    def save(self) -> None:
        """Write the file; an old one stays until the new one is complete. Raises InputError if that fails."""
        save_lines(self.name, self._lines())

    def name_of(self, file: str) -> str:
        """Return what the baseline calls a checked file, which may be standard input or the address of a broker."""
        if file == "-" or is_address(file):
            return file
        return PurePath(os.path.relpath(file, Path(self.name).absolute().parent)).as_posix()

    def exists(self, file: str) -> bool:
        """Return whether a file that the baseline names is still there; what is no file may be."""
        return file == "-" or is_address(file) or (Path(self.name).absolute().parent / file).exists()

    def _lines(self) -> Iterator[str]:
        yield f'{{\n "hashstar_baseline": {VERSION},\n "files": {{'
        comma = ""
        for file in sorted(file for file, findings in self.files.items() if findings):
            lines = sorted(_encode(finding._asdict()) for finding in self.files[file])
            yield f"{comma}\n  {_encode(file)}: [\n   " + ",\n   ".join(lines) + "\n  ]"
            comma = ","
        yield "\n }\n}\n"


class BaselineRun:
    """A check against a baseline: takes away the findings that are known, and finds which known ones are gone."""

    def __init__(self, baseline: Baseline, codes: Container[str], vhost: str | None, *, record: bool) -> None:
        """Begin a check of one virtual host, or all. With ``record``, all findings are known, and `recorded` has them.

        ``codes`` are those of the rules that are applied: known findings with other codes are neither found nor gone.
        """
        self._baseline: Final = baseline
        self._codes: Final = codes
        self._vhost: Final = vhost
        self._record: Final = record
        self._found: Final[dict[str, list[KnownFinding]]] = {}
        self._left: Final[dict[str, Counter[str]]] = {}

    def subtract(self, file: str, vhost: str, findings: Iterable[Finding]) -> list[Finding]:
        """Return the findings about a virtual host of a file that are not known."""
        name = self._baseline.name_of(file)
        known = self._baseline.files.get(name, ())
        left = self._left.setdefault(name, Counter(finding.fingerprint for finding in known))
        found = self._found.setdefault(name, [])
        new = []
        for finding in findings:
            identity = compute_fingerprint(vhost, finding)
            if self._record:
                found.append(_describe(vhost, finding, identity))
            elif left[identity] == 0:
                new.append(finding)
            left[identity] -= left[identity] > 0
        return new

    def find_gone(self) -> list[GoneFinding]:
        """Return the known findings that are gone, each with its file: the file was checked, or is no longer there."""
        gone = []
        for file, findings in self._baseline.files.items():
            if file in self._left:
                left = self._left[file].copy()
                for finding in filter(self._is_checked, findings):
                    if left[finding.fingerprint] > 0:
                        left[finding.fingerprint] -= 1
                        gone.append(GoneFinding(file, finding))
            elif not self._baseline.exists(file):
                gone += [GoneFinding(file, finding) for finding in findings]
        return gone

    def recorded(self) -> Baseline:
        """Return the new baseline: what was found, and of the old one what was not looked for."""
        files: dict[str, Sequence[KnownFinding]] = {}
        for file, findings in self._baseline.files.items():
            if file in self._found:
                files[file] = [finding for finding in findings if not self._is_checked(finding)]
            elif self._baseline.exists(file):
                files[file] = findings
        for file, found in self._found.items():
            files[file] = [*files.get(file, ()), *found]
        return Baseline(self._baseline.name, files)

    def _is_checked(self, finding: KnownFinding) -> bool:
        return finding.code in self._codes and self._vhost in (None, finding.vhost)


def _describe(vhost: str, finding: Finding, identity: str) -> KnownFinding:
    part = None if finding.part is None else encode_part(finding.part)
    return KnownFinding(finding.code, vhost, part, finding.message.split("\n", 1)[0], identity)


def _read(document: Any) -> dict[str, list[KnownFinding]]:
    """Return the findings of each file. Raises KeyError, TypeError or AttributeError for another document."""
    if document["hashstar_baseline"] != VERSION:
        raise InputError(f"its version is {document['hashstar_baseline']!r}, and this program reads {VERSION}")
    return {file: [_read_finding(finding) for finding in findings] for file, findings in document["files"].items()}


def _read_finding(fields: Any) -> KnownFinding:
    finding = KnownFinding(**fields)
    if not all(isinstance(text, str) for text in (finding.code, finding.vhost, finding.message, finding.fingerprint)):
        raise TypeError
    return finding
