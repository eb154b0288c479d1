"""Record which names policies apply to: ``python -m tests.recorders.policy_patterns AMQP-URL MANAGEMENT-URL ...``.

Writes tests/golden/rabbitmq-patterns-RELEASE.json for each pair of addresses. Of each pattern a policy is set by the
management API, and the queues to which the broker applies it are kept; None where the broker refuses the pattern.
"""

from __future__ import annotations

import sys
from typing import Final
from urllib.error import HTTPError
from urllib.parse import quote

import pika

from tests.recorders import golden
from tests.support.differential import manage
from tests.support.servers import Server, amqp_version

POLICY: Final = "hashstar-pattern"
LONG: Final = "a" * 40

NAMES: Final = (
    "orders", "ORDERS", "Orders-eu", "orders.created", "two.one", "a", "ab", "abc", "aab", "a.b", "a-b", "a_b", "a b",
    "0", "42", "é", "É", "à-la-carte", "ß", "\N{ARABIC-INDIC DIGIT THREE}", "x.y.z", "a*b", "[a]", f"{LONG}!", LONG,
    "a\tb", "\\", "a{,2}", "-", "a" * 250,
)  # fmt: skip

PATTERNS: Final = (
    "", "^orders$", "^orders", "s$", "^two\\.", "orders|a", "^(?!a)", "^(?!amq\\.).*", "^(?!.*eu)", "(?<=a)b", "(?<!a)b",
    "^[[:alpha:]]+$", "^[[:alnum:]_]+$", "[[:^alpha:]]", "[[:upper:]]", "[[:space:]]", "[[:punct:]]", "^[[:word:]]+$",
    "[[:nonsense:]]", "[:alpha:]", "ord(?i)ERS", "(?i)orders", "(?i:ORD)ers", "(?-i)orders", "(?i)É", "(?i)é",
    "(?<n>ab)c", "(?P<n>ab)c", "(?'n'ab)c", "\\Qa.b\\E", "\\Qa*b\\E$", "^\\Q[a]\\E$", "\\Q", "a\\z", "b\\Z", "\\Aa",
    "^\\p{L}+$", "\\p{Lu}", "^\\pL$", "\\P{L}", "\\h", "\\H\\h", "\\v", "\\N\\N", "\\R", "(?|a|b)c", "(?|(a)|(b))c",
    "^\\d+$", "^\\w+$", "\\W", "\\s", "^.$", "^..$", "^\\S+$", "a++b", "a*+a", "(?>a|ab)c", "(?>ab|a)c", "a?+b", "[a-c]++$",
    "^a{2}b", "^a{2,}$", "^a{0,1}b", "a{,2}", "a{2", "a{x}", "a{1}?b", "\\bb\\b", "a\\Bb", "^[^.]+$", "^[]a[]+", "[\\w.-]z",
    "[\\w-.]", "[a\\-b]-", "[.-_]", "^[\\x61\\x62]+$", "\\x{e9}", "\\xc3", "\\xe9", "\\x61b", "\\0", "\\t", "\\141b",
    "(?#comment)^ab$", "(?s)a.b", "(?m)^a$", "(?x) a b c ", "(a)\\1b", "(?R)?a", "(a)(?(1)b|c)", "\\K", "\\Ga", "\\X", "a(*F)",
    "^(a+)+$", "^(a|aa)+$", "(x+x+)+y", "^(a*)*$", "^(\\w+\\s?)*$", "^(a+)+!$", "^(?:a+)+b|a!$", "(.*)*!", "^(a?){20}a{20}$",
    ".*.*.*.*=", "^(([a-z])+.)+[A-Z]([a-z])+$", "(", ")", "[a", "a**", "*", "+a", "a{2,1}", "a{65536}", "a{4294967296}", "[z-a]",
    "\\", "(?", "(?<n>a)(?<n>b)", "(?<=a*)b", "(?<=a|ab)c", "(" * 3_000, "(" * 300 + "a" + ")" * 300, "(" * 40 + "a" + ")" * 40,
    "(a{1,100}){1,100}", "x" * 1_024, "x" * 1_025,
)  # fmt: skip
# ruff: noqa: E501  a table reads best as it is


def apply(server: Server, pattern: str) -> list[str] | None:
    """Set a policy of the pattern; return the names of the queues it is applied to, None when it is refused."""
    body = {"pattern": pattern, "definition": {"max-length": 5}, "apply-to": "queues", "priority": 9}
    try:
        manage(server, "PUT", f"policies/%2F/{POLICY}", body)
    except HTTPError:
        return None
    try:
        found = {
            queue["name"]
            for queue in manage(server, "GET", "queues/%2F?disable_stats=true")
            if queue.get("policy") == POLICY
        }
        return [name for name in NAMES if name in found]
    finally:
        manage(server, "DELETE", f"policies/%2F/{POLICY}")


def declare(server: Server) -> None:
    """Declare the queues."""
    for name in NAMES:
        manage(server, "PUT", f"queues/%2F/{quote(name, safe='')}", {"durable": True})


def delete(server: Server) -> None:
    """Delete the queues."""
    connection = pika.BlockingConnection(pika.URLParameters(server.url))
    channel = connection.channel()
    for name in NAMES:
        channel.queue_delete(name)
    connection.close()


def record(url: str, management_url: str) -> None:
    """Ask one broker, and write its answers."""
    server = Server(url, "argument", amqp_version(url), management_url)
    declare(server)
    try:
        answers = [apply(server, pattern) for pattern in PATTERNS]
    finally:
        delete(server)
    release = ".".join(server.version.split(".")[:2])
    golden.write(f"rabbitmq-patterns-{release}", "RabbitMQ", server.version, {"answers": answers})


if __name__ == "__main__":
    for amqp, management in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        record(amqp, management)
