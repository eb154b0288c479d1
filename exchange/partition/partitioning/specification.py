"""A partitioning as a value and as text: strategy, partitions and key source.

The text is a line in a Lark grammar, ``kafka.murmur2 over 12 by header "tenant"``. Text and value are equivalent.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from exchange.errors import InputError, TextError
from exchange.limits import PARTITIONS
from exchange.partition.partitioner import Choice, Partitioner, PartitionRequest
from exchange.partition.partitioning.key_source import ROUTING_KEY, KeySource
from exchange.partition.partitions import Broker, Partitions
from exchange.partition.python_function import PREFIX, PythonFunction
from exchange.text.numbers import is_digits
from exchange.values.documents import write_as
from exchange.values.json_text import parse_leniently
from exchange.values.message import Message

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

NAMED_PARTITIONER: Final = Partitioner()
"""Default of `Partitioning.partitioner`: stands for the partitioner that the strategy's name selects."""
STREAMS: Final = "rabbitmq."
"""Prefix of the strategies whose partitions have names."""


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The distribution of messages to the partitions of one destination.

    >>> from exchange import Message
    >>> Partitioning.parse("kafka.murmur2 over 12 by word 2").choose(Message("", "order.eu.created")).partition
    11
    """

    strategy: str
    """Name and parameters of a strategy, ``kafka.nearest(rack=eu-1)``; with a partitioner of your own, any name."""
    partitions: Partitions
    key: KeySource = ROUTING_KEY
    partitioner: Partitioner = field(default=NAMED_PARTITIONER)
    """The partitioner. Set it only to one of your own: by default it is that of ``strategy``."""

    def __post_init__(self) -> None:
        if self.partitioner is NAMED_PARTITIONER:
            object.__setattr__(self, "partitioner", parse_partitioner(self.strategy))

    @classmethod
    def parse(cls, text: str) -> Partitioning:
        """Parse ``STRATEGY over PARTITIONS by KEY``. Raises TextError; InputError for an unknown name."""
        tree = _parse(text, "start")
        strategy, partitions, *key = cast("list[Tree[Token]]", tree.children)
        span = slice(strategy.meta.start_pos, strategy.meta.end_pos)
        return cls(
            text[span],
            _build_partitions(partitions, str(strategy.children[0])),
            _build_key_source(key[0], text) if key else ROUTING_KEY,
            _build_partitioner(strategy),
        )

    def imported(self, folder: str = "") -> Partitioning:
        """Return this partitioning with the code of its partitioner, if that is ``python:module:function``.

        Importing a module runs its code: ask for it only where you trust the text. Raises as `PythonFunction.imported`.
        """
        if not isinstance(self.partitioner, PythonFunction):
            return self
        return replace(self, partitioner=self.partitioner.imported(folder))

    @property
    def by_routing_key(self) -> bool:
        """Whether messages of equal routing keys get equal partitions, as far as their keys decide."""
        return self.key.by_routing_key and not self.partitioner.reads_record

    def choose(self, message: Message, topic: str = "") -> Choice:
        """Return the choice for a message: the partition of its key; if the key does not decide, the rule that does.

        ``topic`` is for partitioners that read more than the key.
        """
        return self.choose_for(self.key.read(message), message, topic)

    def choose_for(self, key: Any, message: Message | None = None, topic: str = "") -> Choice:
        """Return the choice for a message's key; a key that the client cannot take decides nothing.

        The message is for partitioners that read more than the key.
        """
        try:
            if message is None or not self.partitioner.reads_record:
                return self.partitioner.choose(key, self.partitions)
            return self.partitioner.answer(PartitionRequest(topic, key, message.body, self.partitions))[0]
        except InputError as error:
            return Choice(None, None, str(error))

    def partition_of(self, message: Message, topic: str = "") -> int | None:
        """Return the partition of `choose` alone, without hash and rule: several times as fast."""
        return self.partition_for(self.key.read(message), message, topic)

    def partition_for(self, key: Any, message: Message | None = None, topic: str = "") -> int | None:
        """Return the partition of `choose_for` alone."""
        if message is not None and self.partitioner.reads_record:
            return self.choose_for(key, message, topic).partition
        try:
            return self.partitioner.partition_of(key, self.partitions)
        except InputError:
            return None

    def __str__(self) -> str:
        return f"{self.strategy} over {_format_partitions(self.partitions)} by {self.key}"


def parse_partitioner(text: str) -> Partitioner:
    """Build the partitioner of a text ``NAME`` or ``NAME(parameter=value, ...)``. Raises TextError, InputError.

    The code of ``python:module:function`` is not imported: see `PythonFunction.imported`.
    """
    return _build_partitioner(_parse(text, "strategy"))


def parse_partitions(text: str, strategy: str) -> Partitions:
    """Build the partitions of a text for the strategy of this name. Raises TextError, InputError.

    ``12`` is the number of partitions, ``broker-a:4,broker-b@rack-2:4`` their number by broker, ``eu,us`` are streams.
    """
    return _build_partitions(_parse(text, "partitions"), strategy)


def parse_key_source(text: str) -> KeySource:
    """Build the key source of a text: ``word 2``, ``header "tenant"`` ... Raises TextError, InputError."""
    return _build_key_source(_parse(text, "key"), text)


def _build_partitioner(tree: Tree[Token]) -> Partitioner:
    name, *rest = cast("list[Any]", tree.children)
    parameters = {}
    for parameter in rest[0].children if rest else []:
        key, value = parameter.children
        parameters[str(key)] = _value(value)
    if name.startswith(PREFIX):
        return PythonFunction(name.removeprefix(PREFIX), tuple(parameters.items()))
    from exchange.partition.partitioning.strategies import build_partitioner  # not at the top: it imports all clients

    return build_partitioner(str(name), **parameters)


def _build_partitions(tree: Tree[Token], strategy: str) -> Partitions:
    from exchange.partition.partitioning.strategies import find_strategy

    items = [[_value(cast("Token", part)) for part in cast("Tree[Token]", item).children] for item in tree.children]
    try:
        if len(items) == 1 and len(items[0]) == 1 and is_digits(items[0][0]):
            return Partitions.from_count(_number(items[0][0]))
        if all(len(item) == 2 for item in items):
            brokers = {name: _number(count) for name, count in items}
            if len(brokers) < len(items):
                twice = next(name for name, times in Counter([name for name, _ in items]).items() if times > 1)
                raise InputError(f"partitions: broker {twice!r} is named twice")
            if find_strategy(strategy).lists_queues:
                return Partitions.queues(brokers)
            return Partitions.led_by({_broker(name): count for name, count in brokers.items()})
        if all(len(item) == 1 for item in items):
            if not strategy.startswith((STREAMS, PREFIX)):
                raise InputError(
                    f"partitions: {', '.join(name for (name,) in items[:3])!s}: {strategy} takes a number (12) or "
                    "brokers with numbers (a:4,b:4); only super streams have names"
                )
            return Partitions.named([name for (name,) in items])
    except ValueError as error:
        raise InputError(f"partitions: {error}") from None
    raise InputError("partitions are a number (12), brokers with numbers (a:4,b:4), or names (a,b)")


def _number(text: str) -> int:
    """Return a number of partitions. Raises ValueError."""
    if not (is_digits(text) and len(text) < 10):
        raise ValueError(f"{text[:40]!r} is no number of partitions, which are {PARTITIONS:,} at most")
    return int(text)


def _broker(text: str) -> Broker:
    name, _, rack = text.partition("@")
    return Broker(name, name, rack or None)


def _build_key_source(tree: Tree[Token], text: str) -> KeySource:
    part, *rest = [_value(cast("Token", child)) for child in tree.children]
    span = (tree.meta.start_pos, tree.meta.end_pos)
    if part == "routing_key" and not rest:
        return ROUTING_KEY
    if part == "word" and rest and WORD.fullmatch(rest[0]):
        return KeySource("word", word=int(rest[0]))
    if part in ("header", "property", "body") and rest:
        return KeySource(cast("Any", part), rest[0])
    raise TextError(_EXPECTED["key"], text, span)


def _value(token: Token) -> str:
    return str(parse_leniently(token)) if token.type == "STRING" else str(token)


PLAIN: Final = re.compile(r'[^\s(),:="]+')


def _format_partitions(partitions: Partitions) -> str:
    """Return the text of the first form that means the same: a number, numbers by broker, or names."""
    if partitions.is_numbered:
        return str(partitions.count)
    brokers = Counter([partition.leader for partition in partitions if partition.leader is not None])
    if brokers and partitions == Partitions.queues({broker.name: count for broker, count in brokers.items()}):
        return ",".join(f"{_plain(broker.name)}:{count}" for broker, count in brokers.items())
    names = {f"{broker.name}@{broker.rack}" if broker.rack else broker.name: n for broker, n in brokers.items()}
    if brokers and partitions == Partitions.led_by({_broker(name): count for name, count in names.items()}):
        return ",".join(f"{_plain(name)}:{count}" for name, count in names.items())
    return ",".join(_plain(partition.name) for partition in partitions)


def _plain(name: str) -> str:
    return name if PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)


@cache
def _grammar() -> Lark:
    from importlib.resources import files  # not by path: the package may be in a zip, as Spark ships it

    from lark import Lark  # not at the top: only texts need it

    return Lark(
        files("exchange.partition.partitioning").joinpath("partitioning.lark").read_text("utf-8"),
        parser="lalr",
        start=["start", "strategy", "partitions", "key"],
        propagate_positions=True,
        maybe_placeholders=False,
        regex=False,
    )


def _parse(text: str, start: str) -> Tree[Token]:
    from lark import UnexpectedInput

    try:
        tree = _grammar().parse(text, start=start)
    except UnexpectedInput as error:
        token = getattr(error, "token", None)
        at = len(text) if token is not None and token.type == "$END" else error.pos_in_stream or 0
        raise TextError(_EXPECTED[start], text, (at, at + 1)) from None
    for token in tree.scan_values(lambda token: cast("Token", token).type == "STRING"):
        try:
            parse_leniently(token)
        except ValueError as error:  # an escape that JSON does not have, or a control character
            span = (token.start_pos or 0, token.end_pos or 0)
            raise TextError(f"not a text in quotes as JSON has them: {error}", text, span) from None
    return tree


WORD: Final = re.compile("-?[0-9]{1,9}")

_EXPECTED: Final = {
    "start": "expected STRATEGY over PARTITIONS by KEY, as in: kafka.murmur2 over 12 by routing_key",
    "strategy": "expected a strategy, with parameters or without: kafka.nearest(rack=eu-1), python:module:function",
    "key": 'expected a key: routing_key, word 2, header "name", property message_id or body "/json/pointer"',
    "partitions": "expected partitions: 12, or broker-a:4,broker-b:4, or stream-1,stream-2",
}

write_as(Partitioning, str, str)
