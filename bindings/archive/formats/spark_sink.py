"""List the files that streaming queries of Spark have committed to a folder: its file sink keeps a log of them.

A task that was killed, or ran twice, leaves a file with rows that are also in the file of another attempt; only the log
says which one counts. It has a file for each micro-batch, ``_spark_metadata/17``: ``v1``, then a JSON object for each
file that was added. Each tenth, ``19.compact``, has all that those before it have. Spark writes each of them at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from itertools import takewhile
from operator import truediv
from typing import Final
from urllib.parse import unquote

from bindings.archive.places import AnyPath, open_file
from exchange.errors import InputError, name_os_errors
from exchange.limits import DOCUMENT_BYTES
from exchange.values.json_text import parse_leniently

SINK: Final = "Spark's file sink"
LOG: Final = "_spark_metadata"
BATCH: Final = re.compile(r"([0-9]{1,18})(\.compact)?")
"""Name of a file of the log."""
VERSION: Final = b"v1"


def list_committed_files(root: AnyPath) -> list[str]:
    """Return the files that the log of a folder has, as paths below it. Raises InputError for a damaged log."""
    with name_os_errors(root / LOG):
        found = [match for each in (root / LOG).iterdir() if (match := BATCH.fullmatch(each.name))]
    batches = sorted((int(match[1]), not match[2], match[0]) for match in found)
    compact = max((at for at, (_, is_plain, _) in enumerate(batches) if not is_plain), default=0)
    committed: dict[tuple[str, ...], None] = {}
    expected = batches[compact][0] if batches and not batches[compact][1] else 0
    for number, _, name in batches[compact:]:
        if number != expected:
            raise InputError(f"{root / LOG}: micro-batch {expected} is missing, so which files count is not known")
        expected += 1
        for is_added, parts in _read_batch(root / LOG / name):
            if is_added:
                committed[parts] = None
            else:
                committed.pop(parts, None)
    depth = _count_partitions(root, next(iter(committed), ("",)))
    return sorted("/".join(parts[-1 - depth :]) for parts in committed)


def _read_batch(path: AnyPath) -> list[tuple[bool, tuple[str, ...]]]:
    """Return the entries of a file of the log: whether a file is added or removed, and the parts of its address."""
    with name_os_errors(path), open_file(path) as file:
        data = file.read(DOCUMENT_BYTES + 1)
    version, *lines = data.splitlines() or [b""]
    try:
        entries = [_parse_entry(line) for line in lines]
    except (ValueError, KeyError, TypeError, AttributeError):
        entries = None
    if entries is None or version != VERSION or len(data) > DOCUMENT_BYTES:
        raise InputError(f"{path}: this log of {SINK} cannot be read, so which files count is not known")
    return entries


def _parse_entry(line: bytes) -> tuple[bool, tuple[str, ...]]:
    """Return an entry of the log. Raises ValueError, KeyError, TypeError or AttributeError for what is none."""
    entry = parse_leniently(line)
    parts = tuple(map(unquote, entry["path"].split("/")))
    text = "/".join(parts)
    if parts[-1] in ("", ".") or ".." in parts or "\0" in text or entry["action"] not in ("add", "delete"):
        raise ValueError(text)
    text.encode()  # no half of a surrogate pair can be in a name
    return entry["action"] == "add", parts


def _count_partitions(root: AnyPath, parts: Sequence[str]) -> int:
    """Return how many folders of partitions (``day=2026-11-01``) are above a file, in a folder that may be a copy."""
    depth = len([*takewhile(lambda part: "=" in part, parts[-2::-1])])
    while depth and not reduce(truediv, parts[-1 - depth : -1], root).is_dir():
        depth -= 1
    return depth
