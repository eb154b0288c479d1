"""TLS as a table of a configuration describes it, with the certificates that its files hold now."""

from __future__ import annotations

import ssl

from bridge.table import Table


def make_context(table: Table, ca_file: str | None, cert_file: str | None, key_file: str | None) -> ssl.SSLContext:
    """Read the files, and return a context that verifies brokers by ``ca_file``, or by the system's authorities.

    Endpoints call this whenever they connect, so that a rotated certificate needs no restart. Raises InputError with
    the key of a file that cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise table.error("ca_file", f"{ca_file} cannot be used: {error}") from None
    if cert_file is not None:
        try:
            context.load_cert_chain(cert_file, key_file)
        except (OSError, ssl.SSLError) as error:
            raise table.error("cert_file", f"{cert_file} cannot be used: {error}") from None
    return context
