"""Parse HCL, the language of Terraform, by recursive descent over the characters of the text.

It follows the specification of HCL's native syntax, as ``terraform`` 1.11 reads it: ``$${`` and ``%%{`` are escapes in
texts and heredocs, a text in quotes ends on its line, a flush heredoc (``<<-``) loses the indentation that all of its
lines have. Each character is looked at a fixed number of times, whatever the text, and nesting is limited.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

from bindings.sources.formats.terraform.syntax import (
    Block,
    Body,
    Call,
    Expression,
    Items,
    Literal,
    Object,
    Opaque,
    Reference,
    Template,
)
from bindings.sources.language.errors import LanguageError
from exchange.errors import InputError
from exchange.limits import INTEGER_DIGITS, NESTING

__all__ = ["parse_hcl", "parse_template"]

SPACE: Final = re.compile(r"[ \t\r]*+")
BLANK: Final = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/)*+")
"""White space, line breaks and comments."""
COMMENT: Final = re.compile(r"(?:[ \t\r]++|/\*(?:[^*]|\*(?!/))*+\*/)*+(?:(?:#|//)[^\n]*+)?+")
"""White space and comments up to the end of the line; a comment in between may have line breaks."""
NAME: Final = re.compile(r"[^\W\d][\w-]*+")
NUMBER: Final = re.compile(r"-?[0-9]++(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]{1,4}+)?+")
HEREDOC: Final = re.compile(r"<<(-?)([^\W\d][\w-]*+)[ \t\r]*+\n")
QUOTED: Final = re.compile(r'[^"\\$%\n]++')
HEREDOC_TEXT: Final = re.compile(r"[^$%]++")
ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
UNICODE: Final = {"u": 4, "U": 8}
RUN: Final = re.compile(r"\$++|%++")
STEP: Final = re.compile(r"\.(?:([^\W\d][\w-]*+)|([0-9]++))")
AFTER_FOR: Final = re.compile(r"[ \t]*+[=:,]")
CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
LITERALS: Final = {"true": True, "false": False, "null": None}
OPAQUE_SHOWN: Final = 80


class _Wrong(Exception):
    """A mistake at a position of the text."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(reason)
        self.at = at
        self.reason = reason


def parse_hcl(text: str, name: str) -> Body:
    """Parse a file. Raises LanguageError, an InputError, which names the file, the line and the column."""
    try:
        return _Parser(text).body(0, is_file=True)
    except _Wrong as wrong:
        raise LanguageError.at(wrong.at, wrong.reason, name, text) from None


def parse_template(text: str) -> Expression:
    """Parse a text of a configuration in JSON, whose texts are templates. Raises InputError with the reason."""
    parser = _Parser(text, has_lines=False)
    try:
        return _joined(parser.template_parts(len(text), 0), 0)
    except _Wrong as wrong:
        raise InputError(wrong.reason) from None


