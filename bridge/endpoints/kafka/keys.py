"""Keys of Kafka's sources and targets."""

from __future__ import annotations

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
    accept_choice,
    accept_entries,
    accept_queues,
    accept_whole,
    describe_destination,
    require_flag,
)
from bridge.oauth import OAUTH
from bridge.pump.keys import URL

TOPICS: Final = Key("topics", TEXTS, 'a list of topics; `"^..."` is a regular expression', otherwise="`topic`")
TOPIC: Final = Key("topic", MAYBE_TEXT, "a single topic", otherwise="`topics`")
GROUP: Final = Key(
    "group",
    TEXT,
    "the consumer group; several bridges of one group share the partitions",
    otherwise='`"hashstar-NAME"`',
)
GROUP_TYPE: Final = Key(
    "group_type",
    accept_choice("consumer", "share"),
    'or `"share"`: [a share group](#share-groups), whose members share partitions, without order',
    "consumer",
)
UNTIL_END: Final = Key(
    "until_end",
    FLAG,
    'whether to end when all partitions were read to their end; not while a message is held (`unroutable = "hold"`)',
    False,
)
TRANSACTIONAL: Final = Key(
    "transactional",
    FLAG,
    "with it in all sources and in the target: [exactly once](#kafka-to-kafka-exactly-once)",
    False,
)
USER: Final = Key("user", MAYBE_TEXT, "the user of SASL", otherwise="the URL's")
PASSWORD: Final = Key("password", SECRET, "a secret", otherwise="the URL's")
MECHANISM: Final = Key(
    "mechanism",
    accept_choice("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    'or `"SCRAM-SHA-256"`, `"SCRAM-SHA-512"`',
    "PLAIN",
)
TLS: Final = Key("tls", FLAG, "whether to use TLS", False)
CA_FILE: Final = Key("ca_file", FILE, "authorities of the brokers' certificates, PEM", otherwise="the system's")
CERT_FILE: Final = Key("cert_file", FILE, "the client's certificate, PEM", otherwise="none")
KEY_FILE: Final = Key("key_file", FILE, "its key", otherwise="none")
LIBRDKAFKA: Final = Key(
    "librdkafka",
    accept_entries("a text, a number, true or false", {"type": ["string", "number", "boolean"]}),
    "settings of librdkafka; those that the promises depend on cannot be changed",
    {},
)

REPLY_TOPICS: Final = Key(
    "reply_topics",
    TEXTS,
    "topics that a request may name for its reply; for [requests](bridge-requests.md#requests-and-replies)",
    [],
)

QUEUES: Final = Key(
    "queues",
    accept_queues(
        'the name of a topic, or { topic = "...", key = "word 2" }',
        describe_destination("topic", "key", required="topic"),
    ),
    "queue of the topology = topic, or topic and key",
)
TRANSACTION_TIME: Final = Key("transaction_time", SECONDS, "seconds that a transaction is open", 0.1)
TRANSACTION_MESSAGES: Final = Key(
    "transaction_messages", accept_whole(least=1), "maximum number of messages in one", 1_000
)
TRANSACTIONAL_ID: Final = Key(
    "transactional_id",
    MAYBE_TEXT,
    "an id of your own, for one process: a restart then waits for nothing",
    otherwise="a new one for each process",
)
DEAD_LETTER_TOPIC: Final = Key("topic", TEXT, "the topic that takes dead letters")

FILES_NEED_TLS: Final = require_flag((CA_FILE, CERT_FILE, KEY_FILE), TLS)
USER_NEEDS_PASSWORD: Final = {
    "if": {"required": ["user"], "properties": {"url": {"not": {"pattern": r"@|\$\{"}}}},
    "then": {"required": ["password"]},
}
TRANSACTIONS_ARE_ON: Final = require_flag((TRANSACTION_TIME, TRANSACTION_MESSAGES, TRANSACTIONAL_ID), TRANSACTIONAL)

SHARE_GROUPS_HAVE_NO_OFFSETS: Final = {
    "if": {"required": ["group_type"], "properties": {"group_type": {"const": "share"}}},
    "then": {"properties": {"until_end": {"const": False}, "transactional": {"const": False}}},
}

CLUSTER: Final = Keys(
    (USER, PASSWORD, MECHANISM, OAUTH, TLS, CA_FILE, CERT_FILE, KEY_FILE, LIBRDKAFKA),
    (FILES_NEED_TLS, USER_NEEDS_PASSWORD),
)
SOURCE: Final = (
    Keys(
        (TOPICS, TOPIC, GROUP, GROUP_TYPE, UNTIL_END, TRANSACTIONAL, REPLY_TOPICS),
        ({"oneOf": [{"required": ["topics"]}, {"required": ["topic"]}]}, SHARE_GROUPS_HAVE_NO_OFFSETS),
    )
    | CLUSTER
)
TARGET: Final = (
    Keys((URL, QUEUES, TRANSACTIONAL, TRANSACTION_TIME, TRANSACTION_MESSAGES, TRANSACTIONAL_ID), (TRANSACTIONS_ARE_ON,))
    | CLUSTER
)
DEAD_LETTERS: Final = Keys((URL, DEAD_LETTER_TOPIC)) | CLUSTER
