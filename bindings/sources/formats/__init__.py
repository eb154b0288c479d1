"""Formats of other systems that describe topologies: one row each, with what recognises, reads and writes it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from bindings.sources.files import decode_text, read_content
from bindings.sources.formats.asyncapi_reader import read_asyncapi
from bindings.sources.formats.asyncapi_writer import write_asyncapi
from bindings.sources.formats.format import File, Format
from bindings.sources.formats.imported import Imported
from bindings.sources.formats.nodes import Node, json_node
from bindings.sources.formats.operator_reader import is_operator_object, read_objects
from bindings.sources.formats.operator_writer import write_objects
from bindings.sources.formats.terraform.reader import read_terraform
from bindings.sources.formats.terraform.writer import write_terraform
from bindings.sources.formats.yaml_text import read_documents
from exchange.errors import InputError
from exchange.json_text import parse
from exchange.limits import DOCUMENT_BYTES

__all__ = [
    "FORMATS", "MODULE_NAMES", "NAMED_YAML", "OPERATOR", "File", "Format", "Imported", "format_of", "read_folder",
]  # fmt: skip

NAMED_YAML: Final = (".yaml", ".yml")
KUBERNETES: Final = re.compile(r"^(?:apiVersion|kind):[ \t]", re.MULTILINE)
ASYNCAPI: Final = re.compile(r"^[\"']?asyncapi[\"']?:[ \t]", re.MULTILINE)
HCL: Final = re.compile(
    r"^[ \t]*(?:resource[ \t]+\"[^\"\n]*\"[ \t]+\"[^\"\n]*\"|terraform|locals|(?:provider|variable)[ \t]+\"[^\"\n]*\")"
    r"[ \t]*\{",
    re.MULTILINE,
)
MODULE_NAMES: Final = (".tf", ".tf.json")
"""Endings of the files that make a folder a module of Terraform."""
VALUES_NAMES: Final = (".auto.tfvars", "terraform.tfvars")
TERRAFORM_NAMES: Final = (".tf", ".tf.json", ".tfvars", ".tfstate")


def _top_names(text: str) -> frozenset[str]:
    """Return the names at the top of a JSON object; none if it is no JSON."""
    try:
        value = parse(text)
    except (ValueError, InputError):
        return frozenset()
    return frozenset(value) if isinstance(value, dict) else frozenset()


def _is_json(file: File) -> bool:
    return file.text.lstrip("\ufeff \t\r\n")[:1] == "{"


def _has_names(file: File, names: Sequence[str]) -> bool:
    """Return whether a JSON file has all of these names at its top; most files are not parsed for it."""
    return all(f'"{name}"' in file.text for name in names) and set(names) <= _top_names(file.text)


def _is_operator(file: File) -> bool:
    if _is_json(file):
        return _has_names(file, ("apiVersion", "kind"))
    return KUBERNETES.search(file.text) is not None


def _is_asyncapi(file: File) -> bool:
    return _has_names(file, ("asyncapi",)) if _is_json(file) else ASYNCAPI.search(file.text) is not None


def _is_terraform(file: File) -> bool:
    if file.name.endswith(TERRAFORM_NAMES):
        return True
    if _is_json(file):
        return _has_names(file, ("terraform_version",)) or _has_names(file, ("resource",))
    return HCL.search(file.text) is not None


def _documents(file: File) -> list[Node]:
    return [json_node(file.text, file.name)] if _is_json(file) else list(read_documents(file.text, file.name))


def _read_operator(files: Sequence[File], name: str) -> Imported:
    documents = [node for file in files for node in _documents(file) if len(files) == 1 or is_operator_object(node)]
    return read_objects(documents, name, several=len(files) > 1)


def _read_asyncapi(files: Sequence[File], name: str) -> Imported:
    if len(files) != 1:
        raise InputError(f"{name}: there are {len(files)} AsyncAPI documents; name one of them")
    documents = _documents(files[0])
    if len(documents) != 1:
        raise InputError(f"{name}: there are {len(documents)} documents in it; an AsyncAPI document is one")
    return read_asyncapi(documents[0])


OPERATOR: Final = Format(
    "operator", "the operator for Kubernetes", NAMED_YAML, _is_operator, _read_operator, write_objects
)
TERRAFORM: Final = Format("terraform", "Terraform", (".tf",), _is_terraform, read_terraform, write_terraform)
ASYNC_API: Final = Format("asyncapi", "AsyncAPI", NAMED_YAML, _is_asyncapi, _read_asyncapi, write_asyncapi)

FORMATS: Final = {each.name: each for each in (OPERATOR, TERRAFORM, ASYNC_API)}
"""Name -> format. Each file is of the first that recognises it."""


def format_of(file: File) -> Format | None:
    """Return the format of a file; None for definitions and .bindings files."""
    return next((each for each in FORMATS.values() if each.recognises(file)), None)


def read_folder(folder: str, paths: Sequence[str]) -> tuple[Format, Imported]:
    """Read the files of a folder: a module of Terraform, else objects of Kubernetes. Raises InputError."""
    if any(path.endswith(MODULE_NAMES) for path in paths):
        module = [path for path in paths if path.endswith((*MODULE_NAMES, *VALUES_NAMES))]
        return TERRAFORM, TERRAFORM.read(_read_files(folder, module), folder)
    objects = [path for path in paths if path.endswith((*NAMED_YAML, ".json"))]
    files = [file for file in _read_files(folder, objects) if _is_operator(file)]
    if not files:
        raise InputError(f"{folder}: a folder without .tf files and without objects of Kubernetes in .yaml files")
    return OPERATOR, OPERATOR.read(files, folder)


def _read_files(folder: str, paths: Sequence[str]) -> list[File]:
    files: list[File] = []
    size = 0
    for path in paths:
        data = read_content(path)
        size += len(data)
        if size > DOCUMENT_BYTES:
            raise InputError(f"{folder}: too large: a topology has {DOCUMENT_BYTES >> 20} MiB at most")
        files.append(File(path, decode_text(data, path)))
    return files
