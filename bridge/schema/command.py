"""``hashstar schema``: the JSON Schemas of files, messages and outputs."""

from __future__ import annotations

import json

import click

from exchange.commands.console import echo_line, fail
from exchange.commands.options import command
from exchange.commands.output import output_option
from exchange.errors import InputError
from exchange.text.display import suggest


def _complete(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    from bridge.schema.names import SCHEMAS

    return [name for name in SCHEMAS if name.startswith(begun)]


@command("schema", example="hashstar schema bridge > bridge.schema.json")
@output_option
@click.argument("name", required=False, shell_complete=_complete)
def schema_command(name: str | None) -> None:
    """Print the JSON Schema of a file or an output.

    NAME is "bridge" for bridge.toml, "hashstar" for hashstar.toml, "audit" for the JSON of audits, and so on. Without
    NAME, all schemas are listed. Those of files are draft-07, as editors have it, those of outputs 2020-12.

    Exit codes: 0 printed; 2 there is no schema of that name.
    """
    from bridge.schema.names import SCHEMAS

    if name is None:
        width = max(map(len, SCHEMAS))
        for each, schema in SCHEMAS.items():
            echo_line(f"{each:{width}}  {schema.about}")
        return
    if name not in SCHEMAS:
        fail(InputError(f"there is no schema {name!r}{suggest(name, SCHEMAS, or_list=True)}"))
    click.echo(json.dumps(SCHEMAS[name].build(name), indent=2, ensure_ascii=False))
