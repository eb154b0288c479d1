"""Keys at the top level of ``bridge.toml``, and of each pipeline of a file with several."""

from __future__ import annotations

import re
from typing import Final

from bridge.daemon.journal import LEVELS
from bridge.keys import (
    FLAG,
    MAYBE_TEXT,
    SECONDS,
    TABLE,
    TEXT,
    TEXTS,
    Key,
    Keys,
    accept_choice,
    accept_matching,
    accept_table,
    accept_whole,
)
from bridge.pump.policy import Unroutable
from bridge.registry.keys import REGISTRY as REGISTRY_KEYS
from exchange.entities.profile import VERSION

TOPOLOGY: Final = Key(
    "topology", TEXT, "a `.bindings` file, RabbitMQ's `definitions.json`, or the address of a management API"
)
VHOST: Final = Key("vhost", MAYBE_TEXT, "which of its virtual hosts", otherwise="the only one")
PROFILE: Final = Key(
    "profile",
    accept_matching(MAYBE_TEXT, VERSION),
    "the RabbitMQ to be exact to: any version from 3.10 on, as `4.1.3` or `rabbitmq-4.1`",
    otherwise="the file's, or that of the release which exported it, or the newest",
)
ALLOW_PYTHON: Final = Key(
    "allow_python",
    FLAG,
    "whether to import partitioners that the topology names as `python:module:function`, which runs their code",
    False,
)
SOURCES: Final = Key("sources", TABLE, "`[sources.NAME]`: where messages are read")
TARGETS: Final = Key("targets", TABLE, "`[targets.NAME]`: where the messages of queues go", otherwise="none")
DEAD_LETTERS: Final = Key(
    "dead_letters",
    TABLE,
    "`[dead_letters]`: where messages go that cannot be delivered",
    otherwise="none: such messages are held",
)
REPLIES: Final = Key(
    "replies",
    TABLE,
    "`[replies.TARGET]`: where servers reply to requests; see [requests](bridge-requests.md#requests-and-replies)",
    otherwise="none",
)
REGISTRY: Final = Key(
    "registry",
    accept_table(REGISTRY_KEYS),
    "`[registry]`: [schemas](#schemas-of-bodies) of bodies that have keys in them",
    otherwise="none: such bodies are JSON",
)
IGNORE: Final = Key(
    "ignore", TEXTS, "queues of the topology whose messages go nowhere; every other queue needs a target", []
)
POLICY: Final = Key("policy", TABLE, "`[policy]`, below", otherwise="its defaults")
HTTP: Final = Key(
    "http",
    accept_matching(TEXT, r"off", r".+:[0-9]{1,5}"),
    'where health, metrics and the status page are served; `"off"`',
    "127.0.0.1:9410",
)
HTTP_HOSTS: Final = Key(
    "http_hosts",
    TEXTS,
    'host names that requests may have, besides addresses, `localhost` and the host of `http`; `["*"]`: any',
    [],
)
COVERAGE: Final = Key(
    "coverage", FLAG, "whether to count what each binding matched, as the audit does (needs the extra `audit`)", False
)
TRACING: Final = Key(
    "tracing",
    FLAG,
    "whether each message has [spans of OpenTelemetry](bridge-operations.md#traces) (needs the extra `opentelemetry`)",
    False,
)
WORKERS: Final = Key("workers", accept_whole(least=1), "processes that share the work", 1)
LOG_FORMAT: Final = Key("log_format", accept_choice("text", "json"), 'or `"json"`, an object a line', "text")
LOG_LEVEL: Final = Key("log_level", accept_choice(*LEVELS), '`"debug"`, `"info"`, `"warning"`, `"error"`', "info")

REPLY_QUEUE: Final = Key(
    "queue", MAYBE_TEXT, "RabbitMQ: the queue where servers reply, for this bridge alone", otherwise="`topic`"
)
REPLY_TOPIC: Final = Key(
    "topic",
    MAYBE_TEXT,
    "Kafka: the topic where servers reply, for this bridge alone; RocketMQ: the cluster's topic of replies",
    otherwise='`queue`; RocketMQ: `"DefaultCluster_REPLY_TOPIC"`',
)
REPLY_GROUP: Final = Key(
    "group",
    MAYBE_TEXT,
    "the consumer group that reads that topic",
    otherwise="a name made of the addresses of the sources, different for each bridge",
)
REPLY_TIMEOUT: Final = Key(
    "timeout", SECONDS, "time that a caller waits, for requests without a time limit of their own", "1 m"
)
EXPIRED: Final = Key(
    "expired",
    accept_choice(Unroutable.DROP.value, Unroutable.DEAD_LETTER.value),
    'what happens to a request whose caller no longer waits: also `"dead-letter"`',
    Unroutable.DROP.value,
)
REPLIES_OF: Final = Keys((REPLY_QUEUE, REPLY_TOPIC, REPLY_GROUP, REPLY_TIMEOUT, EXPIRED))

PIPELINES: Final = Key(
    "pipelines",
    TABLE,
    "`[pipelines.NAME]`: [several pipelines](#several-pipelines) in place of one",
    otherwise="none: the file is one pipeline",
)

PIPELINE_NAME_LENGTH: Final = 100
"""Maximum number of characters of the name of a pipeline."""
PIPELINE_NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{PIPELINE_NAME_LENGTH}}}")
"""The name of a pipeline: TOML's bare keys, so that it stands in addresses, labels and commands as it is."""

OF_ALL: Final = (HTTP, HTTP_HOSTS, WORKERS, LOG_FORMAT, LOG_LEVEL)
"""What belongs to the process."""
OF_TOPOLOGY: Final = Keys((TOPOLOGY, VHOST, PROFILE, ALLOW_PYTHON))
"""Keys that the topology is read by."""
OF_EACH: Final = (*OF_TOPOLOGY.keys, SOURCES, TARGETS, REPLIES, REGISTRY, IGNORE, COVERAGE, TRACING)
"""What belongs to one pipeline."""
DEFAULTS: Final = (POLICY, DEAD_LETTERS)
"""What holds for all pipelines of a file that do not say otherwise."""

PIPELINE: Final = Keys((*OF_EACH, *DEFAULTS))
"""Keys of ``[pipelines.NAME]``."""
AROUND: Final = Keys((PIPELINES, *DEFAULTS, *OF_ALL))
"""Keys at the top of a file with several pipelines."""
FILE: Final = Keys((
    TOPOLOGY, VHOST, PROFILE, ALLOW_PYTHON, SOURCES, TARGETS, REPLIES, DEAD_LETTERS, REGISTRY, IGNORE, POLICY, HTTP,
    HTTP_HOSTS, COVERAGE, TRACING, WORKERS, LOG_FORMAT, LOG_LEVEL, PIPELINES,
))  # fmt: skip
"""Keys at the top of a file."""
