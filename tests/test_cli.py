"""The program: JSON lines in and out, order kept, bad input reported with its position, exit codes."""

from __future__ import annotations

import gzip
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from exchange import Binding, Exchange, Queue, Topology
from exchange.commands.options import CommandGroup
from tests.support.command_server import command_server
from tests.support.program import run_program
from tests.support.waiting import find_limit

ROOT = Path(__file__).parent.parent
DEFINITIONS: dict[str, Any] = {
    "vhosts": [{"name": "/"}],
    "queues": [
        {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}} for name in ("b", "a", "h")
    ],
    "exchanges": [
        {"name": name, "vhost": "/", "type": kind, "durable": True, "auto_delete": False, "internal": False,
         "arguments": {}}
        for name, kind in (("x", "topic"), ("odd", "x-odd"), ("h", "headers"))
    ],
    "bindings": [
        {"source": source, "vhost": "/", "destination": queue, "destination_type": "queue", "routing_key": key,
         "arguments": arguments}
        for source, queue, key, arguments in (
            ("x", "b", "k.#", {}), ("x", "a", "k.*", {}), ("h", "h", "", {"n": 1, "x-match": "all"}),
        )
    ],
}  # fmt: skip


@pytest.fixture
def definitions(tmp_path: Path) -> str:
    """Return a file: two queues at a topic exchange, one at a headers exchange, and an exchange of unknown type."""
    path = tmp_path / "definitions.json"
    path.write_text(json.dumps(DEFINITIONS))
    return str(path)


def test_route_answers_each_line_in_order(definitions: str) -> None:
    """One line out for each line in, with the exchange and key of the line and its queues sorted."""
    given: list[dict[str, Any]] = [
        {"exchange": "x", "routing_key": "k.1", "body": "ignored", "extra": [1]},
        {"exchange": "x", "routing_key": "z"},
        {"exchange": "", "routing_key": "a"},
        {"exchange": "h", "routing_key": "é", "headers": {"n": 1}},
        {"exchange": "h", "headers": {"n": {"!short": 1}}},
        {"exchange": "h", "headers": {"n": {"!float": 1}}},
        {"exchange": "x", "routing_key": "z", "headers": {"CC": ["k.2"]}},
    ] * 3
    result = run_program("route", "-t", definitions, given="\n".join(map(json.dumps, given)))
    assert result.returncode == 0
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [list(line) for line in lines] == [["exchange", "routing_key", "queues", "unroutable"]] * len(given)
    expected = [["a", "b"], [], ["a"], ["h"], ["h"], [], ["a", "b"]] * 3
    assert [line["queues"] for line in lines] == expected
    assert [line["unroutable"] for line in lines] == [not queues for queues in expected]
    assert [line["routing_key"] for line in lines] == [message.get("routing_key", "") for message in given]


