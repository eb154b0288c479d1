"""The syntax of Terraform's language, HCL: blocks, attributes and expressions as values with their lines.

Expressions are those that can be evaluated here: literals, templates, lists, objects, references and calls. Anything
else (operators, ``for``, splats, conditionals) is `Opaque`: its text is kept for a message, and nothing is guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Block", "Body", "Call", "Expression", "Items", "Literal", "Object", "Opaque", "Reference", "Template"]


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, true, false, null, or a text without interpolations."""

    value: str | float | bool | None
    line: int


@dataclass(frozen=True, slots=True)
class Template:
    """A text with interpolations."""

    parts: tuple[str | Expression, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[Expression, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Object:
    """An object; a bare name as a key is a literal."""

    pairs: tuple[tuple[Expression, Expression], ...]
    line: int


@dataclass(frozen=True, slots=True)
class Reference:
    """``root.step.step[index]``."""

    root: str
    steps: tuple[str | Expression, ...]
    """Names of attributes, and expressions of indexes."""
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function."""

    name: str
    arguments: tuple[Expression, ...]
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Opaque:
    """An expression that is not evaluated here."""

    text: str
    line: int


Expression: TypeAlias = "Literal | Template | Items | Object | Reference | Call | Opaque"


@dataclass(frozen=True, slots=True)
class Block:
    """``type "label" "label" { ... }``."""

    type: str
    labels: tuple[str, ...]
    body: Body
    line: int


@dataclass(frozen=True, slots=True)
class Body:
    """The attributes and blocks of a file or a block."""

    attributes: dict[str, tuple[Expression, int]]
    """Name -> expression and the line of the name."""
    blocks: tuple[Block, ...]
