"""Record what releases of RabbitMQ accept, from the tables in its source; compare two, or one with the product's table.

    python -m tests.recorders.release_tables record PATH 3.13.7=v3.13.7 4.3.5=v4.3.5 4.4.0=main
    python -m tests.recorders.release_tables compare PATH v4.3.5 main
    python -m tests.recorders.release_tables check 4.3.5

PATH is a clone of rabbitmq-server, with or without a work tree. ``record`` writes ``rabbitmq-tables.json`` of the
recordings; ``compare`` prints the tables that differ between two revisions, the release notes that only the second one
has, and which other modules that decide routing changed; ``check`` what the product's row of a release says otherwise.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Final

from exchange.entities.releases import find_profile
from tests.recorders.golden import GOLDEN

RECORDING: Final = GOLDEN / "rabbitmq-tables.json"
SOURCE: Final = "deps/rabbit/src"
TYPES: Final = {"classic": "rabbit_classic_queue", "quorum": "rabbit_quorum_queue", "stream": "rabbit_stream_queue"}
LISTS: Final = ("queue_arguments", "unsupported_policies", "consumer_arguments")
VALIDATOR: Final = re.compile(r'\b(operator_policy_validator|policy_validator)\s*,\s*<<"([^"]+)">>')
DECIDING: Final = (
    "rabbit_exchange.erl", "rabbit_exchange_type_*.erl", "rabbit_db_topic_exchange.erl", "rabbit_router.erl",
    "rabbit_binding.erl", "rabbit_definitions.erl", "rabbit_policies.erl", "rabbit_policy.erl", "rabbit_fifo.erl",
    "rabbit_dead_letter.erl", "rabbit_classic_queue.erl", "rabbit_quorum_queue.erl", "rabbit_stream_queue.erl",
    "mc.erl", "mc_amqpl.erl", "rabbit_channel.erl", "rabbit_core_ff.erl", "rabbit_deprecated_features.erl",
)  # fmt: skip
"""Modules that decide how messages are routed, what is accepted and what becomes of messages."""

Tables = Mapping[str, list[str]]
"""Name of a table -> its names, sorted."""


def read_tables(path: str, revision: str) -> dict[str, list[str]]:
    """Return the tables of a revision: arguments by type of queues, and settings of policies."""
    tables = {"declare_args": _names(_body(_show(path, revision, "rabbit_amqqueue"), "declare_args"))}
    for kind, module in TYPES.items():
        body = _body(_show(path, revision, module), "capabilities")
        for name in LISTS:
            found = re.search(rf"\b{name}\s*=>(.*?)(?:,\s*\w+\s*=>|\Z)", body, re.DOTALL)
            tables[f"{name} of {kind}"] = _names(found[1] if found else "")
    settings: dict[str, set[str]] = {"policy_validator": set(), "operator_policy_validator": set()}
    for line in _git(path, "grep", "-hE", "-A1", "policy_validator", revision, "--", "deps/*/src/*.erl").split("--\n"):
        for kind, name in VALIDATOR.findall(line):
            settings[kind].add(name)
    return tables | {kind: sorted(names) for kind, names in settings.items()}


def compare(old: Tables, new: Tables) -> Iterator[str]:
    """Yield the names that one of two releases has, by table."""
    for table in sorted({*old, *new}):
        before, after = {*old.get(table, ())}, {*new.get(table, ())}
        for sign, names in (("+", after - before), ("-", before - after)):
            if names:
                yield f"{sign} {table}: {', '.join(sorted(names))}"


def tables_of(release: str) -> dict[str, list[str]]:
    """Return the same tables as the product has them for a release, but for those that it does not have."""
    rules = find_profile(release).settings
    return {
        **{f"queue_arguments of {kind}": sorted(rules.arguments(kind)) for kind in TYPES},
        **{f"consumer_arguments of {kind}": sorted(rules.consumer_arguments(kind) or ()) for kind in TYPES},
        **{f"unsupported_policies of {kind}": sorted(rules.unsupported(kind)) for kind in TYPES},
        "policy_validator": sorted(rules.policy_settings),
        "operator_policy_validator": sorted(rules.operator_settings),
    }


def _git(path: str, *arguments: str) -> str:
    return subprocess.run(["git", "-C", path, *arguments], capture_output=True, text=True, check=True).stdout


def _show(path: str, revision: str, module: str) -> str:
    return _git(path, "show", f"{revision}:{SOURCE}/{module}.erl")


def _body(text: str, function: str) -> str:
    """Return the body of a function without arguments, without comments."""
    found = re.search(rf"^{function}\(\) ->(.*?)\.$", text, re.DOTALL | re.MULTILINE)
    return re.sub(r"%.*", "", found[1]) if found else ""


def _names(text: str) -> list[str]:
    return sorted({*re.findall(r'<<"([^"]+)">>', text)})


def main(command: str, *arguments: str) -> None:
    """Record, compare or check."""
    if command == "record":
        path, *pairs = arguments
        recorded = {}
        for release, revision in (pair.split("=") for pair in pairs):
            commit = _git(path, "log", "-1", "--format=%H %cs", revision).strip()
            recorded[release] = {"revision": revision, "commit": commit, "tables": read_tables(path, revision)}
        RECORDING.write_text(json.dumps(recorded, indent=1) + "\n", "utf-8")
    elif command == "compare":
        path, old, new = arguments
        print(*compare(read_tables(path, old), read_tables(path, new)), sep="\n")
        notes = [{*_git(path, "ls-tree", "--name-only", each, "release-notes/").split()} for each in (old, new)]
        print("release notes of the second only:", *sorted(notes[1] - notes[0]), sep="\n  ")
        changed = _git(path, "diff", "--stat", old, new, "--", *(f"{SOURCE}/{name}" for name in DECIDING))
        print("modules that changed:", changed, sep="\n")
    else:
        [release] = arguments
        recorded = json.loads(RECORDING.read_text("utf-8"))[release]["tables"]
        ours = tables_of(release)
        print(*compare({table: recorded[table] for table in ours}, ours), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
