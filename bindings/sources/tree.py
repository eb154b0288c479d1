"""Find topology files: those that are named, those that a glob pattern matches, and those below folders.

A file below a folder is a topology if it is named ``*.bindings``, or if it is named ``*.json`` and has the content of
definitions; both may be gzipped, with ``.gz`` behind the name. So is an AsyncAPI document in YAML. A folder with
objects of RabbitMQ's operator in YAML files is one topology as a whole; so is one with resources of RabbitMQ for
Terraform, which its reader refuses. Folders whose names begin with a dot, and ``node_modules``, are not entered, and
links to folders are not followed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from bindings.sources.files import decode_text, read_content
from bindings.sources.formats import MODULE_NAMES, OPERATOR, SourceFile, format_of
from bindings.sources.glob_pattern import NOT_ENTERED, expand_pattern, is_pattern
from exchange.errors import InputError
from exchange.files.names import YAML
from exchange.limits import FOLDER_FILES
from exchange.values.documents import document
from exchange.values.json_text import parse_leniently

LANGUAGE: Final = (".bindings", ".bindings.gz")
JSON: Final = (".json", ".json.gz")

VERSIONS: Final = ("rabbitmq_version", "rabbit_version")
REQUIRED: Final = {
    "exchanges": {"name", "type"},
    "queues": {"name", "durable"},
    "bindings": {"source", "destination", "destination_type"},
    "policies": {"name", "pattern", "definition"},
}
"""Section of definitions -> keys that each of its objects has."""
MENTIONED: Final = re.compile(rf'"(?:{"|".join([*VERSIONS, *REQUIRED])})"\s*:')
"""Found in every text that is definitions."""
DAMAGED: Final = re.compile(r'"(?:rabbit(?:mq)?_version|destination_type)"\s*:')
"""Found in a text that is no JSON but was definitions, before someone edited it."""


RESOURCE: Final = "rabbitmq_"
"""Beginning of the types of Terraform's resources for RabbitMQ."""
GROUP: Final = "rabbitmq.com/"
"""API group of the objects of RabbitMQ's operators."""


class TopologyFile(NamedTuple):
    """A file, or another source, that is to be read."""

    name: str
    folder: str | None = None
    """The folder that the user named, below which it was found; None if the user named the file itself."""


@document("SkippedJson", "source = name, reason")
class SkippedFile(NamedTuple):
    """A file below a folder that is not read as a topology, and why."""

    name: str
    reason: str


def asks_for_several(names: Iterable[str]) -> bool:
    """Return whether the names may stand for several files, or for none, whatever number there is today."""
    listed = list(names)
    return len(listed) != 1 or os.path.isdir(listed[0]) or is_pattern(listed[0])  # noqa: PTH112


def find_files(names: Iterable[str]) -> Iterator[TopologyFile | SkippedFile]:
    """Yield what is named, in that order, with folders and patterns replaced by their files, sorted; no file twice.

    A name that is neither a folder nor a pattern is yielded as it is: it may be ``-``, or the address of a broker. A
    file that is there is no pattern, whatever characters are in its name. Raises InputError if a pattern matches
    nothing, or if a folder has more than `FOLDER_FILES` files that may be topologies.
    """
    seen: set[str] = set()
    for name in expand_patterns(names):
        # A folder that is not found is an error of its reader, which names it.
        for found in _walk(name) if os.path.isdir(name) else [TopologyFile(name)]:  # noqa: PTH112
            identity = os.path.abspath(found.name) if os.path.exists(found.name) else found.name  # noqa: PTH100, PTH110
            if identity not in seen:
                seen.add(identity)
                yield found


def expand_patterns(names: Iterable[str]) -> Iterator[str]:
    """Yield the names, with each pattern replaced by what it matches, sorted. Raises InputError if that is nothing."""
    for name in names:
        yield from expand_pattern(name) if is_pattern(name) else [name]


def may_be_topology(name: str) -> bool:
    """Return whether a file may be a topology, judged by its path below a folder."""
    *folders, _ = PurePath(name).parts
    return name.endswith(LANGUAGE + JSON) and not any(map(_is_not_entered, folders))


def find_reason_to_skip(name: str, content: bytes | None = None) -> str | None:
    """Return why a file below a folder is no topology; None if it is one, even with a mistake in it.

    ``content`` is that of the file, unpacked; without it the file is read.
    """
    if name.endswith((*LANGUAGE, *YAML)) or os.path.isdir(name):  # noqa: PTH112  found by its content
        return None
    try:
        text = decode_text(read_content(name) if content is None else content, name)
    except InputError as error:
        return str(error).removeprefix(f"{name}: ")
    if MENTIONED.search(text) is None:
        return "no definitions of RabbitMQ"
    try:
        document = parse_leniently(text, finite=False)
    except ValueError:
        return None if DAMAGED.search(text) else "not JSON"
    return None if _are_definitions(document) else "no definitions of RabbitMQ"


def _are_definitions(document: Any) -> bool:
    if not isinstance(document, dict):
        return False
    if any(version in document for version in VERSIONS):
        return True
    sections = [(document[key], fields) for key, fields in REQUIRED.items() if document.get(key)]
    return bool(sections) and all(_have(section, fields) for section, fields in sections)


def _have(section: Any, fields: set[str]) -> bool:
    return isinstance(section, list) and all(isinstance(item, dict) and fields <= item.keys() for item in section)


def _is_not_entered(folder: str) -> bool:
    return folder.startswith(".") or folder == NOT_ENTERED


def _foreign(place: str, files: Sequence[str]) -> Iterator[str]:
    """Yield the topologies of other systems among the files of a folder: the folder itself, and single files.

    Modules of Terraform and objects of Kubernetes that have nothing of RabbitMQ are none.
    """
    folder = str(PurePath(place))
    module = [file for file in files if file.endswith(MODULE_NAMES)]
    if module:
        if any(RESOURCE in _read(place, file) for file in module):
            yield folder
        return
    holds_objects = False
    for file in files:
        if file.endswith(YAML):
            text = _read(place, file)
            known = format_of(SourceFile(file, text))
            if known is OPERATOR:
                holds_objects = holds_objects or GROUP in text
            elif known is not None:
                yield str(PurePath(place, file))
    if holds_objects:
        yield folder


def _read(place: str, file: str) -> str:
    """Return the text of a file; "" if it has none, so that it is of something else."""
    name = str(PurePath(place, file))
    try:
        return decode_text(read_content(name), name)
    except InputError:
        return ""


def _walk(folder: str) -> Iterator[TopologyFile | SkippedFile]:
    """Yield the files below a folder that may be topologies, and the folders that cannot be read."""
    unread: list[OSError] = []
    count = 0
    for place, folders, files in os.walk(folder, onerror=unread.append):
        folders[:] = sorted(name for name in folders if not _is_not_entered(name))
        candidates = sorted(file for file in files if file.endswith((*LANGUAGE, *JSON, *YAML, *MODULE_NAMES)))
        count += len(candidates)
        if count > FOLDER_FILES:
            raise InputError(f"{folder}: more than {FOLDER_FILES:,} files may be topologies; name folders below it")
        for file in candidates:
            if file.endswith(LANGUAGE + JSON) and not file.endswith(MODULE_NAMES):
                yield TopologyFile(str(PurePath(place, file)), folder)
        yield from (TopologyFile(name, folder) for name in _foreign(place, candidates))
    for error in unread:
        yield SkippedFile(str(error.filename), f"cannot be read: {error.strerror or error}")
