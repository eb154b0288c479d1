"""Keys of RabbitMQ's sources and targets."""

from __future__ import annotations

import re
from typing import Final

from bridge.keys import (
    FILE,
    FLAG,
    MAYBE_TEXT,
    SECONDS,
    SECRET,
    TEXT,
    TEXTS,
    Key,
    Keys,
    accept_matching,
    accept_queues,
    accept_whole,
    describe_destination,
)
from bridge.oauth import OAUTH
from bridge.pump.keys import URL

HOST: Final = re.compile(r"(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<name>[^:\[\]]+))(?::(?P<port>[0-9]{1,5}))?")
"""A host of ``hosts``, with its port or without."""

STREAM_OFFSET: Final = re.compile(r"first|last|next|[0-9]+[YMDhms]?")
"""Where reading a stream may begin: the values of RabbitMQ's ``x-stream-offset``."""

MAX_PREFETCH: Final = 65_535
"""Maximum number of unacknowledged deliveries that AMQP can ask for."""
RATED_SECONDS: Final = 10.0
"""Seconds of a source's rate for which it prefetches, unless it sets another prefetch."""

QUEUE: Final = Key("queue", TEXT, "a classic queue, quorum queue or stream")
PREFETCH: Final = Key(
    "prefetch",
    accept_whole(1, MAX_PREFETCH),
    "maximum number of unacknowledged deliveries, up to 65,535",
    otherwise="the window; with a `rate`, what it reads in 10 s",
)
EXCLUSIVE: Final = Key("exclusive", FLAG, "whether to be the only consumer; for classic queues", False)
OFFSET: Final = Key(
    "offset", accept_matching(TEXT, STREAM_OFFSET), "where to begin in a stream that was not read yet", "first"
)
OFFSETS: Final = Key(
    "offsets",
    MAYBE_TEXT,
    "a file that keeps how far a stream is settled: the offset, and a fingerprint of the message there",
    otherwise="none",
)
STREAM_FILTER: Final = Key(
    "stream_filter",
    TEXTS,
    'the [filter values](#filter-values-of-a-stream) of the messages that are wanted of a stream, `"eu"` or a list',
    otherwise="all",
)
STREAM_MATCH_UNFILTERED: Final = Key(
    "stream_match_unfiltered", FLAG, "with `stream_filter`: whether messages without a value are wanted, too", False
)
USER: Final = Key("user", MAYBE_TEXT, "the user who logs in", otherwise="the URL's")
PASSWORD: Final = Key("password", SECRET, "a secret", otherwise="the URL's")
HOSTS: Final = Key(
    "hosts",
    accept_matching(TEXTS, HOST),
    'other nodes of the cluster, `"HOST"`, `"HOST:PORT"` or `"[IPV6]:PORT"`, tried in turn; with TLS, the certificate '
    "of each must have its name, or `server_name`",
    [],
)
CA_FILE: Final = Key(
    "ca_file", FILE, "authorities of the brokers' certificates, for `amqps:`", otherwise="the system's"
)
CERT_FILE: Final = Key("cert_file", FILE, "the client's certificate", otherwise="none")
KEY_FILE: Final = Key("key_file", FILE, "its key", otherwise="none")
SERVER_NAME: Final = Key("server_name", MAYBE_TEXT, "the name in the broker's certificate", otherwise="the host")
MANAGEMENT: Final = Key(
    "management",
    accept_matching(MAYBE_TEXT, r"https?://[^@,]+"),
    "the address of the management API, which `hashstar bridge check` asks; if given, each connection of a source "
    "asks it for the delivery limit of a quorum queue, and each of a target for the types of its exchanges, too",
    otherwise="port 15672 of the host, for `check` only",
)

QUEUES: Final = Key(
    "queues",
    accept_queues(
        'the name of a queue, or { exchange = "...", routing_key = "..." }',
        describe_destination("exchange", "routing_key", required="exchange"),
    ),
    "queue of the topology = queue, or exchange and routing key",
)
UNROUTED_AFTER: Final = Key(
    "unrouted_after",
    SECONDS,
    "time after which a message that an exchange returns is a dead letter, if its routing key never reached a queue "
    "and [others do](#what-an-exchange-returns)",
    "30 s",
)
DEAD_LETTER_QUEUE: Final = Key("queue", MAYBE_TEXT, "the queue that takes dead letters", otherwise="`exchange`")
DEAD_LETTER_EXCHANGE: Final = Key("exchange", MAYBE_TEXT, "the exchange that takes dead letters", otherwise="`queue`")
DEAD_LETTER_ROUTING_KEY: Final = Key(
    "routing_key", MAYBE_TEXT, "their routing key there", otherwise="each message's own"
)

FILES_NEED_TLS: Final = {
    "if": {"anyOf": [{"required": [key.name]} for key in (CA_FILE, CERT_FILE, KEY_FILE, SERVER_NAME)]},
    "then": {"properties": {"url": {"pattern": r"^amqps:|\$\{"}}},
}

BROKERS: Final = Keys(
    (USER, PASSWORD, OAUTH, HOSTS, CA_FILE, CERT_FILE, KEY_FILE, SERVER_NAME, MANAGEMENT), (FILES_NEED_TLS,)
)
FLAG_NEEDS_FILTER: Final = {
    "if": {"required": [STREAM_MATCH_UNFILTERED.name]}, "then": {"required": [STREAM_FILTER.name]}
}  # fmt: skip
SOURCE: Final = (
    Keys((QUEUE, PREFETCH, EXCLUSIVE, OFFSET, OFFSETS, STREAM_FILTER, STREAM_MATCH_UNFILTERED), (FLAG_NEEDS_FILTER,))
    | BROKERS
)
TARGET: Final = Keys((URL, QUEUES, UNROUTED_AFTER)) | BROKERS
DEAD_LETTERS: Final = (
    Keys(
        (URL, DEAD_LETTER_QUEUE, DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY),
        ({"oneOf": [{"required": ["queue"]}, {"required": ["exchange"]}]},),
    )
    | BROKERS
)
