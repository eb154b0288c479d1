"""Define the limits of what is read from outside, in one place.

Each reader takes its limit from here. Past a limit comes an error with the place and the way out, or one bad record;
never a MemoryError, a RecursionError, a crash or a hang. A limit is far above what real systems produce.
"""

from __future__ import annotations

from typing import Final

SHORTSTR_BYTES: Final = 255
"""Maximum length in bytes of an AMQP short string: names, routing keys, header names. AMQP 0-9-1, 4.2.5.3."""
NESTING: Final = 100
"""Maximum depth of arrays and tables within each other, in JSON and in field tables."""
INTEGER_DIGITS: Final = 4_300
"""Maximum number of digits of a number in text. Python refuses more, to stay linear."""
TABLE_ITEMS: Final = 100_000
"""Maximum number of fields and array items of one field table, nested ones included."""
BODY_BYTES: Final = 32 << 20
"""Maximum size in bytes of one message body after decompression: eight times the default maximum of RocketMQ."""
MESSAGE_BYTES: Final = 512 << 20
"""Maximum size in bytes of the body of an AMQP message: the most that RabbitMQ can be set to."""
BATCH_BYTES: Final = 256 << 20
"""Maximum size in bytes of a batch of Kafka records after decompression: brokers take 1 MiB packed by default, and
reading takes several times this in memory."""
FILE_BYTES: Final = 4 << 30
"""Maximum size in bytes of a gzipped segment or log after decompression: segments of Kafka have 2 GiB at most."""
SIDE_FILE_BYTES: Final = 64 << 20
"""Maximum size in bytes of a file that a broker keeps beside its logs, such as a checkpoint or a snapshot."""
RECORD_BYTES: Final = 256 << 20
"""Maximum size in bytes of one record of a text archive: a line, or an entry of a log."""
DOCUMENT_BYTES: Final = 512 << 20
"""Maximum size in bytes of a topology file after decompression."""
FOLDER_FILES: Final = 100_000
"""Maximum number of files below a folder that `check` looks into."""
YAML_BYTES: Final = 64 << 20
"""Maximum size in characters of a YAML file: reading takes a hundred times this in memory."""
DOCUMENT_ITEMS: Final = 2_000_000
"""Maximum number of keys and values of one YAML document, those that its aliases repeat included."""
GLOB_CHARACTERS: Final = 4_096
"""Maximum length of a glob pattern in characters, the length of a path on Linux; a longer name is no pattern."""
CONFIG_BYTES: Final = 1 << 20
"""Maximum size in bytes of a configuration file: hashstar.toml, pyproject.toml, bridge.toml."""
CONFIG_KEY_PARTS: Final = 32
"""Maximum number of parts of a dotted key in a configuration file: reading takes a time quadratic in it."""
PARTITIONS: Final = 200_000
"""Maximum number of partitions of one queue or topic: what a whole cluster of Kafka was recommended to have at most."""
SLOTS: Final = 16_384
"""Maximum number of slots of a partitioned queue; each is a binding."""
GROUP_PARTITIONS: Final = 2_000
"""Maximum number of partitions of a partitioned queue: a member opens a channel for each, RabbitMQ allows 2,047."""
BEAT_BYTES: Final = 1 << 20
"""Maximum size in bytes of what a member of a consumer group announces."""
DEFERRED_MESSAGES: Final = 1_000_000
"""Maximum number of delayed messages and half messages in a queue of a RocketMQ broker that `rocketmq scale` reads."""
DEAD_LETTERS: Final = 1_000_000
"""Maximum number of dead letters that follow from one event in the virtual broker."""
STATEMENTS: Final = 250_000
"""Maximum number of statements and bindings that the loops and lists of a .bindings file expand to."""
TEXT_BYTES: Final = 64 << 20
"""Maximum size in characters of all that the variables of a .bindings file are replaced with."""
ANSWER_BYTES: Final = 1 << 30
"""Maximum size in bytes of one answer of the management API."""
ANSWER_SECONDS: Final = 60.0
"""Maximum duration in seconds of one answer of the management API, from the request to its last byte."""
CHECK_BYTES: Final = 16 << 20
"""Maximum size in bytes of one answer of the management API to `bridge check`, which asks for single queues."""
CHECK_SECONDS: Final = 3.0
"""Maximum duration in seconds of one answer of the management API to `bridge check`."""
TOKEN_BYTES: Final = 64 << 10
"""Maximum size in bytes of the answer of an authorization server."""
TOKEN_SECONDS: Final = 10.0
"""Maximum duration in seconds of the answer of an authorization server."""
SCHEMA_BYTES: Final = 4 << 20
"""Maximum size in bytes of one answer of a registry of schemas."""
SCHEMA_SECONDS: Final = 5.0
"""Maximum duration in seconds of one answer of a registry of schemas."""
SCHEMA_REFERENCES: Final = 100
"""Maximum number of schemas that a schema refers to, with those that these refer to."""
SCHEMAS: Final = 1_000
"""Maximum number of schemas that a pipeline of a bridge keeps."""
SCHEMAS_BYTES: Final = 16 << 20
"""Maximum size in bytes of these, as texts."""
GIT_SECONDS: Final = 60.0
"""Maximum duration in seconds of one answer of git to `diff --against`; its size is bounded as a topology file is."""
RECORDED_BYTES: Final = 32 << 20
"""Default maximum size in bytes of a recording of what clients ask, but for its first line."""
RECORDED_METHOD_BYTES: Final = 1 << 20
"""Maximum size in bytes of a method that is recorded: eight times the default maximum of a frame."""
LIVE_CALLS: Final = 20_000
"""Maximum number of calls and messages that a test broker is asked."""
CHANGES: Final = 1 << 13
"""Maximum number of differences between two topologies that an audit keeps apart; of more, queues have no row there."""
OUTCOMES: Final = 1 << 16
"""Maximum number of outcomes of messages that an audit keeps apart; it counts more by binding, queue and exchange."""
QUESTION_BYTES: Final = 8 << 20
"""Maximum size in bytes of a question to `hashstar serve`: the text of a draft with its edits."""
