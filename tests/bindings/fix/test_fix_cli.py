"""``hashstar check --fix`` and ``--dry-run``: files as users write them, before and after."""

from __future__ import annotations

import gzip
import json
import os
import stat
import subprocess
from functools import partial
from pathlib import Path

import pytest

from bindings.fix import fix as module
from bindings.fix.fix import fix_file, save_fixed
from exchange.errors import InputError
from tests.support.git import needs_git
from tests.support.program import invoke

SHOP = """\
# The shop.
exchange orders: topic
exchange lost: fanout, internal   # nobody feeds it
queue billing
queue audit

let regions = eu, us

orders -> billing: "order.*.paid", "order.eu.paid", "order.#.x"   # payments

lost -> audit  # forgotten

orders -> audit:
    "order.#",
    "order.eu.*",    # one
    "invoice.#"   # two

for r in regions:
    # each region
    orders -> billing, audit: "r.{r}", "order.{r}.paid"

for r in regions:
    orders -> billing: "order.{r}.paid"
orders -> audit: "invoice.#"
expect orders "order.eu.paid" -> audit, billing
"""
FIXED = """\
# The shop.
exchange orders: topic
# nobody feeds it
queue billing
queue audit

let regions = eu, us

orders -> billing: "order.*.paid", "order.#.x"   # payments

# forgotten

orders -> audit:
    "order.#",
    # one
    "invoice.#"   # two

for r in regions:
    # each region
    orders -> billing, audit: "r.{r}"

expect orders "order.eu.paid" -> audit, billing
"""


run = partial(invoke, "check")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Return the file of the topology above."""
    path = tmp_path / "shop.bindings"
    path.write_text(SHOP)
    return path


def test_what_decides_nothing_is_removed_and_all_else_stays(shop: Path) -> None:
    """Comments, blank lines, loops and line breaks; what is left is checked; a second time nothing is to be done."""
    result = run(shop, "--fix")
    assert result.exit_code == 0, result.output
    assert shop.read_text() == FIXED
    assert f"{shop}:9: fixed: HS104 'orders' -> queue 'billing' with 'order.eu.paid' is covered by" in result.stderr
    assert f"{shop}:3: fixed: HS203 'lost' is internal, and nothing leads to it\n" in result.stderr
    assert "fixed: HS901 exchange 'orders' 'invoice.#' -> queue 'audit' is declared again below\n" in result.stderr
    assert "not fixed" not in result.stderr
    assert f"{shop}: nothing found\n" in result.stdout
    again = run(shop, "--fix")
    assert (shop.read_text(), again.stderr) == (FIXED, "")


@needs_git
def test_diff_prints_what_would_change_and_changes_nothing(shop: Path) -> None:
    """As a patch that can be applied."""
    before = shop.stat().st_mtime_ns
    result = run(shop, "--fix", "--dry-run")
    assert result.exit_code == 1
    assert shop.stat().st_mtime_ns == before
    subprocess.run(["git", "apply", "--unsafe-paths", "-p0", "-"], input=result.stdout, text=True, cwd="/", check=True)
    assert shop.read_text() == FIXED
    assert (run(shop, "--fix", "--dry-run").exit_code, run(shop, "--fix", "--dry-run").output) == (0, "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('x -> q, p: "a", "b"\nx -> q: "a.#"\n', "line 4 binds several destinations with several keys"),
        ('for r in eu, us:\n    x -> q: "a.{r}"\nx -> q: "#.eu"\n', "the for around line 5 declares others with it"),
        ("exchange y: topic, alternate x\ny -> exchange y\n", "it keeps what matches it from an alternate exchange"),
        ('exchange i: fanout, internal\ni -> q\nexpect i "a" -> q\n', "a policy or an expectation names 'i'"),
        ('exchange i: fanout, internal\ni -> q\npolicy p: "^r", dead-letter-exchange = "i"\n', "names 'i'"),
        ("exchange h: headers, auto-delete\nh -> q: any {}\n", "exchange 'h' is deleted with its last binding"),
    ],
)  # fmt: skip
def test_what_cannot_be_removed_alone_or_safely_stays(tmp_path: Path, text: str, words: str) -> None:
    """And is named with the reason."""
    path = tmp_path / "x.bindings"
    path.write_text("exchange x: topic\nqueue q\nqueue p\n" + text)
    before = path.read_text()
    result = run(path, "--fix")
    assert path.read_text() == before
    assert words in result.stderr
    assert ": not fixed: HS" in result.stderr


def test_a_whole_loop_goes_with_all_that_it_declares(tmp_path: Path) -> None:
    path = tmp_path / "x.bindings"
    path.write_text(
        "exchange x: topic\nqueue q\n"
        'for a in b, c:  # outer\n    for d in e, f:\n        x -> q: "{a}.{d}"\nx -> q: "#"\n'
    )
    run(path, "--fix")
    assert path.read_text() == 'exchange x: topic\nqueue q\n# outer\nx -> q: "#"\n'


def test_what_is_undecided_is_not_fixed_and_named(shop: Path) -> None:
    """Here, as there is no time."""
    fixed = fix_file(str(shop), seconds=0.0)
    assert {change.code for change in fixed.done} <= {"HS901"}
    assert "whether a message would go elsewhere is undecided" in {
        change.obstacle.partition(":")[0] for change in fixed.left
    }


def test_a_rule_that_were_wrong_would_be_found_out(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison decides: a finding about a needed binding changes nothing."""
    from bindings.checking.rules.finding import Finding

    def accuse(topology: object, *_: object, **__: object) -> list[Finding]:
        return [Finding("HS104", binding, "wrong") for binding in topology.bindings]  # type: ignore[attr-defined]

    monkeypatch.setattr(module, "find_all", accuse)
    fixed = fix_file(str(shop))
    kept = [change for change in fixed.left if change.obstacle.startswith("a message would go elsewhere: ")]
    assert kept
    assert b'"order.#"' in fixed.after


