"""``kafka://HOST:PORT,HOST:PORT`` and a table of a configuration -> librdkafka's settings."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias

from confluent_kafka import KafkaException, Producer

from bindings.sources.address import name_cluster
from bridge.endpoint import Place
from bridge.endpoints.kafka import keys
from bridge.endpoints.kafka.cluster.tokens import TOKENS, TokenLogin
from bridge.keys import Key
from bridge.oauth import read_tokens
from bridge.table import Secret, Table, read_address, refuse_second_login

Settings: TypeAlias = Mapping[str, Any] | Callable[[], Mapping[str, Any]]
"""Settings of librdkafka, or a function that returns them anew for each connection, as secrets change."""

FILES: Final = {
    keys.CA_FILE: "ssl.ca.location",
    keys.CERT_FILE: "ssl.certificate.location",
    keys.KEY_FILE: "ssl.key.location",
}
"""Key of a table -> setting of librdkafka."""

EXAMPLE: Final = "kafka://HOST:PORT, several hosts with commas between"

ADDRESSES: Final = frozenset({"bootstrap.servers", "metadata.broker.list"})
"""Settings without which a client connects to nothing."""

LOGIN: Final[Mapping[Key[Any], tuple[str, ...]]] = {
    keys.USER: ("sasl.username",),
    keys.PASSWORD: ("sasl.password",),
    keys.MECHANISM: ("sasl.mechanism", "sasl.mechanisms"),
    **{key: (name,) for key, name in FILES.items()},
}
"""Key of a table -> names of the setting of librdkafka that it is for. Without the key, ``librdkafka`` may set it."""

MEANT: Final[Mapping[str, str]] = {
    **dict.fromkeys(ADDRESSES, "url"),
    "group.id": keys.GROUP.name,
    "enable.partition.eof": keys.UNTIL_END.name,
    "isolation.level": keys.TRANSACTIONAL.name,
    "transactional.id": keys.TRANSACTIONAL_ID.name,
}
"""Setting of librdkafka -> the key that it follows from, where there is one."""

IGNORED: Final = re.compile(r"is a (producer|consumer) property and will be ignored")
"""What librdkafka says of a setting that is for another kind of client."""

QUIET: Final = logging.Logger("nobody")  # noqa: LOG001  it is for clients that are made and dropped, and has no parent
"""Logger of clients whose lines concern no one: those made to check their settings, and those that only ask."""
QUIET.addHandler(logging.NullHandler())  # Python prints warnings that no handler takes


def read_settings(
    url: str, table: Table | None = None, fixed: Mapping[str, Any] = MappingProxyType({})
) -> Callable[[], dict[str, Any]]:
    """Return a function that returns the settings, with the password as it is then. Raises InputError.

    The function raises Disconnected if the password cannot be read. Settings in the table's ``librdkafka`` win over
    all but the address and those that are ``fixed``; without a table, the address says all.
    """
    table = Table({"url": url}, "the address") if table is None else table
    address = read_address(table, url, ("kafka",), EXAMPLE)
    if address.path not in ("", "/") or address.query or address.fragment:
        table.keep(table.error("url", f"must be {EXAMPLE}; all else has keys of its own, topics too"))
    refuse_second_login(table, address)
    fixed = {"bootstrap.servers": address.hosts, **fixed}
    given = {key.name: LOGIN[key] for key in LOGIN if table.has(key.name)}
    tokens = read_tokens(table, address, (keys.USER.name, keys.PASSWORD.name, keys.MECHANISM.name))
    user = keys.USER.read(table) or address.user
    password = keys.PASSWORD.read(table) or address.password or None
    tls = keys.TLS.read(table)
    mechanism = keys.MECHANISM.read(table)
    settings: dict[str, Any] = {"client.id": "hashstar"}
    if user and password is None:
        table.keep(table.error("password", 'is missing, as there is a user; write password = { env = "NAME" }'))
        user = None
    settings["security.protocol"] = f"{'SASL_' if user or tokens else ''}{'SSL' if tls else 'PLAINTEXT'}"
    login: dict[str, Any] = {}
    if user:
        login = {"sasl.mechanism": mechanism, "sasl.username": user}
    for name in (keys.PASSWORD.name, keys.MECHANISM.name):
        if name in given and not (user or tokens):
            table.warn(name, 'does nothing without a user; write user = "..."')
    if tokens is not None:
        login = {"sasl.mechanism": "OAUTHBEARER", TOKENS: TokenLogin(tokens)}
    for key, name in FILES.items():
        if table.has(key.name) and not tls:
            table.keep(table.error(key.name, "is for TLS, which is off; write tls = true"))
        file = key.read(table)
        if file is not None:
            settings[name] = file
    own = keys.LIBRDKAFKA.read(table).convert(_setting)
    own = {name: value for name, value in own.items() if _check_setting(table, name, value)}

    def current() -> dict[str, Any]:
        now = password.current() if isinstance(password, Secret) else password
        secret = {"sasl.password": now} if user else {}
        return {**settings, **login, **secret, **own, **fixed}

    for key_name, meant in given.items():
        for name in own.keys() & {*meant}:
            text = f"is given twice, here and in {key_name}; remove one of them"
            table.keep(table.error(f"librdkafka.{name}", text, masked=True))
    protocol = str({**settings, **own}["security.protocol"]).upper()
    for name in own:
        layer = name.partition(".")[0].upper()
        if layer in ("SASL", "SSL") and layer not in protocol.split("_"):
            way_out = "give user and password" if layer == "SASL" else "write tls = true"
            table.warn(f"librdkafka.{name}", f"does nothing, as security.protocol is {protocol}; {way_out}")
    _refuse_overridden(table, own, {**own, **dict.fromkeys(ADDRESSES), **fixed})
    return current


def read_current_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings as of now. Raises Disconnected where a secret cannot be read any more."""
    return dict(settings() if callable(settings) else settings)


