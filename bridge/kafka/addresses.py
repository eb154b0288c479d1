"""``kafka://HOST:PORT,HOST:PORT`` and a table of a configuration -> librdkafka's settings."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import unquote, urlsplit

from bridge.table import Table

__all__ = ["settings_of"]

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def settings_of(url: str, table: Table) -> dict[str, Any]:
    """The settings; those in the table's ``librdkafka`` win, but for what the bridge depends on. Raises InputError."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise table.error("url", str(error)) from None
    hosts = parts.netloc.rpartition("@")[2]
    if not hosts or parts.path not in ("", "/") or parts.query or parts.fragment:
        told = "must be kafka://HOST:PORT, several hosts with commas between; all else has keys of its own, topics too"
        raise table.error("url", told)
    user = table.maybe("user") or (unquote(parts.username) if parts.username else None)
    password = table.secret("password") or (unquote(parts.password) if parts.password else None)
    tls = table.flag("tls", default=False)
    mechanism = table.choice("mechanism", MECHANISMS, "PLAIN")
    settings: dict[str, Any] = {"bootstrap.servers": hosts, "client.id": "hashstar"}
    settings["security.protocol"] = f"{'SASL_' if user else ''}{'SSL' if tls else 'PLAINTEXT'}"
    if user:
        if password is None:
            raise table.error("password", 'is missing, as there is a user; write password = { env = "NAME" }')
        settings |= {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": str(password)}
    for key, name in (("ca_file", "ssl.ca.location"), ("cert_file", "ssl.certificate.location"),
                      ("key_file", "ssl.key.location")):  # fmt: skip
        if table.has(key) and not tls:
            raise table.error(key, "is for TLS, which is off; write tls = true")
        file = table.file(key)
        if file is not None:
            settings[name] = file
    return settings | table.mapping("librdkafka", _setting, "a text, a number, true or false")


def _setting(value: Any) -> Any:
    if not isinstance(value, str | int | float | bool):
        raise ValueError  # noqa: TRY004  what `Table.mapping` expects
    return value
