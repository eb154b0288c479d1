"""A fingerprint is of a code and its object: findings do not share it, and the order of a file does not change it."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.checking.check import find_all
from bindings.checking.fingerprint import OBJECTS, compute_fingerprint
from bindings.checking.rules.finding import Finding
from bindings.checking.rules.table import RULES
from bindings.sources.document import Document
from exchange import Binding, Topology
from exchange.entities.releases import PROFILES
from tests.bindings.checking.test_check import OF_APPLICATIONS, OF_FILES, document_of
from tests.bindings.checking.test_check_laws import small
from tests.support import topologies
from tests.support.tiers import examples

CODES = [code for code in RULES if code not in OF_FILES and code not in OF_APPLICATIONS]


def findings(topology: Topology, code: str = "") -> list[Finding]:
    optional = ["HS205", "HS323", "HS324"]
    return [finding for finding in find_all(topology, optional=optional) if finding.code.startswith(code)]


def reorder(topology: Topology, rng: Random) -> Topology:
    """Return the topology with its parts in another order; that of policies decides, and stays."""
    exchanges, queues, bindings = ([*parts] for parts in (topology.exchanges, topology.queues, topology.bindings))
    for parts in (exchanges, queues, bindings):
        rng.shuffle(parts)
    return Topology(
        [topology.exchanges[name] for name in exchanges],
        [topology.queues[name] for name in queues],
        bindings,
        topology.policies.values(),
        profile=topology.profile,
    )


@examples(60)
@given(small(alternates=True), st.randoms(use_true_random=False))
def test_no_two_findings_have_one_fingerprint(plain: Topology, rng: Random) -> None:
    """Of topologies of a few exchanges, and of such with headers, hashes, policies and odd names."""
    for topology in (plain, topologies.topology(rng, rng.choice(list(PROFILES.values())))):
        found = Counter(compute_fingerprint("/", finding) for finding in findings(topology))
        assert found.total() == len(found)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("HS503", "exchange h: headers\nqueue q\nh -> q: all { a = 1, x-b = 2, x-c = 3 }"),
        ("HS504", "exchange h: headers\nqueue q\nh -> q: with { X-Match = 1, x_match = 2 }"),
        ("HS506", "exchange h: headers\nqueue q\nh -> q: all { a = !timestamp 1, b = !timestamp 2 }"),
        ("HS505", 'exchange h: headers\nqueue q\nh -> q: all { a = 1, b = 1 }\nh -> q: all { a = "1", b = "1" }'),
        ("HS707", "queue q\npolicy p: 'q', queues, expires = -1, max-length = -1"),
        ("HS704", "queue q\n" + "".join(f"policy {name}: 'q', queues, expires = 1\n" for name in "opr")),
    ],
)
def test_findings_about_one_part_differ_by_their_detail(code: str, text: str) -> None:
    found = findings(Document.loads(text).topology(), code)
    assert len(found) > 1
    assert len({compute_fingerprint("/", finding) for finding in found}) == len(found)


@pytest.mark.parametrize("code", CODES)
def test_a_fingerprint_is_that_of_the_same_finding_in_another_order(code: str) -> None:
    """A broker exports its definitions in any order."""
    topology = document_of(code).topology()
    prints = [compute_fingerprint("/", finding) for finding in findings(topology, code)]
    assert prints or code == "HS801"  # which needs an expectation
    for seed in range(4):
        other = [compute_fingerprint("/", finding) for finding in findings(reorder(topology, Random(seed)), code)]
        assert sorted(other) == sorted(prints)


def test_a_fingerprint_depends_on_code_virtual_host_part_and_detail() -> None:
    a, b = Binding.to_queue("t", "q", "a"), Binding.to_queue("t", "q", "b")
    distinct = [
        compute_fingerprint("/", Finding("HS104", a, "")), compute_fingerprint("/", Finding("HS105", a, "")),
        compute_fingerprint("/v", Finding("HS104", a, "")), compute_fingerprint("/", Finding("HS104", b, "")),
        compute_fingerprint("/", Finding("HS104", a, "", detail="x")),
        compute_fingerprint("/", Finding("HS104", None, "")),
    ]  # fmt: skip
    assert len(set(distinct)) == len(distinct)
    assert compute_fingerprint("/", Finding("HS104", a, "one", "key", (b,), 7)) == distinct[0]


def test_a_missing_exchange_is_one_finding_however_many_bindings_name_it() -> None:
    one, more = Binding.to_queue("gone", "q", "b"), Binding.to_queue("gone", "q", "a")
    for code in ("HS101", "HS108", "HS401"):
        assert compute_fingerprint("/", Finding(code, one, "")) == compute_fingerprint(
            "/", Finding(code, more, "", related=(one,))
        )


def test_objects_are_those_of_codes_that_are_there() -> None:
    assert OBJECTS.keys() <= RULES.keys()
