"""What `examples/ci` gives to GitHub and GitLab: the script in a repository, the comment on a server, the YAML."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from examples.ci import comment
from tests.support.git import ENVIRONMENT, commit, git, make_repository
from tests.support.pages import ROOT
from tests.support.waiting import find_limit

CI = ROOT / "examples" / "ci"
TOKEN = "hunter2"  # noqa: S105  not one of a server
SHOP = """\
exchange orders: topic
queue billing
orders -> billing: "order.*.paid", "order.eu.paid"
"""


class Server(ThreadingHTTPServer):
    """Comments of one request, as the APIs of GitHub and GitLab have them: lists by pages, changes by id."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.comments: list[dict[str, Any]] = []
        self.asked: list[tuple[str, str, str]] = []
        self.user: int | None = None
        self.refusal: int | None = None

    @property
    def url(self) -> str:
        """Address of the API."""
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def ours(self) -> list[str]:
        """Texts of the comments that have the marker and are of the user of the token."""
        mine = [each for each in self.comments if each["user"]["id"] == 7]
        return [each["body"] for each in mine if each["body"].startswith("<!-- hashstar -->")]


class Answer(BaseHTTPRequestHandler):
    """One answer."""

    server: Server

    def do_GET(self) -> None:
        self._record()
        address = urlsplit(self.path)
        if address.path == "/user":
            self._send(200 if self.server.user else 403, {"id": self.server.user})
            return
        fields = parse_qs(address.query)
        page, size = int(fields["page"][0]), int(fields["per_page"][0])
        shown = self.server.comments[(page - 1) * size : page * size]
        more = page * size < len(self.server.comments)
        self._send(200, shown, {"Link": '<http://x/?page=2>; rel="next"'} if more else {})

    def do_POST(self) -> None:
        self._record()
        if self.server.refusal is not None:
            self._send(self.server.refusal, {}, {"Location": "http://127.0.0.1:1/"})
            return
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]
        self.server.comments.append({"id": len(self.server.comments), "body": body, "user": {"id": 7, "type": "Bot"}})
        self._send(201, {})

    def do_PATCH(self) -> None:
        self._record()
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]
        self.server.comments[int(self.path.rpartition("/")[2])]["body"] = body
        self._send(200, {})

    do_PUT = do_PATCH  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass

    def _record(self) -> None:
        token = self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN") or ""
        self.server.asked.append((self.command, urlsplit(self.path).path, token))

    def _send(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {**(headers or {}), "Content-Length": str(len(data))}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def server() -> Iterator[Server]:
    """Run the server."""
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """Return a repository that gives any commit, as code hosts do: a branch, and main with another change meanwhile."""
    folder = tmp_path / "origin"
    make_repository(folder, {"topology/shop.bindings": SHOP, "other.bindings": "queue q\n"})
    git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(folder, "switch", "--quiet", "--create", "feature")
    (folder / "topology/shop.bindings").write_text(SHOP.replace("*.paid", "*.sent"))
    commit(folder, "the change")
    git(folder, "switch", "--quiet", "main")
    (folder / "other.bindings").write_text("queue other\n")
    commit(folder, "not of the change")
    return folder


def clone(origin: Path, revision: str) -> Path:
    """Clone one commit of a repository, as CI does."""
    folder = origin.parent / "clone"
    folder.mkdir()
    git(folder, "init", "--quiet")
    git(folder, "remote", "add", "origin", origin.as_uri())
    git(folder, "fetch", "--quiet", "--depth=1", "origin", revision)
    git(folder, "checkout", "--quiet", "FETCH_HEAD")
    return folder


def report(folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the script as a job does."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT", "CI_", "HASHSTAR"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    outer = {**kept, **ENVIRONMENT, "PATH": path, "PYTHONPATH": str(ROOT)}
    command = [str(CI / "report.sh")]
    return subprocess.run(
        command, cwd=folder, env=outer | environment, capture_output=True, text=True, timeout=find_limit(), check=False
    )


def github(server: Server, folder: Path, **more: str) -> dict[str, str]:
    """Return the variables of a job of GitHub about pull request 12."""
    event = folder.parent / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 12}}))
    return {
        "GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "pull_request", "GITHUB_EVENT_PATH": str(event),
        "GITHUB_SHA": git(folder, "rev-parse", "HEAD"), "GITHUB_REPOSITORY": "owner/shop", "GITHUB_API_URL": server.url,
        "GITHUB_STEP_SUMMARY": str(folder.parent / "summary.md"), "HASHSTAR_TOKEN": TOKEN, **more,
    }  # fmt: skip


