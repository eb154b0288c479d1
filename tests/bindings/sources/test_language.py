"""What statements mean, as topologies; and what is wrong with those that mean nothing, with its place and a way out."""

# ruff: noqa: E501  tables of cases read best as one line each
from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from bindings.sources.document import Document
from bindings.sources.language.errors import LanguageError
from bindings.sources.language.expectations import Expectation
from bindings.sources.language.formatter import format_text
from exchange import Binding, Exchange, Message, Policy, Queue, Router, Topology, Typed
from exchange.entities.releases import LATEST_PROFILE, PROFILES, find_profile
from exchange.errors import InputError
from exchange.partition.partitioning.specification import Partitioning
from exchange.values.field_values import FieldTable
from tests.support.cases import with_each


def topology(text: str) -> Topology:
    """Return the topology that a text declares."""
    return Document.loads(text).topology()


@pytest.mark.parametrize(
    ("text", "exchange"),
    [
        ("exchange e: topic", Exchange("e", "topic")),
        ("exchange e: x-own, transient", Exchange("e", "x-own", durable=False)),
        ('exchange "e e": "internal", durable, auto-delete', Exchange("e e", "internal", auto_delete=True)),
        ("exchange e: fanout, internal, alternate f", Exchange("e", "fanout", internal=True, arguments={"alternate-exchange": "f"})),
        ('exchange e: fanout, "internal" = 1', Exchange("e", "fanout", arguments={"internal": 1})),
        ("exchange e:\n  fanout,\n  internal,", Exchange("e", "fanout", internal=True)),
    ],
)  # fmt: skip
def test_an_exchange(text: str, exchange: Exchange) -> None:
    """Durable and permanent unless a word changes that."""
    assert topology(text).exchanges[exchange.name] == exchange


@pytest.mark.parametrize(
    ("text", "queue"),
    [
        ("queue q", Queue("q")),
        ("queue 5", Queue("5")),
        ('queue ""', Queue("")),
        (r'queue "\u00e9\n\"\\\{x}\ud83d\udc07"', Queue('é\n"\\{x}\U0001f407')),
        (r"queue '\d{x}'", Queue(r"\d{x}")),
        ("queue q: quorum, transient, auto-delete", Queue("q", durable=False, auto_delete=True, arguments={"x-queue-type": "quorum"})),
        ('queue q: x-queue-type = "quorum"', Queue("q", arguments={"x-queue-type": "quorum"})),
        ("queue q: classic, x-max-length = 5  # so", Queue("q", arguments={"x-queue-type": "classic", "x-max-length": 5})),
        ('queue q: stream, partitioned kafka.murmur2 over 12 by header "#"  # so',
         Queue("q", arguments={"x-queue-type": "stream"}, partitioning=Partitioning.parse('kafka.murmur2 over 12 by header "#"'))),
        ('queue q: partitioned "kafka.murmur2 over 12", durable',
         Queue("q", partitioning=Partitioning.parse("kafka.murmur2 over 12"))),
    ],
)  # fmt: skip
def test_a_queue(text: str, queue: Queue) -> None:
    """Its type is an argument only if it is written."""
    assert topology(text).queues == {queue.name: queue}