def test_codes_and_virtual_hosts_are_chosen(tmp_path: Path) -> None:
    """Findings that are not selected are not fixed, nor those of other virtual hosts."""
    path = tmp_path / "x.bindings"
    one = 'exchange x: topic\nqueue q\nx -> q: "a", "#"\nx -> q: "a"\n'
    path.write_text(f'vhost "/a"\n{one}vhost "/b"\n{one}')
    assert run(path, "--fix", "--select", "HS103").stderr == ""
    run(path, "--fix", "--vhost", "/b")
    assert path.read_text() == f'vhost "/a"\n{one}vhost "/b"\nexchange x: topic\nqueue q\nx -> q: "#"\n'
    run(path, "--fix", "--ignore", "HS901")
    assert path.read_text().count('"a"') == 0


def binding(key: str, destination: str = "q") -> str:
    """Return a binding as some tool writes it."""
    return (
        f'{{"source":"x" , "vhost":"/","destination":"{destination}","destination_type":"queue",'
        f'"routing_key":"{key}","arguments":{{}}}}'
    )


def test_definitions_keep_everything_else_as_it_is_written(tmp_path: Path) -> None:
    """Unknown sections, order, numbers, spaces; only entries go, each with its comma."""
    path = tmp_path / "definitions.json"
    head = '{ "rabbitmq_version" : "4.1.0",\n "users":[ {"name":"a","tags":"","x":1.0e2} ],"vhosts":[{"name":"/"}],\n'
    queues = '"queues":[{"name":"q","vhost":"/"},\t{"name":"p","vhost":"/"}]'
    parts = queues + ', "exchanges":[{"name":"x","vhost":"/","type":"topic","durable":true}]\n'
    tail = '\n], "other": null}'
    entries = [binding("a"), binding("#"), binding("b.*"), binding("c", "p"), binding("#"), binding("d")]
    path.write_text(
        f'{head}{parts}, "bindings":[\n  {entries[0]},\n  ' + " ,\n\n  ".join(entries[1:]) + '\n], "other": null}'
    )
    os.chmod(path, 0o604)  # noqa: PTH101
    result = run(path, "--fix")
    assert result.exit_code == 0, result.output
    assert path.read_text() == f'{head}{parts}, "bindings":[\n  {entries[1]} ,\n\n  {entries[3]}{tail}'
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    assert f"{path}:5: fixed: HS104" in result.stderr
    json.loads(path.read_text())


