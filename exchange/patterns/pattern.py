"""Patterns over words: one value for three dialects, and the slow, obvious matcher that defines what they mean.

A pattern is a tuple of words; a word is a literal or one of three wildcards. A dialect defines how a text becomes
words, by a Lark grammar (``dialects/*.lark``); all other modules see only the words. The fast matcher must agree with
``Pattern.matches`` on every pattern and key, so nothing here may become clever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

from exchange.errors import PatternError

if TYPE_CHECKING:
    from lark import Lark


class Wildcard:
    """A word that stands for others. There are three objects of this class, compared by identity."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return self.name  # so unpickling returns the same object


ONE: Final = Wildcard("ONE")
"""Exactly one word, which may be empty."""

MANY: Final = Wildcard("MANY")
"""Any number of words, also none."""

ONE_PLAIN: Final = Wildcard("ONE_PLAIN")
"""One word that does not start with ``$``: what MQTT's wildcards match on the first level (MQTT 5.0, 4.7.2)."""

Word = str | Wildcard


@dataclass(frozen=True, slots=True)
class Dialect:
    """The notation of one system for patterns and keys.

    ``max_bytes`` is the maximum length of a pattern or key in bytes of UTF-8.
    """

    name: str
    separator: str
    one: str
    many: str
    max_bytes: int
    advice: Callable[[str, int], str] = field(compare=False, repr=False)

    def split(self, key: str) -> list[str]:
        """Return the words of a key. It is data: wildcard characters in it mean nothing."""
        return key.split(self.separator) if key or self is not AMQP else []

    def has_key_of(self, words: Sequence[str]) -> bool:
        """Return whether a key can have these words: NATS has no empty token, MQTT no empty topic."""
        if self is AMQP:
            return True
        return "" not in words if self is NATS else len(words) > 1 or words[0] != ""

    def __reduce__(self) -> tuple[Callable[[Dialect | str], Dialect], tuple[str]]:
        return find_dialect, (self.name,)


def _amqp_advice(text: str, at: int) -> str:
    raise AssertionError(f"every string is an AMQP pattern, yet {text!r} failed at {at}")


def _mqtt_advice(text: str, at: int) -> str:
    if not text:
        return "an MQTT topic filter has at least one character"
    if "\0" in text[at : at + 1]:
        return "an MQTT topic filter has no U+0000"
    if text[at : at + 1] == "#":
        return "in MQTT, '#' is a whole level and the last one"
    return "in MQTT, '+' is a whole level"


def _nats_advice(text: str, at: int) -> str:
    if not text:
        return "a NATS subject has at least one token"
    if text[at : at + 1].isspace() or text[at : at + 1] == "\0":
        return "a NATS subject has no white space"
    if text[at : at + 1] == ">":
        return "in NATS, '>' is the last token"
    return "a NATS subject has no empty token"


AMQP: Final = Dialect("amqp", ".", "*", "#", 255, _amqp_advice)
MQTT: Final = Dialect("mqtt", "/", "+", "#", 65_535, _mqtt_advice)
NATS: Final = Dialect("nats", ".", "*", ">", 65_535, _nats_advice)

DIALECTS: Final = {dialect.name: dialect for dialect in (AMQP, MQTT, NATS)}


def find_dialect(name: Dialect | str) -> Dialect:
    """Return the dialect of a name, or the dialect itself. Raises ValueError listing the names."""
    if isinstance(name, Dialect):
        return name
    try:
        return DIALECTS[name]
    except KeyError:
        raise ValueError(f"no dialect {name!r}; there are {', '.join(DIALECTS)}") from None


@dataclass(frozen=True, slots=True)
class Pattern:
    """A routing pattern: ``Pattern("order.*.#")``, ``Pattern("order/+/#", "mqtt")``, ``Pattern("order.*.>", "nats")``.

    ``words`` are literals (str), ``ONE``, ``MANY`` or ``ONE_PLAIN``. NATS' ``>`` is ``ONE`` followed by ``MANY``.
    Patterns are equal when text and dialect are. Raises ``PatternError`` with a caret.
    """

    text: str
    dialect: Dialect = AMQP
    words: tuple[Word, ...] = field(init=False, compare=False, repr=False)

    def __init__(self, text: str, dialect: Dialect | str = AMQP) -> None:
        dialect = find_dialect(dialect)
        _check_length(text, dialect)
        self._fill(text, dialect, _parse(text, dialect))

    @classmethod
    def of_binding_key(cls, text: str) -> Pattern:
        """Parse an AMQP pattern 100 times faster than ``Pattern(text)``, by a split instead of the grammar.

        For loading many bindings. A property test proves that the result is the same for every string.
        """
        _check_length(text, AMQP)
        self = cls.__new__(cls)
        words = text.split(".") if text else ()
        self._fill(text, AMQP, tuple([_AMQP_WILDCARDS.get(word, word) for word in words]))
        return self

    def _fill(self, text: str, dialect: Dialect, words: tuple[Word, ...]) -> None:
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "dialect", dialect)
        object.__setattr__(self, "words", words)

    @property
    def literal(self) -> bool:
        """Whether it has no wildcard and so matches exactly one key, its own text."""
        for word in self.words:
            if type(word) is Wildcard:
                return False
        return True

    def matches(self, key: str) -> bool:
        """Return whether the pattern matches the key: the definition, in time (words of pattern) x (words of key)."""
        words = self.dialect.split(key)
        return self.dialect.has_key_of(words) and _matches(self.words, words)

    def to(self, dialect: Dialect | str) -> Pattern:
        """Return the pattern written in another dialect, as RabbitMQ's MQTT plugin translates topic filters.

        MQTT's rule about ``$`` is lost, since other dialects cannot express it. Raises ``PatternError`` when a word
        would mean something else there (MQTT ``a.b/+``) or is not allowed there (NATS, an empty word).
        """
        dialect = find_dialect(dialect)
        words = list(self.words)
        parts: list[str] = []
        for place, word in enumerate(words):
            if dialect is NATS and word is MANY and parts and words[place - 1] is ONE:
                parts[-1] = dialect.many
            elif isinstance(word, Wildcard):
                if dialect is NATS and word is MANY:
                    raise PatternError("NATS has no wildcard for zero or more tokens", self.text, (0, len(self.text)))
                parts.append(dialect.many if word is MANY else dialect.one)
            elif dialect.separator in word or word in (dialect.one, dialect.many):
                start = self.text.find(word)
                cause = (
                    f"the {dialect.separator!r} in it parts words there" if dialect.separator in word else "a wildcard"
                )
                raise PatternError(
                    f"a literal word that {dialect.name} would read otherwise: {cause}",
                    self.text,
                    (start, start + len(word)),
                )
            else:
                parts.append(word)
        return Pattern(dialect.separator.join(parts), dialect)

    def __str__(self) -> str:
        return self.text


