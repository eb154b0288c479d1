"""The server: the tools of `bindings.mcp.tools` over the Model Context Protocol, on standard input and output."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from bindings.mcp.tools import Tools
from exchange.errors import HashstarError, InputError
from exchange.text.site import hashstar_version, how_to_install

if TYPE_CHECKING:
    from mcp.server import MCPServer

__all__ = ["build_server"]

INSTRUCTIONS: Final = (
    "hashstar answers questions about message routing in RabbitMQ without a broker, exactly as RabbitMQ routes: where "
    "a message goes and why, why a queue does not get it, what is wrong with a topology, what a change of it means, "
    "which partition a client chooses, and what archived messages did. Nothing is changed. Begin with list_topologies."
)


def build_server(tools: Tools) -> MCPServer[Any]:
    """Return a server with these tools. Raises InputError if the package mcp is not installed."""
    try:
        from mcp.types import ToolAnnotations

        from bindings.mcp.lines import LineServer
    except ModuleNotFoundError:
        raise InputError(f"hashstar mcp needs the package mcp: {how_to_install('mcp')}") from None
    server: MCPServer[Any] = LineServer(
        "hashstar", instructions=INSTRUCTIONS, version=hashstar_version(), log_level="CRITICAL"
    )
    for function in tools.functions:
        annotations = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
        server.tool(annotations=annotations)(_with_plain_errors(function))
    return server


def _with_plain_errors(function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Return the tool with its errors as texts for the assistant, which can then ask again."""
    from mcp.server.mcpserver.exceptions import ToolError

    @wraps(function)
    def answer(*arguments: Any, **named: Any) -> dict[str, Any]:
        try:
            return function(*arguments, **named)
        except HashstarError as error:
            raise ToolError(str(error)) from None

    return answer
