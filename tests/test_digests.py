"""Images and actions of the examples are named by digest: a tag may mean something else tomorrow.

``.ci/digests`` prints the digests that the tags of images have now.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent

OURS: Final = re.compile(r"^(hashstar/|OWNER/hashstar|\.|\{\{|\$)")
"""What is built from this repository, or named by whoever uses the example."""
IMAGE: Final = re.compile(r"^[ \t]*image:[ \t]*[\"']?(?:\$\{\w+:-([^}\s]+)\}|([^\s\"']+))", re.MULTILINE)
BASE: Final = re.compile(r"^(?:ARG BASE=|FROM (?!\$))(\S+)", re.MULTILINE)
USES: Final = re.compile(r"^[ \t]*(?:- )?uses:[ \t]*(\S+)", re.MULTILINE)


def find_names() -> Iterator[tuple[str, str]]:
    """Yield each file, and each image and action that it names."""
    for folder, pattern in (("examples", "**/*"), (".github", "**/*"), ("docs", "*.md")):
        for path in sorted((ROOT / folder).glob(pattern)):
            if not path.is_file() or path.suffix not in {".md", ".yml", ".yaml", ""}:
                continue
            text = path.read_text("utf-8")
            expressions = (BASE,) if path.name == "Dockerfile" else (IMAGE, USES)
            for expression in expressions:
                for match in expression.finditer(text):
                    name = next(group for group in match.groups() if group)
                    if not OURS.match(name):
                        yield str(path.relative_to(ROOT)), name


def find_undigested(names: Iterator[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the names without a digest: of an image ``@sha256:``, of an action a commit."""
    digest = re.compile(r"@(sha256:[0-9a-f]{64}|[0-9a-f]{40})$")
    return {(path, name) for path, name in names if not digest.search(name)}


def test_images_and_actions_have_digests() -> None:
    names = [*find_names()]
    assert len(names) >= 5
    assert not find_undigested(iter(names))


def test_a_tag_is_no_digest() -> None:
    for text, found in (
        ("    image: ${KAFKA_IMAGE:-apache/kafka:4.1.1}", IMAGE), ('  image: "redis:7"', IMAGE),
        ("FROM python:3.13-slim AS build", BASE), ("  - uses: actions/checkout@v4", USES),
    ):  # fmt: skip
        match = found.search(text)
        assert match is not None
        name = next(group for group in match.groups() if group)
        assert find_undigested(iter([("file", name)])) == {("file", name)}
