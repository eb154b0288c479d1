"""The law of advice: what a finding suggests, written where it says, ends the finding and makes no other."""

from __future__ import annotations

import json
import os
import re
from random import Random
from typing import Any

from bindings.checking.source import check_source
from bindings.sources.open import read_source
from exchange.errors import InputError
from tests.support.tiers import scale

NAMES = ("orders", "billing", "invoices", "shipments", "warehouse", "customers")
SUGGESTED = re.compile(r"did you mean '([^']+)'")


def sound(rng: Random) -> dict[str, Any]:
    """Return definitions about which `check` finds no error and no argument without effect."""
    exchange, other, queue, dead = rng.sample(NAMES, 4)
    return {
        "rabbitmq_version": rng.choice(("3.13.7", "4.0.5", "4.3.6")),
        "exchanges": [
            {"name": exchange, "type": rng.choice(("topic", "headers", "direct")), "durable": True,
             "arguments": {"alternate-exchange": other}},
            {"name": other, "type": "fanout", "durable": True},
        ],
        "queues": [
            {"name": queue, "durable": True, "auto_delete": False, "arguments": {
                "x-queue-type": "quorum", "x-dead-letter-exchange": other, "x-message-ttl": 5000, "x-max-length": 50,
                "x-overflow": "reject-publish", "x-delivery-limit": 5}},
            {"name": dead, "durable": True, "auto_delete": False, "arguments": {"x-max-priority": 5}},
        ],
        "bindings": [
            {"source": exchange, "destination": queue, "destination_type": "queue", "routing_key": "a",
             "arguments": {"x-match": "all", "kind": "new"}},
            {"source": other, "destination": dead, "destination_type": "queue", "routing_key": "", "arguments": {}},
        ],
        "policies": [{"name": "p", "pattern": f"^{dead}$", "apply-to": "classic_queues", "priority": 0,
                      "definition": {"message-ttl": 1000, "dead-letter-exchange": other, "max-length-bytes": 500}}],
    }  # fmt: skip


def texts_in(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], str]]:
    """Return the place and text of each name that may be misspelt: keys of entries and arguments, ends, values."""
    found: list[tuple[tuple[Any, ...], str]] = []
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(item, dict | list):
            found += texts_in(item, (*place, key))
        elif isinstance(item, str) and key not in ("name", "pattern", "routing_key", "rabbitmq_version", "kind"):
            found.append(((*place, key), item))
        is_entry = len(place) == 2
        if is_entry or (place and place[-1] in ("arguments", "definition") and key != "kind"):
            found.append(((*place, key, None), str(key)))
    return found


def with_text(document: dict[str, Any], place: tuple[Any, ...], text: str) -> dict[str, Any]:
    """Return the definitions with another text at a place; a place that ends with None is that of a key."""
    changed: dict[str, Any] = json.loads(json.dumps(document))
    *way, last = place[:-1] if place[-1] is None else place
    table: Any = changed
    for key in way:
        table = table[key]
    if place[-1] is None:
        items = [(text if key == last else key, item) for key, item in table.items()]
        table.clear()
        table.update(items)
    else:
        table[last] = text
    return changed


def misspelt(rng: Random, text: str) -> str:
    at = rng.randrange(1, len(text) - 1)
    return rng.choice((text[:at] + text[at + 1] + text[at] + text[at + 2 :], text[:at] + text[at + 1 :]))


def messages_of(document: dict[str, Any]) -> set[tuple[str, str]]:
    report = check_source(read_source(json.dumps(document).encode(), "definitions.json"))
    return {(each.code, each.message) for of in report.vhosts for each in of.findings}


def test_following_what_a_finding_suggests_ends_it_and_finds_nothing_new() -> None:
    """``HASHSTAR_ADVICE=20000`` tries that many files."""
    followed, count = 0, int(os.environ.get("HASHSTAR_ADVICE", "0")) or scale(600)
    for seed in range(count):
        rng = Random(seed)
        document = sound(rng)
        before = messages_of(document)
        place, text = rng.choice(texts_in(document))
        wrong = misspelt(rng, text)
        if wrong == text:
            continue
        try:
            found = messages_of(with_text(document, place, wrong)) - before
        except InputError:
            continue  # the reader refuses the file, with what is wrong
        for code, message in found:
            if suggested := SUGGESTED.search(message):
                followed += 1
                after = messages_of(with_text(document, place, suggested[1]))
                assert (code, message) not in after
                assert after <= before, (place, wrong, message, after - before)
    assert followed > count // 4
