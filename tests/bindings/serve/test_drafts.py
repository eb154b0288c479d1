"""Edits of a draft obey the broker's rules, and the source is never changed."""

import pytest

from bindings.serve import drafts as subject
from bindings.serve.drafts import MAX_DRAFTS, Drafts, EditError, edit
from bindings.serve.watching import SourceReading
from bindings.sources.document import Document
from bindings.sources.open import Source
from exchange import Topology
from exchange.errors import InputError

ORDERS = """exchange orders: topic
queue billing
orders -> billing: "order.#", "paid"
policy p: "^orders", exchanges, alternate-exchange = "amq.fanout"
"""


def orders() -> Topology:
    return Document.loads(ORDERS).topology()


def reading(text: str = ORDERS) -> SourceReading:
    return SourceReading(1, Source("orders.bindings", Document.loads(text)), None)


@pytest.mark.parametrize(
    ("statement", "added"),
    [
        ("+ queue audit", "queue audit"),
        ("+exchange archive: fanout, internal", "exchange archive: fanout, internal"),
        ('+ orders -> billing: "a", "b"', 'orders -> billing: "a", "b"'),
        ('+ policy q: "x", queues, max-length = 5', 'policy q: "x", queues, max-length = 5'),
    ],
)
def test_an_edit_adds_what_the_statement_would_add_to_the_file(statement: str, added: str) -> None:
    assert edit(orders(), [statement]) == Document.loads(ORDERS + added).topology()


@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ('- orders -> billing: "paid"', ORDERS.replace(', "paid"', "")),
        (
            "- queue billing",
            ORDERS.replace("queue billing\n", "").replace('orders -> billing: "order.#", "paid"\n', ""),
        ),
        ("- exchange orders", ORDERS.partition("\n")[2].replace('orders -> billing: "order.#", "paid"\n', "")),
        ("- policy p", ORDERS.partition("policy")[0]),
    ],
)
def test_an_edit_deletes_by_name_and_unbinds(statement: str, left: str) -> None:
    assert edit(orders(), [statement]) == Document.loads(left).topology()


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("", "begins with"),
        ("queue q", "begins with"),
        ("+", "begins with"),
        ("+ # nothing", "declares nothing"),
        ("+ exchange", "expected a name"),
        ("- queue other", "no queue 'other'"),
        ("- exchange other", "no exchange 'other'"),
        ('- orders -> billing: "other"', "no such binding"),
        ('+ orders -> other: "k"', "404"),
        ("+ exchange orders: fanout", "406"),
        ("+ exchange amq.mine: fanout", "403"),
        ("- exchange amq.topic: topic", "declares nothing|predeclared|amq"),
        ('+ vhost "/other"', "virtual host|nothing"),
        ('+ expect orders "k" unroutable', "virtual host|nothing"),
    ],
)
def test_what_the_broker_or_the_language_refuses_is_an_error(statement: str, text: str) -> None:
    with pytest.raises(EditError, match=text):
        edit(orders(), [statement])


def test_a_draft_is_a_text_and_edits_and_equal_ones_have_one_id() -> None:
    drafts, base = Drafts(), reading()
    one = drafts.make(base, "/", None, ["+ queue audit"])
    assert drafts.make(base, "/", None, ["+ queue audit"]) == one
    other = drafts.make(base, "/", "queue alone", ["+ queue audit"])
    assert other != one
    found = drafts.find(other)
    assert found is not None
    assert sorted(found.topology.queues) == ["alone", "audit"]
    assert list(base.view("/").topology.queues) == ["billing"]


def test_the_edit_that_is_wrong_is_named() -> None:
    with pytest.raises(EditError, match="404") as caught:
        Drafts().make(reading(), "/", None, ["+ queue audit", '+ nowhere -> audit: "k"'])
    assert caught.value.number == 1


def test_the_draft_that_was_not_used_for_longest_goes_first() -> None:
    drafts, base = Drafts(), reading()
    first, second = (drafts.make(base, "/", None, [f"+ queue q{n}"]) for n in range(2))
    for n in range(2, MAX_DRAFTS + 1):
        drafts.make(base, "/", None, [f"+ queue q{n}"])
        assert drafts.find(second) is not None
    assert drafts.find(first) is None


def test_large_drafts_go_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MAX_BINDINGS", 5)
    drafts, base = Drafts(), reading()
    first, second, third = (drafts.make(base, "/", None, [f"+ queue q{n}"]) for n in range(3))
    assert [drafts.find(each) is not None for each in (first, second, third)] == [False, True, True]


def test_a_text_without_the_virtual_host_is_refused() -> None:
    with pytest.raises(InputError, match="virtual host"):
        Drafts().make(reading('vhost "/shop"\nqueue q\n'), "/shop", 'vhost "/else"\nqueue q\n', [])
