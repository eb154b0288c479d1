"""Each rule that a text can break has twins of what it finds: they differ in one respect, and the rule is silent."""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from bindings.checking.check import check
from bindings.sources.document import Document
from exchange.entities.entities import Binding
from tests.bindings.checking.test_check import WRITTEN
from tests.support.cases import with_each

KEPT = (  # dead letters that keep their keys
    'exchange d: direct\nexchange t: topic\nqueue q: x-dead-letter-exchange = "d"\nqueue r\nt -> q: "a"\nd -> r: "b"'
)
WAITING = (
    'queue q: x-dead-letter-exchange = "", x-dead-letter-routing-key = "w"\n'
    'queue w: x-message-ttl = 0, x-dead-letter-exchange = "", x-dead-letter-routing-key = "q"'
)
FASTER = (  # of two ways back, one has no pause
    'exchange f: fanout\nqueue q: x-dead-letter-exchange = "f"\nf -> v, w\n'
    'queue v: x-message-ttl = 5, x-dead-letter-exchange = "", x-dead-letter-routing-key = "q"\n'
    'queue w: x-message-ttl = 0, x-dead-letter-exchange = "", x-dead-letter-routing-key = "q"'
)
FULL = (
    'queue r: x-max-length = 1, x-overflow = "reject-publish"\n'
    'queue q: x-dead-letter-exchange = "", x-dead-letter-routing-key = "r"'
)
EXPIRING = 'queue r\nqueue q: x-expires = 5, x-dead-letter-exchange = "", x-dead-letter-routing-key = "r"'
EXPIRING_ROUND = (
    "exchange f: fanout\nf -> q\n"
    'queue q: x-message-ttl = 5, x-dead-letter-exchange = "f", x-dead-letter-routing-key = "k"'
)
INNER = "exchange i: topic, internal\nexchange j: topic, internal\nqueue q\nj -> exchange i\ni -> q"
TIED = (
    "queue q\nqueue qx\nqueue xq\npolicy p: '^q', queues, expires = 1\npolicy o: 'q$', queues, expires = 2\n"
    "policy h: '^none$', queues, priority 1, expires = 3"
)
TO_DEFAULT = 'queue q\nqueue r: x-dead-letter-exchange = "d", x-dead-letter-routing-key = "q"'


class Twin(NamedTuple):
    """What is put in place of a part of the text in which a rule finds something: it then finds less."""

    old: str
    new: str
    text: str | None = None
    """The text; None: the rule's example."""


