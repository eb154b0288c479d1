"""Keys of every source, and of a policy."""

from __future__ import annotations

from typing import Final

from bridge.keys import (
    FLAG,
    MAYBE_NUMBER,
    MAYBE_TEXT,
    SECONDS,
    SHARE,
    SIZE,
    TABLE,
    TEXT,
    Key,
    Keys,
    accept_choice,
    accept_matching,
    accept_whole,
)
from bridge.pump.policy import Unroutable

URL: Final = Key(
    "url",
    accept_matching(TEXT, r"(?:amqps?|kafka|rocketmq)://(?:.*@)?[^@/?#]+(?:[/?#].*)?", r"archive:.+"),
    "address: begins with `amqp:`, `amqps:`, `kafka:`, `rocketmq:` or `archive:`",
)
EXCHANGE: Final = Key(
    "exchange", MAYBE_TEXT, "the exchange at which its messages enter the topology", otherwise="the message's own"
)
ROUTING_KEY: Final = Key("routing_key", MAYBE_TEXT, "the routing key with which they do", otherwise="the message's own")
SELECTOR: Final = Key(
    "selector", MAYBE_TEXT, "a filter in SQL92, as in RocketMQ: `\"region = 'eu' AND price > 10\"`", otherwise="all"
)
TAGS: Final = Key("tags", MAYBE_TEXT, r'a filter by tags: `"paid \|\| shipped"`', otherwise="all")
OWN_POLICY: Final = Key("policy", TABLE, "a policy of its own", otherwise="the file's")

SOURCE: Final = Keys((URL, EXCHANGE, ROUTING_KEY, SELECTOR, TAGS, OWN_POLICY))

WINDOW: Final = Key(
    "window",
    accept_whole(least=1),
    "maximum number of messages of a source that are read and not settled; also the maximum that can come twice",
    2_000,
)
WINDOW_BYTES: Final = Key("window_bytes", SIZE, "maximum size of these; a larger message goes alone", "256 MiB")
TRIES: Final = Key(
    "tries",
    accept_whole(least=1),
    "number of refusals after which a message becomes a dead letter; back-pressure is no refusal",
    5,
)
GIVE_UP_AFTER: Final = Key(
    "give_up_after",
    SECONDS,
    'time of back-pressure after which a message becomes a dead letter all the same, `"10 m"`',
    otherwise="never",
)
MAX_DEAD_LETTERS: Final = Key(
    "max_dead_letters",
    SHARE,
    "maximum share of a source's latest messages for one queue that may become dead letters, beyond ten: "
    "[more wait](bridge-operations.md#when-most-messages-become-dead-letters); `1`: any",
    0.5,
)
BACKOFF: Final = Key("backoff", SECONDS, "seconds before the second try; doubles, with jitter", 0.1)
BACKOFF_MOST: Final = Key("backoff_most", SECONDS, "maximum seconds between tries", 30)
RECONNECT: Final = Key("reconnect", SECONDS, "seconds before the second try to connect; doubles, with jitter", 0.2)
RECONNECT_MOST: Final = Key("reconnect_most", SECONDS, "maximum seconds between tries to connect", 5)
UNROUTABLE: Final = Key(
    "unroutable",
    accept_choice(*[each.value for each in Unroutable]),
    'what becomes of a message that reaches no queue of the topology: also `"hold"` or `"drop"`; what a target returns '
    "is never dropped",
    Unroutable.DEAD_LETTER.value,
)
ONE_AT_A_TIME: Final = Key(
    "one_at_a_time",
    FLAG,
    "whether only one message of a key is under way at a time: order even when one is refused, at the cost of a round "
    "trip for each",
    False,
)
RATE: Final = Key("rate", MAYBE_NUMBER, "maximum number of messages a second read from each source", otherwise="none")
MAX_HOPS: Final = Key(
    "max_hops",
    accept_whole(least=1),
    "maximum number of bridges that a message may have passed; with more it is "
    "[in a loop](#what-a-bridge-writes-on-messages)",
    8,
)
DRAIN: Final = Key("drain", SECONDS, "time that a graceful stop may take", "30 s")
STALLED_AFTER: Final = Key(
    "stalled_after",
    SECONDS,
    "the bridge is not ready when a message is not settled, or a window is full, for this time",
    "10 s",
)

POLICY: Final = Keys((
    WINDOW, WINDOW_BYTES, TRIES, GIVE_UP_AFTER, MAX_DEAD_LETTERS, BACKOFF, BACKOFF_MOST, RECONNECT, RECONNECT_MOST,
    UNROUTABLE, ONE_AT_A_TIME, RATE, MAX_HOPS, DRAIN, STALLED_AFTER,
))  # fmt: skip
OF_ONE_SOURCE: Final = frozenset({WINDOW.name, WINDOW_BYTES.name, MAX_DEAD_LETTERS.name, RATE.name})
"""Settings that apply in a source's own policy; all others belong to the pipeline, or to its targets."""
