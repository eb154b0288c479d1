"""``hashstar drift``: whether a live broker still has what a file declares, once or again and again."""

from __future__ import annotations

import signal
import sys
import threading
import time
from random import random
from typing import Any, Final

import click

from bindings.applying.live import Live, choose_topology
from bindings.diffing.comparison.meaning import Meaning
from bindings.drift.drift import Drift, Ignoring, find_drift
from bindings.drift.forms import FORMS, UNKNOWN, DriftReport
from bindings.drift.watch import DriftWatch, WatchOutcome, serve_metrics
from bindings.sources.management import Management, is_address
from bindings.sources.open import open_source
from exchange.commands.completion import SOURCE
from exchange.commands.console import echo_error, echo_line, fail, interrupt_at, show_caveat, show_status, show_warnings
from exchange.commands.options import (
    AddressType,
    Duration,
    accept_old_name,
    allow_unread_option,
    command,
    read_timeout,
    timeout_option,
    topology_option,
    wait_option,
)
from exchange.commands.output import form_options, output_option, print_form
from exchange.errors import HashstarError, InputError
from exchange.text.numbers import write_time
from exchange.topology.topology import Topology

WAIT: Final = 10.0
"""Default number of seconds for what a drift means to messages."""


@command(
    "drift", example="hashstar drift shop.bindings http://HOST:15672/shop --every 5m",
    needs={"--listen": "--every", "--allow-host": "--listen"},
)  # fmt: skip
@click.option("--vhost", help="Virtual host.  [default: the address's, else the only one in TOPOLOGY]")
@form_options(FORMS)
@output_option
@click.option("--exclude", "names", multiple=True, metavar="GLOB", help="Leave out objects of these names, such as "
              "tmp.* or queue:tmp.*, and their bindings; repeatable.")  # fmt: skip
@accept_old_name("--ignore", "--exclude")
@click.option("--ignore-extra", is_flag=True, help="Ignore what only the broker has.")
@click.option("--auto-delete", is_flag=True, help="Report auto-delete queues and exchanges, too, which come and go.")
@wait_option(WAIT, "Maximum time to find out which messages go elsewhere; the rest is reported as undecided.")
@accept_old_name("--budget", "--wait")
@click.option("--every", type=Duration(least=1), metavar="TIME", help="Compare again after this time, such as 30s, "
              "5m or 1h, until a signal ends it, and print changes only.")  # fmt: skip
@click.option("--listen", "metrics", type=AddressType(9_419), metavar="ADDRESS", help="With --every: serve metrics for "
              "Prometheus at PORT of 127.0.0.1, or at HOST:PORT.")  # fmt: skip
@click.option(
    "--allow-host", "hosts", multiple=True, metavar="NAME",
    help="With --listen: host name that requests for metrics may have; repeatable.",
)  # fmt: skip
@accept_old_name("--metrics", "--listen")
@accept_old_name("--metrics-host", "--allow-host")
@allow_unread_option
@timeout_option
@topology_option
@click.argument("file", type=SOURCE, metavar="TOPOLOGY")
@click.argument("address", metavar="URL")
def drift_command(
    vhost: str | None,
    form: str,
    names: tuple[str, ...],
    ignore_extra: bool,
    auto_delete: bool,
    wait: float,
    every: float | None,
    metrics: tuple[str, int] | None,
    hosts: tuple[str, ...],
    allow_unread: bool,
    file: str,
    address: str,
) -> None:
    """Compare a topology file with a live broker.

    TOPOLOGY is a .bindings file or definitions.json; URL is a management API, http://HOST:15672[/VHOST]. Exchanges,
    queues, bindings and policies that are missing, extra or changed are listed, and which messages go elsewhere
    because of that.

    What comes and goes by itself is only counted: auto-delete queues and exchanges (unless --auto-delete), exclusive
    queues, names that begin with amq., and bindings of these.

    With --every, both are read again and again, and changes are printed. A broker that is away is tried again. SIGTERM
    and Ctrl-C end it, with 0.

    Where parts of TOPOLOGY were not read, nothing is proved; --allow-unread compares the rest.

    Exit codes: 0 the same; 1 drift, or not proved; 2 the broker cannot be asked, or bad usage or input.
    """
    if every is not None and file == "-":
        raise click.UsageError("standard input can be read only once; --every needs a file")
    seconds = read_timeout()
    try:
        if not is_address(address):
            raise InputError("the address of a management API is wanted; write http://HOST:15672[/VHOST]")
        if is_address(file):
            raise InputError("a file is compared with a broker; hashstar diff compares two brokers")
        management = Management.at(address, seconds=seconds)
        ignoring = Ignoring(names, ignore_extra, not auto_delete)
        look = _Look(file, management, vhost, ignoring, seconds, allow_unread=allow_unread)
        printer = _Printer(form, file, management.address, wait)
        if every is None:
            with show_status("comparing ..."):
                began = time.time()
                drift = look()
                meaning = printer.meaning(drift)
            printer.print(drift, meaning, began)
            sys.exit(0 if drift.state == "same" else 1)
        look.read_file()  # a mistake in it ends the command before it begins to watch
        _watch(DriftWatch(look, every, time.time, random), printer, metrics, hosts)
    except HashstarError as error:
        fail(error)