def is_new_protocol(settings: Mapping[str, Any]) -> bool:
    """Return whether a consumer is to be a member by the group protocol of Kafka 4 (KIP-848)."""
    return str(settings.get("group.protocol", "")).lower() == "consumer"


class OfflineClient(Protocol):
    """An endpoint that can make a client which connects to nothing."""

    @property
    def offline_settings(self) -> Mapping[str, Any]:
        """All settings of its client, without addresses and tokens."""

    def make_offline(self, settings: Mapping[str, Any], logger: logging.Logger) -> None:
        """Make a client, and end it. Raises KafkaException or ValueError for settings that are wrong."""


def check_settings(
    table: Table, endpoint: OfflineClient, given: Callable[[], Mapping[str, Any]], *, for_both: bool = False
) -> None:
    """Raise InputError with its key for settings that the endpoint overrides or ignores, and for contradictions.

    ``given`` returns those that the endpoint was given. Those of a source that replies are ``for_both`` kinds of
    clients, so that none is ignored.
    """
    settings, own = endpoint.offline_settings, describe_offline(given())
    _refuse_overridden(table, own, settings)
    try:
        ignored = _find_ignored(endpoint, settings)
    except (KafkaException, ValueError) as error:  # the latter of a share group's member
        text = error.args[0].str() if isinstance(error, KafkaException) else str(error).rpartition("consumer: ")[2]
        key = next((key.name for key, name in FILES.items() if name in text), keys.LIBRDKAFKA.name)
        raise table.error(key, text) from None
    if not ignored or for_both:
        return
    group = {name: settings[name] for name in ("group.id",) if name in settings}
    for name in [
        name for name in own if name not in group
    ]:  # one by one: librdkafka may name a setting by another name
        with suppress(KafkaException, ValueError):
            if kind := _find_ignored(endpoint, {**group, name: own[name]}):
                text = f"is for {kind}s, and would be ignored here; take it away"
                table.keep(table.error(f"librdkafka.{name}", text, masked=True))


class _IgnoredSettings(logging.Handler):
    kind = ""
    """``producer`` or ``consumer``, which a setting is for that the client ignores; "" if there is none."""

    def emit(self, record: logging.LogRecord) -> None:
        if found := IGNORED.search(record.getMessage()):
            self.kind = found[1]


def _find_ignored(endpoint: OfflineClient, settings: Mapping[str, Any]) -> str:
    """Return for which kind of client settings are that the endpoint's ignores; "" if there are none."""
    logger, handler = logging.Logger("nobody"), _IgnoredSettings()  # noqa: LOG001  as `QUIET`
    logger.addHandler(handler)
    endpoint.make_offline(settings, logger)
    return handler.kind


def describe_offline(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without addresses, and tokens: a client with these connects to nothing, and asks for none."""
    return {name: value for name, value in settings.items() if name not in ADDRESSES | {TOKENS}}


def place_of(settings: Mapping[str, Any], topic: str) -> Place:
    """Return the topic at these brokers."""
    first = str(settings["bootstrap.servers"]).partition(",")[0].strip()
    return Place("kafka", name_cluster(first), f"topic {topic}")


def _refuse_overridden(table: Table, given: Mapping[str, Any], used: Mapping[str, Any]) -> None:
    """Keep or raise InputError for each setting that is not what the client gets: the bridge sets it after the user."""
    for name, value in given.items():
        if name in used and str(value).lower() == str(used[name]).lower():
            continue
        key = MEANT.get(name)
        way_out = "its promises depend on it; take it away" if key is None else f"write {key} = ... instead"
        text = f"is set by the bridge, and would be ignored here: {way_out}"
        table.keep(table.error(f"librdkafka.{name}", text, masked=True))


def _check_setting(table: Table, name: str, value: Any) -> bool:
    """Return whether librdkafka knows a setting and takes its value. Keeps or raises InputError if it does not."""
    if name in ADDRESSES:
        return True
    if name == "client.id" and not {'"', "\\"}.isdisjoint(str(value)):
        problem = "has a quote or backslash, which breaks the statistics of librdkafka"
    else:
        problem = _find_problem(name, value)
    if problem:
        table.keep(table.error(f"librdkafka.{name}", problem, masked=True))
    return not problem


def _find_problem(name: str, value: Any) -> str:
    """Return why librdkafka takes no such setting; "" if it does."""
    try:
        Producer({name: value}, logger=QUIET)  # without an address it connects to nothing
    except KafkaException as error:
        text = str(error.args[0].str()).strip()
        if text.startswith(("No such", "Invalid value", "Configuration property")):
            return text
    except (TypeError, ValueError) as error:
        return str(error)
    return ""


def _setting(value: Any) -> Any:
    if not isinstance(value, str | int | float | bool):
        raise ValueError  # noqa: TRY004  what `Table.mapping` expects
    return value
