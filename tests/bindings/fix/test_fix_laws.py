"""What a fix promises, held against the router: the same routes, nothing else changed, nothing for a second time."""

from __future__ import annotations

import json
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from bindings.fix.fix import FindingFix, fix_text
from bindings.sources.definitions import Definitions
from bindings.sources.document import Document
from bindings.sources.language.formatter import format_text
from bindings.sources.open import read_source
from exchange import Message, Policy, Router, Topology
from exchange.entities.releases import LATEST_PROFILE
from exchange.errors import BrokerError
from tests.bindings.checking.test_check_laws import small
from tests.support import topologies
from tests.support.tiers import examples

SETTINGS = examples(60)
WORDS = ("a", "b", "*", "#", "{v}")
EXCHANGES = ("t", "u", "d", "f", "i", "h")
QUEUES = ("q", "r", "s")
HEAD = """\
exchange t: topic, alternate f
exchange u: topic
exchange d: direct
exchange f: fanout
exchange i: topic, internal   # an internal one
exchange h: headers
queue q
queue r  # a comment
queue s

let both = a, b
"""
ITEMS = ("both", '"a"', "a, c")
COMMENTS = ("# why", "#x", "# outer", "# inner", "# end")
CONDITIONS = ("all { k = 1 }", "any { k = 1, l = 2 }", "any {}", 'all { k = 1, "x-a" = "{v}" }')

PLAIN_KEYS = st.lists(st.sampled_from(WORDS), min_size=0, max_size=3).map(".".join)


