"""Public values can be hashed, compared, copied and pickled, whatever they were made of."""

from __future__ import annotations

from exchange import Binding, Destination, Exchange, FieldTable, Policy, Queue


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
