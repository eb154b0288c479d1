"""``hashstar bridge`` as a process: its start, its signals and its end; with archives, which need no server."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fcntl import ioctl
from http.client import HTTPConnection
from pathlib import Path
from termios import FIONREAD
from typing import Any

import pytest

from bridge.cli import main
from bridge.daemon.signals import APART
from exchange import Message
from tests.bridge.endpoints.archive.test_archive import read_bodies, write_part
from tests.support.archives.parts import find_parts
from tests.support.unique import free_port
from tests.support.waiting import find_limit, stretch, wait_until

pytestmark = pytest.mark.process

TOPOLOGY = """
vhost "/"
exchange events: topic
queue all
queue some: partitioned kafka.murmur2 over 3
events -> all: "#"
events -> some: "key.1"
"""

HOLDING = TOPOLOGY.replace('all: "#"', 'all: "key.2"')
"""A topology without a queue for the first message, which is held, so that none behind it is settled."""

PATIENT = (
    "import sys\n"
    "from bridge.pump.inlet import InletReader\n"
    "InletReader._is_stuck = lambda self: False\n"
    "from bridge.cli import main\n"
    "main(sys.argv[1:])\n"
)
"""The program, where a drain waits for what is on hold, too, as for a target that does not answer."""

BRIDGE = """
topology = "t.bindings"
http = "127.0.0.1:0"
log_format = "json"
coverage = true
[policy]
window = 200
drain = "20 s"
[sources.replay]
url = "archive:in"
exchange = "events"
"""

OUT = """
[targets.out]
url = "archive:out"
queues = { all = ".", some = "some" }
"""


def write_config(tmp_path: Path, text: str, count: int = 300) -> Path:
    """Write a configuration, its topology and an archive; return the path of the configuration."""
    (tmp_path / "t.bindings").write_text(TOPOLOGY)
    if not (tmp_path / "in").exists():
        (tmp_path / "in").mkdir()
        write_part(tmp_path / "in" / "a", [Message("", f"key.{n % 5}", body=b"%d" % n) for n in range(count)])
    path = tmp_path / "bridge.toml"
    path.write_text(text)
    return path


def program(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "bridge.cli", "bridge", *arguments]


def run_program(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program to its end."""
    return subprocess.run(program(*arguments), capture_output=True, text=True, timeout=find_limit(), check=False)


def run_check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str]:
    """Run ``hashstar bridge check``, and return its exit code and output."""
    with pytest.raises(SystemExit) as end:
        main(["bridge", "check", *arguments])
    return end.value.code, capsys.readouterr().out


def patient(path: Path) -> list[str]:
    """Return the command of a bridge whose drain lasts as long as it may."""
    return [sys.executable, "-c", PATIENT, "bridge", "run", str(path)]


