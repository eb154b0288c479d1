"""Certificates for tests, made by openssl: of authorities, of a server at ``localhost``, and of a client."""

from __future__ import annotations

import subprocess
from pathlib import Path


def authority_in(folder: Path) -> Path:
    """Fill a folder with ``ca``, ``server``, ``client`` and the untrusted ``other``, each .pem and .key; return it."""

    def made(name: str, *arguments: str) -> None:
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{name}.key"]
        command = ["openssl", "req", "-x509", *key, "-out", f"{name}.pem", "-days", "2", *arguments]
        subprocess.run(command, cwd=folder, capture_output=True, check=True)

    for name in ("ca", "other"):
        # Without key usage, Python refuses an authority from 3.13 on.
        made(name, "-subj", f"/CN=hashstar tests {name}", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    for name in ("server", "client"):
        made(
            name, "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "-addext", "basicConstraints=critical,CA:FALSE", "-CA", "ca.pem", "-CAkey", "ca.key",
        )  # fmt: skip
    return folder