def test_an_exchange_of_unknown_type_is_reported_and_leaves_routes_undecided(definitions: str) -> None:
    """The warning goes to standard error, and the route has null and not false."""
    result = run_program("route", "-t", definitions, given='{"exchange": "odd", "routing_key": "k"}\n')
    assert "exchange 'odd' is of type 'x-odd', which is unknown here" in result.stderr
    assert json.loads(result.stdout) == {
        "exchange": "odd", "routing_key": "k", "queues": [], "unroutable": None, "undecided": ["odd"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{bad", "not JSON: Expecting property name"),
        ("[1]", "is not a message"),
        ('{"exchange": "x", "routing_key": 5}', "routing_key"),
        ('{"exchange": "x", "headers": []}', "headers"),
        ('{"exchange": "x", "headers": {"n": {"!shirt": 1}}}', "!shirt"),
        ('{"exchange": "nope"}', "404 NOT_FOUND - no exchange 'nope' in vhost '/'"),
        ('{"exchange": "amq.rabbitmq.trace"}', "403 ACCESS_REFUSED - cannot publish to internal"),
        ('{"exchange": "x", "headers": {"CC": "k"}}', "406 PRECONDITION_FAILED"),
        ('{"exchange": "x"} {"exchange": "x"}', "not JSON: Extra data"),
        ("[" * 100_000, "nested too deeply, beyond 100 arrays and objects at column 101"),
        ('{"exchange": "x", "routing_key": "' + "k" * 256 + '"}', "' has 256 bytes; AMQP allows 255"),
        ('{"exchange": "' + "é" * 128 + '"}', "' has 256 bytes; AMQP allows 255"),
        ('{"exchange": "x", "headers": {"' + "n" * 256 + '": 1}}', "' has 256 bytes; AMQP allows 255"),
        ('{"exchange": "x", "exchange": "y"}', 'a name that is twice in one object: "exchange" at column 19'),
        ('{"exchange": "x", "headers": {"a": 1, "b": {"a": 2}, "a": 1}}', 'twice in one object: "a" at column 54'),
        ('{"exchange": "x", "headers": {"a": NaN}}', "a number that it does not have: NaN at column 36"),
        ('{"exchange": "x", "headers": {"a": [1e999]}}', "a number that it does not have: 1e999 at column 37"),
        ('{"exchange": "x", "routing_key": "\\uD83D"}', "half of a surrogate pair"),
        ('{"exchange": "x", "routing_key": "\\ude00"}', "half of a surrogate pair"),
        ('{"exchange": "x", "properties": {"expiration": "-5"}}', "406 PRECONDITION_FAILED - invalid expiration '-5'"),
    ],
)
def test_a_bad_line_ends_the_command_with_its_position_or_is_counted(
    definitions: str, tmp_path: Path, line: str, reason: str
) -> None:
    """What came before it is answered; the message names file, line and reason.

    --skip-bad answers in its place, counts, goes on, and ends with 1.
    """
    good = '{"exchange": "x", "routing_key": "k.1"}'
    path = tmp_path / "in.jsonl"
    path.write_text(f"{good}\n\n{line}\n{good}\n{line}\n")
    result = run_program("route", "-t", definitions, str(path))
    assert result.returncode == 2
    assert len(result.stdout.splitlines()) == 1
    assert f"{path}:3: " in result.stderr
    assert reason in result.stderr
    assert "Traceback" not in result.stderr
    result = run_program("route", "--skip-bad", "-t", definitions, str(path))
    assert result.returncode == 1
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert ["error" in answer for answer in answers] == [False, True, False, True]
    assert reason in answers[1]["error"]
    assert f"bad lines: 2, the first is {path}:3: " in result.stderr


def test_a_line_that_is_not_utf8_is_a_bad_line(definitions: str, tmp_path: Path) -> None:
    """Bytes that are no UTF-8 have a place and a reason too."""
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"exchange": "\xff"}\n')
    result = run_program("route", "-t", definitions, str(path))
    assert result.returncode == 2
    assert "in.jsonl:1: not UTF-8" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["route"], "Missing argument 'TOPOLOGY'"),
        (["route", "-t", "/nowhere.json"], "/nowhere.json: cannot be read"),
        (["route", "-t", "DEFINITIONS", "/nowhere.jsonl"], "/nowhere.jsonl"),
        (["route", "-t", "DEFINITIONS", "--vhost", "other"], "there is no virtual host 'other'"),
        (["route", "-t", "DEFINITIONS", "--profile", "rabbitmq-x"], "rabbitmq-4.3"),
        (["explain", "-t", "DEFINITIONS", "nope"], "404 NOT_FOUND"),
        (["explain", "-t", "DEFINITIONS", "order.eu"], "the exchange comes before the key"),
        (["explain", "-t", "DEFINITIONS", "x", "-H", "nonsense"], "NAME=VALUE"),
        (["nonsense"], "No such command"),
        (["inspect", "x"], "No such command 'inspect'; it is hashstar archive inspect"),
        (["run"], "it is hashstar audit run or hashstar bridge run"),
    ],
)
def test_bad_usage_is_an_error_without_a_traceback(definitions: str, arguments: list[str], reason: str) -> None:
    """Exit code 2, and a message that names what is wrong."""
    result = run_program(*[definitions if argument == "DEFINITIONS" else argument for argument in arguments])
    assert result.returncode == 2
    assert reason in result.stderr
    assert "Traceback" not in result.stderr
    assert not result.stdout