@pytest.mark.process
def test_a_pull_request_gets_one_comment_that_is_kept_up_to_date(server: Server, origin: Path) -> None:
    """It has what the change means, and not what others changed; the job fails as the messages are lost."""
    git(origin, "merge", "--quiet", "--no-ff", "--no-edit", "feature")
    folder = clone(origin, "main")
    server.comments = [{"id": n, "body": "text", "user": {"id": 1, "type": "User"}} for n in range(150)]
    server.comments[3]["body"] = "<!-- hashstar --> of someone else"
    first = report(folder, github(server, folder))
    assert first.returncode == 1, first.stdout + first.stderr
    [text] = server.ours
    assert text.startswith("<!-- hashstar -->\n### hashstar diff: **messages are lost**\n")
    assert "| `billing` | **loses** | `orders` | `'order.*.paid'" in text
    assert "other.bindings" not in text.partition("### hashstar check")[0]
    assert "### hashstar check: passed" in text
    assert (folder.parent / "summary.md").read_text() == text == (folder / "hashstar-reports/comment.md").read_text()
    assert "hashstar: the comment written" in first.stdout
    assert {token for _, _, token in server.asked} == {f"Bearer {TOKEN}"}
    assert {path for _, path, _ in server.asked} <= {"/repos/owner/shop/issues/12/comments", "/user"}
    assert TOKEN not in first.stdout + first.stderr

    again = report(folder, github(server, folder))
    assert "the comment is up to date" in again.stdout
    (folder / "topology/shop.bindings").write_text(SHOP)
    mended = report(folder, github(server, folder))
    assert mended.returncode == 0, mended.stdout + mended.stderr
    assert "the comment replaced" in mended.stdout
    [text] = server.ours
    assert "### hashstar diff: no difference" in text
    assert server.comments[3]["body"] == "<!-- hashstar --> of someone else"
    methods = [method for method, _, _ in server.asked]
    assert (methods.count("POST"), methods.count("PATCH")) == (1, 1)


@pytest.mark.process
def test_a_comment_that_cannot_be_written_is_a_warning(server: Server, origin: Path) -> None:
    """As for a pull request from a fork; the summary has it. A redirect is not followed: the token stays."""
    git(origin, "merge", "--quiet", "--no-ff", "--no-edit", "feature")
    folder = clone(origin, "main")
    for server.refusal in (403, 302):
        done = report(folder, github(server, folder, HASHSTAR_DIFF_FAIL_ON="never"))
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"the comment cannot be written: {server.refusal} " in done.stderr
        assert "::warning title=hashstar::the comment was not written" in done.stdout
    assert "messages are lost" in (folder.parent / "summary.md").read_text()


@pytest.mark.process
def test_a_merge_request_gets_a_note_and_a_code_quality_report(server: Server, origin: Path) -> None:
    """What is checked out is the head of the branch; GitLab names what it forked from."""
    folder = clone(origin, "feature")
    server.user = 7
    environment = {
        "GITLAB_CI": "true", "CI_MERGE_REQUEST_IID": "5", "CI_PROJECT_ID": "9", "CI_API_V4_URL": server.url,
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": git(origin, "merge-base", "main", "feature"), "HASHSTAR_TOKEN": TOKEN,
        "HASHSTAR_FILES": "topology\n", "CI_PROJECT_DIR": str(folder),
    }  # fmt: skip
    for _ in range(2):
        done = report(folder, environment)
        assert done.returncode == 1, done.stdout + done.stderr
    [text] = server.ours
    assert "### hashstar diff: **messages are lost**" in text
    assert {path for _, path, _ in server.asked} <= {"/projects/9/merge_requests/5/notes", "/user"}
    entries = json.loads((folder / "hashstar-reports/gl-code-quality-report.json").read_text())
    assert isinstance(entries, list)


