"""An assistant asks over the Model Context Protocol, with the protocol's own client, and gets what commands print."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from bindings.mcp.tools import LISTED, Tools, shorten
from exchange import InputError
from tests.support.pages import ROOT
from tests.support.program import run_program

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


def test_a_file_is_read_anew_for_each_question(tmp_path: Path) -> None:
    file = tmp_path / "a.bindings"
    tools = Tools([str(file)], [])
    for queue in ("first", "second"):
        file.write_text(f"exchange x: fanout\nqueue {queue}\nx -> {queue}\n")
        assert tools.explain_message("x")["queues"] == [queue]


def test_long_lists_are_cut_and_the_rest_is_counted() -> None:
    assert shorten({"rows": list(range(LISTED + 3)), "few": [{"rows": [1] * (LISTED + 1)}]}) == {
        "rows": list(range(LISTED)), "rows_left_out": 3, "few": [{"rows": [1] * LISTED, "rows_left_out": 1}],
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