@pytest.mark.parametrize("names", [(), ("selector",), ("rocketmq",), ("group",)], ids=" ".join)
def test_a_group_without_a_command_prints_its_help_in_lines(names: tuple[str, ...]) -> None:
    result = run_program(*names)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == run_program(*names, "--help").stdout


def test_help_has_its_short_name_whatever_made_the_context_that_asked_first() -> None:
    group = CommandGroup("g", example="g a", help="Do it.")
    click.Context(group).get_help()
    assert "-h, --help" in CliRunner().invoke(group, ["-h"]).output


def test_explain_is_readable_and_has_json(definitions: str) -> None:
    """The text names the nearest binding and the word that failed; --json has the same for machines."""
    arguments = ["explain", "-t", definitions, "x", "k.1.2", "--queue", "a"]
    result = run_program(*arguments)
    assert result.returncode == 0
    assert "'k.#' -> queue 'b': queued" in result.stdout
    assert "word 3 '2' is one too many" in result.stdout
    explained = json.loads(run_program(*arguments, "--json").stdout)
    assert explained["queues"] == ["b"]
    assert explained["hops"][0]["matched"][0]["routing_key"] == "k.#"
    assert explained["asked"]["obstacles"][0]["binding"]["routing_key"] == "k.*"
    result = run_program("explain", "-t", definitions, "h", "-H", 'n="1"', "--queue", "h")
    assert "header 'n' is \"1\", it wants 1 (of another type)" in result.stdout


@pytest.mark.parametrize(
    ("name", "meant"),
    [("routingKey", "routing_key"), ("routing-key", "routing_key"), ("Exchange", "exchange"), ("HEADERS", "headers")],
)
def test_a_slip_in_the_name_of_a_field_is_an_error(definitions: str, tmp_path: Path, name: str, meant: str) -> None:
    """It would route the empty key in silence; a field that is no slip is named in a warning."""
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps({"exchange": "x", "routing_key": "k.1", "time": 5, "Queue": "q"}))
    result = run_program("route", "-t", definitions, str(path))
    assert result.returncode == 0
    assert result.stderr.endswith('\nignored fields: "Queue", "time"\n')
    message = {key: value for key, value in {"exchange": "x", "routing_key": "k.1"}.items() if key != meant}
    path.write_text(json.dumps({**message, name: {} if meant == "headers" else "k.1"}))
    result = run_program("route", "-t", definitions, str(path))
    assert result.returncode == 2
    assert f'in.jsonl:1: "{name}" is not a field of a message; did you mean "{meant}"?' in result.stderr


def test_messages_are_read_gzipped_and_with_a_byte_order_mark(definitions: str, tmp_path: Path) -> None:
    """By their content; what is cut off or UTF-16 is an error with the way out, after what could be routed."""
    line = b'{"exchange": "x", "routing_key": "k.1"}\r\n'
    path = tmp_path / "in.jsonl"
    for content in (b"\xef\xbb\xbf" + line * 2, gzip.compress(line * 2), gzip.compress(b"\xef\xbb\xbf" + line * 2)):
        path.write_bytes(content)
        result = run_program("route", "-t", definitions, str(path))
        assert result.returncode == 0
        assert [json.loads(each)["queues"] for each in result.stdout.splitlines()] == [["a", "b"]] * 2
    path.write_bytes(line.decode().encode("utf-16"))
    assert "in.jsonl:1: UTF-16 and not UTF-8" in run_program("route", "-t", definitions, str(path)).stderr
    noise = b"".join(b'{"exchange": "x", "routing_key": "k.%d"}\n' % (n * n) for n in range(10_000))
    for damaged in (gzip.compress(noise)[:-200], gzip.compress(noise)[:-8] + b"checksum", b"\x1f\x8b\x08 no"):
        path.write_bytes(damaged)
        result = run_program("route", "-t", definitions, str(path))
        assert result.returncode == 2
        assert re.search(r"in\.jsonl: cannot be unpacked after line \d+: ", result.stderr)


