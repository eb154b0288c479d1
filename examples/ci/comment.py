"""Write one comment of a check and a comparison, and keep it up to date on a pull request or a merge request.

Usage: ``python comment.py FOLDER STATUS``. FOLDER has ``diff.md`` and ``check.txt``; STATUS is the exit code of the
check. The comment is written to ``FOLDER/comment.md`` and to GitHub's job summary. With HASHSTAR_TOKEN, the comment of
an earlier run is replaced, else a new one is made; if there is nothing to say, only an earlier one is replaced.

Needs nothing but the standard library. The token goes only to the host that CI names: redirects are refused.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import HTTPRedirectHandler, Request, build_opener

SECONDS: Final = 30
"""Maximum duration of an answer."""
PAGES: Final = 50
"""Maximum number of pages of comments that are searched for the one of an earlier run; each has 100 comments."""
LINES: Final = 40
"""Maximum number of lines of the check; the others are counted, and in the log."""
WIDTH: Final = 100
"""Maximum number of characters of such a line: a comment on GitHub has 65,536, of which diff.md has at most 60,000."""
OUTCOMES: Final = {0: "passed", 1: "**failed**"}


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def compose(folder: Path, status: int, title: str) -> tuple[str, bool]:
    """Return the comment, and whether it says more than that all is well."""
    marker = f"<!-- {re.sub('[^A-Za-z0-9 _.-]', '', title)} -->"
    changes, findings = folder / "diff.md", folder / "check.txt"
    compared = changes.read_text("utf-8") if changes.exists() else "### hashstar diff: nothing was compared\n"
    # hashstar escapes what is in its lines; as a block of code, none of it is markup.
    lines = findings.read_text("utf-8").splitlines() if findings.exists() else []
    lines += (folder / "errors.txt").read_text("utf-8").splitlines() if (folder / "errors.txt").exists() else []
    shown = [f"    {line[:WIDTH]}" for line in lines[:LINES]]
    if len(lines) > LINES:
        shown += ["", f"and {len(lines) - LINES:,} more lines, which the log of the job has"]
    head = f"### hashstar check: {OUTCOMES.get(status, '**a file cannot be read**')}"
    fold = ["<details><summary>Findings</summary>", "", *shown, "", "</details>"]
    text = "\n".join([marker, compared, head, "", *(fold if lines else [])])
    news = status != 0 or (changes.exists() and not compared.startswith("### hashstar diff: no difference\n"))
    return f"{text}\n", news


class Host:
    """The comments of one pull request or merge request."""

    def __init__(self, base: str, comments: str, update: tuple[str, str], headers: Mapping[str, str]) -> None:
        self._base = base
        self._comments = comments
        self._method, self._one = update
        self._headers = {**headers, "Content-Type": "application/json", "User-Agent": "hashstar"}
        self._open = build_opener(_NoRedirect).open

    def ask(self, method: str, path: str, body: str | None = None) -> tuple[Any, str]:
        """Return the JSON of an answer, and the path of its next page. Raises HTTPError, URLError."""
        data = None if body is None else json.dumps({"body": body}).encode()
        request = Request(f"{self._base}{path}", data, dict(self._headers), method=method)  # noqa: S310
        with self._open(request, timeout=SECONDS) as answer:
            return json.loads(answer.read(16 << 20)), answer.headers.get("Link", "")

    def comments(self) -> Iterator[Any]:
        """Yield the comments, page by page."""
        for page in range(1, PAGES + 1):
            found, links = self.ask("GET", f"{self._comments}?per_page=100&page={page}")
            yield from found
            if 'rel="next"' not in links:
                return

    def user(self) -> Any:
        """Return the id of the user that the token is of; None for a token of no user, such as that of a job."""
        try:
            return self.ask("GET", "/user")[0].get("id")
        except HTTPError:
            return None

    def write(self, body: str, *, create: bool) -> str:
        """Replace the comment of an earlier run, else make one if it is to be created; return what was done."""
        marker = body.split("\n", 1)[0]
        known = [comment for comment in self.comments() if (comment.get("body") or "").startswith(marker)]
        # Anyone can copy the marker, and would then be the author of what is written here.
        user = self.user() if known else None
        mine = [comment for comment in known if _is_written_by(comment, user)]
        if mine:
            if mine[-1]["body"].strip() == body.strip():
                return "is up to date"
            self.ask(self._method, self._one.format(mine[-1]["id"]), body)
            return "replaced"
        if not create:
            return "not needed"
        self.ask("POST", self._comments, body)
        return "written"


def _is_written_by(comment: Any, user: Any) -> bool:
    author = comment.get("user") or comment.get("author") or {}
    return author.get("id") == user if user is not None else author.get("type") == "Bot" or author.get("bot") is True


def find_host(environment: Mapping[str, str]) -> Host | None:
    """Return the request that this job is about; None if it is about none."""
    token = environment["HASHSTAR_TOKEN"]
    if environment.get("CI_MERGE_REQUEST_IID"):
        notes = f"/projects/{environment['CI_PROJECT_ID']}/merge_requests/{environment['CI_MERGE_REQUEST_IID']}/notes"
        return Host(environment["CI_API_V4_URL"], notes, ("PUT", f"{notes}/{{}}"), {"PRIVATE-TOKEN": token})
    if environment.get("GITHUB_EVENT_PATH"):
        event = json.loads(Path(environment["GITHUB_EVENT_PATH"]).read_text("utf-8"))
        number = (event.get("pull_request") or {}).get("number")
        if number is not None:
            issues = f"/repos/{quote(environment['GITHUB_REPOSITORY'])}/issues"
            headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"}
            update = "PATCH", f"{issues}/comments/{{}}"
            return Host(environment["GITHUB_API_URL"], f"{issues}/{int(number)}/comments", update, headers)
    return None


def main(folder: str, status: str) -> int:
    """Write the comment wherever it can be; return 1 if it should have been posted and was not."""
    body, news = compose(Path(folder), int(status), os.environ.get("HASHSTAR_TITLE") or "hashstar")
    (Path(folder) / "comment.md").write_text(body, "utf-8")
    if os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(os.environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as summary:
            summary.write(body)
    if not os.environ.get("HASHSTAR_TOKEN") or os.environ.get("HASHSTAR_COMMENT", "true") != "true":
        return 0
    host = find_host(os.environ)
    if host is None:
        return 0
    try:
        print(f"hashstar: the comment {host.write(body, create=news)}")
    except HTTPError as error:
        reason = f"{error.code} {error.reason}"
    except (URLError, OSError, ValueError) as error:
        reason = str(error)
    else:
        return 0
    print(f"hashstar: the comment cannot be written: {reason}; may the token write comments?", file=sys.stderr)
    return 1


def _run() -> NoReturn:
    if len(sys.argv) != 3:
        sys.exit("usage: python comment.py FOLDER STATUS")
    sys.exit(main(*sys.argv[1:]))


if __name__ == "__main__":
    _run()
