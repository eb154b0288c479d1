"""Parse a regular expression as PCRE does, in the part of its language whose meaning is known here.

Invariant: the result of `parse` matches exactly what the library matches. Constructs outside of that part, and those on
which the releases of a library differ, raise `UnknownMatch`; what the library refuses raises `Invalid`.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from exchange.patterns.pcre.nodes import (
    ALL_BYTES,
    NEWLINE,
    Assertion,
    Atomic,
    Branches,
    Bytes,
    Dialect,
    Invalid,
    Lookaround,
    Node,
    Repeat,
    Sequence,
    UnknownMatch,
    parse_shorthand,
    with_both_cases,
    with_property,
)  # fmt: skip

NESTING: Final = 60
"""Maximum depth of groups here; PCRE allows 250."""
LENGTH: Final = 1_024
"""Maximum length of an expression here, in bytes; RabbitMQ refuses longer ones since 4.3.2."""
REPEATS: Final = 65_535
"""Maximum number in a quantifier, as in PCRE."""
NAME: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_]{0,31}")
QUANTIFIER: Final = re.compile(rb"\{(\d+)(?:(,)(\d*))?\}")
NEW_QUANTIFIER: Final = re.compile(rb"\{ *(?:\d+ *(?:, *\d* *)?|, *\d+ *)\}")
"""A quantifier to PCRE2 since 10.43; before, and to PCRE 8, some of these are literal text."""
CONTROLS: Final = {"a": 7, "e": 27, "f": 12, "n": 10, "r": 13, "t": 9}


class Flags(NamedTuple):
    """The options that can be set within an expression."""

    caseless: bool = False
    multiline: bool = False
    dotall: bool = False


def parse(pattern: bytes, dialect: Dialect) -> Node:
    """Return the syntax tree of an expression. Raises Invalid, UnknownMatch."""
    if len(pattern) > LENGTH:
        raise UnknownMatch(f"it is longer than {LENGTH:,} bytes")
    if 0 in pattern:
        raise UnknownMatch("it contains a NUL")
    if pattern.startswith(b"(*"):
        raise UnknownMatch("it begins with a verb, (*...)")
    parser = _Parser(pattern, dialect)
    node, _ = parser.branches(Flags(), 0)
    if parser.at < len(pattern):
        raise Invalid(f"unmatched ) at byte {parser.at}")
    return node


class _Parser:
    def __init__(self, pattern: bytes, dialect: Dialect) -> None:
        self.pattern: Final = pattern
        self.dialect: Final[Dialect] = dialect
        self.at = 0
        self.names: Final[set[bytes]] = set()

    def branches(self, flags: Flags, depth: int) -> tuple[Branches, Flags]:
        """Read alternatives up to a closing parenthesis or the end. Flags set in one hold in those that follow."""
        branches: list[Node] = []
        while True:
            node, flags = self._sequence(flags, depth)
            branches.append(node)
            if not self._take(b"|"):
                return Branches(tuple(branches)), flags

    def _sequence(self, flags: Flags, depth: int) -> tuple[Sequence, Flags]:
        parts: list[Node] = []
        while self.at < len(self.pattern) and self._peek() not in b"|)":
            if self._take(rb"\Q"):
                parts += self._read_quotation(flags)
                continue
            if self._take(rb"\E") or self._comment():
                # Releases of PCRE differ in what a quantifier that follows repeats. (At the end of the pattern, `_peek`
                # returns b"", which is in every bytes object: so it is tested, too.)
                if self._peek() in b"*+?{" and self._peek():
                    raise UnknownMatch(r"a quantifier follows \E or a comment")
                continue
            node, flags = self._item(flags, depth)
            if node is not None:
                parts.append(self._read_quantifier(node))
        return Sequence(tuple(parts)), flags

    def _read_quotation(self, flags: Flags) -> list[Node]:
        end = self.pattern.find(rb"\E", self.at)
        text = self.pattern[self.at : len(self.pattern) if end < 0 else end]
        self.at = len(self.pattern) if end < 0 else end + 2
        parts: list[Node] = [self._literal(byte, flags) for byte in text]
        if parts:
            parts[-1] = self._read_quantifier(parts[-1])
        elif self._peek() in b"*+?{" and self._peek():
            raise UnknownMatch(r"a quantifier follows an empty \Q\E")
        return parts

    def _comment(self) -> bool:
        if not self._take(b"(?#"):
            return False
        end = self.pattern.find(b")", self.at)
        if end < 0:
            raise Invalid("missing ) after (?# comment")
        self.at = end + 1
        return True

    def _item(self, flags: Flags, depth: int) -> tuple[Node | None, Flags]:
        """Read one part, or a change of flags."""
        byte = self.pattern[self.at]
        sign = chr(byte)
        if sign in "*+?" or (sign == "{" and QUANTIFIER.match(self.pattern, self.at)):
            raise Invalid(f"quantifier does not follow a repeatable item at byte {self.at}")
        if sign == "{" and NEW_QUANTIFIER.match(self.pattern, self.at):
            raise UnknownMatch("releases of Erlang differ in whether {,n} and blanks in {} make a quantifier")
        if sign == "(":
            return self._group(flags, depth)
        self.at += 1
        if sign == "\\":
            return self._escape(flags), flags
        if sign == "[":
            return self._class(flags), flags
        if sign == ".":
            return Bytes(ALL_BYTES if flags.dotall else ALL_BYTES & ~NEWLINE), flags
        if sign in "^$":
            return self._refuse_quantifier(Assertion("^m" if sign == "^" else "$m") if flags.multiline
                                    else Assertion("^" if sign == "^" else "$")), flags  # fmt: skip
        return self._literal(byte, flags), flags

    def _refuse_quantifier(self, assertion: Assertion) -> Assertion:
        if self._is_quantified():
            raise UnknownMatch(f"a quantifier follows {assertion.sign[:2].removesuffix('m')}")
        return assertion

    def _is_quantified(self) -> bool:
        return (bool(self._peek()) and self._peek() in b"*+?") or bool(NEW_QUANTIFIER.match(self.pattern, self.at))

    def _literal(self, byte: int, flags: Flags) -> Bytes:
        mask = 1 << byte
        return Bytes(with_both_cases(mask, self.dialect) if flags.caseless else mask)

    def _read_quantifier(self, node: Node) -> Node:
        """Read the quantifier that follows, if any."""
        least, most = 1, 1  # most is -1 without an upper limit
        bounded = QUANTIFIER.match(self.pattern, self.at)
        if bounded is not None:
            self.at = bounded.end()
            # Seven digits are more than `REPEATS` has, and `int` refuses thousands of them.
            numbers = [int(n[:7]) for n in (bounded[1].lstrip(b"0") or b"0", (bounded[3] or b"").lstrip(b"0") or b"0")]
            if max(numbers) > REPEATS:
                raise Invalid("number too big in {} quantifier")
            least = numbers[0]
            most = least if bounded[2] is None else numbers[1] if bounded[3] else -1
            if 0 <= most < least:
                raise Invalid("numbers out of order in {} quantifier")
        elif NEW_QUANTIFIER.match(self.pattern, self.at):
            raise UnknownMatch("releases of Erlang differ in whether {,n} and blanks in {} make a quantifier")
        elif self._peek() and self._peek() in b"*+?":
            least, most = {b"*": (0, -1), b"+": (1, -1), b"?": (0, 1)}[self._peek()]
            self.at += 1
        else:
            return node
        if isinstance(node, Lookaround):
            raise UnknownMatch("a quantifier follows a lookaround")
        greedy, possessive = True, False
        if self._take(b"?"):
            greedy = False
        elif self._take(b"+"):
            possessive = True
        if self._is_quantified():
            if bounded is not None or self._peek() == b"{":
                raise UnknownMatch("a quantifier follows a quantifier")
            raise Invalid(f"quantifier does not follow a repeatable item at byte {self.at}")
        repeated = Repeat(node, least, None if most < 0 else most, greedy)
        return Atomic(repeated) if possessive else repeated

    def _group(self, flags: Flags, depth: int) -> tuple[Node | None, Flags]:
        if depth >= NESTING:
            raise UnknownMatch(f"groups are nested more than {NESTING} deep")
        self.at += 1
        if self._peek() == b"*":
            raise UnknownMatch("it has a verb, (*...)")
        if not self._take(b"?"):
            return self._read_rest(flags, depth), flags
        for sign, negative, behind in ((b"=", False, False), (b"!", True, False),
                                       (b"<=", False, True), (b"<!", True, True)):  # fmt: skip
            if self._take(sign):
                inner = self._read_rest(flags, depth)
                widths = tuple(_width(branch) for branch in inner.branches) if behind else None
                return Lookaround(inner, negative, widths), flags
        if self._take(b">"):
            return Atomic(self._read_rest(flags, depth)), flags
        if self._take(b"|"):  # branch reset: it only restarts the numbers of groups, unused here
            return self._read_rest(flags, depth), flags
        for opening, closing in ((b"P<", b">"), (b"<", b">"), (b"'", b"'")):
            if self._take(opening):
                self._read_name(closing)
                return self._read_rest(flags, depth), flags
        return self._with_options(flags, depth)

    def _read_name(self, closing: bytes) -> None:
        name = NAME.match(self.pattern, self.at)
        if name is None:
            raise UnknownMatch("a group has a name that is not understood")
        self.at = name.end()
        if not self._take(closing):
            raise UnknownMatch("a group has a name that is not understood")
        if name[0] in self.names:
            raise UnknownMatch("two groups have the same name")
        self.names.add(name[0])

    def _with_options(self, flags: Flags, depth: int) -> tuple[Node | None, Flags]:
        """Read (?ims-ims) or (?ims-ims:...)."""
        options = re.compile(rb"([ims]*)(?:-([ims]*))?([:)])").match(self.pattern, self.at)
        if options is None:
            if self.at == len(self.pattern):
                raise Invalid("unrecognized character after (?")
            raise UnknownMatch("it has a group or an option that is not understood")
        self.at = options.end()
        changed = flags
        for letters, value in ((options[1], True), (options[2] or b"", False)):
            for letter, name in ((b"i", "caseless"), (b"m", "multiline"), (b"s", "dotall")):
                if letter in letters:
                    changed = changed._replace(**{name: value})
        if options[3] == b":":
            return self._read_rest(changed, depth), flags
        if self._is_quantified():
            raise UnknownMatch("a quantifier follows an option")
        return None, changed

    def _read_rest(self, flags: Flags, depth: int) -> Branches:
        """Read the rest of a group, with its closing parenthesis."""
        inner, _ = self.branches(flags, depth + 1)
        if not self._take(b")"):
            raise Invalid("missing )")
        return inner

    def _escape(self, flags: Flags) -> Node:
        if self.at >= len(self.pattern):
            raise Invalid(r"\ at end of pattern")
        sign = chr(self.pattern[self.at])
        if sign in "bBAZz":
            self.at += 1
            word = parse_shorthand("w", self.dialect) or 0
            assertions: dict[str, Assertion] = {
                "b": Assertion(r"\b", word), "B": Assertion(r"\B", word),
                "A": Assertion("^"), "Z": Assertion("$"), "z": Assertion(r"\z"),
            }  # fmt: skip
            return self._refuse_quantifier(assertions[sign])
        if sign == "R":
            self.at += 1
            both = Sequence((Bytes(1 << 13), Bytes(1 << 10)))
            return Atomic(Branches((both, Bytes(parse_shorthand("v", self.dialect) or 0))))
        mask = self._read_set(caseless=flags.caseless)
        return Bytes(with_both_cases(mask, self.dialect) if flags.caseless and mask.bit_count() == 1 else mask)

    def _read_set(self, *, caseless: bool, in_class: bool = False) -> int:
        """Read an escape that stands for a set of bytes, in a class or outside; its backslash is read already."""
        sign = chr(self.pattern[self.at])
        self.at += 1
        if not sign.isascii() or not sign.isalnum():
            return 1 << ord(sign)
        if sign in CONTROLS:
            return 1 << CONTROLS[sign]
        if sign == "b" and in_class:
            return 1 << 8
        if sign in "dDwWsShHvV" or (sign == "N" and not in_class and self._peek() != b"{"):
            return parse_shorthand(sign, self.dialect) or 0
        if sign in "pP":
            return self._property(negative=sign == "P", caseless=caseless)
        if sign == "x":
            digits = re.compile(rb"\{([0-9A-Fa-f]{1,2})\}|([0-9A-Fa-f]{2})").match(self.pattern, self.at)
            if digits is not None:
                self.at = digits.end()
                return 1 << int(digits[1] or digits[2], 16)
        if sign == "0":
            code = 0
            for _ in range(2):
                if self._peek() and self._peek() in b"01234567":
                    code = code * 8 + int(self._peek())
                    self.at += 1
            return 1 << code
        raise UnknownMatch(f"it has \\{sign}, which is not understood")

    def _property(self, *, negative: bool, caseless: bool) -> int:
        name = re.compile(rb"\{(\^?)([A-Za-z&]+)\}|([A-Z])").match(self.pattern, self.at)
        if name is None:
            raise UnknownMatch("it has a property that is not understood")
        self.at = name.end()
        known = (name[2] or name[3]).decode()
        mask = with_property(known)
        if mask is None or (caseless and known in ("Lu", "Ll", "Lt")):  # PCRE2 takes these three for L& then
            raise UnknownMatch("it has a property that is not understood")
        return ALL_BYTES & ~mask if negative != bool(name[1]) else mask

    def _class(self, flags: Flags) -> Node:
        """Read a class; its opening bracket is read already."""
        if self.pattern[self.at - 1 : self.at + 6] in (b"[[:<:]]", b"[[:>:]]"):
            raise UnknownMatch("it has [[:<:]] or [[:>:]]")
        if re.compile(rb"([:.=])[^\\\]]*\1\]").match(self.pattern, self.at):
            raise Invalid("POSIX named classes are supported only within a class")
        negative = self._take(b"^")
        mask, first = 0, True
        last: int | None = None  # the member before, if it is a single byte: a hyphen makes it the start of a range
        while first or self._peek() != b"]":  # as the first member, a bracket or a hyphen stands for itself
            first_here, first = first, False
            if self.at >= len(self.pattern):
                raise Invalid("missing terminating ] for character class")
            if self._peek() == b"\\" and self.pattern[self.at + 1 : self.at + 2] in (b"Q", b"E"):
                raise UnknownMatch(r"it has \Q or \E in a class")
            if self._peek() == b"-" and not first_here and self.pattern[self.at + 1 : self.at + 2] not in (b"]", b""):
                self.at += 1
                if last is None:
                    # After a shorthand: PCRE 8 takes the hyphen for itself, PCRE2 refuses it.
                    if self.dialect == "pcre2":
                        raise Invalid("invalid range in character class")
                    mask |= 1 << ord("-")
                    continue
                member, single = self._member(caseless=flags.caseless)
                if single is None:
                    raise UnknownMatch("a range in a class ends with a class")
                if single < last:
                    raise Invalid("range out of order in character class")
                span = sum(1 << byte for byte in range(last, single + 1))
                mask |= with_both_cases(span, self.dialect) if flags.caseless else span
                last = None
                if self._peek() == b"-" and self.pattern[self.at + 1 : self.at + 2] not in (b"]", b""):
                    raise UnknownMatch("a hyphen follows a range in a class")
                continue
            member, last = self._member(caseless=flags.caseless)
            mask |= with_both_cases(member, self.dialect) if flags.caseless and last is not None else member
        self.at += 1
        return Bytes(ALL_BYTES & ~mask if negative else mask)

    def _member(self, *, caseless: bool) -> tuple[int, int | None]:
        """Read one member of a class; return its set, and its byte if it is a single one."""
        byte = self.pattern[self.at]
        if byte == ord("["):
            posix = re.compile(rb"\[([:.=])(\^?)((?:[^\\\]:.=]|\\.)*)\1\]").match(self.pattern, self.at)
            if posix is not None:
                return self._posix(posix), None
            if self.pattern[self.at + 1 : self.at + 2] in (b":", b".", b"=") and self.at + 1 < len(self.pattern):
                raise UnknownMatch("it has [: or [. or [= in a class")
        self.at += 1
        if byte != ord("\\"):
            return 1 << byte, byte
        if self.at >= len(self.pattern):
            raise Invalid(r"\ at end of pattern")
        several = chr(self.pattern[self.at]) in "dDwWsShHvVpP"
        mask = self._read_set(caseless=caseless, in_class=True)
        return mask, None if several else mask.bit_length() - 1

    def _posix(self, posix: re.Match[bytes]) -> int:
        if posix[1] != b":":
            raise Invalid("POSIX collating elements are not supported")
        name = posix[3].decode("latin-1")
        mask = parse_shorthand(name, self.dialect) if len(name) > 1 else None
        if mask is None:
            raise Invalid("unknown POSIX class name")
        self.at = posix.end()
        return ALL_BYTES & ~mask if posix[2] else mask

    def _peek(self) -> bytes:
        return self.pattern[self.at : self.at + 1]

    def _take(self, text: bytes) -> bool:
        if self.pattern.startswith(text, self.at):
            self.at += len(text)
            return True
        return False


def _width(node: Node) -> int:
    """Return the number of bytes that a branch of a lookbehind matches. Raises UnknownMatch if it varies."""
    if isinstance(node, Bytes):
        return 1
    if isinstance(node, Sequence):
        return sum(map(_width, node.parts))
    if isinstance(node, Branches):
        widths = {_width(branch) for branch in node.branches}
        if len(widths) == 1:
            return widths.pop()
    elif isinstance(node, Repeat):
        if node.least == node.most:
            return node.least * _width(node.part)
    elif isinstance(node, (Assertion, Lookaround)):
        return 0
    raise UnknownMatch("a lookbehind has no fixed width")
