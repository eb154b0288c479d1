"""``hashstar convert``: between ``.bindings``, RabbitMQ's definitions and the formats of other systems."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from bindings.sources.definitions import Definitions
from bindings.sources.document import Document
from bindings.sources.files import save_lines
from bindings.sources.formats import FORMATS, TopologyFormat
from bindings.sources.formats.format import WriteTarget
from bindings.sources.open import Source, open_source
from exchange.commands.completion import SOURCE
from exchange.commands.console import echo_line, exit_on_error, show_caveat, show_warnings
from exchange.commands.options import (
    STDOUT,
    OutputFile,
    accept_old_name,
    command,
    read_timeout,
    timeout_option,
    topology_option,
)
from exchange.errors import InputError
from exchange.files.names import YAML

TEXTS: Final = ("bindings", "definitions")
SUFFIXES: Final[Mapping[str, str]] = {
    ".bindings": "bindings",
    **{suffix: each.name for each in FORMATS.values() for suffix in each.suffixes},
    ".json": "definitions",
}
"""Ending of a file's name -> format that is written to it."""


@command("convert", example="hashstar convert definitions.json shop.bindings")
@click.option(
    "--format", "form", type=click.Choice([*TEXTS, *FORMATS]),
    help="Output format.  [default: by OUT's extension, else bindings, or definitions if TOPOLOGY is a .bindings file]",
)  # fmt: skip
@click.option("--vhost", help="Convert this virtual host only.")
@click.option(
    "--into", "base", metavar="FILE",
    help="Definitions to put the topologies into; users, permissions, operator policies and the rest of them are kept.",
)  # fmt: skip
@click.option(
    "--cluster", metavar="NAME[/NAMESPACE]", help="RabbitmqCluster that the objects of --format operator refer to."
)
@click.option("--output", "-o", metavar="FILE", type=OutputFile(), help="OUT, as an option.")
@accept_old_name("--to", "--format")
@timeout_option
@topology_option
@click.argument("source", type=SOURCE, metavar="TOPOLOGY")
@click.argument("target", metavar="[OUT]", required=False, type=OutputFile())
def convert_command(
    form: str | None,
    vhost: str | None,
    base: str | None,
    cluster: str | None,
    output: str | None,
    source: str,
    target: str | None,
) -> None:
    """Convert between .bindings, definitions and other formats.

    TOPOLOGY is a .bindings file, definitions.json (also gzipped), - for standard input, or a live broker's management
    API, http://HOST:15672[/VHOST]; or a file or folder of one of the formats below. OUT is a file, gzipped if its name
    ends with .gz; standard output if it is not given.

    operator: objects of RabbitMQ's messaging topology operator for Kubernetes. terraform: resources of the provider
    cyrilgdn/rabbitmq (.tf; read as a plan or a state as terraform show -json prints it). asyncapi: AsyncAPI 3, YAML or
    JSON (read also 2). What a format cannot express is a warning.

    What a .bindings file can express and RabbitMQ cannot store (expectations, partitionings of queues, the profile) is
    in the definitions under the key "hashstar", which RabbitMQ's import ignores.
    """
    if output is not None and target is not None:
        raise click.UsageError("OUT is given twice, also as --output")
    target = target or output or STDOUT
    with exit_on_error():
        opened = open_source(source, vhost, seconds=read_timeout())
        if opened.profile is not None:
            show_caveat(opened.profile)
        show_warnings(opened.name, opened.warnings)
        if isinstance(opened.content, Document) and target != STDOUT and _is_same_file(source, target):
            raise InputError(
                f"{target}: it is TOPOLOGY, whose comments and loops would be lost; give another file, or format it "
                "with hashstar fmt"
            )
        form = form or _form_of(target) or ("definitions" if isinstance(opened.content, Document) else "bindings")
        if base is not None and form != "definitions":
            what = "a .bindings file" if form == "bindings" else FORMATS[form].title
            raise InputError(f"--into is for definitions only; {what} has no users or permissions")
        if cluster is not None and form != "operator":
            raise InputError("--cluster is for --format operator only")
        if form in FORMATS:
            _write_format(FORMATS[form], opened, vhost, WriteTarget(target.removesuffix(".gz"), cluster), target)
            return
        result = _definitions(opened, vhost, base) if form == "definitions" else _document(opened, vhost)
        if target == STDOUT:
            sys.stdout.buffer.write(result.dump().encode())
        else:
            result.save(target)
        if isinstance(result, Definitions) and isinstance(opened.content, Document):
            refused = [f"{item}; hashstar apply declares it as it is meant" for item in result.not_imported]
            show_warnings(target, refused)
        if form == "bindings" and isinstance(opened.content, Definitions):
            _show_left_out(opened)


def _is_same_file(source: str, target: str) -> bool:
    """Return whether two names are those of one file that is there."""
    try:
        return Path(source).samefile(target)
    except (OSError, ValueError):
        return False


def _form_of(target: str) -> str | None:
    name = target.removesuffix(".gz")
    form = next((form for suffix, form in SUFFIXES.items() if name.endswith(suffix)), None)
    if form is None and name.endswith(YAML):
        choice = " or ".join([f"--format {each.name}" for each in FORMATS.values() if each.in_yaml is not None])
        raise InputError(f"{target}: which YAML is it to be? Choose with {choice}")
    return form


def _write_format(known: TopologyFormat, opened: Source, vhost: str | None, target: WriteTarget, path: str) -> None:
    content = opened.content
    definitions = content.definitions() if isinstance(content, Document) else content
    if vhost is not None:
        definitions = definitions.only(opened.topology(vhost).vhost)
    written = known.write(definitions, target)
    if path == STDOUT:
        sys.stdout.buffer.write("".join(written.chunks).encode())
        sys.stdout.buffer.flush()
    else:
        save_lines(path, written.chunks)
    for warning in written.warnings:  # all of them: this is the only record of what was lost
        echo_line(f"{'standard output' if path == STDOUT else path}: warning: {warning}", err=True)


def _document(opened: Source, vhost: str | None) -> Document:
    return opened.document if vhost is None else opened.document.only(opened.topology(vhost).vhost)


def _definitions(opened: Source, vhost: str | None, base: str | None) -> Definitions:
    if vhost is None and base is None and isinstance(opened.content, Definitions):
        return opened.content
    into = None if base is None else open_source(base, seconds=read_timeout(), may_be_none=True).content
    if isinstance(into, Document):
        raise InputError(f"{base}: --into needs definitions, and this is a .bindings file")
    return _document(opened, vhost).definitions(into)


def _show_left_out(opened: Source) -> None:
    others = opened.content.others if isinstance(opened.content, Definitions) else {}
    others.pop("operator_policies", None)  # the language has them
    if others:
        listed = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in others.items())
        echo_line(f"left out, as a .bindings file has no place for them: {listed}", err=True)
        if opened.imported is None:
            echo_line(f"to keep them when converting back: hashstar convert --into {opened.name} ...", err=True)
