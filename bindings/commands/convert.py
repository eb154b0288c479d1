"""``hashstar convert``: ``.bindings`` to RabbitMQ's definitions, and back."""

from __future__ import annotations

import sys
from typing import Final

import click

from bindings.sources.definitions import Definitions
from bindings.sources.document import Document
from bindings.sources.open import Source, open_source
from exchange.commands.console import echo_line, exit_on_error, seconds_to_answer, show_warnings, timeout_option
from exchange.errors import InputError

__all__ = ["convert_command"]

FORMATS: Final = ("bindings", "definitions")
STDOUT: Final = "-"


@click.command("convert")
@click.option(
    "--to",
    "form",
    type=click.Choice(FORMATS),
    help="Output format.  [default: by OUT's extension, else the one that IN is not]",
)
@click.option("--vhost", help="Convert this virtual host only.")
@click.option(
    "--into",
    "base",
    metavar="FILE",
    help="Definitions to put the topologies into; users, permissions, operator policies and the rest of them are kept.",
)
@timeout_option
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT", default=STDOUT)
def convert_command(form: str | None, vhost: str | None, base: str | None, source: str, target: str) -> None:
    """Convert between .bindings files and definitions.json.

    IN is a .bindings file, definitions.json (also gzipped), - for standard input, or a live broker's management API,
    http://HOST:15672[/VHOST]. OUT is a file, gzipped if its name ends with .gz; standard output if it is not given.

    What a .bindings file can express and RabbitMQ cannot store (expectations, partitionings of queues, the profile) is
    in the definitions under the key "hashstar", which RabbitMQ's import ignores.
    """
    with exit_on_error():
        opened = open_source(source, vhost, seconds=seconds_to_answer())
        show_warnings(opened.name, opened.warnings)
        form = form or _form_of(target) or ("definitions" if isinstance(opened.content, Document) else "bindings")
        if base is not None and form == "bindings":
            raise InputError("--into is for definitions only; a .bindings file has no users or permissions")
        result = _definitions(opened, vhost, base) if form == "definitions" else _document(opened, vhost)
        if target == STDOUT:
            sys.stdout.buffer.write(result.dump().encode())
        else:
            result.save(target)
        if isinstance(result, Definitions) and isinstance(opened.content, Document):
            refused = [f"{item}; hashstar apply declares it as it is meant" for item in result.not_imported]
            show_warnings(target, refused)
        if form == "bindings" and isinstance(opened.content, Definitions):
            _show_left_out(opened.content, opened.name)


def _form_of(target: str) -> str | None:
    name = target.removesuffix(".gz")
    return "bindings" if name.endswith(".bindings") else "definitions" if name.endswith(".json") else None


def _document(opened: Source, vhost: str | None) -> Document:
    return opened.document if vhost is None else opened.document.only(opened.topology(vhost).vhost)


def _definitions(opened: Source, vhost: str | None, base: str | None) -> Definitions:
    if vhost is None and base is None and isinstance(opened.content, Definitions):
        return opened.content
    into = None if base is None else open_source(base, seconds=seconds_to_answer()).content
    if isinstance(into, Document):
        raise InputError(f"{base}: --into needs definitions, and this is a .bindings file")
    return _document(opened, vhost).definitions(into)


def _show_left_out(definitions: Definitions, name: str) -> None:
    others = definitions.others
    if others:
        listed = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in others.items())
        echo_line(f"left out, as a .bindings file has no place for them: {listed}", err=True)
        echo_line(f"to keep them when converting back: hashstar convert --into {name} ...", err=True)
