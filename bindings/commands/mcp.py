"""``hashstar mcp``: answers for assistants, over the Model Context Protocol."""

from __future__ import annotations

import click

from exchange.commands.console import exit_on_error
from exchange.commands.options import command, topology_option
from exchange.commands.release import profile_option
from exchange.errors import InputError
from exchange.text.site import build_install_command


@command("mcp", example="hashstar mcp topologies")
@click.option(
    "--audit", "reports", multiple=True, metavar="REPORT", help="Report of hashstar audit --format json; repeatable."
)
@click.option("--vhost", help="Virtual host; required only if a source has several.")
@profile_option()
@topology_option
@click.argument("topologies", nargs=-1, required=True, metavar="TOPOLOGY...")
def mcp_command(reports: tuple[str, ...], vhost: str | None, profile: str | None, topologies: tuple[str, ...]) -> None:
    """Answer an assistant's questions about topologies.

    It is a server of the Model Context Protocol on standard input and output, which assistants and editors start
    themselves. The questions: where does a message go and why, why does a queue not get it, what is wrong, what does a
    change mean, which partition does a client choose, what did archived messages do. It only reads, and only the files
    that are named: .bindings files, definitions.json (or .gz) and reports; or http://HOST:15672[/VHOST].

    Exit codes: 0 when the assistant has closed the connection; 2 bad usage or input.
    """
    with exit_on_error():
        try:
            from bindings.mcp.server import build_server
        except ModuleNotFoundError:
            raise InputError(f"hashstar mcp needs the package mcp: {build_install_command('mcp')}") from None
        from bindings.mcp.tools import Tools

        tools = Tools(topologies, reports, vhost, profile)
        server = build_server(tools)
        tools.read_sources()  # a file that cannot be read is an error now, not at the first question
    server.run("stdio")