TWINS: Final[dict[str, tuple[Twin, ...]]] = {
    "HS103": (Twin('"*.#"', '"*.*.#"'),),
    "HS104": (Twin('"a.b"', '"b.b"'),),
    "HS105": (Twin('"*", ', ""),),
    "HS106": (Twin("f -> q", "f -> r"), Twin('"a.b"', '"b"')),
    "HS107": (Twin("direct", "topic"), Twin("a.*", "a*")),
    "HS108": (Twin('"a"', '"#"'), Twin("fanout", "topic")),
    "HS110": (
        Twin("topic, internal", "topic"),
        Twin('"b.*"', '"*.b"'),
        Twin('"a.*"', '"#"'),
        Twin("exchange t: topic", "exchange t: topic, alternate i"),
        Twin("exchange t: topic", "exchange t: headers"),
        Twin("queue q\n", 'queue q: x-dead-letter-exchange = "i"\n'),
        Twin("exchange i: topic", "exchange i: fanout"),
    ),
    "HS111": (Twin('"b.*"', '"a.*"'),),
    "HS201": (Twin("fanout", "fanout, internal"), Twin("fanout", "fanout\nqueue q\nf -> q")),
    "HS202": (
        Twin('t -> exchange f: "#"\n', ""),
        Twin('t -> exchange f: "#"\n', "f -> exchange f\n"),
        Twin("queue q\n", "queue q\nf -> q\n"),
    ),
    "HS203": (
        Twin("topic, internal", "topic"),
        Twin("queue q", 'exchange t: topic\nqueue q\nt -> exchange i: "a"'),
        Twin("queue q", "exchange t: topic, alternate i\nqueue q"),
        Twin("queue q", 'queue q: x-dead-letter-exchange = "i"'),
        Twin("j: topic, internal", "j: topic", INNER),
    ),
    "HS204": (
        Twin("queue q", "exchange f: fanout\nqueue q\nf -> q"),
        Twin("queue q", 'queue q: x-dead-letter-exchange = ""'),
        Twin('"d"', '""', TO_DEFAULT),
        Twin('"x"', '"q"', TO_DEFAULT.replace('"d"', '""').replace('"q"', '"x"')),
    ),
    "HS205": (Twin('"a", ""', '"#"'), Twin("topic", "topic, internal"), Twin('t -> q: "a", ""', "")),
    "HS206": (Twin('t -> exchange u: "a"\n', ""),),
    "HS207": (Twin("t -> exchange t", "exchange u: topic\nt -> exchange u"),),
    "HS301": (Twin("alternate gone", "alternate gone\nexchange gone: fanout"),),
    "HS302": (
        Twin("d: direct", "d: fanout"),
        Twin('t -> q: ""', 't -> q: "#"'),
        Twin('d -> q: "backup"', ""),
    ),
    "HS303": (Twin('u -> q: "a.b"', 'u -> q: "#"'), Twin('t -> exchange u: "a.#"', 't -> q: "a.#"')),
    "HS304": (Twin('"*.#", ""', '"*.#"'),),
    "HS305": (
        Twin(", alternate u", ""),
        Twin('u -> q: "a"', 'u -> q: "#"'),
        Twin(
            '"b"', '"#"',
            'exchange f: topic, alternate t\nexchange t: topic, alternate f\nqueue q\nt -> q: "a"\nf -> q: "b"',
        ),
    ),
    "HS307": (
        Twin(", alternate f, x-delayed-type", ", x-delayed-type"),
        Twin('x-delayed-message, alternate f, x-delayed-type = "topic"', "topic, alternate f"),
        Twin("f -> q", ""),
    ),
    "HS306": (
        Twin('"g"', '"f"'),
        Twin("'^t$', exchanges", "'^t$', queues"),
        Twin("'^t$'", "'^x$'"),
        Twin("topic, alternate f", "topic"),
        Twin('alternate-exchange = "g"', 'federation-upstream-set = "all"'),
    ),
    "HS311": (
        Twin('"gone"', '""'),
        Twin('"gone"', '""', "queue q: x-dead-letter-exchange = \"gone\"\npolicy p: '^q$', queues, max-length = 5"),
    ),
    "HS312": (
        Twin('"other"', '"q"'),
        Twin("t: topic", "t: topic, internal", KEPT),
        Twin("d: direct", "d: fanout", KEPT),
        Twin("d: direct", "d: headers", KEPT),
        Twin("d: direct", "d: direct, alternate f\nexchange f: fanout\nf -> r", KEPT),
        Twin('"a"', '"b"', KEPT),
        Twin('"a"', '"#"', KEPT),
        Twin('"a"', f'"{"a" * 256}"', f'{KEPT}\nt -> q: "b"'),
        Twin('d -> r: "b"', "", KEPT),
        Twin('"b"', '"q"', KEPT.replace('t -> q: "a"\n', "")),
        Twin('"a"', '"r"', KEPT.replace('"d"', '""')),
    ),
    "HS313": (
        Twin('x-queue-type = "quorum", ', ""),
        Twin('"at-least-once"', '"at-least-once", x-overflow = "reject-publish"'),
    ),
    "HS314": (
        Twin("x-message-ttl = 5, ", ""),
        Twin('key = "q"', 'key = "r"\nqueue r'),
        Twin(
            "queue w: x-message-ttl = 0, ", "queue w: ",
            WAITING.replace("queue q: ", "queue q: x-message-ttl = 5, "),
        ),
        Twin("f -> q", "queue r\nf -> q, r", EXPIRING_ROUND),
    ),
    "HS321": (Twin('key = "q"', 'key = "w"'), Twin("ttl = 0", "ttl = 5", WAITING), Twin("ttl = 0", "ttl = 5", FASTER)),
    "HS322": (Twin("ttl = 5", "ttl = 0"), Twin('key = "q"', 'key = "r"\nqueue r')),
    "HS325": (
        Twin('exchange = "e", x-dead-letter-routing-key = "k"', 'exchange = "", x-dead-letter-routing-key = "q"'),
        Twin("e -> a, q", "e -> q"),
        Twin("exchange e: topic\nqueue a\n", 'exchange e: topic, internal\nexchange t: topic\nqueue a\nt -> q: "k"\n'),
        Twin('ttl = 5, x-dead-letter-exchange = "e"', 'ttl = 5, x-dead-letter-exchange = "gone"'),
    ),
    "HS327": (
        Twin("x-max-length = 5, ", ""),
        Twin("x-max-length = 5", 'x-max-length = 5, x-overflow = "reject-publish"'),
        Twin("'all'", "'disabled'"),
        Twin("quorum, ", ""),
    ),
    "HS326": (Twin(", x-max-age = '1D'", ""), Twin("stream", "quorum")),
    "HS323": (
        Twin("ttl = 5", 'ttl = 5, x-dead-letter-exchange = "", x-dead-letter-routing-key = "r"',
             "queue q: x-message-ttl = 5\nqueue r"),
        Twin('"reject-publish"', '"drop-head"', FULL),
        Twin("x-max-length = 1, ", "", FULL),
        Twin("x-max-length = 1, ", "x-max-length = 1, x-message-ttl = 0, ", FULL),
        Twin("queue q: ", 'queue q: quorum, x-dead-letter-strategy = "at-least-once", x-overflow = "reject-publish", ',
             FULL),
        Twin("x-expires = 5, ", "", EXPIRING),
        Twin("x-expires = 5, ", "x-expires = 5, x-message-ttl = 0, ", EXPIRING),
        Twin("auto-delete, ", "", EXPIRING.replace("x-expires = 5, ", "auto-delete, ")),
    ),
    "HS324": (
        Twin("queue q", "queue q: stream"),
        Twin("queue q", "queue q: x-message-ttl = 0"),
        Twin("queue q", "queue q: x-max-length = 0"),
    ),
    "HS112": (Twin("amq.gen-x", "gone"), Twin("exchange t", "profile rabbitmq-4.3\nexchange t")),
    "HS608": (Twin('"jms"', '"quorum"'), Twin("queue q", "profile rabbitmq-3.13\nqueue q")),
    "HS609": (Twin("5.5", "5"), Twin("4.3.1", "4.2"), Twin("4.3.1", "4.3.2")),
    "HS610": (Twin("2.5", "2"), Twin("4.2.4", "4.2.5")),
    "HS401": (Twin('"a.#"', '"a.*"'), Twin('t -> r: "a"', "")),
    "HS402": (Twin("a#b", "a.#.b"),),
    "HS403": (Twin('"a."', '"a"'),),
    "HS404": (Twin("#.a.#.b.#", "#.a.#"),),
    "HS406": (Twin("sensor/+/heat", "sensor.*.heat"),),
    "HS407": (Twin("a .b", "a.b"),),
    "HS408": (Twin('"order"', '"other"'),),
    "HS501": (Twin("any", "any-with-x"), Twin("x-a", "a"), Twin("any", "all")),
    "HS502": (Twin("h -> q", "h -> q: all { a = 1 }"), Twin("headers", "fanout")),
    "HS503": (Twin("all", "all-with-x"), Twin("x-b", "b")),
    "HS505": (Twin('"1"', '"2"'), Twin('a = "1"', 'b = "1"'), Twin('"1"', "1")),
    "HS601": (Twin("x-plugin", "fanout"),),
    "HS604": (Twin('"1", "2"', '"1"'), Twin("x-consistent-hash", "x-random")),
    "HS605": (Twin("-5", "5"),),
    "HS606": (Twin("lenght", "length"),),
    "HS607": (Twin("x-owner", "x-expires"),),
    "HS709": (Twin("-dlx", ""), Twin("quorum", "classic")),
    "HS701": (Twin("'('", "'q'"),),
    "HS702": (Twin("^gone", "^q"),),
    "HS703": (
        Twin("priority 1", "priority 0"),
        Twin("'', queues", "'', exchanges"),
        Twin("queue q\n", "queue q\nqueue qx\n", "queue q\npolicy p: '^q', queues, expires = 1\n"
             "policy o: '^q$', queues, priority 1, expires = 2"),
    ),
    "HS704": (
        Twin("o: 'q$', queues", "o: 'q$', queues, priority 1"),
        Twin("'q$'", "'r$'"),
        Twin("'q$', queues", "'q$', exchanges"),
        Twin("^none$", "^q$", TIED),
    ),
    "HS706": (Twin("(a)\\1", "a"),),
    "HS707": (Twin('ha-mode = "all"', "expires = 1"),),
    "HS708": (
        Twin("delivery-limit = 5, ", ""),
        Twin("queue q\n", "queue q: quorum\n"),
        Twin(", message-ttl = 5", ""),
        Twin("'q', queues", "'q', quorum_queues"),
    ),
    "HS801": (Twin('"a.b.c"', '"a.b"'),),
    "HS902": (
        Twin("shards-per-node = 2", 'federation-upstream = "u"'),
        Twin("x-modulus-hash", "x-consistent-hash"),
        Twin("\npolicy", '\nqueue "sharding: s - rabbit@a - 0"\ns -> "sharding: s - rabbit@a - 0"\npolicy'),
    ),
}  # fmt: skip

CASES = [(code, twin) for code, twins in TWINS.items() for twin in twins]


def find(code: str, text: str) -> Counter[object]:
    """Return what the rule's findings are about: names, and the ends of bindings."""
    document = Document.loads(text)
    findings = check(document.topology(), document.expectations(), optional=["HS205", "HS323", "HS324"])
    parts = [finding.part for finding in findings if finding.code == code]
    return Counter(p[:2] if isinstance(p, Binding) else getattr(p, "name", None) for p in parts)


def test_every_rule_has_a_twin() -> None:
    assert TWINS.keys() == WRITTEN.keys()


@with_each(("code", "twin"), CASES)
def test_a_rule_is_silent_about_the_twin_of_what_it_finds(code: str, twin: Twin) -> None:
    """And finds nothing new."""
    text = WRITTEN[code][0] if twin.text is None else twin.text
    assert text.count(twin.old) == 1
    assert find(code, text.replace(twin.old, twin.new)) < find(code, text)