class Running:
    """A bridge that runs as a process, and its log."""

    def __init__(self, path: Path, command: Sequence[str] | None = None) -> None:
        self.log = path.with_name("log")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command or program("run", str(path)), stderr=log)

    def events(self) -> list[dict[str, Any]]:
        """Return the events of its log so far."""
        return [json.loads(line) for line in self.log.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def event(self, name: str, **fields: Any) -> dict[str, Any]:
        """Wait for the first event with this name and these fields, and return it."""

        def find_event() -> dict[str, Any] | None:
            return next((e for e in self.events() if e["event"] == name and fields.items() <= e.items()), None)

        event: dict[str, Any] = wait_until(find_event)
        return event

    def request(self, method: str, path: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
        """Send an HTTP request, and return status and body of the answer."""
        host = self.event("serving")["address"].removeprefix("http://").rstrip("/")
        connection = HTTPConnection(host, timeout=find_limit())
        try:
            connection.request(method, path, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.request("GET", "/status")[1])
        return found

    def wait_for_exit(self) -> int:
        """Wait until it ends, and return its exit code."""
        return self.process.wait(find_limit())


@contextmanager
def running(path: Path, command: Sequence[str] | None = None) -> Iterator[Running]:
    bridge = Running(path, command)
    try:
        yield bridge
    finally:
        bridge.process.kill()
        bridge.process.wait()


@pytest.mark.smoke
def test_a_replay_runs_to_its_end_and_writes_every_message(tmp_path: Path) -> None:
    done = run_program("run", str(write_config(tmp_path, BRIDGE + OUT)))
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert [event["event"] for event in events][:2] == ["configuration", "serving"]
    assert "there is no [dead_letters]" in events[0]["text"]
    assert [event["event"] for event in events][-2:] == ["ended", "stopped"]
    assert sorted(
        int(body) for path in find_parts(tmp_path / "out") if "some" not in str(path) for body in read_bodies(path)
    ) == [*range(300)]
    assert sorted(int(body) for body in read_bodies(tmp_path / "out" / "some")) == list(range(1, 300, 5))
    assert {path.parts[-3] for path in find_parts(tmp_path / "out" / "some")} == {"partition=2"}
    again = run_program("run", str(tmp_path / "bridge.toml"))
    assert "continues after 300 records" in again.stderr
    assert len(read_bodies(tmp_path / "out")) == 360


def test_a_bridge_shows_its_state_on_http_and_can_be_paused_and_resumed(tmp_path: Path) -> None:
    path = write_config(tmp_path, BRIDGE + "follow = true\n" + OUT)
    with running(path) as bridge:
        wait_until(lambda: bridge.status()["sources"][0]["messages"] == 300 and not bridge.status()["unsettled"])
        assert bridge.request("GET", "/live") == (200, "ok\n")
        assert bridge.request("GET", "/ready") == (200, "ok\n")
        status, metrics = bridge.request("GET", "/metrics")
        assert status == 200
        assert 'hashstar_written_messages_total{target="out",queue="some"} 60' in metrics
        assert 'destination="some",routing_key="key.1"} 60' in metrics
        report = json.loads(bridge.request("GET", "/coverage")[1])
        assert [row["messages"] for row in report["bindings"]] == [300, 60]
        assert bridge.request("POST", "/pause")[0] == 403
        assert bridge.status()["paused"] is False
        assert bridge.request("POST", "/pause", {"X-Hashstar": "1"}) == (202, "paused\n")
        wait_until(lambda: bridge.status()["paused"])
        status, output = bridge.request("GET", "/ready")
        assert (status, output.partition(" ")[0]) == (503, "paused")
        bridge.process.send_signal(signal.SIGUSR2)
        bridge.event("resumed")
        assert bridge.request("GET", "/ready")[0] == 200
        bridge.process.send_signal(signal.SIGUSR1)
        bridge.event("paused")
        assert bridge.request("POST", "/resume", {"X-Hashstar": "1"})[0] == 202
        assert "hashstar bridge" in bridge.request("GET", "/")[1]
        assert bridge.request("GET", "/nothing")[0] == 404
        assert bridge.request("POST", "/nothing")[0] == 404
        bridge.process.terminate()
        assert bridge.wait_for_exit() == 0
    assert bridge.event("stopping")["within"] == 20.0
    assert bridge.event("stopped")["not_settled"] == 0
    assert len(read_bodies(tmp_path / "out")) == 360


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str, str]:
    """Run ``hashstar bridge``, and return its exit code, output and errors."""
    with pytest.raises(SystemExit) as end:
        main(["bridge", *arguments])
    return end.value.code, *capsys.readouterr()


def test_commands_ask_a_bridge_that_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    path = write_config(tmp_path, BRIDGE.replace(":0", f":{port}") + "follow = true\n" + OUT)
    for command in ("status", "pause", "drain", "resume", "reload"):
        code, out, error = run_command(capsys, command, str(path), "--wait", "5s")
        assert (code, out) == (2, "")
        assert f"http://127.0.0.1:{port} cannot be reached: nothing listens there; does the bridge run" in error
    with running(path) as bridge:
        wait_until(lambda: bridge.status()["sources"][0]["messages"] == 300 and not bridge.status()["unsettled"])
        code, out, _ = run_command(capsys, "status", str(path))
        assert code == 0
        assert re.fullmatch(
            rf"""{path}: ready
address +state  runs for  not settled
http://127.0.0.1:{port}  ready  [0-9. mins]+ +0

source  state  waiting  not settled  oldest
replay  up     \?        0            -

target  state  sent  held  oldest
out     up     0     0     -
""",
            out,
        )
        assert json.loads(run_command(capsys, "status", str(path), "--json")[1])["workers"][0]["config"] == str(path)
        address = bridge.event("serving")["address"]
        assert run_command(capsys, "pause", address) == (0, "paused\n", "")
        code, out, _ = run_command(capsys, "status", address)
        assert code == 1
        assert re.search(rf"^paused \(paused for [0-9.]+ s\)\n  run: hashstar bridge resume {path}$", out, re.MULTILINE)
        assert run_command(capsys, "resume", str(path)) == (0, "resumed\n", "")
        assert run_command(capsys, "drain", str(path)) == (0, "drained\n", "")
        wait_until(lambda: not bridge.status()["sources"][0]["up"])  # as of the look that follows
        status = bridge.status()
        assert (status["drained"], status["sources"][0]["up"], status["targets"][0]["up"]) == (True, False, True)
        write_part(tmp_path / "in" / "b", [Message("", "key.1", body=b"later")])
        assert run_command(capsys, "pause", str(path)) == (0, "paused\n", "")
        assert run_command(capsys, "reload", str(path)) == (0, "reloaded\n", "")
        assert (bridge.status()["paused"], bridge.status()["drained"]) == (True, True)  # what a reload does not end
        assert bridge.status()["sources"][0]["messages"] == 300
        path.write_text(path.read_text() + "wrong = 1\n")
        code, out, _ = run_command(capsys, "reload", str(path))
        assert code == 1
        assert out.startswith(f"refused, and nothing has changed:\n{path}:")
        code, out, _ = run_command(capsys, "status", str(path))
        assert re.search(r"last reload: [0-9TZ:-]+, refused; it goes on as before:\n  .*wrong: is not known", out)
        assert run_command(capsys, "resume", address) == (0, "resumed\n", "")
        wait_until(lambda: bridge.status()["sources"][0]["messages"] == 301)
        bridge.process.terminate()
        assert bridge.wait_for_exit() == 0
    assert b"later" in read_bodies(tmp_path / "out")


def test_a_stop_that_takes_too_long_leaves_the_rest_unsettled_and_reports_it(tmp_path: Path) -> None:
    path = write_config(tmp_path, BRIDGE.replace('"20 s"', '"1 s"') + OUT)
    (tmp_path / "t.bindings").write_text(HOLDING)
    with running(path, patient(path)) as bridge:
        wait_until(lambda: bridge.status()["unsettled"] == 200)
        bridge.process.terminate()
        assert bridge.wait_for_exit() == 1
    assert bridge.event("stopped")["not_settled"] == 200
    (tmp_path / "t.bindings").write_text(TOPOLOGY)
    shutil.rmtree(tmp_path / "out")
    done = run_program("run", str(path))
    assert done.returncode == 0, done.stderr
    assert len(read_bodies(tmp_path / "out")) == 360


def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    path = write_config(tmp_path, BRIDGE + OUT)
    (tmp_path / "t.bindings").write_text(HOLDING)
    with running(path, patient(path)) as bridge:
        wait_until(lambda: bridge.status()["unsettled"] == 200)
        began = time.monotonic()
        bridge.process.send_signal(signal.SIGINT)
        bridge.event("stopping")
        time.sleep(APART)
        bridge.process.send_signal(signal.SIGINT)
        assert bridge.wait_for_exit() == 1
        assert time.monotonic() - began < stretch(15)
    bridge.event("stopping at once")


def test_two_signals_within_a_second_are_one_request_to_end(tmp_path: Path) -> None:
    path = write_config(tmp_path, BRIDGE.replace('"20 s"', '"3 s"') + OUT)
    (tmp_path / "t.bindings").write_text(HOLDING)
    with running(path, patient(path)) as bridge:
        wait_until(lambda: bridge.status()["unsettled"] == 200)
        bridge.process.terminate()
        bridge.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        assert bridge.wait_for_exit() == 1
        assert time.monotonic() - began > 2.5
    assert "stopping at once" not in [event["event"] for event in bridge.events()]


def test_a_hangup_while_the_configuration_is_read_is_not_lost(tmp_path: Path) -> None:
    path = write_config(tmp_path, BRIDGE.replace("t.bindings", "/dev/stdin") + "follow = true\n" + OUT)
    os.mkfifo(tmp_path / "pipe")
    command = ["bash", "-c", 'exec "$@" < "$0"', str(tmp_path / "pipe"), *program("run", str(path))]
    with running(path, command) as bridge:
        with (tmp_path / "pipe").open("wb", buffering=0) as pipe:
            pipe.write(TOPOLOGY[:9].encode())
            wait_until(
                lambda: not any(ioctl(pipe, FIONREAD, bytes(4)))
            )  # so the configuration is read; nothing runs yet
            bridge.process.send_signal(signal.SIGHUP)
            pipe.write(TOPOLOGY[9:].encode())

        def is_refused() -> bool:
            """Read nothing, which needs somebody who opens the pipe to write: without, it would be waited for."""
            os.close(os.open(tmp_path / "pipe", os.O_WRONLY))
            return "reload refused" in [event["event"] for event in bridge.events()]

        wait_until(is_refused)
        wait_until(lambda: bridge.status()["sources"][0]["messages"] == 300)
        bridge.process.terminate()
        assert bridge.wait_for_exit() == 0


def test_a_bridge_that_cannot_be_stopped_ends_itself_and_logs_what_it_waited_for(tmp_path: Path) -> None:
    path = write_config(tmp_path, BRIDGE.replace('"20 s"', '"100 ms"') + "follow = true\n" + OUT)
    stubborn = (
        "import asyncio, sys\n"
        "from bridge.daemon import signals\n"
        "from bridge.endpoints.archive.writing import ArchiveTarget\n"
        "signals.CLOSING = signals.LAST = 0.3\n"
        "async def close(self):\n"
        "    while True:\n"
        "        try:\n"
        "            await asyncio.sleep(60)\n"
        "        except asyncio.CancelledError:\n"
        "            pass\n"
        "ArchiveTarget.close = close\n"
        "from bridge.cli import main\n"
        "main(sys.argv[1:])\n"
    )
    with running(path, [sys.executable, "-c", stubborn, "bridge", "run", str(path)]) as bridge:
        bridge.event("connected", endpoint="out")
        began = time.monotonic()
        bridge.process.terminate()
        assert bridge.wait_for_exit() == 1
        assert time.monotonic() - began < stretch(60)
    assert {"Pipelines.run", "Outlet.close"} <= {*bridge.event("ended by force")["waiting"]}


@pytest.mark.parametrize("follows", [False, True])
def test_a_log_that_nobody_reads_delays_neither_messages_nor_the_end(follows: bool, tmp_path: Path) -> None:
    path = write_config(tmp_path, BRIDGE + f"follow = {str(follows).lower()}\n" + OUT)
    reader, into = os.pipe()
    os.set_blocking(into, False)
    with suppress(BlockingIOError):
        while True:
            os.write(into, bytes(4096))
    os.set_blocking(into, True)
    process = subprocess.Popen(program("run", str(path)), stderr=into)
    try:
        if follows:
            wait_until((tmp_path / "out").exists)
            process.terminate()
        assert process.wait(find_limit()) == 0
    finally:
        process.kill()
        process.wait()
        os.close(reader)
        os.close(into)
    assert follows or len(set(read_bodies(tmp_path / "out"))) == 300


def test_a_rate_is_kept(tmp_path: Path) -> None:
    path = write_config(tmp_path, BRIDGE + "follow = true\n[sources.replay.policy]\nrate = 50\n" + OUT)
    began = time.monotonic()
    with running(path) as bridge:
        bridge.event("connected", endpoint="replay")
        count = wait_until(lambda: (read := bridge.status()["sources"][0]["messages"]) >= 60 and read)
        assert count <= 150 + 50 * (time.monotonic() - began)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (BRIDGE + "nonsense = 1" + OUT, "[sources.replay] nonsense: is not known here"),
        ('profile = "rabbit"\n' + BRIDGE + OUT, "or a release from 3.10 on, as 4.1.3, 4.1 or 4.1.x, and is 'rabbit'"),
        (BRIDGE.replace("127.0.0.1:0", "192.0.2.1:9410") + OUT, "http: 192.0.2.1:9410 cannot be served"),
    ],
)
def test_a_configuration_that_cannot_work_ends_with_2_and_a_line_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, error: str
) -> None:
    code, _, printed = run_command(capsys, "run", str(write_config(tmp_path, text)))
    assert code == 2
    assert error in next(line for line in reversed(printed.splitlines()) if not line.startswith(" "))
    assert "Traceback" not in printed


