"""What the texts of clients mean: of pika, librdkafka, our RocketMQ client and the operating system behind them.

A client says what it was doing when something failed, and rarely what an operator can do about it. `MEANINGS` has a row
for each kind of failure: by what it is known in the texts of each client, and the words that it gets. Every
`bridge.endpoint.Disconnected` gets them, so that no place can show a client's text alone.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from traceback import extract_tb
from typing import Final, NamedTuple


class ErrorMeaning(NamedTuple):
    """A kind of failure."""

    sign: re.Pattern[str]
    """Found in the text of a client, or among its exceptions."""
    words: str
    """What it means, and the way out."""


def _meaning(sign: str, words: str) -> ErrorMeaning:
    return ErrorMeaning(re.compile(sign), words)


DESCRIPTORS: Final = (
    "this process has no file descriptor left: raise its limit (ulimit -n, or LimitNOFILE of its service), or see what "
    "opens most of them (process_open_fds)"
)

MEANINGS: Final = (
    _meaning(r"Too many open files|Errno 2[34]\b|No file descriptors available", DESCRIPTORS),
    _meaning("no answer from name servers", "can this machine reach the name servers that it asks (/etc/resolv.conf)?"),
    _meaning(
        "Timeout while setting up AMQP|Connection setup timed out in state|: no answer in [0-9.]+ s",
        "it accepts connections and is silent: is the broker stopped or overloaded, and is this its port?",
    ),
    _meaning(
        "could not negotiate use of the",
        "the broker takes no password by PLAIN: enable that mechanism there (auth_mechanisms)",
    ),
    _meaning(
        "current SASL state",
        "brokers take no two logins within a second, and the access token had less than that left: let tokens live for "
        "ten seconds at least",
    ),
    _meaning(
        "(?i)unsupported.sasl.mechanism|supported mechanisms|mechanism not supported",
        "the brokers do not offer this way to log in: set mechanism to one that is enabled there",
    ),
    _meaning(
        "WRONG_VERSION_NUMBER|wrong version number|record layer failure",
        "the broker's port answers TLS with plain text: is this the amqps listener?",
    ),
    _meaning(
        "(?i)certificate has expired|certificate is not yet valid", "the validity of the server's certificate is over"
    ),
    _meaning(
        "(?i)hostname mismatch|IP address mismatch|certificate is not valid for",
        "the server's certificate is of another host: connect to a name that is in it (RabbitMQ: or server_name)",
    ),
    _meaning("(?i)certificate verify failed", "no authority in ca_file knows the server's certificate"),
    _meaning(
        "(?i)alert certificate required|alert bad certificate|alert unknown ca|alert handshake failure",
        "the broker refuses this client's certificate, or wants one: see cert_file and key_file",
    ),
    _meaning(
        "StreamLostError|IncompatibleProtocolError",
        "hung up during the handshake: is this an AMQP port, and the broker behind it up?",
    ),
    _meaning("ProtocolSyntaxError|InvalidFrameError", "answered something else than AMQP: is this an AMQP port?"),
    _meaning(
        "TOPIC_AUTHORIZATION_FAILED",
        "this user may not use the topic: allow WRITE to a target, READ to a source, by an ACL of the topic",
    ),
    _meaning("GROUP_AUTHORIZATION_FAILED", "this user may not read with the group: allow READ by an ACL of the group"),
    _meaning(
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "this user may not write transactions: allow WRITE by an ACL of the transactional.id",
    ),
    _meaning("CLUSTER_AUTHORIZATION_FAILED", "this user may not do that: allow it by an ACL of the cluster"),
    _meaning(
        "INCONSISTENT_GROUP_PROTOCOL",
        "other members of the group divide its partitions in another way: give this source a group of its own, or set "
        "partition.assignment.strategy in librdkafka to theirs",
    ),
    _meaning(
        "invalid_token",
        "the broker refuses the access token; its log has the reason: who signed it, for whom, its time",
    ),
    _meaning(
        "credential expired",
        "no newer access token came in time: does the authorization server answer, and are the clocks right?",
    ),
    _meaning(
        "cannot publish to internal exchange",
        "only exchanges can publish to it: declare it anew, without internal, or write to another",
    ),
    _meaning("NO_PERMISSION", "this user has no right to it: see the permissions of its access key"),
    _meaning(r"receive\.message\.max\.bytes", "what answers there is no Kafka broker; is this its port?"),
    _meaning(
        r"a frame of [0-9,]+ bytes; from ", "what answers there is no server of RocketMQ; is this its port (9876)?"
    ),
    _meaning(
        "no name server answers: .*(reset by peer|has ended the connection)",
        "it closes the connection: is it a name server of RocketMQ (port 9876), and does it expect TLS (tls = true)?",
    ),
    _meaning(
        r"connection limit \([0-9]+\) is reached",
        "RabbitMQ takes no more connections: raise that limit, or close connections that nobody needs",
    ),
    _meaning(
        "(?i)connection refused|connect call failed", "nothing listens there: is the broker up, and is this its port?"
    ),
    _meaning(
        "(?i)name or service not known|no address associated with|name resolution|failed to resolve",
        "no name server knows this host: is its name right, and can this machine ask its name servers?",
    ),
    _meaning("(?i)no route to host|network is unreachable|host is unreachable", "no network leads there from here"),
    _meaning(
        "(?i)connection (?:attempt )?timed out|no connection in [0-9.]+ s",
        "nothing answers there: is the host up, and does a firewall let connections through?",
    ),
)
"""The kinds of failures; the first whose sign is there counts."""

NUMBER: Final = re.compile(r"\[Errno -?[0-9]+\] ")


def explain_client_error(text: str) -> str | None:
    """Return what a client's text means; None if it is known to no row."""
    return next((meaning.words for meaning in MEANINGS if meaning.sign.search(text)), None)


def explain(text: str) -> str:
    """Return a client's text with what it means; as it is if it has these words already, or means nothing more."""
    words = explain_client_error(text)
    text = NUMBER.sub("", text)
    if any(meaning.words in text for meaning in MEANINGS):
        return text
    if words != DESCRIPTORS and not _has_descriptors():
        # Without one, no file of names can be read, and no socket opened, and a resolver says anything then.
        words = DESCRIPTORS
    return text if words is None else f"{text}; {words}"


def describe_unexpected(error: Exception) -> str:
    """Return an unexpected error in words: its type, its text, the line of code that raised it."""
    frames = extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"unexpected {type(error).__name__}: {error}{where}"


def _has_descriptors() -> bool:
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno not in (errno.EMFILE, errno.ENFILE)
    return True