class _Look:
    """Reads the file, asks the broker, and compares."""

    def __init__(
        self,
        file: str,
        management: Management,
        vhost: str | None,
        ignoring: Ignoring,
        seconds: float,
        *,
        allow_unread: bool,
    ) -> None:
        self._file = file
        self._management = management
        self._vhost = vhost
        self._ignoring = ignoring
        self._seconds = seconds
        self._allow_unread = allow_unread
        self._warned: list[str] | None = None
        self._is_told = False

    def read_file(self) -> Topology:
        """Return the topology of the file, and print its warnings if they are new. Raises InputError."""
        opened = open_source(self._file, self._vhost or self._management.vhost, seconds=self._seconds)
        opened = opened.allowing_unread(self._allow_unread)
        caveat = "" if opened.profile is None else opened.profile.caveat
        warnings = [*([caveat] if caveat else []), *map(str, opened.warnings)]
        if warnings != self._warned:
            show_warnings(opened.name, warnings)
            self._warned = warnings
        return choose_topology(opened, self._vhost, self._management)

    def __call__(self) -> Drift:
        wanted = self.read_file()
        drift = find_drift(Live(self._management, wanted.vhost), wanted, self._ignoring)
        if not self._is_told:
            show_caveat(drift.live.profile)
            self._is_told = True
        return drift


class _Printer:
    """Prints results in one form."""

    def __init__(self, form: str, file: str, broker: str, budget: float) -> None:
        self._form: Final = form
        self._names: Final[dict[str, Any]] = {"file": file, "broker": broker}
        self._budget = budget

    def meaning(self, drift: Drift) -> Meaning | None:
        """Return what a drift means to messages; None if there is none, or no router takes a binding."""
        try:
            return drift.meaning(self._budget) if drift.objects else None
        except InputError as error:
            echo_error(f"what this means to messages is not known: {error}")
            return None

    def print(self, drift: Drift, meaning: Meaning | None, began: float, *, is_watched: bool = False) -> None:
        """Print a result."""
        print_form(FORMS[self._form], DriftReport(drift, meaning, **self._names, time=began, is_watched=is_watched))

    def print_news(self, outcome: WatchOutcome) -> None:
        """Print the outcome of one of many comparisons."""
        if outcome.drift is not None:
            self.print(outcome.drift, self.meaning(outcome.drift), outcome.time, is_watched=True)
        elif self._form == "json":
            print_form(UNKNOWN, outcome.error or "", **self._names, time=outcome.time, retry_in=outcome.wait)
        else:
            echo_error(f"{write_time(outcome.time)} {outcome.error} (it is tried again)")
        sys.stdout.flush()


def _watch(watch: DriftWatch, printer: _Printer, metrics: tuple[str, int] | None, hosts: tuple[str, ...]) -> None:
    """Compare until a signal comes, and print what is new. Raises InputError if the metrics cannot be served."""
    server = None
    interrupt_at(signal.SIGINT, signal.SIGTERM)
    never = threading.Event()
    try:
        if metrics is not None:
            server = serve_metrics(*metrics, hosts, lambda: watch.state)
            host, port = server.server_address[:2]
            shown = f"[{host!s}]" if ":" in str(host) else str(host)
            echo_line(f"metrics at http://{shown}:{port}/metrics", err=True)
        for outcome in watch.outcomes():
            if outcome.is_news:
                printer.print_news(outcome)
            never.wait(outcome.wait)
    except KeyboardInterrupt:
        sys.exit(0)
    finally:
        if server is not None:
            server.close()
