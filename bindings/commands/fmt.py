"""``hashstar fmt``: ``.bindings`` files in one format."""

from __future__ import annotations

import sys

import click

from bindings.sources.files import decode_text, gunzip, read_content, read_whole, save_lines
from bindings.sources.language.formatter import format_text
from bindings.sources.tree import expand_patterns
from exchange.commands.console import echo_error, echo_line, exit_on_error
from exchange.commands.options import command, topology_option
from exchange.errors import HashstarError


@command("fmt", example="hashstar fmt shop.bindings")
@click.option("--check", is_flag=True, help="Change nothing; list the files that are not formatted, and exit with 1.")
@click.option("--stdout", is_flag=True, help="Print the formatted text instead of changing the files.")
@click.option("--dry-run", is_flag=True, help="Change nothing; list the files that would change.")
@topology_option
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
def fmt_command(check: bool, stdout: bool, dry_run: bool, files: tuple[str, ...]) -> None:
    """Format .bindings files in place.

    Indentation, spaces and blank lines change; lines, comments and their order stay.

    With - as FILE, standard input is formatted to standard output. Exit codes: 0 fine, 1 with --check when a file is
    not formatted, 2 when one cannot be read.
    """
    if stdout and (check or dry_run):
        raise click.UsageError("--stdout prints what --check and --dry-run only compare: give one of them")
    failed = unformatted = False
    with exit_on_error():
        files = tuple(expand_patterns(files))
    for file in files:
        name = "standard input" if file == "-" else file
        try:
            data = gunzip(read_whole(sys.stdin.buffer, name), name) if file == "-" else read_content(file)
            before = decode_text(data, name)
            after = format_text(before, name)
            if check or dry_run:
                if before != after:
                    unformatted = check
                    echo_line(f"not formatted: {name}")
            elif stdout or file == "-":
                sys.stdout.buffer.write(after.encode())
            elif before != after:
                save_lines(file, [after])
                echo_line(f"formatted: {name}", err=True)
        except HashstarError as error:
            echo_error(error)
            failed = True
    sys.exit(2 if failed else 1 if unformatted else 0)
