"""Read and write YAML with PyYAML: values with their lines, within limits, and without tags.

PyYAML parses the text into events; which values they are is decided here, because Kubernetes and AsyncAPI agree neither
with YAML 1.1, which PyYAML constructs (``1:30`` is 90 there, ``2024-01-01`` a date), nor entirely with YAML 1.2.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from bindings.sources.formats.format import SourceFile
from bindings.sources.formats.nodes import DocumentNode, Path, parse_json_node
from bindings.sources.language.errors import LanguageError
from exchange.errors import InputError
from exchange.limits import DOCUMENT_ITEMS, INTEGER_DIGITS, NESTING, YAML_BYTES
from exchange.text.display import clip_line
from exchange.text.faults import find_position
from exchange.text.site import build_install_command

NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
BOOLS: Final[Mapping[str, bool]] = {
    word: value
    for value, words in ((True, ("true", "yes", "on")), (False, ("false", "no", "off")))
    for plain in words
    for word in (plain, plain.capitalize(), plain.upper())
}
INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
OTHER_BASE: Final = re.compile(r"0x[0-9a-fA-F]+|0o?[0-7]+")
LEAST_LONG_INTEGER: Final = 10**INTEGER_DIGITS
"""The least number that is too long in decimal, in which it would be shown and written, whatever base it is read in."""
FLOAT: Final = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,4})?")
NO_NUMBER: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF|nan|NaN|NAN)")
PLAIN: Final = re.compile(r"[A-Za-z/$][A-Za-z0-9_./-]*")
"""Texts that every YAML parser reads as texts without quotes, unless they are one of `WORDS`."""
WORDS: Final = frozenset({*NULLS, *BOOLS, "y", "Y", "n", "N"})
MERGE: Final = "<<"


def read_documents(file: SourceFile) -> list[DocumentNode]:
    """Return the documents of a file, YAML or one of JSON. Raises InputError."""
    return [parse_json_node(file.text, file.name)] if file.is_json else list(parse_documents(file.text, file.name))


def parse_documents(text: str, name: str) -> Iterator[DocumentNode]:
    """Yield the documents of a text that are not empty.

    Raises InputError, naming file and line, for what is no YAML, explicit tags, names that are there twice, nesting
    beyond `exchange.limits.NESTING`, and more items than `exchange.limits.DOCUMENT_ITEMS`, those of aliases included.
    """
    yaml = _library()
    if len(text) > YAML_BYTES:
        raise InputError(f"{name}: too large: YAML has {YAML_BYTES >> 20} MiB at most; split it")
    builder: _ValueBuilder | None = None
    try:
        for event in _read_events(yaml, text):
            if isinstance(event, yaml.DocumentStartEvent):
                builder = _ValueBuilder(name)
            elif builder is not None:
                if isinstance(event, yaml.ScalarEvent):
                    builder.scalar(event)
                elif isinstance(event, yaml.AliasEvent):
                    builder.alias(event)
                elif isinstance(event, yaml.CollectionStartEvent):
                    builder.open(event, {} if isinstance(event, yaml.MappingStartEvent) else [])
                elif isinstance(event, yaml.CollectionEndEvent):
                    builder.close()
                elif isinstance(event, yaml.DocumentEndEvent) and builder.root is not None:
                    if builder.root.value is not None:
                        yield builder.root
                    builder = None
    except yaml.MarkedYAMLError as error:
        raise _locate(error, name, text) from None
    except yaml.YAMLError as error:  # a character that YAML does not allow
        reason = f"not YAML: {clip_line(str(error).splitlines()[0], 120)}"
        at = getattr(error, "position", None)
        if not isinstance(at, int) or not 0 <= at < len(text):
            raise InputError(f"{name}: {reason}") from None
        raise LanguageError.at(at, reason, name, text) from None


def _read_events(yaml: Any, text: str) -> Iterator[Any]:
    """Yield the events of a text, in front of an error also those that the library has read and not given.

    It reads ahead as far as a key may reach, and releases of it refuse nesting on the way, at a depth of their own.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    count = end = 0
    try:
        for event in yaml.parse(text, Loader=loader):
            yield event
            count, end = count + 1, event.end_mark.index
    except yaml.MarkedYAMLError:
        opened = next(islice(re.finditer(r"[\[{]", text[end:]), NESTING, None), None)
        if opened is not None:
            with suppress(yaml.YAMLError):
                yield from islice(yaml.parse(text[: end + opened.end()], Loader=loader), count, None)
        raise