@with_each(
    ("written", "value"),
    [
        ("1", 1), ("-0", 0), ("1.0", 1.0), ("1e3", 1000.0), ("-9223372036854775808", -(2**63)),
        ("true", True), ("false", False), ("null", None), ('"true"', "true"), ("'\\'", "\\"),
        ("[]", []), ("[1, [2.0],]", [1, [2.0]]), ("{}", {}), ("{ a = { b = 1 }, }", {"a": {"b": 1}}),
        ('{ "!short" = 1 }', {"!short": 1}), ("!table { a = 1 }", {"a": 1}), ('!table { "!x" = 1 }', {"!x": 1}),
        ("!short 5", Typed("short", 5)), ("!byte -1", Typed("byte", -1)), ("!unsignedint 4294967295", Typed("unsignedint", 2**32 - 1)),
        ("!timestamp 5", Typed("timestamp", 5)), ("!float 1.5", Typed("float", 1.5)), ('!double "NaN"', float("nan")),
        ("!decimal 1.50", Decimal("1.50")), ('!decimal "1E+3"', Decimal("1E+3")), ("!void null", None), ("!bool true", True),
        ('!bytes "/w=="', b"\xff"), ('!binary "/w=="', b"\xff"), ('!longstr !bytes "/w=="', Typed("longstr", b"\xff")),
        ("!long 5", 5), ("!array [1]", [1]), ("[!short 1, { a = !short 2 }]", [Typed("short", 1), {"a": Typed("short", 2)}]),
    ],
)  # fmt: skip
def test_a_value_has_the_type_that_is_written(written: str, value: Any) -> None:
    """All types of AMQP can be written, nested in each other."""
    assert topology(f"queue q: x = {written}").queues["q"].arguments == FieldTable({"x": value})


@pytest.mark.parametrize(
    ("text", "bindings"),
    [
        ("e -> q", [Binding.to_queue("e", "q")]),
        ('e -> queue q: "a"', [Binding.to_queue("e", "q", "a")]),
        ('e -> exchange f: "a", \'b\'', [Binding.to_exchange("e", "f", "a"), Binding.to_exchange("e", "f", "b")]),
        ('e -> q, exchange f: "a"', [Binding.to_queue("e", "q", "a"), Binding.to_exchange("e", "f", "a")]),
        ('e -> q: mqtt "a/+/#", nats "a.>", amqp "a.#"',
         [Binding.to_queue("e", "q", "a.*.#"), Binding.to_queue("e", "q", "a.*.#"), Binding.to_queue("e", "q", "a.#")]),
        ("e -> q: all { a = 1 }", [Binding.to_queue("e", "q", "", {"x-match": "all", "a": 1})]),
        ('e -> q: "k" any-with-x { x-a = null }', [Binding.to_queue("e", "q", "k", {"x-match": "any-with-x", "x-a": None})]),
        ('e -> q: "k" with { a = 1 }, with {}', [Binding.to_queue("e", "q", "k", {"a": 1}), Binding.to_queue("e", "q")]),
        ("e->q", [Binding.to_queue("e", "q")]),
    ],
)  # fmt: skip
def test_a_binding(text: str, bindings: list[Binding]) -> None:
    """One for each destination and key; other dialects are translated."""
    assert list(topology(text).bindings) == list(dict.fromkeys(bindings))


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ('policy p: "^a"', Policy("p", "^a")),
        (r"policy p: '^\d{2}', queues, priority -5, max-length = 5", Policy("p", r"^\d{2}", {"max-length": 5}, "queues", -5)),
        ('policy p: "", apply-to "odd", priority 0.5, a = [{ b = null }]', Policy("p", "", {"a": [{"b": None}]}, "odd", 0.5)),  # type: ignore[arg-type]
        ('let n = 7\npolicy p: "", priority {n}, a = {n}', Policy("p", "", {"a": 7}, priority=7)),
        ('policy p: "", all, "priority" = { "!x" = 1 }', Policy("p", "", {"priority": {"!x": 1}})),
    ],
)  # fmt: skip
def test_a_policy(text: str, policy: Policy) -> None:
    """For all, with priority 0, unless words change that."""
    assert topology(text).policies == {"p": policy}


def test_for_repeats_with_each_value() -> None:
    """Blocks nest; a variable alone is a value, number or text; what is let inside counts inside."""
    made = topology("""
let limit = 1000
let regions = eu, "us {limit}"
for region in regions:
    for n in 1..2, x:
        let name = q-{n}
        queue "{region}.{name}": x-n = {n}, x-limit = {limit}, x-region = {region}, x-both = "{n}{limit}"
""")
    assert list(made.queues) == [f"{region}.q-{n}" for region in ("eu", "us 1000") for n in (1, 2, "x")]
    assert made.queues["eu.q-1"].arguments == {"x-n": 1, "x-limit": 1000, "x-region": "eu", "x-both": "11000"}
    assert made.queues["us 1000.q-x"].arguments["x-n"] == "x"


