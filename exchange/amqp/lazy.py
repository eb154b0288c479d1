"""Messages that keep their content header as bytes until a header or property is read.

A message of `build_lazy_message` has `LazyHeaders` and `Properties` that are decoded on first use; `get_content`
returns the bytes of such a message untouched. Routing by key decodes nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from exchange.amqp.content import ContentHeader
from exchange.values.message import Message, assemble_message


class _Decoding(Mapping[str, Any]):
    """A mapping in a content header, decoded on first use."""

    __slots__ = ("_decoded", "content")

    def __init__(self, content: ContentHeader) -> None:
        self.content = content
        self._decoded: Mapping[str, Any] | None = None

    @property
    def decoded(self) -> Mapping[str, Any]:
        """The decoded mapping; headers are a dict or a `Repeated`. Raises MalformedHeader."""
        if self._decoded is None:
            self._decoded = self._decode()
        return self._decoded

    @abstractmethod
    def _decode(self) -> Mapping[str, Any]: ...

    def __getitem__(self, key: str) -> Any:
        return self.decoded[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.decoded)

    def __len__(self) -> int:
        return len(self.decoded)

    def __eq__(self, other: object) -> bool:
        return self.decoded == (other.decoded if isinstance(other, type(self)) else other)

    __hash__ = None  # type: ignore[assignment]  # as a dict

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.decoded!r})"


class LazyHeaders(_Decoding):
    """The headers of a content header, decoded on first use; ``name in headers`` decodes nothing."""

    __slots__ = ()

    has_one_key: ClassVar = False
    """Whether it is certain, without a look, that there is no header CC or BCC."""
    may_have_marks: ClassVar = True
    """Whether a bridge may have written headers of its own among them."""

    def _decode(self) -> Mapping[str, Any]:
        return self.content.headers()

    def __contains__(self, key: object) -> bool:
        if self._decoded is None and type(key) is str:
            return self.content.find(key) is not None
        return key in self.decoded

    def __bool__(self) -> bool:
        start, end = self.content.table
        return start < end

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, LazyHeaders) and self.content == other.content) or super().__eq__(other)

    __hash__ = None  # as a dict


class Properties(_Decoding):
    """The other properties of a content header, decoded on first use."""

    __slots__ = ()

    def _decode(self) -> Mapping[str, Any]:
        return self.content.properties()


def build_lazy_message(exchange: str, routing_key: str, content: ContentHeader, body: bytes) -> Message:
    """Return the message of a content header, which is decoded when a header or property is read."""
    return assemble_message(exchange, routing_key, LazyHeaders(content), Properties(content), body)


def get_content(message: Message) -> ContentHeader:
    """Return the content header of a message: the very bytes if it came from `build_lazy_message`, else encoded.

    A message with an empty plain mapping of headers gets no table. Raises as `ContentHeader.encode`.
    """
    headers, properties = message.headers, message.properties
    content = getattr(headers, "content", None)  # takes a fifth of the time of isinstance
    if getattr(properties, "content", None) is content and isinstance(content, ContentHeader):
        return content
    if isinstance(headers, LazyHeaders):
        return ContentHeader.encode(headers.decoded if headers.content.has_table else None, properties)
    return ContentHeader.encode(headers or None, properties)