@st.composite
def statements(draw: st.DrawFn, indent: str = "") -> str:
    """Draw a binding statement of several destinations and keys, in one line or several, with comments."""
    source = draw(st.sampled_from(EXCHANGES))
    names = draw(st.lists(st.sampled_from((*QUEUES, "exchange u", "exchange d", "exchange t")), min_size=1, max_size=3))
    if source == "h":
        keys = draw(st.lists(st.sampled_from(CONDITIONS), max_size=3))
    else:
        keys = [f'"{key}"' for key in draw(st.lists(PLAIN_KEYS, max_size=4))]
    comment = draw(st.sampled_from(("", "  # why", "#x")))
    if not keys:
        return f"{indent}{source} -> {', '.join(names)}{comment}"
    if draw(st.booleans()):
        return f"{indent}{source} -> {', '.join(names)}: {', '.join(keys)}{draw(st.sampled_from(('', ',')))}{comment}"
    rows = f",{comment}\n{indent}    ".join(keys)
    return f"{indent}{source} -> {', '.join(names)}:\n{indent}    {rows}{comment}"


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Draw a .bindings text with loops in loops, blank lines and comments."""
    lines = [HEAD]
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(("plain", "plain", "for", "nested", "blank")))
        if kind == "plain":
            lines.append(draw(statements()).replace("{v}", "a"))
        elif kind == "for":
            lines += [f"for v in {draw(st.sampled_from(ITEMS))}:", draw(statements("  ")), "  # end"]
        elif kind == "nested":
            lines += ["for w in both:  # outer", "    # inner", "    for v in both:", draw(statements("        "))]
        else:
            lines.append("")
    return "\n".join(lines) + draw(st.sampled_from(("", "\n", "\n\n")))


def fix(text: str, name: str) -> tuple[str, list[FindingFix], list[FindingFix]]:
    """Return the fixed text, what was fixed and what was not."""
    return fix_text(text, name, seconds=2)


def routes(topology: Topology, rng: Random) -> list[object]:
    """Return the routes of random messages, among them some with headers, CC and BCC."""
    router = Router(topology, choose=lambda n: 0)
    names = [name for name, exchange in sorted(topology.exchanges.items()) if name and not exchange.internal]
    found: list[object] = []
    for _ in range(80):
        key = ".".join(rng.choice(("a", "b", "c", "*")) for _ in range(rng.randint(0, 4)))
        headers = {name: rng.choice((1, 2, "a")) for name in ("k", "l", "x-a") if rng.random() < 0.4}
        for name in ("CC", "BCC"):
            if rng.random() < 0.3:
                headers[name] = [".".join(rng.choice("abc") for _ in range(rng.randint(1, 3))) for _ in range(2)]  # type: ignore[assignment]
        found.append(route(router, Message(rng.choice(names), key, headers)))
    return found


def route(router: Router, message: Message) -> object:
    """Return the queues of a message, or the refusal of the broker."""
    try:
        return sorted(router.route(message).queues)
    except BrokerError as error:
        return str(error)


@SETTINGS
@given(texts(), st.integers(0, 2**32))
def test_a_fixed_text_routes_as_before(text: str, seed: int) -> None:
    """And its declarations, comments and loops stay; a second fix changes nothing."""
    before = Document.loads(text).topology()
    fixed, done, left = fix(text, "x.bindings")
    after = Document.loads(fixed).topology()
    assert routes(before, Random(seed)) == routes(after, Random(seed))
    assert set(after.bindings) <= set(before.bindings)
    assert after.queues == before.queues
    assert all(change.obstacle for change in left)
    assert bool(done) == (fixed != text)
    if not any("undecided" in change.obstacle for change in left):  # which depends on the time
        again, done, still = fix(fixed, "x.bindings")
        assert (again, done) == (fixed, [])
        assert [change.message for change in still] == [change.message for change in left]
    assert [fixed.count(comment) for comment in COMMENTS] == [text.count(comment) for comment in COMMENTS]
    format_text(fixed)


@SETTINGS
@given(st.integers(0, 2**32))
def test_fixed_definitions_route_as_before(seed: int) -> None:
    """Of every type of exchange, with policies and alternates; the text that stays is as it was."""
    rng = Random(seed)
    before = topologies.topology(rng, LATEST_PROFILE)
    text = Definitions().with_topology(before).dump()
    fixed, done, left = fix(text, "x.json")
    after = read_source(fixed.encode(), "x.json").topology(before.vhost)
    assert routes(before, Random(seed)) == routes(after, Random(seed))
    old, new = json.loads(text), json.loads(fixed)
    assert old.keys() == new.keys()
    for key, value in old.items():
        entries = iter(value) if isinstance(value, list) else None
        assert new[key] == value if entries is None else all(entry in entries for entry in new[key])  # a subsequence
    assert bool(done) == (fixed != text)
    if not any("undecided" in change.obstacle for change in left):  # which depends on the time
        assert fix(fixed, "x.json")[:2] == (fixed, [])


@examples(20)
@given(st.integers(0, 2**32))
def test_an_operator_policy_about_lengths_hinders_no_fix(seed: int) -> None:
    before = topologies.topology(Random(seed), LATEST_PROFILE)
    limit = Policy("limit", ".", {"max-length": 9}, operator=True)
    both = before, before.with_parts(policies=[*before.all_policies, limit])
    done, done_below = (fix(Definitions().with_topology(each).dump(), "x.json")[1] for each in both)
    assert [change.message for change in done] == [change.message for change in done_below]


@SETTINGS
@given(small(alternates=True, kinds=("topic", "topic", "direct", "fanout", "headers")), st.integers(0, 2**32))
def test_a_fix_of_exchanges_that_feed_each_other_changes_no_route(topology: Topology, seed: int) -> None:
    """With circles, internal exchanges and alternates, written as definitions and as a document."""
    text = Definitions().with_topology(topology).dump()
    fixed, _, _ = fix(text, "x.json")
    after = read_source(fixed.encode(), "x.json").topology()
    assert routes(topology, Random(seed)) == routes(after, Random(seed))
    document = Document.of_definitions(Definitions.loads(text)).dump()
    fixed, _, _ = fix(document, "x.bindings")
    assert routes(topology, Random(seed)) == routes(Document.loads(fixed).topology(), Random(seed))
