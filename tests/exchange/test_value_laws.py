"""Every public value and every error can be hashed, compared, copied and sent to another process."""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import multiprocessing
import os
import pickle
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import bindings
import bridge
import exchange
from bindings.analysis.pattern_set import Answer
from bindings.archive.inspection import Inspection
from bindings.checking.rules.finding import Finding
from bindings.diffing.planning.step import Step
from bindings.sources.language.expectations import Expectation
from exchange import (
    LATEST_PROFILE,
    Binding,
    Destination,
    Exchange,
    FieldTable,
    HashstarError,
    InputError,
    Message,
    Pattern,
    PatternError,
    Policy,
    Profile,
    Queue,
    Retry,
    Route,
    Router,
    Topology,
    Typed,
)
from exchange.kinds import KINDS
from exchange.partition.partitioning.specification import Partitioning
from exchange.patterns.pattern import AMQP, MANY, MQTT, ONE, ONE_PLAIN, ExactKey, Wildcard
from exchange.routing.explain import Explanation
from exchange.routing.route import Hop, Placement
from exchange.values.json_text import Fault
from tests.support.algebra import covers
from tests.support.cases import with_each

ARGUMENTS = {"a": 1, "b": [1, {"c": b"\xff"}], "d": {"e": None}, "f": Typed("float", 1.5), "g": Decimal("1.5"),
             "h": datetime(2026, 1, 1, tzinfo=UTC), "i": Typed("array", [1, {"j": 1}])}  # fmt: skip
TOPOLOGY = (
    Topology(vhost="v", profile="rabbitmq-4.0")
    .declare_exchange(Exchange("t", "topic", arguments={"alternate-exchange": "amq.fanout"}))
    .declare_queue(Queue("q", partitioning=Partitioning.parse("kafka.murmur2 over 3 by word 1")))
    .bind(Binding.to_queue("t", "q", "a.*.#", ARGUMENTS))
    .set_policy(Policy("p", ".*", {"max-length": 5}))
)
ROUTER = Router(TOPOLOGY, cache=7)
EXPLANATION = ROUTER.explain(Message("t", "a.b", {"h": [1]}), "q")

PARTS: tuple[Policy | Binding, ...] = (*TOPOLOGY.policies.values(), *TOPOLOGY.bindings)
FINDINGS = [Finding("HS701", PARTS[0], "a message", "a.b", PARTS), Finding("HS101", PARTS[1], "a message", line=5)]

VALUES: list[Any] = [
    *(Exchange("e", kind, arguments=ARGUMENTS) for kind in KINDS),
    *TOPOLOGY.exchanges.values(), *TOPOLOGY.queues.values(), *TOPOLOGY.bindings, *TOPOLOGY.policies.values(), TOPOLOGY,
    Destination("queue", "q"), FieldTable(ARGUMENTS), FieldTable(), *(value for value in ARGUMENTS.values() if isinstance(value, Typed)),
    Message("t", "a.b", ARGUMENTS, {"timestamp": Typed("timestamp", 5)}, b"x"), Message("t", "a", FieldTable({"CC": ["b"]})), Message(),
    Pattern("a.*.#"), Pattern("$a/+", "mqtt"), Pattern(">", "nats"), ExactKey("a.*"), AMQP, MQTT, ONE, MANY, ONE_PLAIN, LATEST_PROFILE,
    EXPLANATION, EXPLANATION.route, *EXPLANATION.hops, *EXPLANATION.route.placements, Partitioning.parse("kafka.murmur2 over 3 by property message_id"),
    covers(Pattern("a.*"), Pattern("a.#")), Expectation("t", "a.b", ("q",), headers=FieldTable({"h": 1})),
    Retry((0.1, 1.0)), *FINDINGS,
]  # fmt: skip
"""Examples of every public value; `test_every_public_value_has_an_example` names those that are missing."""

NO_VALUES = (exchange.Delivery, exchange.Dispatcher, exchange.Matcher, exchange.PikaQueue, Router, HashstarError)
"""What the engine's front door has besides: what does something, and errors."""


def test_every_public_value_has_an_example() -> None:
    """A class that is made public is held to the laws, too."""
    public = [getattr(exchange, name) for name in exchange.__all__]
    classes = {each for each in public if inspect.isclass(each) and not issubclass(each, NO_VALUES)}
    assert classes - set(map(type, VALUES)) == set()
    assert {Hop, Placement, Route, Explanation, Wildcard, Answer, ExactKey, Expectation, Finding, Profile} <= set(
        map(type, VALUES)
    )