class ExactKey(Pattern):
    """The pattern that matches one AMQP key only, in which nothing is a wildcard: as a direct exchange compares."""

    __slots__ = ()

    def __init__(self, text: str) -> None:
        Pattern.of_binding_key(text)  # raises PatternError where the text is too long
        self._fill(text, AMQP, tuple(AMQP.split(text)))


def normalise_wildcards(words: Sequence[Word]) -> tuple[Word, ...]:
    """Return an equivalent pattern: each run of wildcards has its one-word wildcards first, then at most one MANY.

    ``#.*.#`` becomes ``*.#``. So a MANY is the last word, or a literal follows it.
    """
    if MANY not in words:
        return tuple(words)
    result: list[Word] = []
    many = False
    for word in words:
        if word is MANY:
            many = True
            continue
        if many and isinstance(word, str):
            result.append(MANY)
            many = False
        result.append(word)
    if many:
        result.append(MANY)
    return tuple(result)


_AMQP_WILDCARDS: Final[dict[str, Word]] = {"*": ONE, "#": MANY}


def _check_length(text: str, dialect: Dialect) -> None:
    # A character has at most four bytes, so most texts need not be encoded.
    if len(text) * 4 > dialect.max_bytes:
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > dialect.max_bytes:
            message = f"{size} bytes; {dialect.name} allows {dialect.max_bytes}"
            raise PatternError(message, text, (len(text) - 1, len(text)))


def _matches(pattern: Sequence[Word], words: Sequence[str]) -> bool:
    # reach[j]: whether the words of the pattern so far match the first j words of the key. MANY keeps the first such j
    # and adds all longer prefixes; any other word extends each prefix by one word.
    reach = [True] + [False] * len(words)
    for part in pattern:
        if part is MANY:
            first = reach.index(True) if True in reach else len(reach)
            reach = [j >= first for j in range(len(reach))]
        else:
            reach = [False] + [reach[j] and _fits(part, words[j]) for j in range(len(words))]
    return reach[-1]


def _fits(part: Word, word: str) -> bool:
    if part is ONE:
        return True
    if part is ONE_PLAIN:
        return not word.startswith("$")
    return part == word


@cache
def _grammar(name: str) -> Lark:
    from importlib.resources import files  # not by path: the package may be in a zip, as Spark ships it

    from lark import Lark  # not at the top: it takes 50 ms, and AMQP binding keys need no grammar

    return Lark(
        files("exchange.patterns").joinpath(f"dialects/{name}.lark").read_text("utf-8"), parser="lalr", regex=False
    )


def _parse(text: str, dialect: Dialect) -> tuple[Word, ...]:
    from lark import Token, Tree, UnexpectedInput

    try:
        tree = _grammar(dialect.name).parse(text)
    except UnexpectedInput as error:
        at = len(text) if _at_end(error) else error.pos_in_stream or 0
        wild = max(at - 1, 0)
        # The error is at the character behind a wildcard, but it is the wildcard that is wrong.
        at = wild if text[wild:at] in (dialect.one, dialect.many) else at
        raise PatternError(dialect.advice(text, at), text, (at, at + 1)) from None

    words: list[Word] = []
    for child in tree.children:
        token = child if isinstance(child, Token) else next(iter(child.children), None)
        if token is None:
            words.append("")
        elif isinstance(token, Tree):
            raise AssertionError(f"grammar {dialect.name} nests words: {token}")
        elif token.type == "ONE":
            words.append(ONE)
        elif token.type == "MANY":
            words.extend([ONE, MANY] if dialect is NATS else [MANY])
        else:
            words.append(str(token))
    if dialect is MQTT and words[0] is ONE:
        words[0] = ONE_PLAIN
    elif dialect is MQTT and words[0] is MANY:
        words.insert(0, ONE_PLAIN)  # every topic has a first level, and "#" must not match "$SYS"
    return tuple(words)


def _at_end(error: object) -> bool:
    token = getattr(error, "token", None)
    return token is not None and token.type == "$END"