DIGITS = "9" * 5_000


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["-H", "k=" + "[" * 5_000], "--header k: nested too deeply"),
        (["-P", "k=" + "[" * 900 + "]" * 900], "nested too deeply, beyond 100 arrays and objects"),
        (["-H", f"k={DIGITS}"], "--header k: a number of more than 4300 digits"),
        (["-H", f"k={DIGITS[:3000]}"], "does not fit in a long"),
        (["-H", 'k={"!long": ' + DIGITS + "}"], "--header k: a number of more than 4300 digits"),
        (["-H", "k=" + '{"!table": ' * 91 + "1" + "}" * 91], "1 is not an object"),
        (["-H", "k=" + '{"!longstr": ' * 300 + "1" + "}" * 300], "nested too deeply"),
        ([".".join("a" * 20_000)], "ROUTING_KEY has 39999 bytes; AMQP allows 255"),
        (["é" * 128], "ROUTING_KEY has 256 bytes"),
        (["-H", f"{'n' * 256}=1"], "the name of --header has 256 bytes; AMQP allows 255"),
        (["-H", 'k={"a": 1, "a": 2}'], '--header k: a name that is twice in one object: "a"'),
        (["-H", "k=NaN"], "--header k: not JSON: a number that it does not have: NaN; a string is given in quotes"),
        (["-P", "k=1e999"], "--property k: not JSON: a number that it does not have: 1e999"),
    ],
)
def test_explain_refuses_what_no_client_can_send(definitions: str, arguments: list[str], reason: str) -> None:
    """In one short line, whatever size it has."""
    result = run_program("explain", "-t", definitions, "--queue", "a", "x", *arguments)
    assert result.returncode == 2
    message = result.stderr.splitlines()[-1]
    assert message.startswith("hashstar: ")
    assert reason in message
    assert len(message) < 600


def test_bytes_that_are_not_utf8_are_routed_as_archives_write_them(definitions: str, tmp_path: Path) -> None:
    """A pair of halves is a character, and the halves of archives are bytes."""
    path = tmp_path / "in.jsonl"
    keys = ["k.\\udcff" + "\\udc80" * 252, "k.\\ud83d\\ude00", "k.\\\\ud800", "k.\\u00e9"]
    path.write_text("".join(f'{{"exchange": "x", "routing_key": "{key}"}}\n' for key in keys))
    result = run_program("route", "-t", definitions, str(path))
    assert [json.loads(line)["routing_key"] for line in result.stdout.splitlines()] == [
        "k.\udcff" + "\udc80" * 252, "k.\U0001f600", "k.\\ud800", "k.é",
    ]  # fmt: skip


def test_one_bad_line_is_reported_in_the_singular(definitions: str, tmp_path: Path) -> None:
    """And not as the first of several."""
    path = tmp_path / "in.jsonl"
    path.write_text("bad\n")
    result = run_program("route", "--skip-bad", "-t", definitions, str(path))
    assert result.stderr.splitlines()[-1] == f"a bad line: {path}:1: not JSON: Expecting value at column 1"


def test_a_number_with_5000_digits_is_a_bad_line(definitions: str, tmp_path: Path) -> None:
    """The user did not write the program that sys.set_int_max_str_digits would be for."""
    path = tmp_path / "in.jsonl"
    path.write_text(f'{{"exchange": "h", "headers": {{"n": {DIGITS}}}}}\n')
    result = run_program("route", "-t", definitions, str(path))
    assert result.returncode == 2
    assert "in.jsonl:1: a number of more than 4300 digits; put it in quotes, or shorten it: 99999" in result.stderr
    assert " at column 36\n" in result.stderr


@pytest.mark.parametrize("number", ["9" * 5_000, "0x" + "f" * 4_000, "0o" + "7" * 6_000])
def test_a_number_of_yaml_is_bounded_however_it_is_written(number: str, tmp_path: Path) -> None:
    path = tmp_path / "queue.yaml"
    path.write_text(
        f"apiVersion: rabbitmq.com/v1beta1\nkind: Queue\nspec: {{name: q, arguments: {{x-max-length: {number}}}}}\n"
    )
    result = run_program("check", str(path))
    assert result.returncode == 2
    assert f"{path}:3: a number of more than 4300 digits; put it in quotes, or shorten it" in result.stderr


