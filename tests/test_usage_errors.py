"""What is wrong with a command line is said before anything is imported that only the work needs.

The commands run without every package that is optional: one that imports such a package first asks to install it.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.waiting import find_limit

ROOT = Path(__file__).parent.parent
MODULES = ("bindings/commands/*.py", "exchange/commands/*.py", "bridge/**/commands.py", "bridge/schema/command.py")
SHELL = {"exchange/commands/options.py", "exchange/commands/output.py"}
"""Modules whose errors are about options of any command, raised while the command line is read."""

DEAD, LOG = "dead kafka://h/t", "--ledger l"
MISUSED: Final = {
    "archive convert in": "name one OUT to write to",
    "archive in --key k --message-id m": "--key and --message-id: give one of them",
    "audit t in --master local --jobs 2": "is for Spark, and --jobs does without it",
    "audit t in --conf a=b --cache c": "is for Spark, which uses no --cache",
    "audit t in --remote sc://h --no-spark": "is for Spark, and --no-spark does without it",
    "audit t in --conf a": "--conf: a setting of Spark such as",
    "audit t in --since 2027-01-01 --until 2026-01-01": "--until: must be after --since",
    "audit t in --since x": "--since: a time such as",
    "audit run in in --save-tally x.tally --verify": "nothing of --verify: audit twice",
    "audit t in --estimate --format markdown": "--estimate makes no report: it is printed as text or json alone",
    "audit t in --estimate --max-bad 0": "--max-bad is about all records, and --estimate",
    "audit follow t in --state s --no-spark": "--no-spark: hashstar audit follow needs Spark",
    "audit follow t in --state s --conf a": "--conf: a setting of Spark such as",
    "bridge amqp://h": "is an address, and a bridge is a TOML file",
    "check t --dry-run": "--dry-run needs --fix",
    "check t --fix --dry-run --json": "--fix --dry-run prints a patch: omit --format",
    "check t --write-baseline": "--write-baseline needs --baseline FILE",
    "check t --statistics --format sarif": "--statistics is printed by --format text and json only",
    "convert t a -o b": "OUT is given twice, also as --output",
    f"{DEAD} --queue q": "--queue is for amqp://, and needed there",
    f"{DEAD} --rate 5": "--rate and --edit are for --replay",
    f"{DEAD} --dry-run": "--dry-run and --target are for --replay",
    f"{DEAD} --replay topic --undo": "--replay publishes, --undo takes back: give one of them",
    f"{DEAD} --replay topic": "--ledger FILE is for --replay and --undo, and needed there",
    f"dead in {LOG} --replay topic": "--replay is for queues of RabbitMQ and topics",
    f"dead amqp://h --queue q {LOG} --replay topic": "--replay topic and --target are for topics",
    f"{DEAD} {LOG} --undo": "--undo is for queues of RabbitMQ",
    f"{DEAD} {LOG} --replay queue": "of a topic needs --target amqp://",
    f"{DEAD} {LOG} --replay topic --target rocketmq://h": "--replay topic writes to the system of SOURCE",
    "dead in --login f": "--login is for kafka:// and rocketmq:// as SOURCE; RabbitMQ's login has variables",
    f"dead kafka://h/t {LOG} --replay topic --target-login f": "--target-login is for kafka:// and rocketmq://",
    "dead kafka://h": "not a topic: write kafka://HOST:PORT/TOPIC",
    "dead in --where =": "this is not expected here",
    "diff a b --from 4.0 --profile 4.1": "--from and --to compare A and B, without --profile and --against",
    "diff a b --merge-base": "--merge-base needs --against",
    "diff a": "two topologies are compared, A and B; or files with --against REF",
    "diff a b --messages - --format markdown": "--messages has no Markdown; use --format text or json",
    "diff a --against HEAD --messages -": "--messages compares A and B, not files with --against",
    "drift t http://h --listen 127.0.0.1:1": "--listen needs --every",
    "drift t http://h --allow-host h": "--allow-host needs --listen",
    "drift - http://h --every 5": "standard input can be read only once; --every needs a file",
    "fmt f --check --stdout": "--stdout prints what --check and --dry-run only compare",
    "partition --partitioner kafka.murmur2 --partitions 3 --seed 1 --change 4": "--seed and --change cannot be",
    "record --listen 127.0.0.1:1 --upstream amqp://h": "name one FILE to record to",
    "record f --listen 127.0.0.1:1 --upstream h://": "--upstream: ",
    "record f --listen 127.0.0.1:1 --upstream amqp://h/v": "--upstream is a host and a port",
    "record f --listen 127.0.0.1:1 --upstream amqp://h --server-name h": "--ca-file, --cert-file and --server-name are",
    "record f --listen 127.0.0.1:1 --upstream amqp://127.0.0.1:1": "is the address of --listen",
    "rocketmq scale t --queues 4 --producers-stopped": "--producers-stopped needs --keep-order",
    "rocketmq scale t --queues 4": "no name server: give --namesrv HOST:9876",
    "rocketmq scale t --queues 4 --namesrv h:1 --ca-file in": "--ca-file needs --tls",
    "route - -": "the topology and the messages cannot both come from standard input",
    "selector match a=1 --property a": "--property ",
    "upgrade t --to 4.3 --transform ,": "--transform: give names of transformations",
    "upgrade t --to 4.3 --html - -o -": "--html: - is --output, too; give another file",
}
"""Command line -> a part of its error."""

READ_FIRST: Final = {
    ": there is nothing in it, and --prune would delete everything": "what is deleted is known by what is there",
    ", and --prune ": "likewise",
    ": --key and --message-id are for the store of a RocketMQ broker": "what an archive is, its files show",
    ": --topic is for the store of a RocketMQ broker": "likewise",
    ": of a topic, no sample can be drawn; omit --estimate": "likewise",
    ": there is no such file; --write-baseline makes it": "of files",
    ": which YAML is it to be? Choose with --format": "it needs no package",
    "--into is for definitions only; ": "what is written may depend on what is read; it needs no package",
    "--cluster is for --format operator only": "likewise",
    ": --into needs definitions, and this is a .bindings file": "of files",
    ": a broker of ": "the broker says so",
    'no "key"; write': "of messages",
    "\n--skip-bad continues after such a line": "of messages",
}
"""A part of an error that names an option -> why it comes after something is read."""


def list_usage_errors() -> Iterator[tuple[str, list[str]]]:
    """Yield each place where a command refuses its options, and the texts of the error between its values."""
    for path in sorted({each for pattern in MODULES for each in ROOT.glob(pattern)}):
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call) or not node.exc.args:
                continue
            of = ast.unparse(node.exc.func)
            parts = [
                each.value
                for each in ast.walk(node.exc.args[0])
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            ]
            is_usage = of == "click.UsageError" or (of == "InputError" and any("--" in part for part in parts))
            if is_usage and name not in SHELL:
                yield f"{name}:{node.lineno}", [part for part in parts if len(part) > 4]


def test_a_wrong_command_line_is_refused_before_anything_is_imported_that_only_the_work_needs(tmp_path: Path) -> None:
    (tmp_path / "in").touch()
    lines = [line.split() for line in MISUSED]
    call = [sys.executable, "-m", "tests.support.core_only", "run"]
    environment = {"PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        call, input=json.dumps(lines), capture_output=True, text=True, check=True, cwd=tmp_path, env=environment,
        timeout=find_limit(),
    )  # fmt: skip
    answers = dict(zip(MISUSED, json.loads(result.stdout), strict=True))
    others = {
        line: answers[line] for line, text in MISUSED.items() if answers[line][0] != 2 or text not in answers[line][1]
    }
    assert others == {}
    printed = "\n".join([errors for _, errors in answers.values()])
    missing = {
        place: parts
        for place, parts in list_usage_errors()
        if max(parts, key=len) not in printed and not any(why in part for why in READ_FIRST for part in parts)
    }
    assert missing == {}
