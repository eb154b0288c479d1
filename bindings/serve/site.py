"""The HTTP side of `hashstar serve`: the files of the page, and the questions it asks.

=======================  ===================================================================================
``GET /?token=TOKEN``    the page; ``GET /page.js``, ``/page.css``, ``/icon.svg``: its parts
``POST /api/QUESTION``   a question of `bindings.serve.explorer.QUESTIONS`, with a JSON object, answered with one
=======================  ===================================================================================

The page holds no data. It is given to those who have the token of the address that the command prints, so that others
learn at once what is missing. A question needs the token in the header ``X-Hashstar-Token``. So no other user of the
machine can read the topology; and no page of another origin, since a browser sends this header to another origin only
if that allows it, and this server never does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from hmac import compare_digest
from importlib.resources import files
from typing import Any, Final
from urllib.parse import parse_qs

from bindings.http.handler import NOTHING, PLAIN, Handler
from bindings.http.hosts import HostCheck
from bindings.serve.drafts import EditError
from bindings.serve.explorer import QUESTIONS, DraftGone, Explorer
from bindings.serve.questions import Busy, OutOfTime
from bindings.sources.language.errors import LanguageError
from exchange.errors import BrokerError, HashstarError, InputError
from exchange.limits import QUESTION_BYTES

REPORT: Final = "bindings.report.forms"
SERVE: Final = "bindings.serve"
SCRIPTS: Final = (
    (REPORT, "dom"), (SERVE, "api"), (SERVE, "address"), (SERVE, "notation"), (SERVE, "copying"), (SERVE, "lines"),
    (SERVE, "message"), (SERVE, "route"), (SERVE, "picture"), (SERVE, "light"), (SERVE, "rows"), (SERVE, "selected"),
    (SERVE, "findings"), (SERVE, "meaning"), (SERVE, "draft"), (SERVE, "searching"), (SERVE, "watching"),
    (SERVE, "main"),
)  # fmt: skip
"""The modules of the page's script in the order in which they are joined, each with the package it is in."""
STYLES: Final = ((REPORT, "colours.css"), (REPORT, "base.css"), (SERVE, "serve.css"))
MISSING: Final = "open the address that hashstar serve has printed: its token is missing"
POLICY: Final = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
"""Content security policy of the page: nothing from elsewhere, no script or style that is not in its files."""
CODES: Final[tuple[tuple[type[HashstarError], int], ...]] = (
    (Busy, 429), (OutOfTime, 503), (DraftGone, 410), (InputError, 422), (BrokerError, 422),
)  # fmt: skip
"""Error -> status of the answer; the first that fits."""


def make_handler(explorer: Explorer, token: str, check: HostCheck) -> type[Handler]:
    """Return the handler of the requests of pages that know the token."""

    class SiteHandler(Handler):
        hosts = check
        hosts_option = "--allow-host NAME"
        most_body = QUESTION_BYTES

        def may_ask(self, path: str) -> bool:
            if self.command != "POST":
                return True
            refusal = self._refusal(path.removeprefix("/api/"), path)
            if refusal is not None:
                code, reason = refusal
                self.begin_to_refuse()
                self._answer_json(code, _error(reason))
            return refusal is None

        def answer_to(self, method: str, path: str) -> None:
            if method == "POST":
                self._answer_question(path)
                return
            found = load_files().get(path)
            if path == "/" and not self._is_token(*parse_qs(self.path.partition("?")[2]).get("token", [""])[:1]):
                self.answer(403, PLAIN, f"{MISSING}\n".encode())
            elif found is None:
                self.answer(404, PLAIN, b"there is no such page; hashstar serve has printed its address\n")
            else:
                kind, content = found
                self.answer(200, kind, content, POLICY if path == "/" else NOTHING)

        def _answer_question(self, path: str) -> None:
            name = path.removeprefix("/api/")
            try:
                self._answer_json(200, explorer.answer(name, self.body))
            except HashstarError as error:
                code = next((code for kind, code in CODES if isinstance(error, kind)), 500)
                self._answer_json(code, describe_error(error))

        def _refusal(self, name: str, path: str) -> tuple[int, str] | None:
            """Return status and reason where the head of a question is wrong."""
            if name not in QUESTIONS or name == path:
                return 404, f"there are the questions {', '.join(QUESTIONS)}"
            if not self._is_token(self.headers.get("X-Hashstar-Token", "")):
                return 403, MISSING
            if self.headers.get_content_type() != "application/json":
                return 415, "send application/json"
            return None

        def _is_token(self, given: str) -> bool:
            return compare_digest(given.encode("utf-8", "surrogateescape"), token.encode())

        def _answer_json(self, code: int, value: Mapping[str, Any]) -> None:
            # ASCII: names may hold bytes that are not UTF-8, which stand as lone surrogates.
            self.answer(code, "application/json", json.dumps(value, separators=(",", ":")).encode())

    return SiteHandler


def describe_error(error: HashstarError) -> dict[str, Any]:
    """Return an error as JSON values: its text, and where it is."""
    result = _error(str(error))
    if isinstance(error, LanguageError):
        result["error"] |= {"message": error.message, "line": error.line, "text": str(error)}
    if isinstance(error, EditError):
        result["error"]["edit"] = error.number
    if isinstance(error, BrokerError):
        result["error"]["broker"] = error.code
    if isinstance(error, OutOfTime):
        result["error"]["out_of_time"] = True
    return result


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message}}


@cache
def load_files() -> Mapping[str, tuple[str, bytes]]:
    """Return path -> content type and content of each file that the server has; there are no others."""
    scripts = "\n".join([_read_part(package, f"{name}.js") for package, name in SCRIPTS])
    styles = "\n".join([_read_part(package, name) for package, name in STYLES])
    return {
        "/": ("text/html; charset=utf-8", _read_part(SERVE, "index.html").encode()),
        "/page.js": ("text/javascript; charset=utf-8", f"'use strict';\n(() => {{\n{scripts}}})();\n".encode()),
        "/page.css": ("text/css; charset=utf-8", styles.encode()),
        "/icon.svg": ("image/svg+xml", _read_part(SERVE, "icon.svg").encode()),
    }


def _read_part(package: str, name: str) -> str:
    return files(package).joinpath("page", name).read_text("utf-8")