def write_documents(documents: Iterable[Any]) -> Iterator[str]:
    """Yield the text of each document. Texts stand in quotes unless every YAML parser reads them as texts without."""
    yaml = _library()

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # PyYAML has no types
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def represent_text(dumper: Any, text: str) -> Any:
        is_plain = PLAIN.fullmatch(text) is not None and text not in WORDS
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_plain else '"')

    Dumper.add_representer(str, represent_text)
    for document in documents:
        yield yaml.dump(
            document, Dumper=Dumper, explicit_start=True, sort_keys=False, allow_unicode=True, width=1 << 30
        )


def find_excesses(texts: Collection[str]) -> Iterator[str]:
    """Yield for which limits `parse_documents` refuses what `write_documents` has yielded."""
    if sum(map(len, texts)) > YAML_BYTES:
        yield f"hashstar reads no YAML of more than {YAML_BYTES >> 20} MiB, and this has more"
    yaml = _library()
    long = (text for text in texts if len(text) > DOCUMENT_ITEMS)  # an item has one character at least
    counts = (sum(isinstance(each, yaml.NodeEvent) for each in _read_events(yaml, text)) for text in long)
    if any(count > DOCUMENT_ITEMS for count in counts):
        yield f"hashstar reads no YAML with more than {DOCUMENT_ITEMS:,} items in one document, and this has more"


def _library() -> Any:
    try:
        import yaml  # not at the top: it is an extra
    except ImportError:
        raise InputError(f"YAML needs PyYAML: {build_install_command('yaml')}") from None
    return yaml


