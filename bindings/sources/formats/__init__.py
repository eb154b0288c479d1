"""Formats of other systems that describe topologies: one row each, with what recognises, reads and writes it.

Readers and writers are imported when a file of their format is met: every command that reads a topology imports this.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

from bindings.sources.files import decode_text, read_content
from bindings.sources.formats.format import SourceFile, TopologyFormat
from bindings.sources.formats.imported import Imported
from exchange.errors import InputError
from exchange.files.names import YAML
from exchange.limits import DOCUMENT_BYTES
from exchange.values.json_text import parse

__all__ = [
    "FORMATS", "MODULE_NAMES", "OPERATOR", "RECORDING", "Imported", "SourceFile", "TopologyFormat",
    "format_of", "read_folder",
]  # fmt: skip

KUBERNETES: Final = re.compile(r"^(?:apiVersion|kind):[ \t]", re.MULTILINE)
ASYNCAPI: Final = re.compile(r"^[\"']?asyncapi[\"']?:[ \t]", re.MULTILINE)
HCL: Final = re.compile(
    r"^[ \t]*(?:resource[ \t]+\"[^\"\n]*\"[ \t]+\"[^\"\n]*\"|terraform|locals|(?:provider|variable)[ \t]+\"[^\"\n]*\")"
    r"[ \t]*\{",
    re.MULTILINE,
)
MODULE_NAMES: Final = (".tf", ".tf.json")
"""Endings of the files that make a folder a module of Terraform."""
TERRAFORM_NAMES: Final = (".tf", ".tf.json", ".tfvars", ".tfstate")


def _top_names(text: str) -> frozenset[str]:
    """Return the names at the top of a JSON object; none if it is no JSON."""
    try:
        value = parse(text)
    except (ValueError, InputError):
        return frozenset()
    return frozenset(value) if isinstance(value, dict) else frozenset()


def _has_names(file: SourceFile, names: Sequence[str]) -> bool:
    """Return whether a JSON file has all of these names at its top; most files are not parsed for it."""
    return all(f'"{name}"' in file.text for name in names) and set(names) <= _top_names(file.text)


def _is_operator(file: SourceFile) -> bool:
    if file.is_json:
        return _has_names(file, ("apiVersion", "kind"))
    return KUBERNETES.search(file.text) is not None


def _is_asyncapi(file: SourceFile) -> bool:
    return _has_names(file, ("asyncapi",)) if file.is_json else ASYNCAPI.search(file.text) is not None


def _is_terraform(file: SourceFile) -> bool:
    if file.name.endswith(TERRAFORM_NAMES):
        return True
    if file.is_json:
        return _has_names(file, ("terraform_version",)) or _has_names(file, ("resource",))
    return HCL.search(file.text) is not None


def _is_recording(file: SourceFile) -> bool:
    return file.is_json and '"recording"' in file.text[:100] and '"format"' in file.text[:200]


def _later(module: str, function: str) -> Callable[..., Any]:
    """Return a function of a module that is imported when it is called."""

    def call(*arguments: Any) -> Any:
        return getattr(import_module(f"{__name__}.{module}"), function)(*arguments)

    return call


OPERATOR: Final = TopologyFormat(
    "operator",
    "the operator for Kubernetes",
    _is_operator,
    _later("operator_reader", "read_operator"),
    _later("operator_writer", "write_operator"),
    in_yaml="objects of Kubernetes (apiVersion, kind)",
)
TERRAFORM: Final = TopologyFormat(
    "terraform",
    "Terraform",
    _is_terraform,
    _later("terraform.reader", "read_terraform"),
    _later("terraform.writer", "write_terraform"),
    (".tf",),
)
ASYNC_API: Final = TopologyFormat(
    "asyncapi",
    "AsyncAPI",
    _is_asyncapi,
    _later("asyncapi_reader", "read_asyncapi"),
    _later("asyncapi_writer", "write_asyncapi"),
    tuple([f"asyncapi{ending}" for ending in (*YAML, ".json")]),
    "an AsyncAPI document (asyncapi)",
)
RECORDING: Final = TopologyFormat(
    "recording",
    "recordings of hashstar record",
    _is_recording,
    _later("recording_reader", "read_declared"),
    _later("recording_reader", "refuse_to_write"),
)

FORMATS: Final = {each.name: each for each in (OPERATOR, TERRAFORM, ASYNC_API)}
"""Name -> format that is read and written."""


def format_of(file: SourceFile) -> TopologyFormat | None:
    """Return the format of a file, the first that recognises it; None for definitions and .bindings files."""
    return next((each for each in (RECORDING, *FORMATS.values()) if each.recognises(file)), None)


def read_folder(folder: str, paths: Sequence[str]) -> tuple[TopologyFormat, Imported]:
    """Read the files of a folder: objects of Kubernetes. Raises InputError, also for a module of Terraform."""
    module = [path for path in paths if path.endswith(MODULE_NAMES)]
    if module:
        return TERRAFORM, TERRAFORM.read(_read_files(folder, module), folder)
    objects = [path for path in paths if path.endswith((*YAML, ".json"))]
    files = [file for file in _read_files(folder, objects) if _is_operator(file)]
    if not files:
        raise InputError(f"{folder}: no topology: a folder without objects of Kubernetes in .yaml files")
    return OPERATOR, OPERATOR.read(files, folder)


def _read_files(folder: str, paths: Sequence[str]) -> list[SourceFile]:
    files: list[SourceFile] = []
    size = 0
    for path in paths:
        data = read_content(path)
        size += len(data)
        if size > DOCUMENT_BYTES:
            raise InputError(f"{folder}: too large: a topology has {DOCUMENT_BYTES >> 20} MiB at most")
        files.append(SourceFile(path, decode_text(data, path)))
    return files