@pytest.mark.parametrize(
    "command", [["check"], ["graph"], ["explain", "-t"], ["upgrade", "--from", "3.13", "--to", "4.3"]]
)
def test_an_age_that_no_encoding_writes_is_a_value_as_any_other(command: list[str], tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    policy = {
        "name": "p", "vhost": "/", "pattern": "", "apply-to": "all", "priority": 0, "definition": {"max-age": "\ud800"}
    }  # fmt: skip
    path.write_text(json.dumps({**DEFINITIONS, "policies": [policy]}))
    result = run_program(*command, str(path), *(["x"] if command[0] == "explain" else []))
    assert result.returncode in (0, 1)
    assert "Error" not in result.stderr


def test_a_topology_with_a_number_of_5000_digits_or_at_an_amqp_address_is_an_error(tmp_path: Path) -> None:
    """Without advice about Python, and without the address, which may have a password in it."""
    definitions, language = tmp_path / "d.json", tmp_path / "d.bindings"
    definitions.write_text(json.dumps(DEFINITIONS).replace('"arguments": {}', f'"arguments": {{"n": {DIGITS}}}'))
    language.write_text(f"exchange x: topic, n = {DIGITS}\n")
    for path in (definitions, language):
        for command in (["check", str(path)], ["explain", "-t", str(path), "x"]):
            result = run_program(*command)
            assert result.returncode == 2
            assert re.search(r"a number (of more than 4300|has 4,300) digits", result.stderr)
            assert str(path) in result.stderr
            assert "sys." not in result.stderr
            assert (
                path is language
                or f"{path}:1:126: a number of more than 4300 digits; put it in quotes" in result.stderr
            )
    for command in (["explain", "-t", "amqp://me:secret@host/v", "x"], ["check", "AMQPS://me:secret@host"]):
        result = run_program(*command)
        assert result.returncode == 2
        assert "management API has: http://HOST:15672[/VHOST]" in result.stderr
        assert "secret" not in result.stderr


def test_explain_names_the_key_that_matched_and_shows_values_as_the_language_does(definitions: str) -> None:
    """A key of CC or BCC, in the text and in JSON; values can be pasted into a .bindings file."""
    arguments = ["explain", "-t", definitions, "-H", 'CC=["k.2", "z"]', "-H", 'BCC=["k.3.4"]', "x", "nobody"]
    text = run_program(*arguments).stdout
    assert "exchange 'x' <- 'nobody', CC 'k.2', CC 'z', BCC 'k.3.4'" in text
    assert "'k.#' -> queue 'b': queued by CC 'k.2'" in text
    explained = json.loads(run_program(*arguments, "--json").stdout)
    assert explained["copied_to"][2] == {"header": "BCC", "key": "k.3.4"}
    matched = explained["hops"][0]["matched"]
    assert [(each["matched_header"], each["matched_key"]) for each in matched] == [("CC", "k.2")] * 2
    text = run_program("explain", "-t", definitions, "x", "k.1").stdout
    assert "'k.#' -> queue 'b': queued\n" in text
    for given, shown in [
        ('{"!timestamp": 5}', "!timestamp 5"), ('{"!decimal": "1.5"}', "!decimal 1.5"),
        ('{"!bytes": "/w=="}', '!bytes "/w=="'),
        ('[1, "a", null]', '[1, "a", null]'), ('{"a": true}', "{ a = true }"), ("1.0", "1.0"),
    ]:  # fmt: skip
        text = run_program("explain", "-t", definitions, "h", "--queue", "h", "-H", f"n={given}").stdout
        assert f"header 'n' is {shown}, it wants 1" in text


def test_names_with_lone_surrogates_can_be_printed(tmp_path: Path) -> None:
    """JSON can write them; they leave escaped."""
    path = tmp_path / "d.json"
    name = "\ud800"
    path.write_text(json.dumps({
        "exchanges": [{**DEFINITIONS["exchanges"][0], "name": name}],
        "queues": [{**DEFINITIONS["queues"][0], "name": name}],
        "bindings": [{**DEFINITIONS["bindings"][0], "source": name, "destination": name, "routing_key": name}],
    }))  # fmt: skip
    other = tmp_path / "other.json"
    other.write_text(json.dumps(DEFINITIONS))
    for arguments in (["diff", str(path), str(other)], ["graph", str(path)], ["check", str(path)]):
        result = run_program(*arguments)
        assert result.returncode in (0, 1), result.stderr
        assert "Traceback" not in result.stderr
    escaped = json.dumps({"exchange": name, "routing_key": name})
    result = run_program("route", "-t", str(path), given=escaped)
    assert result.returncode == 2
    assert r":1: half of a surrogate pair, which no text in UTF-8 has: \ud800 at column 15" in result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("command", [
    "route -t D messages", "explain -t D x k.1", "explain -t D x k.1 --json", "check D", "graph D", "convert D",
    "partition --list",
])  # fmt: skip
def test_an_output_that_cannot_be_written_is_an_error_of_one_line(
    definitions: str, tmp_path: Path, command: str
) -> None:
    """A full disk: exit code 2, no traceback."""
    messages = tmp_path / "messages"
    messages.write_text('{"exchange": "x", "routing_key": "k.1"}\n' * 3)
    command = command.replace("D", definitions).replace("messages", str(messages))
    with Path(os.devnull).open("rb") as given, Path("/dev/full").open("wb") as full, (tmp_path / "e").open("wb") as err:
        code = command_server().run_with(command.split(), (given.fileno(), full.fileno(), err.fileno()))
    assert code == 2
    [line] = [line for line in (tmp_path / "e").read_text().splitlines() if "is unknown here" not in line]
    assert "No space left on device" in line


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(("redirected", "reason"), [(">/dev/full", "No space left on device"), (">&-", "it is closed")])
def test_so_is_one_of_a_program_that_a_shell_starts(definitions: str, redirected: str, reason: str) -> None:
    """The interpreter, which flushes at its end, adds nothing, and takes a closed output for none."""
    result = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m bridge.cli check {definitions} {redirected}"],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=find_limit(),
    )  # fmt: skip
    assert result.returncode == 2
    [line] = [line for line in result.stderr.splitlines() if "is unknown here" not in line]
    assert reason in line