class _Parser:
    def __init__(self, text: str, *, has_lines: bool = True) -> None:
        self._text = text
        self._has_lines = has_lines
        self._at = 0
        self._breaks = [match.start() for match in re.finditer("\n", text)]

    def line(self, at: int) -> int:
        """Return the line of a position, from 1; 0 in a text of JSON, whose line is unknown."""
        return bisect_right(self._breaks, at - 1) + 1 if self._has_lines else 0

    # Bodies

    def body(self, depth: int, *, is_file: bool = False) -> Body:
        """Parse attributes and blocks, up to the end of the file or the closing brace."""
        self._check_depth(depth)
        attributes: dict[str, tuple[Expression, int]] = {}
        blocks: list[Block] = []
        while True:
            self._skip(BLANK)
            if self._at >= len(self._text):
                if is_file:
                    return Body(attributes, tuple(blocks))
                raise _Wrong(len(self._text), "a block is not closed: '}' is missing")
            if self._text[self._at] == "}" and not is_file:
                self._at += 1
                return Body(attributes, tuple(blocks))
            start = self._at
            name = self._name("the name of an attribute or a block")
            self._skip(SPACE)
            if self._peek() == "=" and self._peek(1) != "=":
                self._at += 1
                if name in attributes:
                    raise _Wrong(start, f"{name} has a value already")
                attributes[name] = self.expression(depth + 1, inside=False), self.line(start)
            else:
                blocks.append(self._block(name, start, depth))
            self._end_of_line(is_file=is_file)

    def _block(self, kind: str, start: int, depth: int) -> Block:
        labels: list[str] = []
        while True:
            self._skip(SPACE)
            here = self._peek()
            if here == "{":
                self._at += 1
                return Block(kind, tuple(labels), self.body(depth + 1), self.line(start))
            if here == '"':
                at = self._at
                label = self._quoted(depth)
                if not isinstance(label, Literal):
                    raise _Wrong(at, "the label of a block is a text without interpolations")
                labels.append(str(label.value))
            else:
                labels.append(self._name("'=', a label or '{'"))

    def _end_of_line(self, *, is_file: bool) -> None:
        self._skip(COMMENT)
        here = self._peek()
        if here == "\n":
            self._at += 1
        elif here and (is_file or here != "}"):
            raise _Wrong(self._at, "expected the end of the line")

    # Expressions

    def expression(self, depth: int, *, inside: bool) -> Expression:
        """Parse an expression; ``inside`` brackets, line breaks do not end it."""
        self._check_depth(depth)
        self._skip(BLANK if inside else SPACE)
        start = self._at
        term = self._term(depth)
        if term is not None:
            after = self._at
            self._skip(BLANK if inside else COMMENT)
            if self._ends_here(inside=inside):
                self._at = after
                return term
        return self._opaque(start, inside=inside)

    def _ends_here(self, *, inside: bool) -> bool:
        """Return whether no operator follows a term."""
        here = self._peek()
        is_key = inside and here in ("=", ":") and self._peek(1) not in ("=", ">", ":")
        return is_key or here in ("", "\n", ",", ")", "]", "}", "~") or self._text.startswith("...", self._at)

    def _term(self, depth: int) -> Expression | None:
        """Parse a term with its steps; None if it is none that can be evaluated here."""
        start, here = self._at, self._peek()
        line = self.line(start)
        if here == '"':
            return self._quoted(depth)
        if here == "<" and (heredoc := HEREDOC.match(self._text, start)):
            return self._heredoc(heredoc, depth)
        if number := NUMBER.match(self._text, start):
            self._at = number.end()
            return Literal(_number(number[0], start), line)
        if here == "(":
            self._at += 1
            inner = self.expression(depth + 1, inside=True)
            self._skip(BLANK)
            self._expect(")")
            return None if self._peek() in (".", "[") else inner
        if here == "[":
            return None if self._has_for() else self._items(depth, line)
        if here == "{":
            return None if self._has_for() else self._object(depth, line)
        name = NAME.match(self._text, start)
        if name is None:
            return None
        self._at = name.end()
        if name[0] in LITERALS and self._peek() not in (".", "[", "("):
            return Literal(LITERALS[name[0]], line)
        if self._peek() == "(":
            self._at += 1
            arguments = self._listed(")", depth)
            if arguments is None or self._peek() in (".", "["):
                return None
            return Call(name[0], arguments, line, self._clip(start))
        return self._reference(name[0], start, depth)

    def _reference(self, root: str, start: int, depth: int) -> Reference | None:
        steps: list[str | Expression] = []
        while self._peek() in (".", "["):
            if self._peek() == ".":
                step = STEP.match(self._text, self._at)
                if step is None:
                    return None  # a splat
                self._at = step.end()
                steps.append(step[1] if step[1] is not None else Literal(int(step[2]), self.line(start)))
            else:
                if self._peek(1) == "*":
                    return None
                self._at += 1
                steps.append(self.expression(depth + 1, inside=True))
                self._skip(BLANK)
                self._expect("]")
        return Reference(root, tuple(steps), self.line(start), self._clip(start))

    def _items(self, depth: int, line: int) -> Expression | None:
        self._at += 1
        items = self._listed("]", depth)
        return None if items is None or self._peek() in (".", "[") else Items(items, line)

    def _listed(self, closing: str, depth: int) -> tuple[Expression, ...] | None:
        """Parse expressions with commas up to the bracket; None if the last one is to be expanded: ``f(x...)``."""
        items: list[Expression] = []
        while True:
            self._skip(BLANK)
            if self._peek() == closing:
                self._at += 1
                return tuple(items)
            items.append(self.expression(depth + 1, inside=True))
            self._skip(BLANK)
            if self._peek() == ",":
                self._at += 1
            elif self._text.startswith("...", self._at):
                return None
            elif self._peek() != closing:
                raise _Wrong(self._at, f"expected ',' or '{closing}'")

    def _object(self, depth: int, line: int) -> Expression | None:
        self._at += 1
        pairs: list[tuple[Expression, Expression]] = []
        while True:
            self._skip(BLANK)
            if self._peek() == "}":
                self._at += 1
                return None if self._peek() in (".", "[") else Object(tuple(pairs), line)
            pairs.append((self._key(depth), self._value(depth)))
            self._skip(COMMENT)
            if self._peek() in (",", "\n"):
                self._at += 1
            elif self._peek() != "}":
                raise _Wrong(self._at, "expected ',', a new line or '}'")

    def _key(self, depth: int) -> Expression:
        at, name = self._at, NAME.match(self._text, self._at)
        if name is not None:
            self._at = name.end()
            self._skip(SPACE)
            if self._peek() in ("=", ":"):
                return Literal(name[0], self.line(at))
            self._at = at
        return self.expression(depth + 1, inside=True)

    def _value(self, depth: int) -> Expression:
        self._skip(SPACE)
        if self._peek() not in ("=", ":"):
            raise _Wrong(self._at, "expected '=' and a value")
        self._at += 1
        self._skip(SPACE)
        # The value may begin on the line of its key only, and it ends with the line.
        return self.expression(depth + 1, inside=False)

    def _has_for(self) -> bool:
        after = BLANK.match(self._text, self._at + 1)
        name = NAME.match(self._text, after.end() if after else self._at)
        return name is not None and name[0] == "for" and not AFTER_FOR.match(self._text, name.end())

    def _opaque(self, start: int, *, inside: bool) -> Opaque:
        """Skip the expression at ``start``, which is not evaluated, with all brackets and texts in it.

        It keeps a stack of its own and parses nothing, so that what was parsed in vain is looked at only once more.
        """
        self._at = start
        open_ones: list[str] = []  # what must come to close each bracket and text: '"' while in a text
        while self._at < len(self._text):
            here = self._text[self._at]
            if open_ones and open_ones[-1] == '"':
                self._skip_in_text(open_ones, start)
            elif here == "<" and (heredoc := HEREDOC.match(self._text, self._at)):
                self._at = self._end_of_heredoc(heredoc).end()
            elif here == '"' or here in CLOSING:
                open_ones.append(CLOSING.get(here, here))
                self._at += 1
            elif open_ones and here == open_ones[-1]:
                open_ones.pop()
                self._at += 1
            elif here in ")]}" or (not open_ones and (here == "," or (here == "\n" and not inside))):
                break
            elif here == "#" or self._text.startswith(("//", "/*"), self._at):
                if not open_ones and not inside:
                    break  # what follows a comment on its line is no part of the expression
                self._skip_comment()
            else:
                self._at += 1
        if self._at == start:
            raise _Wrong(start, "expected a value")
        if open_ones:
            raise _Wrong(start, f"{open_ones[-1]!r} is missing")
        return Opaque(self._clip(start), self.line(start))

    def _skip_in_text(self, open_ones: list[str], start: int) -> None:
        """Skip one step in a text in quotes: a run of characters, an escape, the beginning of an interpolation."""
        plain = QUOTED.match(self._text, self._at)
        self._at = plain.end() if plain is not None else self._at
        here = self._peek()
        if here in ("", "\n"):
            raise _Wrong(start, "a text in quotes is not closed on its line")
        if here == '"':
            open_ones.pop()
            self._at += 1
        elif here == "\\":
            self._at += 2
        else:
            length = self._run()
            if length == 1 and self._peek(1) == "{":
                open_ones.append("}")
            self._at += length + (self._peek(length) == "{")

    def _skip_comment(self) -> None:
        blank = BLANK.match(self._text, self._at)
        if blank is None or blank.end() == self._at:
            raise _Wrong(self._at, "a comment is not closed")
        self._at = blank.end()

    # Texts

    def _quoted(self, depth: int) -> Expression:
        start = self._at
        self._at += 1
        parts: list[str | Expression] = []
        while True:
            if plain := QUOTED.match(self._text, self._at):
                parts.append(plain[0])
                self._at = plain.end()
            here = self._peek()
            if here == '"':
                self._at += 1
                return _joined(parts, self.line(start))
            if here in ("", "\n"):
                raise _Wrong(start, "a text in quotes is not closed on its line")
            parts.append(self._escape() if here == "\\" else self._marked(depth))

    def _escape(self) -> str:
        at, kind = self._at, self._peek(1)
        if kind in ESCAPES:
            self._at += 2
            return ESCAPES[kind]
        digits = self._text[at + 2 : at + 2 + UNICODE.get(kind, 0)] if kind else ""
        if kind in UNICODE and re.fullmatch(r"[0-9a-fA-F]+", digits) and len(digits) == UNICODE[kind]:
            number = int(digits, 16)
            if number <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF:
                self._at += 2 + len(digits)
                return chr(number)
        raise _Wrong(at, r"no escape of Terraform; there are \n \r \t \" \\ \uNNNN \UNNNNNNNN")

    def _marked(self, depth: int) -> str | Expression:
        """Parse what begins with ``$`` or ``%`` in a text: an escape, an interpolation, a directive, or only itself."""
        mark, length = self._text[self._at], self._run()
        if self._peek(length) != "{":
            self._at += length
            return mark * length
        if length > 1:  # $${ is ${
            self._at += length + 1
            return mark * (length - 1) + "{"
        start = self._at
        self._at += 2
        if mark == "%" or self._peek() == "~":
            self._opaque(self._at, inside=True)
            self._expect("}")
            return Opaque(self._clip(start), self.line(start))
        value = self.expression(depth + 1, inside=True)
        self._skip(BLANK)
        if self._peek() == "~":
            self._at += 1
            value = Opaque(self._clip(start), self.line(start))
        self._expect("}")
        return value

    def _run(self) -> int:
        """Return the number of equal characters here."""
        rest = RUN.match(self._text, self._at)
        return len(rest[0]) if rest is not None else 1

    def _end_of_heredoc(self, head: re.Match[str]) -> re.Match[str]:
        ending = re.compile(rf"^[ \t]*+{re.escape(head[2])}[ \t\r]*+$", re.MULTILINE)
        end = ending.search(self._text, head.end())
        if end is None:
            raise _Wrong(head.start(), f"a heredoc is not closed: there is no line {head[2]}")
        return end

    def _heredoc(self, head: re.Match[str], depth: int) -> Expression:
        """Parse a heredoc: its lines up to one that has only its word."""
        start = self._at
        end = self._end_of_heredoc(head)
        self._at = head.end()
        parts = self.template_parts(end.start(), depth)
        self._at = end.end()
        return _joined(_flush(parts) if head[1] else parts, self.line(start))

    def template_parts(self, end: int, depth: int) -> list[str | Expression]:
        """Parse the parts of a template without escapes of its own, up to a position."""
        parts: list[str | Expression] = []
        while self._at < end:
            plain = HEREDOC_TEXT.match(self._text, self._at, end)
            if plain:
                parts.append(plain[0])
                self._at = plain.end()
            else:
                parts.append(self._marked(depth))
        if self._at > end:
            raise _Wrong(end, "an interpolation is not closed")
        return parts

    # Characters

    def _name(self, wanted: str) -> str:
        name = NAME.match(self._text, self._at)
        if name is None:
            raise _Wrong(self._at, f"expected {wanted}")
        self._at = name.end()
        return name[0]

    def _peek(self, ahead: int = 0) -> str:
        return self._text[self._at + ahead : self._at + ahead + 1]

    def _skip(self, blank: re.Pattern[str]) -> None:
        match = blank.match(self._text, self._at)
        self._at = match.end() if match is not None else self._at

    def _expect(self, character: str) -> None:
        if self._peek() != character:
            raise _Wrong(self._at, f"expected '{character}'")
        self._at += 1

    def _check_depth(self, depth: int) -> None:
        if depth > NESTING:
            raise _Wrong(self._at, f"nested too deeply, beyond {NESTING} levels")

    def _clip(self, start: int) -> str:
        text = " ".join(self._text[start : min(self._at, start + OPAQUE_SHOWN)].split())
        return text if self._at <= start + OPAQUE_SHOWN else f"{text} ..."


