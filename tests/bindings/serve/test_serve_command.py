"""The command: it prints the address, serves until it is ended, and refuses what it cannot serve."""

import json
import signal
import socket
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import invoke
from tests.support.served import Served, serve
from tests.support.waiting import find_limit, wait_until


def ask(served: Served, question: str, token: str = "", host: str = "localhost", **fields: Any) -> tuple[int, Any]:
    client = HTTPConnection("127.0.0.1", served.port, timeout=find_limit())
    try:
        headers = {"Content-Type": "application/json", "X-Hashstar-Token": token or served.token, "Host": host}
        client.request("POST", f"/api/{question}", json.dumps(fields), headers)
        answer = client.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        client.close()


def test_it_serves_at_the_printed_address_until_it_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "t.bindings"
    path.write_text("exchange x: fanout\nqueue q\nx -> q\n")
    with serve(str(path)) as served:
        assert served.address.startswith("http://127.0.0.1:")
        assert len(served.token) >= 20
        status, answer = ask(served, "explain", message={"exchange": "x"})
        assert (status, answer["queues"]) == (200, ["q"])
        assert ask(served, "source", token="other")[0] == 403  # noqa: S106
        path.write_text("exchange x: fanout\nqueue q\nqueue r\nx -> q, r\n")
        until = time.monotonic() + find_limit()
        while ask(served, "source")[1]["version"] == 1:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert ask(served, "explain", message={"exchange": "x"})[1]["queues"] == ["q", "r"]
        code, err = served.end(signal.SIGINT)
        assert code == 0
        assert "Traceback" not in err
        assert "Ctrl-C" in err
        assert "can read this topology" not in err
        assert path.read_text() == "exchange x: fanout\nqueue q\nqueue r\nx -> q, r\n"


def test_several_virtual_hosts_and_a_report_are_served_at_another_address_by_request(tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    orders = "examples/orders/orders.bindings"
    invoke("audit", "-t", orders, "--no-spark", "--json", str(report), "examples/orders/traffic.jsonl")
    path = tmp_path / "t.bindings"
    path.write_text(Path("examples/orders/orders.bindings").read_text() + '\nvhost "/b"\nqueue b\n')
    options = ("--vhost", "/b", "--audit", str(report), "--listen", "0.0.0.0:0", "--allow-host", "shown.example")
    with serve(str(path), *options) as served:
        source = ask(served, "source")[1]
        assert (source["vhosts"], source["vhost"]) == (["/shop", "/b"], "/b")
        assert source["traffic"]["vhost"] == "/shop"
        assert ask(served, "topology")[1]["counted"] is None
        assert ask(served, "topology", vhost="/shop")[1]["counted"] == 12
        assert ask(served, "source", host="shown.example")[0] == 200
        code, err = served.end(signal.SIGTERM)
        assert code == 0
        assert "every computer that reaches 0.0.0.0 can read this topology" in err


def test_the_browser_is_started_without_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All users of a computer see the arguments of its processes: the token is in a file that only the owner reads."""
    seen, browser = tmp_path / "seen", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$0 $*" >{seen}.begun\nmv {seen}.begun {seen}\n')
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    with serve("examples/orders/orders.bindings", "--open") as served:
        wait_until(seen.exists)
        begun = seen.read_text()
        assert served.token not in begun
        page = Path(begun.strip().partition("file://")[2])
        assert served.token in page.read_text()
        assert page.parent.stat().st_mode & 0o77 == 0
        assert served.end(signal.SIGINT)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["missing.bindings"], "missing.bindings"),
        (["README.md"], "README.md:3:1"),
        (["examples/orders/orders.bindings", "--vhost", "/other"], "no virtual host"),
        (["examples/orders/orders.bindings", "--audit", "README.md"], "README.md"),
        (["examples/orders/orders.bindings", "--listen", "203.0.113.1:0"], "203.0.113.1:0 cannot be served"),
        (["examples/orders/orders.bindings", "--listen", "no such name:0"], "cannot be served"),
        (["examples/orders/orders.bindings", "--listen", "65536"], "--listen"),
        (["ftp://example.com"], "has no topology"),
        ([], "TOPOLOGY"),
    ],
)
def test_what_cannot_be_served_ends_it_with_2(arguments: list[str], text: str) -> None:
    ended = invoke("serve", *arguments)
    assert ended.exit_code == 2
    assert text in ended.stderr
    assert not ended.stdout


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = invoke("serve", "examples/orders/orders.bindings", "--listen", str(port))
    assert ended.exit_code == 2
    assert f"127.0.0.1:{port} cannot be served: Address already in use" in ended.stderr


def test_a_signal_that_comes_as_soon_as_the_address_is_printed_ends_it_with_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bindings.commands.serve.click.echo", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    assert invoke("serve", "examples/orders/orders.bindings").exit_code == 0