def test_vhost_begins_a_virtual_host() -> None:
    """It counts up to the next one, or to the end of the block it is in."""
    document = Document.loads("""
queue first
for stage in a, b:
    vhost "/{stage}"
    queue {stage}
queue second
vhost empty
vhost "/a"
queue third
""")
    assert {vhost: list(document.topology(vhost).queues) for vhost in document.vhosts} == {
        "/": ["first", "second"], "/a": ["a", "third"], "/b": ["b"], "empty": [],
    }  # fmt: skip
    again = Document.loads('for v in a, b:\n    queue "q{v}"\n    vhost "/{v}"\n    queue inner')
    assert {vhost: list(again.topology(vhost).queues) for vhost in again.vhosts} == {
        "/": ["qa", "qb"], "/a": ["inner"], "/b": ["inner"],
    }  # fmt: skip
    assert document.topology() == document.topology("/")
    assert Document.loads("vhost v").topology() == Topology(vhost="v")
    assert Document.loads("").vhosts == ("/",)
    with pytest.raises(InputError, match=r"which virtual host\? There are 'a', 'b'"):
        Document.loads("vhost a\nvhost b").topology()
    with pytest.raises(InputError, match="there is no virtual host 'c'; there are 'a', 'b'"):
        Document.loads("vhost a\nvhost b").topology("c")


def test_the_profile_is_the_files_unless_one_is_given() -> None:
    """A version that has no row of its own is that of the row before; without any, it is the newest."""
    document = Document.loads("profile rabbitmq-4.1.1\nqueue q")
    assert document.topology().profile == PROFILES["rabbitmq-4.0"]
    assert document.topology(profile="rabbitmq-3.10").profile == PROFILES["rabbitmq-3.10"]
    assert Document.loads("").topology().profile == LATEST_PROFILE
    young = Document.loads("profile rabbitmq-4.3.2")
    assert young.topology().profile == find_profile("4.3.2")
    assert Document.of_definitions(young.definitions()) == young == Document.loads(young.dump())


def test_expectations_are_of_their_virtual_host_and_know_their_line() -> None:
    """One for each key."""
    document = Document.loads("""vhost a
expect e "x", 'y' -> q, "r"
expect e "" with { h = 1 }
    includes q
vhost b
expect e "x" unroutable
expect e "x" excludes q, r
""")
    assert document.expectations("a") == (
        Expectation("e", "x", ("q", "r")),
        Expectation("e", "y", ("q", "r")),
        Expectation("e", "", ("q",), "includes", FieldTable({"h": 1})),
    )
    assert document.expectations("b") == (Expectation("e", "x"), Expectation("e", "x", ("q", "r"), "excludes"))
    assert [e.line for vhost in document.vhosts for e in document.expectations(vhost)] == [2, 2, 3, 6, 7]


@pytest.mark.parametrize(
    ("claim", "failure"),
    [
        ('expect e "a" -> p, q', None),
        ('expect e "a" -> p', "'q' gets it"),
        ('expect e "a" -> p, q, r, s', "'r', 's' do not get it"),
        ('expect e "a" unroutable', "'p', 'q' get it"),
        ('expect e "b" -> p', "'p' does not get it and 'q' gets it"),
        ('expect e "a" includes p', None),
        ('expect e "a" includes r', "'r' does not get it"),
        ('expect e "a" excludes r', None),
        ('expect e "a" excludes p, r', "'p' gets it"),
        ('expect e "c" unroutable', None),
        ('expect "" "p" -> p', None),
        ('expect nope "a" unroutable', "404 NOT_FOUND - no exchange 'nope' in vhost '/'"),
        ('expect odd "a" unroutable', "it is not known what 'odd' would do, whose type is unknown"),
        ('expect odd "a" includes p', "'p' does not get it"),
    ],
)
def test_an_expectation_holds_or_explains_why_not(claim: str, failure: str | None) -> None:
    """Exactly these queues, at least these, none of these."""
    document = Document.loads(f"""
exchange e: topic
exchange odd: x-odd
queue p
queue q
e -> p, q: "a"
e -> q: "b"
{claim}
""")
    (expectation,) = document.expectations()
    assert expectation.find_failure(Router(document.topology())) == failure
    assert Expectation.from_json(expectation.to_json()) == expectation


