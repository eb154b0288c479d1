"""``hashstar serve``: a page to explore a topology in a browser."""

from __future__ import annotations

import html
import signal
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from secrets import token_urlsafe
from tempfile import TemporaryDirectory
from typing import Final

import click

from bindings.http.handler import Handler
from bindings.http.hosts import HostCheck, is_local
from bindings.http.listener import Server, make_server
from bindings.serve.explorer import Explorer
from bindings.serve.site import load_files, make_handler
from bindings.serve.traffic import ReportTraffic
from bindings.serve.watching import WatchedSource
from bindings.sources.management import is_address
from bindings.sources.open import Source, open_source
from exchange.commands.completion import SOURCE
from exchange.commands.console import catch_signals, echo_line, exit_on_error, show_status, show_warnings
from exchange.commands.options import AddressType, command, read_timeout, timeout_option, topology_option
from exchange.commands.release import profile_option
from exchange.errors import InputError

HOST: Final = "127.0.0.1"
STDIN: Final = "-"


@command("serve", example="hashstar serve shop.bindings")
@click.option("--vhost", help="Virtual host that is shown first; the page can show the others.")
@click.option("--audit", "report", metavar="REPORT", help="Show the counts of this report of hashstar audit --json.")
@click.option("--listen", type=AddressType(8_080), metavar="ADDRESS", help="Address to serve at: PORT of 127.0.0.1, or "
              "HOST:PORT.  [default: a free port of 127.0.0.1]")  # fmt: skip
@click.option("--host", hidden=True)
@click.option("--port", type=click.IntRange(0, 65535), hidden=True)
@click.option(
    "--allow-host", "names", multiple=True, metavar="NAME",
    help="Name by which browsers may ask for the page, beside addresses and localhost; repeatable.",
)  # fmt: skip
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@profile_option()
@timeout_option
@topology_option
@click.argument("source", type=SOURCE, metavar="TOPOLOGY")
def serve_command(
    vhost: str | None,
    report: str | None,
    listen: tuple[str, int] | None,
    host: str | None,
    port: int | None,
    names: tuple[str, ...],
    opens: bool,
    profile: str | None,
    source: str,
) -> None:
    """Explore a topology in a browser.

    Type a message and see its way; ask why a queue does not get it; try what a change would mean. The page reads the
    file again whenever it changes. It never writes: neither the file nor a broker is changed.

    TOPOLOGY is a .bindings file, definitions.json (or .gz), - or http://HOST:15672[/VHOST].

    The address has a token, without which nothing is shown. Ctrl-C ends the server.
    """
    if host is not None or port is not None:
        echo_line("hashstar: --host and --port are --listen HOST:PORT now; they work until the next release", err=True)
    host, port = listen or (host or HOST, port or 0)
    with exit_on_error():
        path = None if source == STDIN or is_address(source) else source
        with show_status("reading ..."):
            watched = WatchedSource(_make_reader(source, vhost, read_timeout()), path, vhost, profile)
            traffic = None if report is None else ReportTraffic.load(report)
        reading = watched.reading
        show_warnings(reading.source.name, reading.warnings if profile is None else reading.source.warnings)
        explorer = Explorer(watched, traffic)
        token = token_urlsafe(18)
        load_files()  # now, so that the command ends with an error if the page lacks a file
        server = _bind(host, port, make_handler(explorer, token, HostCheck(host, names)))
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{server.server_address[1]}/?token={token}"
    if not is_local(host):
        echo_line(f"every computer that reaches {host} can read this topology with the address below", err=True)
    ended = _end_on_signals()  # from here on: who reads the address may end the command at once
    click.echo(address)
    echo_line("Ctrl-C ends it", err=True)
    watched.start()
    server.start()
    with _open_in_browser(address) if opens else nullcontext():
        ended.wait()
    watched.stop()
    server.close()


@contextmanager
def _open_in_browser(address: str) -> Iterator[None]:
    """Open the address in a browser, by a file that leads there and that only its owner can read.

    What a browser is started with, all users of the computer can see; the address has the token.
    """
    with TemporaryDirectory(prefix="hashstar-") as folder:
        page = Path(folder, "serve.html")
        page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(address)}">')
        webbrowser.open(page.as_uri())
        yield


def _make_reader(source: str, vhost: str | None, seconds: float) -> Callable[[], Source]:
    """Return the function that reads the source, any number of times; standard input is read once."""
    if source != STDIN:
        return lambda: open_source(source, vhost, seconds=seconds)
    given = open_source(source, vhost, seconds=seconds)
    return lambda: given


def _bind(host: str, port: int, handler: type[Handler]) -> Server:
    try:
        return make_server(host, port, handler)
    except OSError as error:
        raise InputError(f"{host}:{port} cannot be served: {error.strerror or error}") from None


def _end_on_signals() -> threading.Event:
    """Return an event that Ctrl-C and SIGTERM set: they end the command as they should, with exit code 0."""
    ended = threading.Event()
    catch_signals(ended.set, signal.SIGINT, signal.SIGTERM)
    return ended
