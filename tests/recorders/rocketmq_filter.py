"""Record what RocketMQ's SQL92 filter makes of expressions: ``python -m tests.recorders.rocketmq_filter``.

The real `SelectorParser` parses each expression of a generated corpus, and what it parsed is evaluated with each of
some maps of properties. Of an expression that it refuses the answer is null, else a character for each map: ``t`` true,
``f`` false, ``n`` null, ``x`` an exception.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from random import Random
from typing import Final

from tests.recorders import golden
from tests.recorders.jvm import ask, find_classpath

VERSIONS: Final = ("4.9.7", "5.1.3", "5.5.0")
HERE: Final = Path(__file__).parent

NAMES: Final = ("a", "b", "c", "price", "region", "$x", "_y1", "now", "Not1", "contains", "missing")
VALUES: Final = (
    "5", "05", "+5", "-3", "--5", "5.0", "5.", ".5", "1e3", "1E-400", "1e400", " 5", "5 ", "\t5", "\u00a05", "", " ",
    "0", "-0", "-0.0", "0.0", "abc", "ab", "b", "eu", "Eu", "it's", "'", "true", "TRUE", "tRuE", "false",
    "yes", "null",
    "NaN", "-NaN", "Infinity", "-Infinity", "+Infinity", "inf", "nan", "0x1p3", "0x.8p1", "0x1", "-0x1.8p-2f",
    "1d", "1f",
    "5L", "1_000", "1,000", "3000000000", "2147483647", "2147483648", "-2147483648", "-2147483649",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "00000000000000000000000000000000000000000000000000000000000000000000000005", "\u0665", "\uff15", "\U0001d7d3",
    "\u06f1\u06f2", "gr\u00fc\u00df", "\U0001f600", "\U0001f600x", "*", "%", "a b", "4.9", "10", "9", "100000000000",
    "1.7976931348623157E308", "4.9E-324", "2.5", "-1.5",
)  # fmt: skip
NUMBERS: Final = (
    "0", "1", "5", "05", "007", "10", "5L", "5l", "0L", "2147483647", "2147483648", "3000000000",
    "9223372036854775807",
    "9223372036854775808", "99999999999999999999999999", "1.5", "2.5", "5.", ".5", "5.0", "0.0", ".0", "0e5", "1e3",
    "1E3", "5E", "5E+", "1e-400", "1e400", "1.7976931348623157E308", "1.8E308", "4.9e-324", "1e+2", "05.5",
    "1.2.3", "12L",
)  # fmt: skip
TEXTS: Final = (
    "'eu'", "'Eu'", "'abc'", "'b'", "''", "''''", "'it''s'", "'5'", "'5.0'", "'true'", "'%'", "' 5'",
    "'gr\u00fc\u00df'",
    "'\U0001f600'", "'a b'", "'-- x'", "'/* x */'",
)  # fmt: skip
TOKENS: Final = (
    *NAMES, *NUMBERS, *TEXTS, "AND", "or", "NOT", "is", "NULL", "in", "BETWEEN", "contains", "STARTSWITH", "endsWith",
    "TRUE", "false", "=", "<>", "<", "<=", ">", ">=", "(", ")", ",", "+", "-", "--", "like", "==", "!=", "!",
    "&&", "||",
    ";", ".", "%", "*", "/", '"x"', "'open", "/* c */", "/**/", "/* open", "-- c\n", "-- c\r\n", "--\r", "-- c", "\n",
    "\f", "\u00a0", "gr\u00fc\u00df", "K", "i\u017f",
)  # fmt: skip
WRITTEN: Final = (
    "", " ", "a", "a like 'x%'", "a-b = 1", "a = 05", "not a = 5", "NOT (a = 5)", "not a is null", "not a in ('b')",
    "(a) in ('b')", "((a))", "a = 5 = true", "a is null is null", "a = NULL", "NULL", "NULL is null", "TRUE",
    "not TRUE",
    "TRUE = a", "a = TRUE", "true = 5", "5 = true", "a <> b", "a = b", "a > b", "a >= b", "a < -b", "-a > 5",
    "- -5 < a",
    "--5 < a", "a between 5 and 1", "a not between 5 and 1", "a between -1 and -5", "a between 'a' and 'b'",
    "a between null and 5", "a between 1 and 2.5", "a between b and c", "a contains ''", "a not contains ''",
    "5 contains '5'", "'abc' contains 'b'", "(a = 5) contains 'x'", "a contains b", "a in ()", "a in ('5',)",
    "a in (5)",
    "a in ('5') or b", "a not in ('5','6','7','8','9','10')", "a = 5 -- c", "a = 5 -- c\n and b = 5", "a = 5 --\n",
    "a /* x */ = /**/ 5", "a = 5 /* x", "a = 5 /* x **/ and b = 6", "a = 5;", "a = 5 ;", "a = 5 b ;",
    "a = 5 )", "(a = 5",
    "a = 5 ! b", "a == 5", "a != 5", "a = 5 AND", "and", "a AND b OR c", "a = 5 and (b = 5 or c = 5)", "+a = 5",
    "+ + a = 5", "+(a = 5)", "-(a = 5) = 5", "a > -(b = 5)", "a = -(b = 5)", "a > 'x'", "a > true", "a > null",
    "a > (b = 1)", "a > 1 > 2", "1 < a", "1 = a", "'eu' = a", "5 > 3", "5 = 5.0", "5 = '5'", "'5' = 5", "'x' = 5",
    "'5' = '5'", "a.b = 5", "a .5", "a = .5.5", "a.5 = 3", "a = 'it''s'", "a = 'it''", "a = 'x' 'y'", "now > 1",
    "NOT NOT a = 5", "a is not null and a > 5", "a is not", "a is 5", "a not 5", "a not", "a is null = b is null",
    "a startswith 'e' endswith 'u'", "notx = 5", "NoT a", "i\u017f = 5", "a i\u017f null", "a = 1 && b = 2", "a || b",
    "a = 2147483648", "a = 2147483647", "a = 9223372036854775807", "a = -9223372036854775808", "a <> 5.0", "a = 0.0",
    "a = NaN", "a > 1e400", "a > 4.9e-324", "a > 1e-400", "a = '\n'", "\ta\n=\r5\f", "a =\u00a05", "a\u0000 = 5",
    "a > 5 and b > 5 and c > 5", "a > 5 or b > 5 or c > 5", "a > 5 or b = 'x' and c < 5", "(a > 5 and b) or c = 5",
    "TAGS in ('a', 'b')", "$x = '5'", "_y1 = '5'", "a = (5)", "(a) = (5)", "((a > 5))", "(5) < (a)",
)  # fmt: skip


def _value(random: Random) -> str:
    roll = random.random()
    if roll < 0.55:
        return random.choice(NAMES[:9])
    if roll < 0.85:
        return random.choice(("", "", "", "-", "+", "- ")) + random.choice(NUMBERS)
    return random.choice((*TEXTS, "TRUE", "false", "NULL"))


def _condition(random: Random, depth: int) -> str:
    roll = random.random()
    name, number = random.choice(NAMES), random.choice(NUMBERS)
    if depth and roll < 0.35:
        joined = f" {random.choice(('AND', 'and', 'OR', 'Or'))} "
        text = joined.join([_condition(random, depth - 1) for _ in range(random.choice((2, 2, 3)))])
        return f"({text})" if random.random() < 0.6 else text
    if depth and roll < 0.45:
        return f"NOT ({_condition(random, depth - 1)})"
    if roll < 0.55:
        return f"{name} {random.choice(('=', '<>'))} {random.choice((*TEXTS, 'TRUE', 'false', 'b'))}"
    if roll < 0.7:
        return f"{name} {random.choice(('=', '<>', '<', '<=', '>', '>='))} {random.choice(('', '', '-'))}{number}"
    negation = random.choice(("", "", "NOT "))
    if roll < 0.76:
        return f"{name} {negation}IN ({', '.join(random.choices(TEXTS, k=random.choice((1, 2, 6))))})"
    if roll < 0.82:
        word = random.choice(("CONTAINS", "StartsWith", "endswith"))
        return f"{name} {negation}{word} {random.choice(TEXTS)}"
    if roll < 0.87:
        return f"{name} IS {negation}NULL"
    if roll < 0.91:
        low, high = (random.choice(("1", "2.5", "5", "10", "b", "-3", "3000000000")) for _ in range(2))
        return f"{name} {negation}BETWEEN {low} AND {high}"
    compared = random.choice(("=", "<>", "<", ">=", "=", "IS NULL"))
    return f"{_value(random)} {compared}" + (f" {_value(random)}" if compared != "IS NULL" else "")


def _mutate(random: Random, text: str) -> str:
    words = text.split(" ")
    at = random.randrange(len(words))
    roll = random.random()
    if roll < 0.3:
        del words[at]
    elif roll < 0.7:
        words.insert(at, random.choice(TOKENS))
    else:
        words[at] = random.choice(TOKENS)
    return " ".join(words)


def _expressions(count: int) -> tuple[str, ...]:
    random = Random(92)
    made = dict.fromkeys(WRITTEN)
    while len(made) < count:
        text = _condition(random, random.choice((0, 1, 1, 2)))
        roll = random.random()
        if roll < 0.1:
            text = random.choice(("", " ")).join(random.choices(TOKENS, k=random.randint(1, 8)))
        elif roll < 0.3:
            text = _mutate(random, text)
        made[text] = None
    return tuple(made)


def _properties(count: int) -> tuple[dict[str, str], ...]:
    random = Random(93)
    made: list[dict[str, str]] = [{}]
    while len(made) < count:
        values = VALUES if len(made) > count // 3 else ("5", "9", "10", "2.5", "eu", "abc", "true")
        made.append({name: random.choice(values) for name in NAMES[:-1] if random.random() < 0.8})
    return tuple(made)


EXPRESSIONS: Final = _expressions(4_000)
PROPERTIES: Final = _properties(16)
DIGEST: Final = hashlib.sha256(json.dumps([EXPRESSIONS, PROPERTIES]).encode()).hexdigest()
"""Digest of the corpus, so that a recording of another one is noticed."""


def main() -> None:
    """Record each version."""
    for version in VERSIONS:
        jars = find_classpath(f"org.apache.rocketmq:rocketmq-filter:{version}")
        question = {"expressions": EXPRESSIONS, "properties": PROPERTIES}
        answers = {"corpus": DIGEST, "answers": ask(HERE / "RocketmqFilter.java", jars, question)}
        golden.write(f"rocketmq-filter-{version}", "rocketmq-filter SelectorParser", version, answers)


if __name__ == "__main__":
    main()