def test_check_connects_and_reports_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_config(tmp_path, BRIDGE + OUT)
    code, output, errors = run_command(capsys, "check", str(path))
    assert (code, errors) == (0, "")
    assert output.splitlines()[-1] == "ready to run: 1 source, 1 target, 1 warning"
    assert not (tmp_path / "out").exists()
    wrong = write_config(tmp_path, BRIDGE.replace("archive:in", "archive:none") + OUT)
    code, output = run_check(capsys, str(wrong))
    assert code == 1
    assert re.search(r"^  error +\[sources\.replay\] ", output, re.MULTILINE)
    assert output.splitlines()[-1] == "not ready: 1 error, 1 warning"
    code, output = run_check(capsys, "--json", str(wrong))
    assert code == 1
    found = json.loads(output)
    assert (found["ready"], found["errors"], found["warnings"]) == (False, 1, 1)
    assert [each["table"] for each in found["findings"] if each["level"] == "error"] == ["sources.replay"]
    assert run_check(capsys, "--offline", str(wrong))[0] == 0
    assert run_check(capsys, str(tmp_path / "none.toml"))[0] == 2


def test_check_reports_once_why_it_cannot_connect(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    kafka = '[sources.kafka]\nurl = "kafka://127.0.0.1:1"\ntopic = "t"\ngroup = "g"\nexchange = "events"\n'
    path = write_config(tmp_path, BRIDGE + OUT + kafka)
    code, output, errors = run_command(capfd, "check", str(path))
    assert code == 1
    [line] = [line for line in output.splitlines() if line.startswith("  error")]
    assert line.split()[:2] == ["error", "[sources.kafka]"]
    assert output.count("127.0.0.1:1 failed: Connection refused") == 1
    assert errors == ""  # of librdkafka neither, which writes past Python


RABBIT = """
[sources.rabbit]
url = "amqp://guest@127.0.0.1:1"
password = { env = "BRIDGE_PASSWORD" }
queue = "q"
"""


LAPIN = RABBIT.replace('{ env = "BRIDGE_PASSWORD" }', '"x"')


def test_no_password_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BRIDGE_PASSWORD", "hush-hush")
    path = write_config(tmp_path, BRIDGE.replace('"json"', '"json"\nlog_level = "debug"') + OUT + RABBIT)
    with running(path) as bridge:
        bridge.event("disconnected", endpoint="rabbit")
        output = [bridge.request("GET", each)[1] for each in ("/", "/status", "/ready", "/metrics")]
        bridge.process.terminate()
        bridge.wait_for_exit()
    code, found = run_check(capsys, str(path))
    assert code == 1
    for text in (*output, bridge.log.read_text(), found):
        assert "hush" not in text


def test_workers_are_started_again_when_they_die_and_stop_together(tmp_path: Path) -> None:
    with running(write_config(tmp_path, "workers = 2\n" + BRIDGE + OUT + LAPIN)) as bridge:
        first = bridge.event("started", worker=1)["process"]
        bridge.event("started", worker=2)
        code, body = bridge.request("POST", "/reload", {"X-Hashstar": "1"})
        assert code == 200, body
        assert [each["event"] for each in bridge.events()].count("reloaded") == 1, "only the worker that is asked"
        bridge.process.send_signal(signal.SIGHUP)
        wait_until(lambda: [each["event"] for each in bridge.events()].count("reloaded") == 3)
        os.kill(first, signal.SIGKILL)
        bridge.event("worker died", worker=1)

        def ends_again() -> bool:
            mine = [e["event"] for e in bridge.events() if e.get("worker") == 1]
            return "ended" in mine[mine.index("worker died") :]

        wait_until(ends_again)
        bridge.process.send_signal(signal.SIGINT)
        assert bridge.wait_for_exit() == 0
    assert sorted(e["worker"] for e in bridge.events() if e["event"] == "stopped") == [1, 2]
    assert set(read_bodies(tmp_path / "out")) == {b"%d" % n for n in range(300)}
    assert not [
        e for e in bridge.events() if e["event"] == "connected" and e.get("worker") == 2 and e["endpoint"] == "replay"
    ]


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    with running(write_config(tmp_path, "workers = 2\n" + BRIDGE + "follow = true\n" + OUT + LAPIN)) as bridge:
        bridge.event("connected", worker=1, endpoint="out")
        bridge.event("connected", worker=2, endpoint="out")
        bridge.process.kill()
        bridge.event("stopped", worker=1)
        bridge.event("stopped", worker=2)