@pytest.mark.process
def test_findings_fail_the_job_and_are_annotations(origin: Path) -> None:
    """A push is compared with the commit before it; one whose commit is gone is not compared."""
    before = git(origin, "rev-parse", "HEAD")
    (origin / "topology/shop.bindings").write_text(SHOP + "orders -> nobody\n")
    commit(origin)
    folder = clone(origin, "main")
    environment = {
        "GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "push", "GITHUB_SHA": git(folder, "rev-parse", "HEAD"),
        "GITHUB_WORKSPACE": str(folder), "HASHSTAR_BASE": before, "HASHSTAR_DIFF_FAIL_ON": "never",
    }  # fmt: skip
    done = report(folder, environment)
    assert done.returncode == 1
    assert re.search(r"^::error file=topology/shop.bindings,line=4,title=HS102 ", done.stdout, re.MULTILINE), (
        done.stdout
    )
    text = (folder / "hashstar-reports/comment.md").read_text()
    assert "### hashstar check: **failed**" in text
    assert "    HS102 missing-destination: 1 error" in text
    gone = report(folder, {**environment, "HASHSTAR_BASE": "1" * 40, "HASHSTAR_CHECK_FAIL_ON": "error"})
    assert "cannot be fetched: nothing was compared" in gone.stdout
    assert gone.returncode == 1
    first_push = report(folder, {**environment, "HASHSTAR_BASE": "0" * 40})
    assert "there is no commit before this change to compare with" in first_push.stdout


@pytest.mark.process
def test_what_cannot_be_read_or_compared_ends_with_2(origin: Path) -> None:
    folder = clone(origin, "feature")
    done = report(folder, {"HASHSTAR_AGAINST": "nowhere"})
    assert done.returncode == 2
    assert "commit nowhere cannot be fetched; let the clone have it" in done.stderr
    (folder / "topology/shop.bindings").write_text("exchnage x\n")
    done = report(folder, {})
    assert done.returncode == 2
    assert "**a file cannot be read**" in (folder / "hashstar-reports/comment.md").read_text()


def test_a_comment_has_room_for_both_reports(tmp_path: Path) -> None:
    """However long they are: a comment on GitHub has 65,536 characters at most."""
    (tmp_path / "diff.md").write_text("x" * 60_000)
    (tmp_path / "check.txt").write_text("y" * 500 + "\n" + "``` </details> <!-- \n" * 1_000)
    text, news = comment.compose(tmp_path, 1, "a <!-- b --> c")
    assert news
    assert len(text) < 65_536
    assert text.startswith("<!-- a -- b -- c -->\n")
    assert "\nand 961 more lines, which the log of the job has\n" in text
    assert all(line.startswith("    ") for line in text.splitlines() if "```" in line)


def documents(name: str) -> list[Any]:
    """Return the documents of a YAML file."""
    return list(yaml.safe_load_all((CI / name).read_text()))


def variables() -> set[str]:
    """Return the variables that the script documents."""
    head = (CI / "report.sh").read_text().partition("set -euo")[0]
    return set(re.findall(r"^#   (HASHSTAR_\w+)", head, re.MULTILINE))


def test_the_action_gives_the_script_every_variable_and_no_text_of_a_request() -> None:
    """Of inputs and of the event, the shell sees variables only: what stands in `run` is code."""
    [action] = documents("github/action.yml")
    step = action["runs"]["steps"][-1]
    assert "${{" not in step["run"]
    assert variables() == {*step["env"], "HASHSTAR_REPORTS"} - {"PYTHON"}
    used = re.findall(r"inputs\.([\w-]+)", str(step["env"]))
    assert sorted(used) == sorted(action["inputs"])
    assert all(each["shell"] == "bash" for each in action["runs"]["steps"] if "run" in each)


def test_the_job_of_gitlab_gives_the_script_every_variable() -> None:
    specification, jobs = documents("gitlab/check.yml")
    [job] = jobs.values()
    inputs = specification["spec"]["inputs"]
    used = re.findall(r"\$\[\[ inputs\.([\w-]+) \]\]", (CI / "gitlab/check.yml").read_text())
    assert set(used) == set(inputs)
    assert not any("$[[" in line for line in job["script"])
    given = {name for name in job["variables"] if name not in {"HASHSTAR_REPOSITORY", "HASHSTAR_VERSION"}}
    assert given <= variables()
    assert [name for name, value in inputs.items() if "default" not in value] == ["repository"]
    assert all(value["default"] in value["options"] for value in inputs.values() if "options" in value)
