"""``hashstar record``: a proxy between clients and a broker that records what the clients declare and ask."""

from __future__ import annotations

import asyncio
import signal
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from bindings.http.hosts import is_local
from bindings.recording.ledger import Ledger
from bindings.recording.proxy import Proxy, Upstream, leads_back, read_clock, run_proxy
from bindings.recording.summary import format_summary
from bindings.sources.address import parse_address
from exchange.commands.console import catch_signals, echo_line, echo_lines, exit_on_error
from exchange.commands.options import AddressType, Duration, OutputFile, command
from exchange.errors import InputError
from exchange.limits import RECORDED_BYTES
from exchange.text.display import count_noun

PORTS: Final = {"amqp": 5672, "amqps": 5671}
EXAMPLE: Final = "amqp://HOST:5672 or amqps://HOST:5671"
FILE: Final = click.Path(exists=True, dir_okay=False)


@command("record", example="hashstar record --listen 5673 --upstream amqp://HOST asked.jsonl")
@click.option("--listen", "address", type=AddressType(5_673), required=True, metavar="ADDRESS",
              help="Address for clients: PORT of 127.0.0.1, or HOST:PORT.")  # fmt: skip
@click.option("--upstream", "broker", required=True, metavar="URL", help="The broker: amqp://HOST[:PORT], or amqps.")
@click.option("--ca-file", type=FILE, metavar="FILE", help="Certificates that the broker's is verified by, PEM.  "
              "[default: the system's]")  # fmt: skip
@click.option("--cert-file", type=FILE, metavar="FILE", help="Our certificate for the broker, with its key, PEM.")
@click.option("--server-name", metavar="NAME", help="Name in the broker's certificate.  [default: its host]")
@click.option("--listen-cert-file", type=FILE, metavar="FILE", help="Serve TLS with this certificate and its key, PEM.")
@click.option("--for", "seconds", type=Duration(least=1), metavar="TIME",
              help="Stop after this time, such as 30s or 8h.  [default: at Ctrl-C or SIGTERM]")  # fmt: skip
@click.option("--max-size", type=click.IntRange(1, 1024), default=RECORDED_BYTES >> 20, show_default=True,
              metavar="MIB", help="Maximum size of FILE; what comes then is counted only.")  # fmt: skip
@click.option("--output", "-o", metavar="FILE", type=OutputFile(), help="FILE, as an option.")
@click.argument("file", type=OutputFile(dir_okay=False), required=False)
def record_command(
    address: tuple[str, int],
    broker: str,
    ca_file: str | None,
    cert_file: str | None,
    server_name: str | None,
    listen_cert_file: str | None,
    seconds: float | None,
    max_size: int,
    output: str | None,
    file: str | None,
) -> None:
    """Record what clients declare and ask of a broker.

    Clients connect to --listen in place of the broker, and all bytes are passed on unchanged, to --upstream and back.
    FILE gets what they declare, bind, consume and set, how often, and what the broker answers, as JSON lines: equal
    requests are one line with a count. hashstar upgrade --declares FILE compares that with a new release.

    Passwords, routing keys, headers and bodies of messages are not recorded: messages are counted for each exchange.
    What is no AMQP 0-9-1 is passed on, and counted.

    Exit codes: 0 recorded, until Ctrl-C, SIGTERM or --for; 2 bad usage or input.
    """
    if (file is None) == (output is None):
        raise click.UsageError("name one FILE to record to")
    file = file or output or ""
    with exit_on_error():
        upstream = _read_upstream(broker, ca_file, cert_file, server_name)
        tls = None if listen_cert_file is None else _serving_context(listen_cert_file)
        if leads_back(*address, upstream):
            raise InputError(f"--upstream {upstream} is the address of --listen: clients would never get to a broker")
        if file == "-":
            raise InputError("a recording is written anew every few seconds, not to standard output: name a file")
        path = Path(file)
        if path.exists():
            raise InputError(f"{file}: it is there already; name a new file: hashstar upgrade takes several")
        ledger = Ledger(str(upstream), read_clock(), max_size << 20)
        proxy = Proxy(upstream, ledger, lambda text: echo_line(text, err=True))
        if not is_local(address[0]) and tls is None:
            echo_line("passwords of clients that connect from elsewhere travel as plain text", err=True)
        try:
            asyncio.run(_serve(proxy, ledger, path, address, tls, seconds))
        except OSError as error:
            named = f"{address[0]}:{address[1]}" if error.filename is None else file
            raise InputError(f"{named}: {error.strerror or error}") from None
    echo_lines(format_summary(ledger.copy_recording()), err=True)
    if proxy.unreached:
        number = count_noun(proxy.unreached, "connection")
        echo_line(f"the broker did not take {number}: {proxy.trouble}", err=True)
    if proxy.refused:
        echo_line(f"closed, as there were too many at a time: {count_noun(proxy.refused, 'connection')}", err=True)


async def _serve(
    proxy: Proxy,
    ledger: Ledger,
    path: Path,
    address: tuple[str, int],
    tls: ssl.SSLContext | None,
    seconds: float | None,
) -> None:
    """Serve until a signal comes or the time is over."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def end() -> None:
        with suppress(RuntimeError):  # the loop is closed: it has ended
            loop.call_soon_threadsafe(stop.set)

    catch_signals(end, signal.SIGINT, signal.SIGTERM)
    if seconds is not None:
        loop.call_later(seconds, stop.set)
    host, scheme = address[0], "amqp" if tls is None else "amqps"

    def show_address(port: int) -> None:
        click.echo(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")
        echo_line(f"recording to {path}; Ctrl-C ends it", err=True)

    def warn(error: OSError) -> None:
        echo_line(f"{path}: cannot be written: {error.strerror or error}; tried again", err=True)

    await run_proxy(proxy, ledger, path, address, tls=tls, stop=stop, listening=show_address, warn=warn)


def _read_upstream(url: str, ca_file: str | None, cert_file: str | None, server_name: str | None) -> Upstream:
    """Return the broker of the options. Raises InputError."""
    try:
        parsed = parse_address(url, PORTS, EXAMPLE)
    except InputError as error:
        raise InputError(f"--upstream: {error}") from None
    if parsed.login or "," in parsed.hosts or parsed.path.strip("/") or parsed.query:
        raise InputError(f"--upstream is a host and a port, as user and virtual host are the clients'; write {EXAMPLE}")
    tls = None
    if parsed.scheme == "amqps":
        try:
            tls = ssl.create_default_context(cafile=ca_file)
            if cert_file is not None:
                tls.load_cert_chain(cert_file)
        except OSError as error:  # errors of TLS are OSErrors
            raise InputError(f"{cert_file or ca_file}: cannot be used: {error.strerror or error}") from None
    elif ca_file or cert_file or server_name:
        raise InputError("--ca-file, --cert-file and --server-name are for --upstream amqps://...")
    return Upstream(parsed.host.strip("[]"), parsed.port or PORTS[parsed.scheme], tls, server_name)


def _serving_context(cert_file: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert_file)
    except OSError as error:
        raise InputError(f"{cert_file}: cannot be used: {error.strerror or error}") from None
    return context
