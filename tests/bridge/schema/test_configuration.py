"""The schemas of bridge.toml and hashstar.toml accept what the readers accept, and refuse what a schema can refuse."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bindings.report.settings import read_settings
from bridge.daemon import keys as file_keys
from bridge.daemon.config import read_config
from bridge.endpoints import SCHEMES, list_keys
from bridge.keys import Key
from bridge.pump import keys as pump_keys
from bridge.table import Table
from docs.scripts.schemas import DOCS, SETTINGS, TABLES, with_settings, with_tables
from exchange import InputError
from exchange.values.json_schema import DRAFT_07
from tests.bindings.report.test_gates import IGNORE, WHOLE
from tests.bridge.daemon.test_config import MIXED, RIGHT, TOPOLOGY, edit, mistakes
from tests.support.cases import with_each
from tests.support.pages import PAGES, ROOT, blocks
from tests.support.schemas import as_json, validator, validator_class
from tests.support.syntax import read_modules, walk
from tests.support.tiers import examples

ROLES = ("SOURCE", "TARGET", "DEAD_LETTERS")
SYSTEMS = tuple(dict.fromkeys(SCHEMES.values()))


def errors(name: str, text: str) -> list[str]:
    """Return where a schema refuses a text of TOML, as keys joined by dots, with the reason."""
    found = validator(name).iter_errors(as_json(tomllib.loads(text)))
    return sorted(f"{'.'.join(map(str, each.absolute_path))}: {each.message}" for each in found)


# Examples and documentation.

EXAMPLES = sorted(path for path in (ROOT / "examples").rglob("*.toml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_files_are_valid(path: Path) -> None:
    assert errors("bridge", path.read_text("utf-8")) == []


def test_editors_in_this_repository_find_the_schema_of_the_examples() -> None:
    """By .taplo.toml, which `taplo lint` reads, too."""
    [rule] = tomllib.loads((ROOT / ".taplo.toml").read_text("utf-8"))["rule"]
    assert (ROOT / rule["schema"]["path"]).is_file()
    assert sorted(path for glob in rule["include"] for path in ROOT.glob(glob)) == EXAMPLES


def test_files_of_toml_within_the_examples_of_kubernetes_are_valid() -> None:
    documents = list(yaml.safe_load_all((ROOT / "examples/kubernetes/bridge.yaml").read_text("utf-8")))
    texts = [text for each in documents for name, text in each.get("data", {}).items() if name.endswith(".toml")]
    values = yaml.safe_load((ROOT / "examples/helm/hashstar-bridge/values.yaml").read_text("utf-8"))
    texts += [values["bridge"]]
    for text in texts:
        assert errors("bridge", text) == []
    assert len(texts) == 2


def test_blocks_of_toml_in_the_documentation_are_valid() -> None:
    names = []
    for page in PAGES:
        for block in blocks(page):
            if block.language == "toml":
                name = "hashstar" if "[audit" in block.text else "bridge"
                assert errors(name, block.text) == [], str(block)
                names.append(name)
    assert {*names} == {"bridge", "hashstar"}


def test_the_tables_of_keys_in_the_documentation_are_those_of_the_code() -> None:
    for name in TABLES:
        assert with_tables(name) == (DOCS / name).read_text("utf-8"), "run python -m docs.scripts.schemas"
    page = SETTINGS.read_text("utf-8")
    assert with_settings(page) == page, "run python -m docs.scripts.schemas"


def test_keys_of_dead_letters_are_in_the_documentation() -> None:
    pages = {"rabbitmq": "rabbitmq", "kafka": "kafka", "rocketmq": "rocketmq", "archive": "archives"}
    for system, page in pages.items():
        [sentence] = re.findall(r"As `\[dead_letters\]`(.*)", (DOCS / f"bridge-{page}.md").read_text("utf-8"))
        own = {key for key in list_keys(system, "DEAD_LETTERS").names if key not in list_keys(system, "TARGET").names}
        assert own <= {*re.findall(r"`(\w+)`", sentence)}


# No list of keys is kept twice.


def test_keys_are_read_by_their_declarations_only() -> None:
    """No module but `bridge.keys` reads a key of a table by a name written in place."""
    readers = {name for name in vars(Table) if not name.startswith("_")} - {"error", "warn", "missing", "resolve_path"}
    hint = re.compile(rf"\.({'|'.join(readers)})\(")
    found = [
        f"{path}:{node.lineno}"
        for path, text in read_modules("bridge/").items()
        if hint.search(text)  # parsing all modules takes too long
        for node in walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in readers
        and isinstance(node.func.value, ast.Name) and node.func.value.id in ("table", "each", "within")
        and node.args and isinstance(node.args[0], ast.Constant)
    ]  # fmt: skip
    assert found == []


def modules_of_keys() -> list[Any]:
    from importlib import import_module

    return [file_keys, pump_keys, *[import_module(f"bridge.endpoints.{system}.keys") for system in SYSTEMS]]


def test_every_declared_key_is_a_key_of_a_table() -> None:
    tables = [
        *(keys for page in TABLES.values() for keys in page.values()),
        *[list_keys(system, role) for system in SYSTEMS for role in ROLES],
    ]
    used = {id(key) for table in tables for key in table.keys}
    for module in modules_of_keys():
        unused = [name for name, key in vars(module).items() if isinstance(key, Key) and id(key) not in used]
        assert unused == [], module.__name__


NONSENSE = {
    ("rabbitmq", "SOURCE"): 'url = "amqp://h"\nqueue = "q"',
    ("rabbitmq", "TARGET"): 'url = "amqp://h"\nqueues = ["all"]',
    ("rabbitmq", "DEAD_LETTERS"): 'url = "amqp://h"\nexchange = "e"',
    ("kafka", "SOURCE"): 'url = "kafka://h"\ntopics = ["t"]',
    ("kafka", "TARGET"): 'url = "kafka://h"\nqueues = ["all"]\ntransactional = true',
    ("kafka", "DEAD_LETTERS"): 'url = "kafka://h"\ntopic = "t"',
    ("rocketmq", "SOURCE"): 'url = "rocketmq://h"\ntopics = ["t"]',
    ("rocketmq", "TARGET"): 'url = "rocketmq://h"\nqueues = ["all"]',
    ("rocketmq", "DEAD_LETTERS"): 'url = "rocketmq://h"\ntopic = "t"',
    ("archive", "SOURCE"): 'url = "archive:a"',
    ("archive", "TARGET"): 'url = "archive:a"\nqueues = ["all"]',
    ("archive", "DEAD_LETTERS"): 'url = "archive:a"',
}
"""System and role -> a table without mistakes, in which all keys are read."""

HEADS = {"SOURCE": "[sources.x]", "TARGET": "[targets.x]", "DEAD_LETTERS": "[dead_letters]"}


@pytest.mark.parametrize(("system", "role"), NONSENSE)
def test_the_reader_reads_every_key_of_the_schema_and_no_other(tmp_path: Path, system: str, role: str) -> None:
    """What a reader has read is listed in its error about an unknown key."""
    table = f"{HEADS[role]}\n{NONSENSE[system, role]}\n"
    (tmp_path / "t.bindings").write_text(TOPOLOGY)
    whole = edit('all = ".", ', "") if role == "TARGET" else RIGHT
    (tmp_path / "bridge.toml").write_text(f"{whole}\n{table}nonsense = 1\n")
    with pytest.raises(InputError, match="nonsense: is not known here") as caught:
        read_config(tmp_path / "bridge.toml", {})
    read = {*str(caught.value).rpartition("known: ")[2].split("\n")[0].split(", ")}
    assert read == {*list_keys(system, role).names}
    assert errors("bridge", f"{whole}\n{table}") == []
    place = HEADS[role].strip("[]")
    assert any(
        each.startswith(f"{place}: ") and "'nonsense' was unexpected" in each
        for each in errors("bridge", f"{whole}\n{table}nonsense = 1\n")
    )


def test_only_one_of_queue_and_exchange_of_dead_letters_is_read_with_the_other() -> None:
    with_queue = f'{RIGHT}[dead_letters]\nurl = "amqp://h"\nqueue = "q"\n'
    assert errors("bridge", with_queue) == []
    assert errors("bridge", f'{with_queue}exchange = "e"\n')


# What is accepted.


def all_keys() -> list[tuple[str, Key[Any]]]:
    tables = [file_keys.FILE, pump_keys.POLICY, *[list_keys(system, role) for system in SYSTEMS for role in ROLES]]
    return [*{id(key): (key.name, key) for table in tables for key in table.keys}.values()]


CHECKED_LATER = ("profile", "http", "url", "offset", "hosts", "management", "prefetch", "oauth", "registry")
"""Keys whose forms read more than the endpoint then accepts."""


def error_of(read: Callable[..., object]) -> str | None:
    """Return the error that a reader raises; None if it raises none."""
    try:
        read()
    except InputError as error:
        return str(error)
    return None


VALUES = st.one_of(
    st.just(""), st.booleans(), st.integers(-2, 70_000),
    st.floats(-1, 100).filter(lambda number: not number.is_integer()),  # 1.0 is an integer in JSON, and none in TOML
    st.sampled_from(["a", "off", "max", "first", "5 s", "64 MiB", "1 d", " 5 ms ", "10 KiB", "5", "info", "text",
                     "PLAIN", "${A}", "x${A}", "dead-letter", "2026-11-21", "env"]),
    st.lists(st.sampled_from(["a", "", "${A}"]), max_size=2),
    st.dictionaries(st.sampled_from(["env", "file", "a", "queue"]), st.sampled_from(["A", "1", 1, True]), max_size=2),
    st.dates(), st.datetimes(),
)  # fmt: skip


@examples(60)
@given(VALUES)
def test_the_schema_of_a_key_accepts_what_its_form_reads(value: Any) -> None:
    for name, key in all_keys():
        if name in CHECKED_LATER or name in ("queues", "librdkafka", "sources", "targets", "policy", "dead_letters"):
            continue
        if isinstance(value, date) != (name in ("since", "until")):  # dates of TOML are texts in JSON
            continue
        is_valid = validator_class(DRAFT_07)(key.schema).is_valid(as_json(value))
        table = Table({name: value}, "bridge.toml", environment={"A": "5"})
        error = error_of(partial(key.read, table))
        if error is None:
            assert is_valid, (name, value)
        elif not any(text in error for text in ("cannot be read", "no variable")) and "${A}" not in str(value):
            assert not is_valid, (name, value, error)


def test_the_defaults_of_keys_are_valid_and_those_of_the_readers(tmp_path: Path) -> None:
    for name, key in all_keys():
        if key.default is not None:
            assert validator_class(DRAFT_07)(key.schema).is_valid(key.default), name
        assert key.schema.get("default") == key.default, name


def test_a_url_in_a_variable_may_be_of_any_system() -> None:
    text = MIXED.replace("amqp://127.0.0.1", "${RABBIT}")
    assert errors("bridge", text) == []
    assert errors("bridge", text.replace("queue =", "quue ="))


# What is refused.

NO_SCHEMA = (
    r"not TOML", r"none\.bindings", r"no variable GONE", r"no exchange 'evens'", r"queue 'some' has none",
    r"no queue 'other'", r"another endpoint has this name", r"queue 'all' has a target", r"no queue 'none'",
    r"all sources are archives", r"and is inf", r"and is 1000", r"window_bytes\: must be a number of bytes",
    r"and is 'rabbitmq-4'", r"and is 'kafka'", r"no virtual host '/none'",
    r"is given twice", r"must be at most backoff_most", r"must be at most reconnect_most",
)  # fmt: skip
"""Mistakes that a schema cannot find: in other files, between tables or two numbers, within addresses, in numbers that
JSON lacks."""


@with_each(("text", "error"), mistakes())
def test_the_schema_refuses_what_the_reader_refuses_where_a_schema_can(text: str, error: str) -> None:
    try:
        found = errors("bridge", text)
    except tomllib.TOMLDecodeError:
        found = []
    if not found:
        assert any(known in error.replace("\\", "") or known in error for known in [
            each.replace("\\", "") for each in NO_SCHEMA
        ]), error  # fmt: skip


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ('[sources.x]\nurl = "kafka://h"\ntopics = ["t"]\ntopic = "u"', "sources.x"),
        ('[sources.x]\nurl = "kafka://h"', "sources.x"),
        ('[sources.x]\nurl = "kafka://h"\ntopic = "t"\nca_file = "ca.pem"', "sources.x"),
        ('[sources.x]\nurl = "kafka://h"\ntopic = "t"\nuser = "u"', "sources.x"),
        ('[sources.x]\nurl = "kafka://h"\ntopic = "t"\nmechanism = "LOGIN"', "sources.x.mechanism"),
        ('[sources.x]\nurl = "kafka://h"\ntopic = "t"\nlibrdkafka = { a = [1] }', "sources.x.librdkafka.a"),
        ('[sources.x]\nurl = "kafka://h"\ntopic = "t"\ngroup_type = "share"\nuntil_end = true', "sources.x.until_end"),
        ('[sources.x]\nurl = "kafka://h"\ntopic = "t"\ngroup_type = "shares"', "sources.x.group_type"),
        ('[targets.x]\nurl = "kafka://h"\nqueues = ["q"]\ntransaction_time = 1', "targets.x"),
        ('[targets.x]\nurl = "kafka://h"\nqueues = { q = { key = "word 2" } }', "targets.x.queues"),
        ('[targets.x]\nurl = "kafka://h"\nqueues = []', "targets.x.queues"),
        ('[sources.x]\nurl = "amqp://h"\nqueue = "q"\nca_file = "ca.pem"', "sources.x.url"),
        ('[sources.x]\nurl = "amqp://h"\nqueue = "q"\nhosts = ["a:b"]', "sources.x.hosts"),
        ('[sources.x]\nurl = "amqp://h"\nqueue = "q"\noffset = "begin"', "sources.x.offset"),
        ('[sources.x]\nurl = "amqp://h"\nqueue = "q"\nmanagement = "http://u@h"', "sources.x.management"),
        ('[sources.x]\nurl = "amqp://h"\nqueue = "q"\npassword = { environment = "X" }', "sources.x.password"),
        ('[sources.x]\nurl = "rocketmq://h"\ntopic = "t"\nsql = "a > 1"\nsubscription = "a"', "sources.x.subscription"),
        ('[sources.x]\nurl = "rocketmq://h"\ntopic = "t"\naccess_key = "a"', "sources.x"),
        ('[dead_letters]\nurl = "amqp://h"', "dead_letters"),
    ],
)
def test_rules_between_keys_are_in_the_schema(tmp_path: Path, table: str, key: str) -> None:
    text = f"{RIGHT}{table}\n"
    assert any(each.startswith(f"{key}: ") for each in errors("bridge", text)), errors("bridge", text)
    (tmp_path / "t.bindings").write_text(TOPOLOGY)
    (tmp_path / "ca.pem").write_text("")
    (tmp_path / "bridge.toml").write_text(text)
    with pytest.raises(InputError):
        read_config(tmp_path / "bridge.toml", {})


# hashstar.toml


def test_settings_are_accepted() -> None:
    assert errors("hashstar", WHOLE) == []


AUDIT_TABLES = st.fixed_dictionaries({}, optional={
    "fail_under": st.one_of(st.integers(-1, 101), st.floats(-1, 101), st.just("90")),
    "max_unroutable": st.one_of(
        st.integers(-1, 5), st.booleans(),
        st.sampled_from(["0.5%", "100 %", "101%", " 7", "", "x", "100.5%", "007%", "1e3"]),
    ),
    "max_partition_skew": st.floats(0, 3),
    "stale_days": st.integers(-1, 100_001),
    "precision": st.integers(-1, 8),
    "exchanges": st.dictionaries(st.text(max_size=3), st.fixed_dictionaries({}, optional={
        "fail_under": st.integers(90, 101), "max_bad": st.just(1)})),
    "queues": st.dictionaries(st.text(max_size=3), st.fixed_dictionaries({}, optional={
        "max_partition_skew": st.floats(0, 3), "fail_under": st.just(1)}), max_size=1),
    "ignore": st.lists(st.fixed_dictionaries({}, optional={
        "source": st.sampled_from(["a", "", 1]), "reason": st.sampled_from(["r", " ", ""]),
        "until": st.one_of(st.dates(), st.sampled_from(["2030-12-31", "2030-1-1", "soon", "20301231", "2030-W01-1"])),
    }), max_size=2),
    "other": st.just(1),
})  # fmt: skip


@given(AUDIT_TABLES)
def test_the_schema_accepts_exactly_the_settings_that_are_read(given_settings: dict[str, Any]) -> None:
    value = {
        key: Decimal(str(each)) if isinstance(each, float) else each for key, each in given_settings.items()
    }  # as the reader gets them
    is_valid = validator("hashstar").is_valid({"audit": as_json(given_settings)})
    error = error_of(lambda: read_settings(value, "hashstar.toml"))
    assert is_valid == (error is None), error


def test_a_day_that_is_none_is_found_by_the_reader_only() -> None:
    entry = IGNORE | {"until": "2030-02-30"}
    assert validator("hashstar").is_valid({"audit": {"ignore": [as_json(entry)]}})
    with pytest.raises(InputError, match="expected a day"):
        read_settings({"ignore": [entry]}, "hashstar.toml")
