"""Public values can be hashed, compared, copied and pickled, whatever they were made of."""

from __future__ import annotations

import pickle
from copy import copy
from dataclasses import FrozenInstanceError

import pytest

from exchange import Binding, Destination, Exchange, FieldTable, Message, Policy, Queue
from exchange.values import message as message_module
from exchange.values.message import assemble_message


def test_every_part_with_arguments_takes_any_mapping_and_freezes_it() -> None:
    """What the caller does with the mapping later is not seen, and the part can be hashed."""
    given = {"k": 1}
    destination = Destination("queue", "q")
    tables = [
        Exchange("t", arguments=given).arguments,
        Queue("q", arguments=given).arguments,
        Policy("p", ".*", given).definition,
        Binding("t", destination, "k", given).arguments,
        Binding("t", destination, "k")._replace(arguments=given).arguments,  # type: ignore[arg-type]
        Binding.to_queue("t", "q", "k", given).arguments,
        Binding.to_exchange("t", "q", "k", given).arguments,
    ]
    given["k"] = 2
    assert [(type(table), table) for table in tables] == [(FieldTable, {"k": 1})] * len(tables)
    assert len({hash(table) for table in tables}) == 1
    assert len({Policy("p", ".*", {"k": 1}), Policy("p", ".*", {"k": 1}), Policy("p", ".*", {"k": 2})}) == 2


@pytest.mark.parametrize("free_threaded", [False, True])
def test_an_assembled_message_is_as_one_that_was_constructed(
    free_threaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_module, "FREE_THREADED", free_threaded)
    made = Message("e", "k", {"a": 1}, {"type": "t"}, b"body")
    assembled = assemble_message(made.exchange, made.routing_key, made.headers, made.properties, made.body)
    assert type(assembled) is Message
    assert assembled == made == pickle.loads(pickle.dumps(assembled)) == copy(assembled)  # noqa: S301
    assert hash(assembled) == hash(made)
    assert repr(assembled) == repr(made)
    with pytest.raises(FrozenInstanceError):
        assembled.body = b"other"  # type: ignore[misc]