def test_a_list_that_loses_all_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "definitions.json"
    exchange = {"name": "i", "vhost": "/", "type": "fanout", "internal": True}
    bound = {"source": "i", "vhost": "/", "destination": "q", "destination_type": "queue", "routing_key": ""}
    queue = {"name": "q", "vhost": "/", "durable": True}
    path.write_text(
        json.dumps(
            {"vhosts": [{"name": "/"}], "queues": [queue], "exchanges": [exchange], "bindings": [bound]}, indent=2
        )
    )
    run(path, "--fix")
    assert '"exchanges": [],\n  "bindings": []' in path.read_text()


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_the_byte_order_mark_stay(tmp_path: Path, newline: str, mark: bytes) -> None:
    path = tmp_path / "x.bindings"
    lines = ["exchange x: topic", "queue q", 'x -> q: "#", "a"  # why', 'x -> q: "b" # gone', ""]
    path.write_bytes(mark + newline.join(lines).encode())
    run(path, "--fix")
    assert path.read_bytes() == mark + newline.join([*lines[:2], 'x -> q: "#"  # why', "# gone", ""]).encode()


def test_a_link_stays_a_link(shop: Path) -> None:
    link = shop.parent / "link.bindings"
    link.symlink_to(shop)
    run(link, "--fix")
    assert link.is_symlink()
    assert shop.read_text() == FIXED


def test_a_folder_has_all_its_topologies_fixed(shop: Path) -> None:
    """Those that cannot be fixed are left to the check, which reports what it cannot read."""
    (shop.parent / "package.json").write_text("{}")
    (shop.parent / "packed.bindings.gz").write_bytes(gzip.compress(SHOP.encode()))
    (shop.parent / "bad.bindings").write_text("exchnage x\n")
    result = run(shop.parent, "--fix")
    assert result.exit_code == 2
    assert "bad.bindings:1:1" in result.stderr
    assert shop.read_text() == FIXED
    assert gzip.decompress((shop.parent / "packed.bindings.gz").read_bytes()) == SHOP.encode()
    assert (shop.parent / "bad.bindings").read_text() == "exchnage x\n"


def test_files_of_a_folder_that_are_not_to_be_fixed_are_passed_over(shop: Path) -> None:
    """A gzipped one, and one without the virtual host; named by themselves, they are errors."""
    (shop.parent / "packed.bindings.gz").write_bytes(gzip.compress(SHOP.encode()))
    (shop.parent / "other.bindings").write_text('vhost "/other"\nqueue q\n')
    for options in ((), ("--vhost", "/")):
        assert run(shop.parent, "--fix", "--dry-run", *options).exit_code == 1
    result = run(shop.parent, "--fix", "--vhost", "/")
    assert (result.exit_code, shop.read_text()) == (0, FIXED)
    for fixing in (["--fix", "--dry-run"], ["--fix"]):
        result = run(shop.parent / "other.bindings", *fixing, "--vhost", "/")
        assert result.exit_code == 2
        assert "other.bindings: there is no virtual host '/'; there are '/other'" in result.stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("-", "only files can be fixed"),
        ("http://u:hush@h:15672", "only files can be fixed"),
        ("packed.bindings.gz", "a gzipped file is not fixed; unpack it first"),
        ("none.bindings", "cannot be read"),
    ],
)
@pytest.mark.parametrize("options", [["--fix"], ["--fix", "--dry-run"]])
def test_what_is_no_file_to_edit_ends_with_2(shop: Path, name: str, words: str, options: list[str]) -> None:
    (shop.parent / "packed.bindings.gz").write_bytes(gzip.compress(SHOP.encode()))
    given = name if name == "-" or "://" in name else str(shop.parent / name)
    result = run(given, *options)
    assert result.exit_code == 2
    assert words in result.stderr
    assert "hush" not in result.output


def test_a_file_that_was_changed_meanwhile_is_not_written(shop: Path) -> None:
    fixed = fix_file(str(shop))
    shop.write_text("queue q\n")
    with pytest.raises(InputError, match="changed while it was fixed; nothing was written"):
        save_fixed(fixed)
    assert shop.read_text() == "queue q\n"


def test_a_file_that_cannot_be_written_stays(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    result = run(shop, "--fix")
    assert result.exit_code == 2
    assert "cannot be written: No space left on device" in result.stderr
    assert shop.read_text() == SHOP
    assert list(shop.parent.glob(".*")) == []
