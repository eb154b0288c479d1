"""Keys of RocketMQ's sources and targets."""

from __future__ import annotations

from typing import Final

from bridge.keys import (
    FILE,
    FLAG,
    MAYBE_TEXT,
    SECRET,
    TEXT,
    TEXTS,
    Key,
    Keys,
    accept_choice,
    accept_queues,
    describe_destination,
    require_flag,
)
from bridge.pump.keys import URL
from bridge.rocketmq.consumer.subscription import SUB_ALL

CONFIRM: Final = "confirm"
LAST: Final = "last"

TOPICS: Final = Key("topics", TEXTS, "a list of topics", otherwise="`topic`")
TOPIC: Final = Key("topic", MAYBE_TEXT, "a single topic", otherwise="`topics`")
GROUP: Final = Key(
    "group", TEXT, "the consumer group; several bridges of one group share the queues", otherwise='`"hashstar-NAME"`'
)
SUBSCRIPTION: Final = Key(
    "subscription",
    TEXT,
    r'tags of the messages that brokers send, `"TagA \|\| TagB"`; others are not even sent',
    SUB_ALL,
)
SQL: Final = Key(
    "sql",
    MAYBE_TEXT,
    "or a condition in SQL92; brokers must be set to allow it (`enablePropertyFilter`)",
    otherwise="none",
)
ORDERLY: Final = Key(
    "orderly",
    FLAG,
    "whether to read under the broker's locks: no messages come twice when members come and go, but after a crash the "
    "others wait for 60 s",
    False,
)
OFFSET: Final = Key(
    "offset",
    accept_choice("first", LAST),
    'where a new group begins: at the first message, or `"last"`: with messages from now on',
    "first",
)
UNTIL_END: Final = Key(
    "until_end",
    FLAG,
    "whether to end when all queues were read to their end; not while one of them cannot be read, or a message is held",
    False,
)
ACCESS_KEY: Final = Key("access_key", MAYBE_TEXT, "the access key of access control", otherwise="the URL's user")
SECRET_KEY: Final = Key("secret_key", SECRET, "a secret", otherwise="the URL's password")
SECURITY_TOKEN: Final = Key("security_token", SECRET, "a secret", otherwise="none")
TLS: Final = Key("tls", FLAG, "whether to use TLS", False)
VERIFY: Final = Key("verify", FLAG, "whether to verify the certificates of name servers and brokers", True)
CA_FILE: Final = Key("ca_file", FILE, "authorities of these certificates, PEM", otherwise="the system's")
CERT_FILE: Final = Key("cert_file", FILE, "the client's certificate, PEM", otherwise="none")
KEY_FILE: Final = Key("key_file", FILE, "its key", otherwise="none")

QUEUES: Final = Key(
    "queues",
    accept_queues(
        'the name of a topic, or { topic = "...", key = "word 2", tag = "word 1" }',
        describe_destination("topic", "key", "tag", required="topic"),
    ),
    "queue of the topology = topic, or topic, key and tag",
)
NOT_STORE_OK: Final = Key(
    "not_store_ok",
    accept_choice("again", CONFIRM),
    'or `"confirm"`: it is enough that the broker has the message',
    "again",
)
DEAD_LETTER_TOPIC: Final = Key("topic", TEXT, "the topic that takes dead letters")

FILES_NEED_TLS: Final = require_flag((CA_FILE, CERT_FILE, KEY_FILE), TLS)
ACCESS_NEEDS_SECRET: Final = {
    "if": {"required": ["access_key"], "properties": {"url": {"not": {"pattern": r"@|\$\{"}}}},
    "then": {"required": ["secret_key"]},
}
TAGS_OR_SQL: Final = {"if": {"required": ["sql"]}, "then": {"properties": {"subscription": {"const": SUB_ALL}}}}

CLUSTER: Final = Keys(
    (ACCESS_KEY, SECRET_KEY, SECURITY_TOKEN, TLS, VERIFY, CA_FILE, CERT_FILE, KEY_FILE),
    (FILES_NEED_TLS, ACCESS_NEEDS_SECRET),
)
SOURCE: Final = (
    Keys(
        (TOPICS, TOPIC, GROUP, SUBSCRIPTION, SQL, ORDERLY, OFFSET, UNTIL_END),
        ({"oneOf": [{"required": ["topics"]}, {"required": ["topic"]}]}, TAGS_OR_SQL),
    )
    | CLUSTER
)
TARGET: Final = Keys((URL, QUEUES, NOT_STORE_OK)) | CLUSTER
DEAD_LETTERS: Final = Keys((URL, DEAD_LETTER_TOPIC, NOT_STORE_OK)) | CLUSTER