def test_a_message_of_an_expectation_has_its_headers() -> None:
    """Which decide at a headers exchange."""
    (expectation,) = Document.loads('expect e "k" with { h = !short 1 } unroutable').expectations()
    assert expectation.message == Message("e", "k", {"h": Typed("short", 1)})


def test_warnings_have_lines() -> None:
    """What is there twice, of unknown type, or no regular expression."""
    document = Document.loads('exchange e: x-own\n\ne -> q: "a"\ne -> q: "a"\npolicy p: "("\nqueue amq.q')
    assert [str(warning).partition(":")[0] for warning in document.warnings] == [
        "line 4",
        "line 1",
        "line 6",
        "line 5.pattern",
    ]
    assert str(document.warnings[0]) == "line 4: this binding exists already, from line 3"


def test_a_binding_that_is_twice_in_one_statement_is_warned_of_where_it_stands() -> None:
    document = Document.loads(
        'exchange e: topic\ne -> q:\n    "a",\n    "b",\n    "a"\nfor n in 1..2:\n    e -> all: "#"'
    )
    assert [str(each) for each in document.warnings] == ["line 5: this binding exists already, from line 3"]


MISTAKES = [
    ("exchnage orders: topic", 1, 1, "no statement begins with exchnage; did you mean 'exchange'?"),
    ("Queue orders", 1, 1, "did you mean 'queue'?"),
    ("declare orders", 1, 1, "a statement begins with exchange, queue, "),
    ("exchange orders", 1, 10, "has no type; it comes first, as in: exchange orders: topic"),
    ("exchange orders topic", 1, 17, "expected ':' or the end of the line, as in: exchange orders: topic"),
    ("exchange orders: internal", 1, 18, "the type of the exchange comes first, as in: exchange orders: topic, internal"),
    ("exchange orders: topic, durabel", 1, 25, "an exchange is not 'durabel'; did you mean 'durable'?"),
    ("exchange orders: topic, alternate = x", 1, 25, 'write alternate NAME; for an argument of this name, "alternate" = ...'),
    ("exchange orders: topic, alternate a, alternate b", 1, 38, "alternate is given twice"),
    ('exchange e: topic, alternate a, alternate-exchange = "b"', 1, 33, "'alternate-exchange' is given twice"),
    ("exchange e: topic, partitioned kafka.murmur2 over 3", 1, 20, "an exchange cannot be partitioned; queues can"),
    ("exchange amq.topic: topic", 1, 10, "every virtual host has the exchange 'amq.topic'; it is not declared"),
    ("queue billing: quorom", 1, 16, "did you mean 'quorum'?"),
    ("queue billing: quorum, x-max-length 1000", 1, 24, "an argument has an equals sign: x-max-length = 1000"),
    ("queue billing: quorum, classic", 1, 24, "a queue is quorum or classic, not both"),
    ("queue billing: transient, durable", 1, 27, "a queue is transient or durable, not both"),
    ('queue billing: "quorum"', 1, 16, "a queue has no use for a text here"),
    ("queue billing: durable yes", 1, 16, "durable stands alone, without 'yes'"),
    ("queue a\nqueue a", 2, 7, "queue 'a' is declared already, in line 1"),
    ("queue queue: quorum", 1, 7, 'queue is a word of the language; as a name it is written "queue"'),
    ("queue: quorum", 1, 6, "expected a name, a text in quotes or a number, as in: queue billing: quorum"),
    ("queue q: x = many", 1, 14, 'a text is written in quotes: "many"'),
    ("queue q: x = !shrot 5", 1, 14, "no AMQP type !shrot; did you mean 'short'?"),
    ("queue q: x = !short true", 1, 14, "true is not a short: an integer from -32768 to 32767"),
    ("queue q: x = !short 70000", 1, 14, "70000 is not a short: an integer from -32768 to 32767"),
    ("queue q: x = 9223372036854775808", 1, 14, "an integer has at most 64 bits"),
    ("queue q: x = 1e999", 1, 14, "too large for a number of 64 bits"),
    ("queue q: x = { a = 1, a = 2 }", 1, 23, "'a' is here twice"),
    ("queue q: x = 1, x = 2", 1, 17, "'x' is here twice"),
    ("queue q: x = [1,\n    2\nqueue r", 1, 14, "'[' is never closed; ']' is missing"),
    ("docs -> print: all { format: 1 }", 1, 28, "expected '=', as in: { format = \"pdf\", pages = 2 }"),
    ("docs -> print: al { format = 1 }", 1, 16, "no condition 'al'; did you mean 'all'?"),
    ('docs -> print: all { x-match = "any" }', 1, 16, "all gives x-match already"),
    ("orders -> billing: order.created", 1, 20, 'a routing key is written in quotes: "order.created"'),
    ("orders -> billing: order.*", 1, 26, "a routing key is written in quotes, and so is a name with * in it"),
    ("orders -> billing: #", 1, 19, "expected a routing key in quotes (a # without quotes begins a comment)"),
    ('orders -> billing "x"', 1, 19, "expected ':', ',' or the end of the line"),
    ('orders - > billing: "x"', 1, 1, "an arrow is written -> without a space"),
    ('orders => billing: "x"', 1, 8, "an arrow is written ->"),
    ('orders -> billing: "x', 1, 20, 'the text that begins here has no end in its line; it ends with another "'),
    ("orders -> billing: \N{LEFT DOUBLE QUOTATION MARK}x", 1, 20, "straight quotes"),
    ('orders -> billing: "order.{regoin}"', 1, 27, r"no variable 'regoin'; the text itself is written \{regoin}"),
    ('let region = eu\norders -> billing: "order.{regoin}"', 2, 27, "no variable 'regoin'; did you mean 'region'?"),
    ('let regions = eu, us\norders -> billing: "order.{regions}"', 2, 27, "regions has 2 values; go through them with: for each in regions:"),
    (r'orders -> billing: "order\.x"', 1, 26, r"\. is no escape"),
    (r'orders -> billing: "\u12"', 1, 21, r"\u has four hexadecimal digits"),
    ('"" -> billing: "x"', 1, 1, "the default exchange has no bindings but those to each queue by its name"),
    ('devices -> audit: mqtt "sensor/#/x"', 1, 32, "in MQTT, '#' is a whole level and the last one"),
    ('devices -> audit: mqqt "sensor/#"', 1, 19, "no dialect 'mqqt'; did you mean 'mqtt'?"),
    ("queue a: partitioned kafka.murmr2 over 12", 1, 22, "no partitioner 'kafka.murmr2'; did you mean 'kafka.murmur2'"),
    ("queue a: partitioned kafka.murmur2 on 12", 1, 36, "expected STRATEGY over PARTITIONS by KEY"),
    ('queue a: partitioned "kafka.murmur2 over 12 by heder x"', 1, 48, "key: routing_key, word 2"),
    ("policy p: queues, ttl = 1", 1, 8, "policy 'p' has no pattern; it comes first"),
    ('policy p: "^x", queue', 1, 17, "did you mean 'queues'?"),
    ('policy p: "^x", prioriti 5', 1, 17, "did you mean 'priority'?"),
    ('policy p: "^x", priority high', 1, 26, "a priority is a number: priority 5"),
    ('policy p: "^x", priority = 5', 1, 17, "write priority 5; for an argument of this name"),
    ('policy p: "^x", max-length = !short 5', 1, 30, "a policy's values have JSON's types only"),
    ("for r in regions:\n    queue {r}", 1, 10, "no variable 'regions'"),
    ("for r in a, b:\nqueue {r}", 1, 1, "for repeats nothing; the statements that it repeats stand below it, indented"),
    ("for r in a, b:", 1, 1, "for repeats nothing"),
    ("for r in a, b\n    queue {r}", 1, 14, "expected ':', as in: for region in regions:"),
    ("for r in a, b:\n    queue q", 2, 11, "queue 'q' is declared already, in line 2 (where r is b)"),
    ("queue a\n  queue b", 2, 3, "an indented line continues the statement above it, and this one begins a new statement"),
    ("queue a\n\n  queue b", 3, 3, "indented by 2, where 0 is expected"),
    ("for r in a:\n    queue a\n  queue b", 3, 3, "indented by 2, where 0 is expected"),
    ("let r = 1\nlet r = 2", 2, 5, "r has values already, from line 1"),
    ("let 1x = a", 1, 5, "'1x' cannot be a variable"),
    ("let r = 5..1", 1, 9, "a range goes up"),
    ("profile rabbitmq-4", 1, 9, "no profile 'rabbitmq-4'; there are rabbitmq-3.10, "),
    ("profile rabbitmq-4.0\nprofile rabbitmq-4.0", 2, 9, "the profile is given already"),
    ('expect orders "x" unroutabel', 1, 19, "no outcome 'unroutabel'; did you mean 'unroutable'?"),
    ('expect orders "x" unroutable a', 1, 19, "unroutable stands alone"),
    ('expect orders "x" includes', 1, 19, "includes needs the names of queues"),
    ("expect orders x -> a", 1, 15, "expected a text in quotes, as in: expect orders"),
    ('expect orders "x" => a', 1, 19, "an arrow is written ->"),
    ('expect orders "x" all { a = 1 } -> a', 1, 19, "given with { ... }, not 'all'"),
    ("exchange e: topic, alternate", 1, 20, "write alternate NAME"),
    ("queue q: partitioned", 1, 10, "write partitioned kafka.murmur2 over 12"),
    ("queue q: alternate e", 1, 10, "a queue has no alternate"),
    ("let p = high\npolicy p: '', priority {p}", 2, 24, "a priority is a number"),
    ('{"queues": []}', 1, 1, "this is JSON and no .bindings file; hashstar convert makes one of definitions.json"),
    ("queue a; queue b", 1, 8, "';' means nothing here"),
]  # fmt: skip


