"""A topology as text whose lines have every state that a line can have; each has the name of its state in a comment."""

from __future__ import annotations

from datetime import date
from typing import Final

from bindings.report.thresholds import Ignore

ALL_STATES: Final = """\
exchange orders: topic
exchange silent: fanout
exchange odd: x-of-our-own
queue billing
for region in eu, us:
    queue stock-{region}
    orders -> stock-{region}: "order.{region}.paid"  # partial
orders -> billing:
    "order.*.created",  # hit
    "order.*.refunded",  # never
    "invoice.#"  # ignored
silent -> billing  # unreached
odd -> billing: "k"  # not eligible
"""

ALL_STATES_KEYS: Final = ("order.eu.paid", "order.eu.created", "order.us.created", "order.us.lost")

ALL_STATES_IGNORED: Final = Ignore("*", "*", "invoice.#", "once a year", date(2030, 1, 1))
