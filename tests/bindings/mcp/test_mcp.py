"""An assistant asks over the Model Context Protocol, with the protocol's own client, and gets what commands print."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.mcp.tools import MAX_LISTED_ENTRIES, Tools, shorten
from exchange import InputError
from tests.support.pages import ROOT
from tests.support.program import run_program
from tests.support.tiers import examples
from tests.support.waiting import wait_until

ORDERS = "examples/orders/orders.bindings"


def run(*arguments: str) -> str:
    """Return what a command prints."""
    return run_program(*arguments).stdout


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run_test(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run_test


@asynccontextmanager
async def session(*arguments: str) -> AsyncIterator[Any]:
    """Yield a session with ``hashstar mcp``, a process of its own."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    command = ["-m", "bridge.cli", "mcp", *arguments]
    server = StdioServerParameters(
        command=sys.executable, args=command, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=ROOT
    )
    async with stdio_client(server) as (read, write), ClientSession(read, write) as started:
        await started.initialize()
        yield started


async def ask(started: Any, tool: str, **arguments: Any) -> Any:
    """Return the answer of a tool; the text of an error."""
    result = await started.call_tool(tool, arguments)
    return result.content[0].text if result.is_error else result.structured_content


OPENING = [
    {
        "jsonrpc": "2.0", "id": "opening", "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]  # fmt: skip


class Lines(io.BytesIO):
    """Standard input of these lines, which ends when this number of answers is printed."""

    def __init__(self, lines: list[str], printed: io.BytesIO, answers: int) -> None:
        super().__init__("".join(f"{line}\n" for line in lines).encode())
        self.printed = printed
        self.answers = answers

    def read1(self, size: int | None = -1) -> bytes:
        data = super().read1(size)
        return data or (wait_until(lambda: self.printed.getvalue().count(b"\n") >= self.answers) and b"")


def answer_lines(tools: Tools, lines: list[str], answers: int) -> list[dict[str, Any]]:
    """Return what a server in this process answers to lines on standard input, up to a number of answers."""
    from bindings.mcp.server import build_server  # not in each process of tests: it takes a second

    printed = io.BytesIO()
    given = Lines([*map(json.dumps, OPENING), *lines], printed, 1 + answers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(given))
        patch.setattr(sys, "stdout", output := io.TextIOWrapper(printed))
        asyncio.run(build_server(tools).run_stdio_async())
        output.detach()
    return [answer for answer in map(json.loads, printed.getvalue().splitlines()) if answer["id"] != "opening"]


BAD_VALUES = [
    "[" * 50_000 + "]" * 50_000, '{"a":' * 5_000 + "1" + "}" * 5_000, "9" * 5_000, "-Infinity", "nope", "1e999999",
    r'"\ud800"', r'"\udcff"', r'{"\udfff": 1}', r'"\ud83d \ude00"', '"\x01"', r'"\x"', "[1, ]", '"a": 5', "{}}",
]  # fmt: skip


CALLS = st.tuples(st.sampled_from(BAD_VALUES), st.booleans(), st.booleans(), st.booleans())


@given(st.lists(CALLS, min_size=1, max_size=5))
@examples(30)
def test_a_call_that_cannot_be_read_is_answered_under_its_id(calls: list[tuple[str, bool, bool, bool]]) -> None:
    lines, numbers = ['{"jsonrpc": "2.0", "id": "before", "method": "ping"}'], []
    for number, (value, id_last, as_text, as_method) in enumerate(calls):
        numbers.append(f"call {number}" if as_text else number)
        params = f'{{"name": "check_topology", "arguments": {{"topology": {value}}}}}'
        call = f'"method": {value}' if as_method else f'"method": "tools/call", "params": {params}'
        members = [call, f'"id": {json.dumps(numbers[-1])}']
        if not id_last or value == "{}}":  # what is behind this is not within the object any more
            members.reverse()
        lines.append('{"jsonrpc": "2.0", ' + ", ".join(members) + "}")
    answers = answer_lines(Tools([ORDERS], []), lines, len(lines))
    assert Counter(answer["id"] for answer in answers) == Counter(["before", *numbers])
    assert all("error" in answer or answer["result"]["isError"] for answer in answers if answer["id"] != "before")


@pytest.mark.parametrize(("line", "identity", "reason"), [
    ("nonsense", None, "not JSON: Expecting value at column 1"),
    ("[]", None, "no request of JSON-RPC 2.0"),
    ("7", None, "no request of JSON-RPC 2.0"),
    ('{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": []}', 7, "params: Input should be an object"),
    ('{"jsonrpc": "1.0", "id": 7, "method": "ping"}', 7, "jsonrpc: Input should be '2.0'"),
    (r'{"jsonrpc": "2.0", "id": "\ud800", "method": "ping"}', None, "half of a surrogate pair"),
    (r'{"jsonrpc": "2.0", "\u0069d": 7, "method": "\ud800"}', 7, "half of a surrogate pair"),
    (r'{"a": {"id": 8}, "id": 7, "b": [{"id": 9}], "method": "\ud800"}', 7, "half of a surrogate pair"),
])  # fmt: skip
def test_an_unreadable_line_is_answered_with_its_reason(line: str, identity: int | None, reason: str) -> None:
    (answer,) = answer_lines(Tools([ORDERS], []), ["", line, "  "], 1)
    assert answer["id"] == identity
    assert reason in answer["error"]["message"]


def test_names_that_are_no_utf_8_are_answered_with_escapes(tmp_path: Path) -> None:
    file, report = tmp_path / "a.json", tmp_path / "report.json"
    queue = {"name": "q\udcff", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    file.write_text(json.dumps({"vhosts": [{"name": "/"}], "queues": [queue], "exchanges": [], "bindings": []}))
    report.write_text(json.dumps({"audited": {}, "queues": [{"queue": "q\udcff"}]}))
    lines = [
        json.dumps({
            "jsonrpc": "2.0", "id": name, "method": "tools/call", "params": {"name": name, "arguments": given},
        })
        for name, given in {
            "list_topologies": {}, "check_topology": {}, "read_audit": {"part": "queues"},
            "explain_message": {"exchange": "", "routing_key": "other"},
        }.items()
    ]  # fmt: skip
    answers = {answer["id"]: answer["result"] for answer in answer_lines(Tools([str(file)], [str(report)]), lines, 4)}
    assert not any(answer["isError"] for answer in answers.values())
    assert answers["list_topologies"]["structuredContent"]["topologies"][0]["vhosts"]["/"]["queues"] == ["q\\udcff"]
    assert answers["read_audit"]["structuredContent"]["queues"] == [{"queue": "q\\udcff"}]


@pytest.mark.process
@on_a_loop
async def test_each_tool_answers_as_its_command(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text(run("audit", "-t", ORDERS, "--no-spark", "examples/orders/traffic.jsonl", "--format", "json"))
    async with session(ORDERS, "--audit", str(report)) as started:
        tools = (await started.list_tools()).tools
        assert all(tool.annotations.read_only_hint and tool.description for tool in tools)
        listed = await ask(started, "list_topologies")
        assert [each["name"] for each in listed["topologies"]] == [ORDERS]

        explained = await ask(
            started, "explain_message", exchange="orders", routing_key="order.eu.refund", queue="billing"
        )
        command = ("explain", "-t", ORDERS, "orders", "order.eu.refund", "--queue", "billing")
        assert explained.pop("text") == run(*command).rstrip("\n")
        assert explained == json.loads(run(*command, "--json"))

        assert await ask(started, "check_topology") == json.loads(run("check", ORDERS, "--format", "json"))

        text = (ROOT / ORDERS).read_text().replace("order.*.paid", "order.paid")
        (tmp_path / "changed.bindings").write_text(text)
        compared = await ask(started, "compare_topologies", changed_text=text)
        assert compared == json.loads(run("diff", ORDERS, str(tmp_path / "changed.bindings"), "--json"))

        chosen = await ask(
            started, "choose_partitions", partitioner="kafka.murmur2", partitions="12", keys=["order-1", None]
        )
        assert chosen == {"partitions": [10, None]}

        dead = await ask(started, "read_audit", part="bindings", state="dead")
        rows = json.loads(report.read_text())["bindings"]
        assert dead["bindings"] == [row for row in rows if row["state"] == "dead"]
        billing = await ask(started, "read_audit", part="queues", name="billing")
        assert [row["queue"] for row in billing["queues"]] == ["billing"]


@pytest.mark.smoke
@on_a_loop
async def test_mistakes_are_texts_for_the_assistant_and_the_server_goes_on() -> None:
    async with session(ORDERS) as started:
        assert "no exchange 'nope'" in await ask(started, "explain_message", exchange="nope")
        for properties, reason in (({"expiration": "soon"}, "invalid expiration 'soon'"), ({"prio": 1}, "'prio'")):
            answer = await ask(started, "explain_message", exchange="orders", properties=properties)
            assert reason in answer
        assert "there is no topology '/etc/passwd'" in await ask(started, "check_topology", topology="/etc/passwd")
        assert "one of them" in await ask(started, "compare_topologies")
        assert "changed_text:1:6: expected a name" in await ask(started, "compare_topologies", changed_text="queue")
        assert "is not an AMQP type" in await ask(
            started, "explain_message", exchange="orders", headers={"a": {"!int": "x"}}
        )
        assert "more than 1,000 keys" in await ask(
            started, "choose_partitions", partitioner="kafka.murmur2", partitions="12", keys=["k"] * 1_001
        )
        assert (await ask(started, "explain_message", exchange="orders", routing_key="order.eu.paid"))["queues"]


def test_a_source_that_cannot_be_read_ends_the_command() -> None:
    result = run_program("mcp", "nothing.bindings")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("hashstar: nothing.bindings: cannot be read")


def test_a_report_that_is_none_ends_the_command(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("{}")
    result = run_program("mcp", ORDERS, "--audit", str(tmp_path / "report.json"))
    assert (result.returncode, result.stdout) == (2, "")
    assert "report.json: no report of hashstar audit --format json" in result.stderr


def test_a_file_is_read_anew_for_each_question(tmp_path: Path) -> None:
    file = tmp_path / "a.bindings"
    tools = Tools([str(file)], [])
    for queue in ("first", "second"):
        file.write_text(f"exchange x: fanout\nqueue {queue}\nx -> {queue}\n")
        assert tools.explain_message("x")["queues"] == [queue]


def test_long_lists_are_cut_and_the_rest_is_counted() -> None:
    most = MAX_LISTED_ENTRIES
    assert shorten({"rows": list(range(most + 3)), "few": [{"rows": [1] * (most + 1)}]}) == {
        "rows": list(range(most)), "rows_left_out": 3, "few": [{"rows": [1] * most, "rows_left_out": 1}],
    }  # fmt: skip


def test_only_reports_that_were_named_are_read(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("[]")
    tools = Tools([ORDERS], [str(tmp_path / "report.json")])
    with pytest.raises(InputError, match="no report of hashstar audit"):
        tools.read_audit()
    with pytest.raises(InputError, match=r"there is no report 'other\.json'"):
        tools.read_audit(report="other.json")
    with pytest.raises(InputError, match=r"part must be totals, .* or verification, and is 'all'"):
        tools.read_audit("all")