@with_each(("text", "line", "column", "words"), MISTAKES)
def test_a_mistake_is_reported_with_its_position_and_a_way_out(text: str, line: int, column: int, words: str) -> None:
    """File, line and column, the line itself, and a caret under what is wrong."""
    with pytest.raises(LanguageError) as caught:
        Document.loads(text, "shop.bindings")
    error_lines = str(caught.value).split("\n")
    assert error_lines[0].startswith(f"shop.bindings:{line}:{column}: ")
    assert words in error_lines[0]
    assert error_lines[1:] == [f"    {text.split(chr(10))[line - 1]}", error_lines[2]]
    assert error_lines[2].index("^") == 4 + column - 1


def test_a_long_line_is_shown_only_around_the_mistake() -> None:
    """An error is read at a terminal."""
    with pytest.raises(LanguageError) as caught:
        Document.loads(f'a -> b: "{"x" * 5000}", c, "{"y" * 5000}"')
    place, line, caret = str(caught.value).split("\n")
    assert place.startswith("bindings:1:5013: a routing key is written in quotes")
    assert len(line) <= 164
    assert line[caret.index("^")] == "c"


def test_what_is_nested_too_deeply_is_refused() -> None:
    """By the reader and by the formatter, without a traceback."""
    for function in (Document.loads, format_text):
        with pytest.raises(InputError, match="bindings: nested too deeply"):
            function("queue q: x = " + "[" * 5000 + "]" * 5000)


def test_unknown_escapes_and_unclosed_texts_take_no_time() -> None:
    """No expression backtracks on a long line."""
    for text in ('queue "' + "a\\" * 50_000, "queue " + "a-" * 50_000 + ">", 'queue a: partitioned "' + '\\"' * 50_000):
        with pytest.raises(LanguageError):
            Document.loads(text)