def sent(value: Any, protocol: int = pickle.HIGHEST_PROTOCOL) -> Any:
    """Return the value as another process gets it."""
    return pickle.loads(pickle.dumps(value, protocol))  # noqa: S301


def copies(value: Any) -> Iterator[Any]:
    """Yield copies of the value, made in every way."""
    yield copy.copy(value)
    yield copy.deepcopy(value)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        yield sent(value, protocol)


@with_each("value", VALUES)
def test_a_copy_of_a_value_is_equal_to_it(value: Any) -> None:
    """Hashed before or not: as a key of dicts it is the same."""
    hash(value)
    for other in copies(value):
        assert type(other) is type(value)
        assert other == value
        assert hash(other) == hash(value)
        assert {value: 1}[other] == 1
        assert repr(other) == repr(value)


def test_different_values_are_different() -> None:
    """What is equal has one type and one representation, so the laws above are not kept by everything being equal."""
    for one in VALUES:
        for other in VALUES:
            if one == other and type(one) is type(other):
                assert repr(one) == repr(other)


def test_values_are_the_same_in_a_process_with_other_hashes() -> None:
    """A hash that was remembered in one process is not the other's: Python's differ from process to process."""
    for value in VALUES:
        hash(value)
    code = (
        "import pickle, sys; values = pickle.load(sys.stdin.buffer);"
        "assert all(pickle.loads(pickle.dumps(v)) in {v: 1} for v in values);"
        "from exchange import *; table = [v for v in values if type(v) is FieldTable][0];"
        "assert table in {FieldTable(dict(table)): 1}; print(len(values))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": str(Path(exchange.__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(VALUES), capture_output=True, env=environment, check=False
    )
    assert (done.stdout.strip(), done.stderr) == (str(len(VALUES)).encode(), b"")


def test_values_cannot_be_changed() -> None:
    """No attribute of one can be set."""
    for value in VALUES:
        names = [field.name for field in fields(value)] if is_dataclass(value) else list(getattr(value, "_fields", ()))
        for name in [each for each in names if isinstance(each, str)]:
            with pytest.raises(AttributeError):
                setattr(value, name, None)


def mutable_in(value: Any) -> Iterator[Any]:
    """Yield each list, dict, set or buffer in a value, at any depth; but not the mappings that a message keeps."""
    if isinstance(value, (list, dict, set, bytearray, memoryview)):
        yield value
    elif isinstance(value, Message):
        return
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from mutable_in(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from mutable_in(item)
    elif is_dataclass(value):
        for field in fields(value):
            yield from mutable_in(getattr(value, field.name))


DEEP: list[Any] = [{"x": [[1]]}, {"x": {"y": [{"z": []}]}}, {"x": [bytearray(b"a")]},
                   {"x": Typed("array", [[1, {"a": [2]}]])}, {"x": FieldTable({"y": [Typed("table", {"z": [1]})]})}]  # fmt: skip


@pytest.mark.parametrize(
    "make",
    [
        FieldTable,
        lambda given: Exchange("e", arguments=given),
        lambda given: Queue("q", arguments=given),
        lambda given: Binding.to_queue("e", "q", "k", given),
        lambda given: Binding.to_queue("e", "q", "k")._replace(arguments=given),
        lambda given: Policy("p", ".*", given),
    ],
)
@pytest.mark.parametrize("given", DEEP, ids=str)
def test_a_value_contains_nothing_mutable_at_any_depth(make: Callable[[Any], Any], given: Any) -> None:
    """What it was given may change: the value does not see it."""
    value = make(copy.deepcopy(given))
    assert list(mutable_in(value)) == []
    table = next(each for each in mapping_in(value))
    assert table == given
    assert hash(value) == hash(make(given))


def mapping_in(value: Any) -> Iterator[FieldTable]:
    """Yield the tables in a value, itself included."""
    if isinstance(value, FieldTable):
        yield value
    else:
        parts = value if isinstance(value, tuple) else [getattr(value, field.name) for field in fields(value)]
        yield from (part for part in parts if isinstance(part, FieldTable))


def test_the_examples_hold_nothing_that_can_change() -> None:
    """The same law for every public value."""
    for value in VALUES:
        assert list(mutable_in(value)) == [], value


NOTHING: list[Any] = []
NOT_FIELDS: list[tuple[Any, type[Exception], str]] = [
    ({5: 1}, TypeError, "names of fields are str, not int: 5"),
    ({"a": object()}, TypeError, "'a': no AMQP field type for object: "),
    ({"a": [{"b": {1, 2}}]}, TypeError, "'a': no AMQP field type for set: "),
    ({"a": 2**70}, InputError, "'a': an integer of 71 bits; AMQP has 64, one of them the sign"),
    ({"a": [-(2**63) - 1]}, InputError, "'a': an integer of 64 bits; AMQP has 64, one of them the sign"),
    ({"a": Decimal("NaN")}, InputError, "'a': NaN is not a finite decimal"),
    ({"a": functools.reduce(lambda value, _: [value], range(100_000), NOTHING)}, InputError, "'a': nested too deeply"),
    ([1], TypeError, "must be a mapping, not list: [1]"),
    (b"{}", TypeError, "must be a mapping, not bytes: b'{}'"),
    (None, TypeError, "must be a mapping, not NoneType: None"),
]


@pytest.mark.parametrize(
    ("make", "owner"),
    [
        (lambda given: Message(headers=given), "Message: headers"),
        (lambda given: Message(properties=given), "Message: properties"),
        (lambda given: Exchange("e", arguments=given), "Exchange: arguments"),
        (lambda given: Queue("q", arguments=given), "Queue: arguments"),
        (lambda given: Binding("e", Destination("queue", "q"), "", given), "Binding: arguments"),
        (lambda given: Policy("p", "", given), "Policy: definition"),
    ],
)
@pytest.mark.parametrize(("given", "kind", "words"), NOT_FIELDS, ids=range(len(NOT_FIELDS)))
def test_a_value_that_is_no_field_value_is_refused_by_the_constructor(
    make: Callable[[Any], Any], owner: str, given: Any, kind: type[Exception], words: str
) -> None:
    """The error names the value and the field. A policy is JSON, whose integers have any size."""
    if owner.startswith("Policy") and "integer" in words:
        assert make(given).definition == given
        return
    with pytest.raises(kind) as caught:
        make(given)
    assert str(caught.value).startswith(owner)
    assert words in str(caught.value)


@with_each(
    ("make", "words"),
    [
        (lambda: Queue(None), "Queue: name must be str, not NoneType: None"),  # type: ignore[arg-type]
        (lambda: Exchange(5), "Exchange: name must be str, not int: 5"),  # type: ignore[arg-type]
        (lambda: Exchange("e", None), "Exchange: type must be str, not NoneType: None"),  # type: ignore[arg-type]
        (lambda: Binding.to_queue(None, "q"), "Binding: source must be str, not NoneType: None"),  # type: ignore[arg-type]
        (lambda: Binding.to_queue("e", None), "Binding: queue must be str, not NoneType: None"),  # type: ignore[arg-type]
        (lambda: Binding.to_exchange("e", 5), "Binding: exchange must be str, not int: 5"),  # type: ignore[arg-type]
        (lambda: Binding.to_queue("e", "q", b"k"), "Binding: routing_key must be str, not bytes: b'k'"),  # type: ignore[arg-type]
        (lambda: Binding("e", ("queue", "q")), "not tuple; Binding.to_queue takes a name"),  # type: ignore[arg-type]
        (lambda: Topology([Queue("q")]), "Topology: Exchange is wanted, not Queue: "),  # type: ignore[list-item]
        (lambda: Topology(bindings=["b"]), "Topology: Binding is wanted, not str: 'b'"),  # type: ignore[list-item]
        (lambda: Router(None), "Router: topology must be a Topology, not NoneType: None; bindings.load"),  # type: ignore[arg-type]
        (lambda: ROUTER.route(None), "Router: message must be a Message, not NoneType"),  # type: ignore[arg-type]
        (lambda: ROUTER.explain({}), "Router: message must be a Message, not dict"),  # type: ignore[arg-type]
        (lambda: TOPOLOGY.declare_queue("q"), "Queue is wanted, not str: 'q'"),  # type: ignore[arg-type]
        (lambda: ROUTER.delete_queue(None), "str is wanted, not NoneType: None"),  # type: ignore[arg-type]
    ],
)
def test_an_argument_of_another_type_is_named(make: Callable[[], object], words: str) -> None:
    """With what is wanted, where the argument is given."""
    with pytest.raises(TypeError, match=re.escape(words)):
        make()


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, sent])
def test_a_router_can_be_copied(again: Callable[[Router], Router]) -> None:
    """The copy routes alike, and is edited apart."""
    router = Router(TOPOLOGY, cache=7)
    other = again(router)
    assert other.topology == TOPOLOGY
    assert repr(other) == repr(router) == "<Router of <Topology 'v': 8 exchanges, 1 queue, 1 binding, rabbitmq-4.0>>"
    other.delete_queue("q")
    message = Message("t", "a.b")
    assert (router.route(message).queues, other.route(message).queues) == (("q",), ())


@pytest.mark.parametrize("part", ["exchange", "routing_key"])
@pytest.mark.parametrize("value", [None, b"a", 5, ["a"]])
def test_a_message_takes_names_that_are_str_only(part: str, value: Any) -> None:
    """Whatever a client library hands out is refused where the message is made, and named."""
    with pytest.raises(TypeError, match=f"Message: {part} must be str, not {type(value).__name__}: "):
        Message(**{part: value})


@pytest.mark.parametrize(
    ("part", "value"), [("headers", None), ("headers", [1]), ("properties", None), ("body", "text")]
)
def test_a_message_takes_mappings_and_bytes_only(part: str, value: Any) -> None:
    """Before a route would meet it, or never."""
    with pytest.raises(TypeError, match=rf"Message: {part} must be (a mapping|bytes), not "):
        Message(**{part: value})


# Errors.


@functools.cache
def error_classes() -> list[type[HashstarError]]:
    """Return every class of errors in the three packages, of the modules that can be imported here."""
    for package in (exchange, bindings, bridge):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    found: dict[type[HashstarError], None] = {}
    pending: list[type[HashstarError]] = [HashstarError]
    while pending:
        each = pending.pop()
        if each.__module__.split(".")[0] in ("exchange", "bindings", "bridge"):
            found[each] = None
        pending += each.__subclasses__()
    return list(found)


class Cause(Exception):
    """An exception that equals its copies, as the cause of an error."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cause) and self.args == other.args

    __hash__ = Exception.__hash__


EXAMPLES: dict[Any, Any] = {
    Exception: Cause("text"),
    Sequence[Step]: (),
    Inspection: Inspection(),
    Fault: Fault(1, "reason", "shown"),
    str: "text",
    int: 7,
    bytes: b"\xff",
    bool: True,
    float: 1.5,
    tuple[int, int]: (0, 1),
}


def an_error(kind: type[HashstarError]) -> HashstarError:
    """Build an error of this class, from the arguments that its constructor takes."""
    constructor = kind.__init__
    if not inspect.isfunction(constructor):
        return kind("text")
    hints = get_type_hints(constructor)
    given: list[Any] = []
    named: dict[str, Any] = {}
    for name, parameter in list(inspect.signature(constructor).parameters.items())[1:]:
        wanted = hints.get(name)
        options = [option for option in getattr(wanted, "__args__", ()) if option in EXAMPLES]
        if parameter.kind is parameter.VAR_POSITIONAL:
            given.append("text")
            continue
        value = EXAMPLES[wanted] if wanted in EXAMPLES else EXAMPLES[options[0]] if options else parameter.default
        assert value is not parameter.empty, f"{kind.__qualname__}: no example of {name}: {wanted}; add one to EXAMPLES"
        if parameter.kind is parameter.KEYWORD_ONLY:
            named[name] = value
        else:
            given.append(value)
    return kind(*given, **named)


def test_the_classes_of_errors_are_found() -> None:
    """The classes below are those of all three packages."""
    assert {kind.__module__.split(".")[0] for kind in error_classes()} == {"exchange", "bindings", "bridge"}
    assert len(error_classes()) > 25


def test_an_error_can_be_copied_and_sent() -> None:
    """With its type, text, attributes and notes; each class, in one test: to find them is to import all modules."""
    for kind in error_classes():
        error = an_error(kind)
        error.add_note("a note")
        hash(error)
        for other in copies(error):
            assert type(other) is kind
            assert (str(other), repr(other)) == (str(error), repr(error))
            assert (other.args, vars(other)) == (error.args, vars(error)), kind


@pytest.mark.parametrize("method", [each for each in multiprocessing.get_all_start_methods() if each != "fork"])
def test_an_error_in_a_worker_of_a_pool_arrives(method: str) -> None:
    """The parent hung when it could not be built again.

    It comes the same way however the worker was started, and a fork of this process may hang: by then there are threads
    of libraries that other tests have used.
    """
    with multiprocessing.get_context(method).Pool(1) as pool:
        result = pool.apply_async(Pattern, ("a/#/b", "mqtt"))
        with pytest.raises(PatternError) as caught:
            result.get(60)
    assert (caught.value.source, caught.value.span) == ("a/#/b", (2, 3))
