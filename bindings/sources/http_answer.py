"""Send one request to an HTTP server, within limits of time and size; no other server gets the credentials."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from typing import Any, Final

CHUNK: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The answer of a server, with any status."""

    status: int
    reason: str
    headers: Message
    body: bytes


class HttpFailure(Exception):
    """Raised where there is no whole answer: what the server does instead, such as "cannot be reached: ...".

    Its ``__cause__`` is the error of the socket, of TLS or of HTTP.
    """


class _Endless(OSError):
    """Raised for an answer with more bytes than allowed."""


def read_answer(
    request: urllib.request.Request, seconds: float, most_bytes: int, context: ssl.SSLContext | None = None
) -> HttpAnswer:
    """Return the answer to a request.

    Raises HttpFailure if it is not complete within ``seconds``, even if its bytes keep coming, if it has more than
    ``most_bytes``, and if there is none.

    A socket's timeout starts again with each byte, and the lookup of a host name has none. So another thread does the
    work, and is abandoned if it takes too long. Redirects are not followed and proxies are not used: a proxy from the
    environment would get the password, and a redirect would send it to another server.
    """
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({}), _NoRedirection()]
    if context is not None:
        handlers.append(urllib.request.HTTPSHandler(context=context))
    opener = urllib.request.build_opener(*handlers)
    try:
        return _run_within(seconds, lambda: _read(opener, request, seconds, most_bytes))
    except TimeoutError as error:
        raise HttpFailure(f"gives no whole answer in {round(seconds, 1):g} s") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise HttpFailure(_describe(error)) from error


def _describe(error: Exception) -> str:
    """Return what a server does that does not answer."""
    if isinstance(error, _Endless):
        return str(error)
    if isinstance(error, ConnectionRefusedError):
        return "cannot be reached: nothing listens there"
    if isinstance(error, socket.gaierror):
        return "cannot be reached: no name server knows this host"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"has a certificate that is not trusted ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        if error.reason == "WRONG_VERSION_NUMBER":
            return "answers TLS with plain text: is it http: and not https:?"
        return f"ends the handshake of TLS ({error.reason})"
    if isinstance(error, OSError) and not isinstance(error, ConnectionError):
        return f"cannot be reached: {error.strerror or error}"
    return "does not answer as HTTP: is this its port?"


def _read(
    opener: urllib.request.OpenerDirector, request: urllib.request.Request, seconds: float, most_bytes: int
) -> HttpAnswer:
    until = time.monotonic() + seconds
    try:
        answer = opener.open(request, timeout=seconds)
    except urllib.error.HTTPError as error:  # every status but 2xx
        answer = error
    except urllib.error.URLError as error:
        raise error.reason if isinstance(error.reason, OSError) else error from None
    with answer:
        pieces: list[bytes] = []
        left = most_bytes
        while piece := answer.read1(CHUNK):
            pieces.append(piece)
            left -= len(piece)
            if left < 0:
                raise _Endless(f"answers with more than {most_bytes:,} bytes")
            if time.monotonic() > until:  # the caller has given up
                raise TimeoutError
        return HttpAnswer(answer.status, answer.reason, answer.headers, b"".join(pieces))


def _run_within(seconds: float, ask: Callable[[], HttpAnswer]) -> HttpAnswer:
    """Return what ``ask`` returns, or raise what it raises; raise TimeoutError if it takes longer."""
    outcome: list[HttpAnswer | Exception] = []

    def run() -> None:
        try:
            outcome.append(ask())
        except (OSError, http.client.HTTPException, ValueError) as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True, name="management API")
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise TimeoutError
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """Redirects are refused: credentials go only to the host the user named."""

    def http_error_302(self, *args: Any, **kwargs: Any) -> None:  # before anything of the new address is parsed
        return None

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302
