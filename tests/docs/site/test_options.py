"""The reference of the command line has every command and every option."""

from __future__ import annotations

import re

import click

from bridge.cli import hashstar
from docs.site.options import WIDTH, options_page
from tests.test_docs import names_of


def test_every_command_has_a_section_with_all_its_options() -> None:
    sections = dict(re.findall(r"^## (.+)\n\n````text\n((?s:.+?))````$", options_page(), flags=re.MULTILINE))
    assert {*names_of(hashstar, ("hashstar",))} <= sections.keys()
    for name, text in sections.items():
        command: click.Command = hashstar
        for word in name.split()[1:]:
            assert isinstance(command, click.Group)
            command = command.get_command(click.Context(command), word) or command
        assert text.startswith(f"Usage: {name} ")
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.opts[-1] in text, f"{name} {option.opts[-1]}"
        assert max(map(len, text.splitlines())) <= WIDTH
