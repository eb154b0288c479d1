"""Record what releases of RabbitMQ accept, from the tables in its source; compare two, or one with the product's table.

    git clone --bare https://github.com/rabbitmq/rabbitmq-server PATH
    python -m tests.recorders.release_tables compare PATH v4.3.5 main
    python -m tests.recorders.release_tables record PATH 4.4.0=main
    python -m tests.recorders.release_tables check 4.4.1

PATH is a clone of rabbitmq-server, with or without a work tree. ``compare`` prints the tables that differ between two
revisions, the release notes that only the second one has, and which other modules that decide routing changed.
``record`` reads the tables of revisions and keeps them in ``tests/golden/rabbitmq-tables.json``, each for the release
that it is given for; those of other releases stay. ``check`` prints what the product's row of a release says otherwise
than the recording of that release, or of the newest one before it in its series. Without a difference, it prints none.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from exchange.entities.policy_definitions import PLUGINS
from exchange.entities.profile import read_release
from exchange.entities.releases import find_profile
from exchange.errors import InputError
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
    done = subprocess.run(["git", "-C", path, *arguments], capture_output=True, text=True, check=False)
    if done.returncode and done.stderr:
        raise InputError(f"git {arguments[0]} in {path}: {done.stderr.strip().splitlines()[0]}")
    return done.stdout


def _show(path: str, revision: str, module: str) -> str:
    return _git(path, "show", f"{revision}:{SOURCE}/{module}.erl")


def _body(text: str, function: str) -> str:
    """Return the body of a function without arguments, without comments."""
    found = re.search(rf"^{function}\(\) ->(.*?)\.$", text, re.DOTALL | re.MULTILINE)
    return re.sub(r"%.*", "", found[1]) if found else ""


def _names(text: str) -> list[str]:
    return sorted({*re.findall(r'<<"([^"]+)">>', text)})


def find_recorded(release: str, recorded: Iterable[str]) -> str:
    """Return the newest recorded release of a series up to a release. Raises InputError if there is none."""
    numbers = read_release(release)
    if numbers is not None:
        known = sorted((each, name) for name in recorded if (each := read_release(name)) is not None)
        found = [name for each, name in known if each[:2] == numbers[:2] and each <= numbers]
        if found:
            return found[-1]
    raise InputError(f"nothing is recorded of {release!r}, only of {', '.join(recorded)}: record it first")


def record(path: str, pairs: Iterable[str]) -> None:
    """Read the tables of revisions, given as RELEASE=REVISION, into the recording."""
    recorded = json.loads(RECORDING.read_text("utf-8"))
    for pair in pairs:
        release, separator, revision = pair.partition("=")
        if not separator or read_release(release) is None:
            raise InputError(f"{pair!r}: give RELEASE=REVISION, as 4.4.0=v4.4.0")
        commit = _git(path, "log", "-1", "--format=%H %cs", revision).strip()
        recorded[release] = {"revision": revision, "commit": commit, "tables": read_tables(path, revision)}
    order = sorted(recorded, key=lambda name: read_release(name) or ())
    RECORDING.write_text(json.dumps({name: recorded[name] for name in order}, indent=1) + "\n", "utf-8")


def show_differences(path: str, old: str, new: str) -> None:
    """Print what differs between two revisions."""
    print(*compare(read_tables(path, old), read_tables(path, new)), sep="\n")
    notes = [{*_git(path, "ls-tree", "--name-only", each, "release-notes/").split()} for each in (old, new)]
    print("release notes of the second only:", *sorted(notes[1] - notes[0]), sep="\n  ")
    changed = _git(path, "diff", "--stat", old, new, "--", *(f"{SOURCE}/{name}" for name in DECIDING))
    print("modules that changed:", changed, sep="\n")


def check(release: str) -> None:
    """Print what the product's row of a release says otherwise than the recording."""
    recordings = json.loads(RECORDING.read_text("utf-8"))
    name = find_recorded(release, recordings)
    recorded, ours = recordings[name]["tables"], tables_of(release)
    print(f"our row of {release}, beside the source of {name} ({recordings[name]['revision']}):")
    of_plugins = {table: sorted({*ours[table], *PLUGINS & {*recorded[table]}}) for table in ours}
    print(*(compare({table: recorded[table] for table in ours}, of_plugins)), sep="\n")


def main(arguments: Sequence[str]) -> None:
    """Record, compare or check."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.recorders.release_tables", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    commands = parser.add_subparsers(dest="command", required=True)
    for name, names in (("record", ("PATH", "RELEASE=REVISION")), ("compare", ("PATH", "OLD", "NEW")),
                        ("check", ("RELEASE",))):  # fmt: skip
        command = commands.add_parser(name)
        for each in names:
            command.add_argument(each, nargs="+" if "=" in each else None)
    given = vars(parser.parse_args(arguments))
    try:
        if given["command"] == "record":
            record(given["PATH"], given["RELEASE=REVISION"])
        elif given["command"] == "compare":
            show_differences(given["PATH"], given["OLD"], given["NEW"])
        else:
            check(given["RELEASE"])
    except InputError as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