def test_properties_that_no_message_can_have_are_refused(definitions: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    for given, reason in (("priority=300", "300 is no octet"), ("foo=1", "AMQP has no property 'foo'")):
        name, _, value = given.partition("=")
        lines.write_text(json.dumps({"exchange": "", "routing_key": "a", "properties": {name: int(value)}}))
        by = ["partition", "--partitioner", "kafka.murmur2", "--partitions", "3", "--by", "routing_key"]
        explain, route = ["explain", definitions, "", "a", "-P", given], ["route", definitions, str(lines)]
        for command in (explain, route, [*by, str(lines)]):
            ended = command_server().run(command)
            assert (ended.code, reason in ended.err) == (2, True), (command, ended)


def test_a_closed_standard_input_is_an_error_in_one_line(definitions: str, tmp_path: Path) -> None:
    """Services of cron and supervisors may start programs so. No file that is opened takes its place."""
    partition = "partition --partitioner kafka.murmur2 --partitions 3"
    for command in ("route {}", "check -", "fmt -", "diff {} -", "convert - x.json", partition):
        line = f"{sys.executable} -m bridge.cli {command.format(definitions)} <&-"
        result = subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=find_limit(),
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert result.returncode == 2, command
        assert result.stderr.splitlines()[-1] == "hashstar: standard input cannot be read: it is closed", command


LONG = [
    {**DEFINITIONS["bindings"][0], "routing_key": f"a.{'b' * 300}"},
    {**DEFINITIONS["bindings"][0], "routing_key": "a.#." + "é" * 150},
]


@pytest.mark.parametrize("binding", LONG)
def test_a_key_longer_than_amqp_allows_is_named_with_its_file_and_binding(
    definitions: str, tmp_path: Path, binding: dict[str, Any]
) -> None:
    """By what routes; `check` has it as a finding, and what only reads and writes a topology takes it."""
    path = str(tmp_path / "long.json")
    Path(path).write_text(json.dumps({**DEFINITIONS, "bindings": [*DEFINITIONS["bindings"], binding]}))
    messages = tmp_path / "messages"
    messages.write_text('{"exchange": "x", "routing_key": "k.1"}\n')
    for arguments in (
        ["route", "-t", path, str(messages)], ["explain", "-t", path, "x", "k"],
        ["diff", path, definitions], ["diff", definitions, path],
    ):  # fmt: skip
        result = run_program(*arguments)
        assert result.returncode == 2, arguments
        assert re.search(
            r"long\.json: binding of exchange 'x' to queue 'b': its key has 30\d bytes, AMQP allows 255: 'a\.",
            result.stderr,
        )
        assert "Traceback" not in result.stderr
    result = run_program("check", path)
    assert result.returncode == 1
    assert re.search(r"30\d bytes", result.stdout)
    assert run_program("graph", path).returncode == 0
    assert run_program("convert", path, str(tmp_path / "long.bindings")).returncode == 0


@pytest.mark.parametrize(("command", "kind"), [
    ("route -t D -", "pipe"), ("check BIG", "pipe"), ("check --explain HS", "pipe"), ("route -t D -", "both"),
    ("graph BIG", "both"), ("check BIG", "socket"),
])  # fmt: skip
def test_a_closed_pipe_is_no_error_and_no_finding(definitions: str, tmp_path: Path, command: str, kind: str) -> None:
    """``hashstar route | head`` ends quietly, with the code that a shell gives for other programs: neither 0 nor 1."""
    lines = tmp_path / "lines"
    lines.write_text('{"exchange": "x", "routing_key": "k.1"}\n' * 20_000)
    big = tmp_path / "big.bindings"
    big.write_text("".join(f"queue q{number}\n" for number in range(2_000)))
    command = command.replace("D", definitions).replace("BIG", str(big))
    reader, writer = (end.detach() for end in socket.socketpair()) if kind == "socket" else os.pipe()
    os.close(reader)  # before anything is written: how much fits in a pipe does not matter
    try:
        with lines.open("rb") as given, (tmp_path / "errors").open("wb") as errors:
            descriptors = given.fileno(), writer, writer if kind == "both" else errors.fileno()
            assert command_server().run_with(command.split(), descriptors) == 141
    finally:
        os.close(writer)
    assert [line for line in (tmp_path / "errors").read_text().splitlines() if "is unknown here" not in line] == []


def test_the_interpreter_adds_nothing_to_it(definitions: str) -> None:
    """As a program that is started: it flushes its outputs at its end."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "bridge.cli", "check", definitions]
    with open(writer, "wb") as output:  # noqa: PTH123  a descriptor
        result = subprocess.run(
            command, stdout=output, stderr=subprocess.PIPE, check=False, cwd=ROOT, timeout=find_limit()
        )
    assert result.returncode == 141
    assert [line for line in result.stderr.decode().splitlines() if "is unknown here" not in line] == []


def test_importing_the_engine_imports_nothing_heavy() -> None:
    """What routes and dispatches leaves lark, click, decimal and what else takes long until it is needed."""
    heavy = "lark click pika json decimal datetime random difflib"
    names = "Binding, Dispatcher, Matcher, Message, PikaQueue, PROFILES, Router, Topology"
    code = f"import sys; from exchange import {names}; print([m for m in {heavy.split()} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.strip() == "[]"


def test_the_version_is_shown_without_the_engine() -> None:
    """Nothing of it is loaded to parse a command line: no command and no completion of a shell waits for it."""
    code = "import sys, bridge.cli; print(*sorted(m for m in sys.modules if m.startswith('exchange.')))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    engine = {"exchange.routing", "exchange.topology", "exchange.entities", "exchange.kinds", "exchange.dispatch"}
    assert engine & {*result.stdout.split()} == set()


def test_all_commands_are_made_without_what_is_optional() -> None:
    """A build of the package writes their man pages, where nothing but click and lark is installed."""
    call = [sys.executable, "-m", "tests.support.core_only"]
    result = subprocess.run(call, capture_output=True, text=True, check=False, cwd=ROOT)
    assert result.stderr == ""
    assert {"hashstar check", "hashstar dead", "hashstar bridge run"} <= {*result.stdout.splitlines()}


def test_the_public_names_of_exchange_are_complete() -> None:
    """Every name in __all__ is there, and the ones the README uses are among them."""
    import exchange

    assert all(hasattr(exchange, name) for name in exchange.__all__)
    assert {"Router", "Topology", "Message", "Pattern", "Dispatcher"} <= set(exchange.__all__)
    assert Topology([Exchange("x")], [Queue("q")], [Binding.to_queue("x", "q")]).bindings