def _number(text: str, at: int) -> float:
    if len(text) > INTEGER_DIGITS:
        raise _Wrong(at, f"a number of more than {INTEGER_DIGITS} digits")
    if text.lstrip("-").isdigit():
        return int(text)
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise _Wrong(at, "a number beyond all floats")
    return int(number) if number.is_integer() else number


def _joined(parts: list[str | Expression], line: int) -> Expression:
    if all(isinstance(part, str) for part in parts):
        return Literal("".join(map(str, parts)), line)
    if len(parts) == 1 and not isinstance(parts[0], str):
        return parts[0]  # "${x}" is x
    return Template(tuple(parts), line)


def _flush(parts: list[str | Expression]) -> list[str | Expression]:
    """Return the parts of a flush heredoc without the indentation that all lines have; blank lines do not count."""
    least: int | None = None
    begins = True  # whether the part begins a line
    for number, part in enumerate(parts):
        if isinstance(part, str):
            lines = part.split("\n")
            for index, line in enumerate(lines):
                is_begun = begins or index > 0
                last = index == len(lines) - 1
                rest = line.lstrip(" \t")
                if is_begun and (rest or (last and number + 1 < len(parts))):
                    width = len(line) - len(rest)
                    least = width if least is None else min(least, width)
            begins = part.endswith("\n")
        else:
            if begins:
                least = 0
            begins = False
    if not least:
        return parts
    flushed: list[str | Expression] = []
    begins = True
    for part in parts:
        if isinstance(part, str):
            lines = part.split("\n")
            flushed.append("\n".join(
                line[min(least, len(line) - len(line.lstrip(" \t"))) :] if begins or index > 0 else line
                for index, line in enumerate(lines)
            ))  # fmt: skip
            begins = part.endswith("\n")
        else:
            flushed.append(part)
            begins = False
    return flushed
