"""Read statements: make exchanges, queues, policies, bindings and expectations of their trees and tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, cast

from bindings.sources.language.errors import Mistake
from bindings.sources.language.expectations import Expectation, Relation
from bindings.sources.language.syntax import SyntaxNode
from bindings.sources.language.tokens import Token
from bindings.sources.language.values import Terms, VariableValue
from exchange.entities.effects import NAMES, QUEUE_TYPES, find_meant
from exchange.entities.entities import PREDECLARED_NAMES, Binding, Destination, Exchange, Policy, Queue
from exchange.errors import HashstarError, PatternError, TextError
from exchange.limits import INTEGER_DIGITS
from exchange.partition.partitioning.specification import Partitioning
from exchange.patterns.pattern import AMQP, DIALECTS, Pattern
from exchange.text.display import suggest
from exchange.values.field_json import decode_table
from exchange.values.field_values import EMPTY, FieldTable
from exchange.values.notation import MATCH_MODES, VARIABLE

APPLY_TO: Final = ("all", "exchanges", "queues", "classic_queues", "quorum_queues", "streams")
DURABILITY: Final = {"durable": True, "transient": False}
LONGEST_RANGE: Final = 100_000
"""Maximum number of values of a range."""

BARE_ATTRIBUTES: Final = {
    "durable": "durable or transient", "transient": "durable or transient", "auto-delete": "auto-delete",
    "internal": "internal", "alternate": "alternate NAME", "priority": "priority 5",
    "apply-to": "queues, exchanges or all", "partitioned": "partitioned kafka.murmur2 over 12",
}  # fmt: skip
"""Attribute without an equals sign -> how it is written. An argument of the same name needs quotes."""


class _Attributes:
    """The attributes of a statement, sorted into words, phrases, arguments and the partitioning.

    A reader takes out the attributes that it knows; `require_no_more` then refuses the rest.
    """

    def __init__(self, node: SyntaxNode, terms: Terms, what: str) -> None:
        self.terms = terms
        self.words: dict[str, int] = {}  # word without quotes -> its position
        self.quoted: list[int] = []
        self.phrases: dict[str, tuple[int, int]] = {}
        self.arguments: list[SyntaxNode] = []
        self.partitioned: int | None = None
        self._what = what
        for attribute in [child for attributes in node.nodes("attributes") for child in attributes.children]:
            position = attribute.children[0]
            token = terms.tokens[position]
            if attribute.rule == "argument":
                if terms.is_bare(position) and token.text in BARE_ATTRIBUTES:
                    message = f'write {BARE_ATTRIBUTES[token.text]}; for an argument of this name, "{token.text}" = ...'
                    raise Mistake(message, token)
                self.arguments.append(attribute)
            elif attribute.rule == "partitioned":
                self._once(self.partitioned is None, "partitioned", token)
                self.partitioned = position
            elif attribute.rule == "phrase":
                self._once(token.text not in self.phrases, token.text, token)
                self.phrases[token.text] = position, attribute.children[1]
            elif terms.is_bare(position) and "{" not in token.text:
                self._once(token.text not in self.words, token.text, token)
                self.words[token.text] = position
            else:
                self.quoted.append(position)

    def flag(self, word: str) -> bool:
        """Take a word out, and return whether it was there."""
        return self.words.pop(word, None) is not None

    def one_of(self, words: Mapping[str, Any] | tuple[str, ...], default: str) -> str:
        """Take out the one of these words that is there, and return it. Raises Mistake if there are two."""
        given = {word: self.words.pop(word) for word in words if word in self.words}
        if len(given) > 1:
            first, second, *_ = sorted(given, key=lambda word: given[word])
            raise Mistake(f"{self._what} is {first} or {second}, not both", self.terms.tokens[given[second]])
        return next(iter(given), default)

    def phrase(self, name: str) -> int | None:
        """Take a phrase out, and return the position of its value; None if it is not there."""
        positions = self.phrases.pop(name, None)
        return None if positions is None else positions[1]

    def table(self, given: Mapping[str, str] | None = None) -> FieldTable:
        """Return the arguments and ``given``, those that words or phrases add. Raises Mistake for one given twice."""
        fields = dict(given or {})
        for key, value in decode_table(self.terms.entries(self.arguments)).items():
            if key in fields:
                raise Mistake(f"{key!r} is given twice", self._token(key))
            fields[key] = value
        return FieldTable(fields) if fields else EMPTY

    def require_no_more(self, known: tuple[str, ...]) -> None:
        """Raise Mistake for an attribute that was not taken out; ``known`` are the attributes that are allowed."""
        for word, position in self.words.items():
            if word in BARE_ATTRIBUTES and word in known:
                raise Mistake(f"write {BARE_ATTRIBUTES[word]}", self.terms.tokens[position])
            raise Mistake(
                f"{self._what} is not {word!r}{suggest(word, known, or_list=True)}", self.terms.tokens[position]
            )
        for position in self.quoted:
            raise Mistake(f"{self._what} has no use for a text here", self.terms.tokens[position])
        for word, (position, of_value) in self.phrases.items():
            token, value = self.terms.tokens[position], self.terms.tokens[of_value].text
            if word in BARE_ATTRIBUTES and word not in known:
                raise Mistake(f"{self._what} has no {word}", token)
            if word not in known:
                hint = _hint(self._what, word, known, self.terms.tokens[of_value])
                raise Mistake(f"{self._what} has no {word}{hint}", token)
            raise Mistake(f"{word} stands alone, without {value!r}", token)
        if self.partitioned is not None:
            raise Mistake(f"{self._what} cannot be partitioned; queues can", self.terms.tokens[self.partitioned])

    def _once(self, first: bool, word: str, token: Token) -> None:
        if not first:
            raise Mistake(f"{word} is given twice", token)

    def _token(self, key: str) -> Token:
        positions = [argument.children[0] for argument in self.arguments]
        position: int = next(position for position in positions if self.terms.text(position) == key)
        return self.terms.tokens[position]


def _hint(what: str, word: str, known: tuple[str, ...], value: Token) -> str:
    """Return what to write in place of an unknown attribute: an argument with an effect, a known attribute, or it."""
    meant = find_meant(word, NAMES[what.rsplit(maxsplit=1)[-1]])
    near = suggest(word, known)
    if meant is None and near:
        return near
    text = f'"{value.text}"' if value.kind == "NAME" else value.text
    return f"; an argument has an equals sign: {meant or word} = {text}"


def read_exchange(node: SyntaxNode, terms: Terms) -> Exchange:
    """Read ``exchange NAME: TYPE, FLAG, alternate NAME, KEY = VALUE ...``."""
    name = terms.text(node.children[1])
    token = terms.tokens[node.children[1]]
    if name in PREDECLARED_NAMES:
        raise Mistake(f"every virtual host has the exchange {name!r}; it is not declared", token)
    first = _first_attribute(node)
    if first is None or first.rule != "word":
        raise Mistake(f"exchange {name!r} has no type; it comes first, as in: exchange {token.text}: topic", token)
    kind = terms.text(first.children[0])
    if terms.is_bare(first.children[0]) and kind in BARE_ATTRIBUTES:
        message = f"the type of the exchange comes first, as in: exchange {token.text}: topic, {kind}"
        raise Mistake(message, terms.tokens[first.children[0]])
    attributes = _Attributes(_without_first(node), terms, "an exchange")
    durable = DURABILITY[attributes.one_of(DURABILITY, "durable")]
    auto_delete, internal = attributes.flag("auto-delete"), attributes.flag("internal")
    alternate = attributes.phrase("alternate")
    attributes.require_no_more(("durable", "transient", "auto-delete", "internal", "alternate"))
    arguments = attributes.table(None if alternate is None else {"alternate-exchange": terms.text(alternate)})
    return Exchange(name, kind, durable, auto_delete, internal, arguments)


def read_queue(node: SyntaxNode, terms: Terms) -> Queue:
    """Read ``queue NAME: TYPE, FLAG, KEY = VALUE, partitioned STRATEGY over PARTITIONS by KEY``."""
    attributes = _Attributes(node, terms, "a queue")
    kind = attributes.one_of(QUEUE_TYPES, "")
    durable = DURABILITY[attributes.one_of(DURABILITY, "durable")]
    auto_delete = attributes.flag("auto-delete")
    quoted = attributes.phrase("partitioned")
    partitioning = None
    if attributes.partitioned is not None:
        partitioning = _partitioning(terms, attributes.partitioned, bare=True)
        attributes.partitioned = None
    elif quoted is not None:
        partitioning = _partitioning(terms, quoted, bare=False)
    attributes.require_no_more((*QUEUE_TYPES, *DURABILITY, "auto-delete", "partitioned"))
    arguments = attributes.table({"x-queue-type": kind} if kind else None)
    return Queue(terms.text(node.children[1]), durable, auto_delete, arguments, partitioning)


def read_policy(node: SyntaxNode, terms: Terms) -> Policy:
    """Read ``policy NAME: "PATTERN", queues, operator, priority 5, KEY = VALUE ...``."""
    name, token = terms.text(node.children[1]), terms.tokens[node.children[1]]
    first = _first_attribute(node)
    if first is None or first.rule != "word" or terms.is_bare(first.children[0]):
        raise Mistake(f'policy {name!r} has no pattern; it comes first: policy {token.text}: "^orders", queues', token)
    attributes = _Attributes(_without_first(node), terms, "a policy")
    apply_to = attributes.one_of(APPLY_TO, "all")
    other, priority = attributes.phrase("apply-to"), attributes.phrase("priority")
    operator = attributes.flag("operator")
    attributes.require_no_more((*APPLY_TO, "priority", "operator"))
    return Policy(
        name,
        terms.text(first.children[0]),
        terms.entries(attributes.arguments, typed=False),
        apply_to if other is None else terms.text(other),
        0 if priority is None else _number(terms, priority),
        operator,
    )


def _number(terms: Terms, position: int) -> int:
    token = terms.tokens[position]
    if token.kind == "NUMBER" or VARIABLE.fullmatch(token.text):
        value = terms.value(SyntaxNode("plain", (position,)), typed=False)
        if not isinstance(value, str):
            return cast("int", value)
    raise Mistake("a priority is a number: priority 5", token)


def read_bindings(
    node: SyntaxNode, terms: Terms, shared: dict[tuple[str, str], Destination]
) -> Iterator[tuple[Binding, int]]:
    """Read ``SOURCE -> DESTINATIONS: KEYS``: yield a binding for each destination and key, with its line.

    The line is that of the key or condition; of a binding without any, that of the destination. ``shared`` keeps one
    `Destination` of each kind and name, since a million bindings may have the same one.
    """
    children = node.children
    source = terms.text(children[0])
    if not source:
        message = "the default exchange has no bindings but those to each queue by its name, which are always there"
        raise Mistake(message, terms.tokens[children[0]])
    matchers: list[tuple[str, FieldTable, int | None]] = [("", EMPTY, None)]
    if len(children) > 3:
        matchers = [_matcher(matcher, terms) for matcher in children[3].children]
    for destination in children[2].children:
        *kinds, position = destination.children
        kind: Literal["exchange", "queue"] = (
            "exchange" if kinds and terms.tokens[kinds[0]].kind == "EXCHANGE" else "queue"
        )
        name = terms.text(position)
        target = shared.get((kind, name))
        if target is None:
            target = shared[kind, name] = Destination(kind, name)
        for key, arguments, line in matchers:
            yield Binding(source, target, key, arguments), terms.tokens[position].line if line is None else line


def _matcher(node: SyntaxNode, terms: Terms) -> tuple[str, FieldTable, int | None]:
    key, arguments = "", EMPTY
    first = node.children[0]
    line = terms.tokens[first.children[0]].line
    for child in node.children:
        if child.rule == "condition":
            arguments = _condition(child, terms)
        elif len(child.children) == 1:
            key = terms.text(child.children[0])
        else:
            key = _translate(child, terms)
    return key, arguments, line


def _translate(node: SyntaxNode, terms: Terms) -> str:
    dialect, position = node.children
    name, token = terms.tokens[dialect].text, terms.tokens[position]
    if name not in DIALECTS:
        raise Mistake(f"no dialect {name!r}{suggest(name, DIALECTS, or_list=True)}", terms.tokens[dialect])
    text = terms.text(position)
    try:
        return Pattern(text, name).to(AMQP).text
    except PatternError as error:
        raise Mistake(error.message, token, within=_within(token, text, error)) from None


def _condition(node: SyntaxNode, terms: Terms) -> FieldTable:
    position, table = node.children
    word, token = terms.tokens[position].text, terms.tokens[position]
    if word != "with" and word not in MATCH_MODES:
        raise Mistake(f"no condition {word!r}{suggest(word, (*MATCH_MODES, 'with'), or_list=True)}", token)
    fields = terms.fields(table)
    if word != "with":
        if "x-match" in fields:
            raise Mistake(f"{word} gives x-match already; with {{ ... }} takes yours", token)
        fields = {"x-match": word, **fields}
    return FieldTable(fields) if fields else EMPTY


def read_expectations(node: SyntaxNode, terms: Terms) -> Iterator[Expectation]:
    """Read ``expect EXCHANGE KEYS with { ... } OUTCOME``: yield an expectation for each key."""
    exchange, keys, outcome = node.children[1], node.nodes("keys")[0], node.nodes("outcome")[0]
    headers = EMPTY
    for condition in node.nodes("condition"):
        word = terms.tokens[condition.children[0]]
        if word.text != "with":
            raise Mistake(f"the headers of a message are given with {{ ... }}, not {word.text!r}", word)
        headers = _condition(condition, terms)
    position, *names = outcome.children
    token = terms.tokens[position]
    queues = tuple([terms.text(name) for name in names[0].children]) if names else ()
    relation: Relation = "exactly"
    if token.kind == "NAME":
        if token.text not in OUTCOMES:
            raise Mistake(f"no outcome {token.text!r}{suggest(token.text, ('->', *OUTCOMES), or_list=True)}", token)
        relation, wants = OUTCOMES[token.text]
        if wants != bool(names):
            raise Mistake(f"{token.text} {'needs the names of queues' if wants else 'stands alone'}", token)
    for key in keys.children:
        routing_key = terms.text(key)
        yield Expectation(terms.text(exchange), routing_key, queues, relation, headers, terms.tokens[0].line)


OUTCOMES: Final[Mapping[str, tuple[Relation, bool]]] = {
    "unroutable": ("exactly", False),
    "includes": ("includes", True),
    "excludes": ("excludes", True),
}
"""Word of an outcome -> the relation of the queues, and whether names of queues follow."""


def read_items(node: SyntaxNode, terms: Terms) -> tuple[VariableValue, ...]:
    """Return the values of ``let NAME = ...`` or ``for NAME in ...``, with ranges written out."""
    values: list[VariableValue] = []
    for position in node.children:
        token = terms.tokens[position]
        text = terms.text(position)
        if token.kind == "RANGE":
            if len(text) > INTEGER_DIGITS:
                raise Mistake(f"a number has {INTEGER_DIGITS:,} digits at most", token)
            low, high = map(int, text.split(".."))
            if not low <= high < low + LONGEST_RANGE:
                raise Mistake(f"a range goes up, by less than {LONGEST_RANGE} steps", token)
            values += [VariableValue(str(number), number) for number in range(low, high + 1)]
        elif token.kind == "NUMBER":
            values.append(VariableValue(text, terms.value(SyntaxNode("plain", (position,)))))
        else:
            values.append(VariableValue(text, text))
    return tuple(values)


def _partitioning(terms: Terms, position: int, *, bare: bool) -> Partitioning:
    token = terms.tokens[position]
    start = len(token.text) - len(token.text.removeprefix("partitioned").lstrip()) if bare else 0
    text = terms.fill(position, start) if bare else terms.text(position)
    try:
        return Partitioning.parse(text)
    except TextError as error:
        raise Mistake(error.message, token, within=_within(token, text, error)) from None
    except HashstarError as error:
        raise Mistake(str(error), token, within=_within(token, text, None)) from None


def _within(token: Token, text: str, error: TextError | None) -> tuple[int, int]:
    """Return the range of an error within a token: the whole token if escapes or variables changed its text."""
    start = token.text.find(text)
    if start < 0:
        return 0, len(token.text)
    if error is None:
        return start, start + len(text)
    return start + error.span[0], start + max(error.span[1], error.span[0] + 1)


def _first_attribute(node: SyntaxNode) -> SyntaxNode | None:
    attributes = node.nodes("attributes")
    return attributes[0].children[0] if attributes else None


def _without_first(node: SyntaxNode) -> SyntaxNode:
    attributes = node.nodes("attributes")[0]
    return SyntaxNode(node.rule, (SyntaxNode("attributes", attributes.children[1:]),))


DECLARATIONS: Final[Mapping[str, Callable[[SyntaxNode, Terms], Exchange | Queue | Policy]]] = {
    "exchange": read_exchange,
    "queue": read_queue,
    "policy": read_policy,
}
"""Rule of the grammar -> the function that reads the exchange, queue or policy it declares."""