def _locate(error: Any, name: str, text: str) -> InputError:
    """Return the error with its line and a caret."""
    mark = error.problem_mark or error.context_mark
    hint = "; render it first, if it is a template of Helm" if "{{" in text else ""
    reason = f"not YAML: {error.problem or error.context}{hint}"
    if mark is None:
        return InputError(f"{name}: {reason}")
    return LanguageError.at(find_position(text, mark.line + 1, mark.column + 1), reason, name, text)


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not come yet."""

    container: dict[str, DocumentNode] | list[DocumentNode]
    line: int
    path: Path
    anchor: str | None
    begun_at: int
    """The number of items before it."""
    key: str | None = None
    """The key whose value comes next."""
    merged: list[DocumentNode] = field(default_factory=list)


class _ValueBuilder:
    """Builds the value of one document from events, with a stack of its own: deep nesting is an error, no crash."""

    def __init__(self, name: str) -> None:
        self.root: DocumentNode | None = None
        self._name = name
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[DocumentNode, int]] = {}
        self._items = 0

    def scalar(self, event: Any) -> None:
        self._refuse_tag(event)
        line = event.start_mark.line + 1
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.container, dict) and top.key is None:
            if event.anchor:
                raise self._error(line, "an anchor on a key is not read")
            if event.value in top.container or (event.value == MERGE and top.merged):
                raise self._error(line, f"{clip_line(event.value, 60)!r} is here twice; only one can be meant")
            top.key = event.value
            self._count(1, line)
            return
        value = self._resolve(event.value, line) if event.implicit[0] and not event.style else event.value
        self._add(DocumentNode(value, self._name, line, self._path()), 1, event.anchor)

    def alias(self, event: Any) -> None:
        line = event.start_mark.line + 1
        if event.anchor not in self._anchors:
            raise self._error(line, f"the alias *{clip_line(event.anchor, 60)} has no anchor before it")
        node, size = self._anchors[event.anchor]
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.container, dict) and top.key is None:
            raise self._error(line, "an alias is a key here; keys are texts")
        self._add(node, size, None)

    def open(self, event: Any, container: dict[str, DocumentNode] | list[DocumentNode]) -> None:
        self._refuse_tag(event)
        line = event.start_mark.line + 1
        if len(self._stack) >= NESTING:
            raise self._error(line, f"nested too deeply, beyond {NESTING} lists and mappings")
        path = self._path()
        self._stack.append(_Open(container, line, path, event.anchor, self._items))

    def close(self) -> None:
        closed = self._stack.pop()
        if isinstance(closed.container, dict):
            for merged in closed.merged:
                for name, node in merged.fields().items():
                    closed.container.setdefault(name, node)
        node = DocumentNode(closed.container, self._name, closed.line, closed.path)
        self._add(node, self._items - closed.begun_at, closed.anchor, counted=True)

    def _path(self) -> Path:
        top = self._stack[-1] if self._stack else None
        if top is None:
            return None
        if isinstance(top.container, list):
            return (top.path, len(top.container))
        if top.key is None:
            raise self._error(
                top.line, "a list or mapping is a key here; keys are texts (render a template of Helm first)"
            )
        return (top.path, top.key)

    def _add(self, node: DocumentNode, size: int, anchor: str | None, *, counted: bool = False) -> None:
        self._count(1 if counted else size, node.line or 0)
        if anchor:
            self._anchors[anchor] = node, size + 1
        top = self._stack[-1] if self._stack else None
        if top is None:
            self.root = node
        elif isinstance(top.container, list):
            top.container.append(node)
        elif top.key == MERGE:
            top.merged = node.items() if isinstance(node.value, list) else [node]
            top.key = None
        elif top.key is not None:  # `scalar` sets it, and `alias` and `_path` refuse all else in its place
            top.container[top.key] = node
            top.key = None

    def _count(self, size: int, line: int) -> None:
        self._items += size
        if self._items > DOCUMENT_ITEMS:
            raise self._error(line, f"more than {DOCUMENT_ITEMS:,} items in one document, those of aliases included")

    def _refuse_tag(self, event: Any) -> None:
        if event.tag is not None and event.tag != "!":
            tag = clip_line(event.tag.replace("tag:yaml.org,2002:", "!!"), 60)
            raise self._error(event.start_mark.line + 1, f"the tag {tag} is not read; write the value without it")

    def _resolve(self, text: str, line: int) -> Any:
        """Return the value of a scalar without quotes."""
        if text in NULLS:
            return None
        if text in BOOLS:
            return BOOLS[text]
        if INTEGER.fullmatch(text) and len(text.lstrip("+-")) <= INTEGER_DIGITS:
            return int(text)
        if INTEGER.fullmatch(text) or OTHER_BASE.fullmatch(text):
            number = (
                LEAST_LONG_INTEGER if INTEGER.fullmatch(text) else int(text, 0) if text[1] in "xo" else int(text, 8)
            )
            if number >= LEAST_LONG_INTEGER:
                limit = f"a number of more than {INTEGER_DIGITS} digits; put it in quotes, or shorten it"
                raise self._error(line, limit)
            return number
        if FLOAT.fullmatch(text):
            number = float(text)
            if number in (float("inf"), float("-inf")):
                raise self._error(line, f"{clip_line(text, 60)} is no finite number")
            return number
        if NO_NUMBER.fullmatch(text):
            raise self._error(line, f"{text} is no finite number; put it in quotes if it is a text")
        return text

    def _error(self, line: int, reason: str) -> InputError:
        return InputError(f"{self._name}:{line}: {reason}")
