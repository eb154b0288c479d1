"""Keys of ``[registry]``."""

from __future__ import annotations

from typing import Final

from bridge.keys import FILE, MAYBE_TEXT, SECRET, TEXT, Key, Keys, accept_matching
from bridge.oauth import OAUTH

EXAMPLE: Final = "https://HOST:PORT/PATH"

URL: Final = Key(
    "url",
    accept_matching(TEXT, r"https?://[^?#]+"),
    "the address of Confluent's API: of Apicurio `https://HOST/apis/ccompat/v7`",
)
USER: Final = Key("user", MAYBE_TEXT, "the user who logs in, or the key of an API", otherwise="the URL's, or nobody")
PASSWORD: Final = Key("password", SECRET, "a secret", otherwise="the URL's")
CA_FILE: Final = Key("ca_file", FILE, "authorities of the server's certificate, PEM", otherwise="the system's")
CERT_FILE: Final = Key("cert_file", FILE, "a certificate of the bridge's own, PEM", otherwise="none")
KEY_FILE: Final = Key("key_file", FILE, "its private key", otherwise="in `cert_file`")

REGISTRY: Final = Keys((URL, USER, PASSWORD, OAUTH, CA_FILE, CERT_FILE, KEY_FILE))
