"""The server: the tools of `bindings.mcp.tools` over the Model Context Protocol, on standard input and output.

Only this module imports the package mcp. It answers lines that are no message of the protocol, too: without an answer,
who asked waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from anyio import create_memory_object_stream, create_task_group
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, ToolAnnotations
from pydantic import ValidationError

from bindings.mcp.tools import Tools
from exchange.errors import HashstarError, InputError
from exchange.text.site import HASHSTAR_VERSION
from exchange.values.json_text import find_scalar, parse_line

INSTRUCTIONS: Final = (
    "hashstar answers questions about message routing in RabbitMQ without a broker, exactly as RabbitMQ routes: where "
    "a message goes and why, why a queue does not get it, what is wrong with a topology, what a change of it means, "
    "which partition a client chooses, and what archived messages did. Nothing is changed. Begin with list_topologies."
)


def build_server(tools: Tools) -> MCPServer[Any]:
    """Return a server with these tools."""
    server = LineServer("hashstar", instructions=INSTRUCTIONS, version=HASHSTAR_VERSION, log_level="CRITICAL")
    for function in tools.functions:
        annotations = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
        server.tool(annotations=annotations)(_with_plain_errors(function))
    return server


def _with_plain_errors(function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Return the tool with its errors as texts for the assistant, which can then ask again."""

    @wraps(function)
    def answer(*arguments: Any, **named: Any) -> dict[str, Any]:
        try:
            return function(*arguments, **named)
        except HashstarError as error:
            raise ToolError(str(error)) from None

    return answer


class LineServer(MCPServer[Any]):
    """A server that answers each line on standard input, also those that the package mcp drops without a word."""

    async def run_stdio_async(self) -> None:
        """Serve on standard input and output, until standard input ends."""
        server = self._lowlevel_server
        async with stdio_server() as (lines, answers), create_task_group() as tasks:
            pass_on, messages = create_memory_object_stream[SessionMessage | Exception]()

            async def read() -> None:
                async with lines, pass_on:
                    async for item in lines:
                        if isinstance(item, SessionMessage):
                            await pass_on.send(item)
                        elif answer := _answer(item):
                            await answers.send(SessionMessage(answer))

            tasks.start_soon(read)
            async with messages:
                await server.run(messages, answers, server.create_initialization_options())
            tasks.cancel_scope.cancel()


def _answer(error: Exception) -> JSONRPCError | None:
    """Return the answer to a line that the package mcp refused with an error; None for a blank line.

    Its ``id`` is null where none can be found in the line, as JSON-RPC 2.0 wants (section 5).
    """
    faults = error.errors(include_url=False, include_context=False) if isinstance(error, ValidationError) else []
    if faults and faults[0]["type"] == "json_invalid":
        line = str(faults[0]["input"])
        if not line.strip():
            return None
        code, number, reason = PARSE_ERROR, find_scalar(line, "id"), _find_reason(line) or faults[0]["msg"]
    else:
        # JSON is tried as each kind of message: the fault that one of their fields is missing has the whole as input.
        whole = next((fault["input"] for fault in faults if fault["type"] == "missing"), None)
        number = whole.get("id") if isinstance(whole, dict) else None
        code, reason = INVALID_REQUEST, "no request of JSON-RPC 2.0"
        if isinstance(whole, dict) and faults[0]["loc"]:
            reason += f": {faults[0]['loc'][-1]}: {faults[0]['msg']}"
    return JSONRPCError(
        jsonrpc="2.0", id=number if _is_id(number) else None, error=ErrorData(code=code, message=reason)
    )


def _is_id(value: Any) -> bool:
    """Return whether a value is an ``id`` that an answer can carry."""
    return type(value) is int or (isinstance(value, str) and value.isprintable())


def _find_reason(line: str) -> str:
    """Return why a line is refused, in the words of all readers of JSON; ``""`` if only the package mcp refuses it."""
    try:
        parse_line(line.encode())
    except InputError as error:
        return str(error)
    return ""
