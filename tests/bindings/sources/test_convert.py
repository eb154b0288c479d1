"""``hashstar convert`` and ``hashstar fmt``: files of both formats, there and back, and the warnings on the way."""

from __future__ import annotations

import gzip
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from bindings.sources.definitions import Definitions
from bindings.sources.definitions.extensions import Additions
from bindings.sources.document import Document
from bindings.sources.open import open_source
from exchange.entities.releases import PROFILES
from exchange.errors import InputError
from exchange.partition.partitioning.specification import Partitioning
from tests.bindings.sources.test_definitions import BROKER, dumped, exactly, loads
from tests.support.program import run_program

ROOT = Path(__file__).parents[3]
FILES = sorted(ROOT.glob("examples/**/definitions.json"))
TEXT = """profile rabbitmq-4.0

vhost "/"

exchange orders: topic

queue billing: quorum, partitioned kafka.murmur2 over 12 by word 2

orders -> billing: "order.#"

expect orders "order.new" -> billing
"""


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_definitions_come_back_unchanged_in_meaning(path: Path, tmp_path: Path) -> None:
    """Our examples' own files; put back into what they were, they are the same JSON."""
    middle, back, into = (str(tmp_path / name) for name in ("m.bindings.gz", "b.json", "i.json.gz"))
    assert run_program("convert", str(path), middle).returncode == 0
    assert Path(middle).read_bytes().startswith(b"\x1f\x8b")
    assert run_program("convert", middle, back).returncode == 0
    assert run_program("convert", "--into", str(path), middle, into).returncode == 0
    before, after = open_source(str(path)), open_source(back)
    assert after.vhosts == before.vhosts
    assert [after.topology(vhost) for vhost in after.vhosts] == [before.topology(vhost) for vhost in before.vhosts]
    assert Definitions.load(into) == Definitions.load(path)


def test_a_bindings_file_is_not_converted_to_itself_without_its_comments_and_loops(tmp_path: Path) -> None:
    path, link = tmp_path / "shop.bindings", tmp_path / "link.bindings"
    path.write_text("# ours\nfor k in x, y:\n    queue {k}\n")
    link.symlink_to(path)
    for target in (path, link):
        result = run_program("convert", str(path), str(target))
        assert (result.returncode, result.stdout) == (2, "")
        assert "comments and loops would be lost" in result.stderr
    assert path.read_text() == "# ours\nfor k in x, y:\n    queue {k}\n"


def test_the_direction_of_a_conversion_follows_from_the_file_names(tmp_path: Path) -> None:
    """The extension of OUT decides, else it is the other format; --to overrides both."""
    path, definitions = tmp_path / "shop.bindings", tmp_path / "shop.json"
    path.write_text(TEXT)
    result = run_program("convert", str(path), str(definitions))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert run_program("convert", str(definitions)).stdout == TEXT
    assert json.loads(run_program("convert", str(path)).stdout) == json.loads(definitions.read_text())
    assert run_program("convert", "--format", "bindings", str(path)).stdout == TEXT
    assert run_program("convert", "--format", "definitions", str(definitions)).stdout == definitions.read_text()
    assert run_program("convert", "-", given=TEXT).stdout == definitions.read_text()
    assert run_program("convert", "-", "-", given=definitions.read_text()).stdout == TEXT


def test_what_only_a_bindings_file_has_is_kept_under_a_key_of_its_own() -> None:
    """RabbitMQ's import ignores it."""
    assert json.loads(Document.loads(TEXT).definitions().dump())["hashstar"] == {
        "profile": "rabbitmq-4.0",
        "partitioned": [{"vhost": "/", "queue": "billing", "partitioning": "kafka.murmur2 over 12 by word 2"}],
        "expectations": [{"vhost": "/", "exchange": "orders", "routing_key": "order.new", "exactly": ["billing"]}],
    }


def test_what_the_language_cannot_express_is_reported_and_can_be_kept(tmp_path: Path) -> None:
    """Users, permissions and global parameters: how many, and what keeps them."""
    base, middle = tmp_path / "base.json", tmp_path / "m.bindings"
    loads(BROKER).save(base)
    result = run_program("convert", str(base), str(middle))
    assert (
        "left out, as a .bindings file has no place for them: 1 users, 1 permissions, 1 global "
        "parameters, 2 virtual hosts with settings\n" in result.stderr
    )
    assert "hashstar convert --into" in result.stderr
    middle.write_text(middle.read_text().replace("x-max-length = 10", "x-max-length = 11"))
    expected = json.loads(json.dumps(BROKER))
    expected["queues"][1]["arguments"]["x-max-length"] = 11
    assert json.loads(run_program("convert", "--into", str(base), str(middle)).stdout) == expected


def test_one_virtual_host_can_be_converted_alone(tmp_path: Path) -> None:
    """Of either kind of file."""
    base = tmp_path / "base.json"
    loads(BROKER).save(base)
    text = run_program("convert", "--vhost", "shop", str(base)).stdout
    assert Document.loads(text).vhosts == ("shop",)
    assert Document.loads(text).topology() == loads(BROKER).topology("shop")
    (tmp_path / "two.bindings").write_text("vhost a\nqueue q\nvhost b\nqueue r")
    one = json.loads(run_program("convert", "--vhost", "b", str(tmp_path / "two.bindings")).stdout)
    assert [queue["name"] for queue in one["queues"]] == ["r"]
    assert one["vhosts"] == [{"name": "b"}]


def test_types_that_json_lacks_are_reported_with_their_position() -> None:
    """RabbitMQ's import would make tables of them."""
    result = run_program("convert", "-", given="exchange h: headers\nqueue q\nh -> q: all { n = !short 1 }")
    assert result.returncode == 0
    assert (
        'bindings[0].arguments.n is {"!short": 1}: a typed value here, a table for RabbitMQ\'s import' in result.stderr
    )


@pytest.mark.parametrize(
    ("arguments", "given", "words"),
    [
        (["convert", "nowhere.bindings"], "", "nowhere.bindings: cannot be read"),
        (["convert", "-"], "exchange x", "standard input:1:10: exchange 'x' has no type"),
        (["convert", "--vhost", "v", "-"], "queue q", "standard input: there is no virtual host 'v'; there are '/'"),
        (
            ["convert", "-", "/nowhere/out.json"],
            "queue q",
            "/nowhere/out.json: cannot be written: /nowhere does not exist",
        ),
        (["convert", "--into", "x.json", "--format", "bindings", "-"], "queue q", "--into is for definitions only"),
        (["convert", "--into", "examples/orders/orders.bindings", "-"], "queue q", "--into needs definitions"),
        (["route", "-t", "examples/orders/orders.bindings", "--vhost", "v"], "", "choose with --vhost"),
        (["fmt", "-"], "exchange x topic", "standard input:1:12: expected ':'"),
        (["fmt", "nowhere"], "", "nowhere: cannot be read"),
        (["fmt"], "", "Missing argument 'FILE...'"),
    ],
)
def test_bad_input_ends_without_a_traceback(arguments: list[str], given: str, words: str) -> None:
    """Exit code 2, the place, and the way out."""
    result = run_program(*arguments, given=given)
    assert result.returncode == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_every_command_takes_a_bindings_file() -> None:
    """As it takes definitions."""
    result = run_program("explain", "-t", "examples/orders/orders.bindings", "orders", "order.eu.created")
    assert (result.returncode, result.stderr) == (0, "")
    assert "routed to 2 queues: audit, billing" in result.stdout


def test_fmt_formats_files_in_place(tmp_path: Path) -> None:
    """In place and only where something changes, with the file's mode; links stay links."""
    untidy, tidy, link = tmp_path / "untidy.bindings", tmp_path / "tidy.bindings", tmp_path / "link"
    untidy.write_text("# so\n\n\nqueue   a:quorum # c\n\n")
    untidy.chmod(0o640)
    link.symlink_to(untidy)
    tidy.write_text("queue a\n")
    os.utime(tidy, (0, 0))
    result = run_program("fmt", "--check", str(link), str(tidy))
    assert (result.returncode, result.stdout) == (1, f"not formatted: {link}\n")
    assert run_program("fmt", "--stdout", str(link)).stdout == "# so\n\nqueue a: quorum  # c\n"
    result = run_program("fmt", str(link), str(tidy))
    assert (result.returncode, result.stderr) == (0, f"formatted: {link}\n")
    assert untidy.read_text() == "# so\n\nqueue a: quorum  # c\n"
    assert stat.S_IMODE(untidy.stat().st_mode) == 0o640
    assert link.is_symlink()
    assert tidy.stat().st_mtime == 0
    assert run_program("fmt", "--check", str(link), str(tidy)).returncode == 0
    assert run_program("fmt", "-", given="queue  a").stdout == "queue a\n"


def test_fmt_goes_on_after_a_bad_file(tmp_path: Path) -> None:
    """And ends with 2."""
    bad, untidy = tmp_path / "bad.bindings", tmp_path / "untidy.bindings"
    bad.write_text("queue")
    untidy.write_text("queue  a")
    result = run_program("fmt", str(bad), str(untidy))
    assert (result.returncode, untidy.read_text()) == (2, "queue a\n")
    assert f"{bad}:1:6: expected a name" in result.stderr
    assert bad.read_text() == "queue"


PARTITIONED = {"vhost": "/", "queue": "q", "partitioning": "kafka.murmur2 over 3 by routing_key"}
EXPECTED = {"vhost": "/", "exchange": "e", "routing_key": "k", "headers": {"n": {"!short": 1}}, "excludes": ["q"]}


def test_additions_are_read_and_kept_as_they_are() -> None:
    """An edit of something else leaves them; a queue that goes takes how it is partitioned along."""
    file: dict[str, Any] = {
        "queues": [{"name": "q", "vhost": "/"}],
        "hashstar": {"profile": "rabbitmq-3.13", "partitioned": [PARTITIONED], "expectations": [EXPECTED]},
    }
    definitions = loads(file)
    topology = definitions.topology()
    assert topology.queues["q"].partitioning == Partitioning.parse("kafka.murmur2 over 3")
    assert topology.profile == PROFILES["rabbitmq-3.13"]
    assert [expectation.to_json() for expectation in definitions.expectations()] == [
        {key: value for key, value in EXPECTED.items() if key != "vhost"}
    ]
    assert exactly(dumped(definitions.with_topology(topology))) == exactly(file)
    without = dumped(definitions.with_topology(topology.delete_queue("q")))
    assert without["hashstar"] == {"profile": "rabbitmq-3.13", "expectations": [EXPECTED]}
    assert definitions.others == {}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "hashstar is not an object"),
        ({"profile": "rabbitmq"}, "hashstar.profile: no profile 'rabbitmq'; there are rabbitmq-3.10"),
        ({"partitioned": {}}, "hashstar.partitioned is not an array"),
        ({"partitioned": [{**PARTITIONED, "queue": None}]}, 'hashstar.partitioned[0]: "queue" is not a string'),
        ({"partitioned": [{**PARTITIONED, "partitioning": "x"}]}, "hashstar.partitioned[0]: expected STRATEGY over"),
        ({"expectations": [5]}, "hashstar.expectations[0] is not an object"),
        ({"expectations": [{"vhost": "/"}]}, "hashstar.expectations[0]: it has none of exactly, includes, excludes"),
        ({"expectations": [{**EXPECTED, "exchange": 5}]}, '[0]: "exchange" and "routing_key" are strings'),
        ({"expectations": [{**EXPECTED, "headers": {"n": {"!shirt": 1}}}]}, "hashstar.expectations[0]: headers.n"),
    ],
)
def test_additions_that_are_wrong_are_refused_with_their_place(value: Any, words: str) -> None:
    """When the file is loaded."""
    with pytest.raises(InputError) as caught:
        loads({"hashstar": value})
    assert str(caught.value).startswith("test.json: hashstar")
    assert words in str(caught.value)


def test_nothing_to_add_adds_nothing() -> None:
    """Definitions of plain topologies have no key of ours."""
    assert Additions().to_json() == {}
    assert "hashstar" not in json.loads(Document.loads("queue q").definitions().dump())


def test_equal_documents_make_equal_files(tmp_path: Path) -> None:
    """Gzipped, too."""
    one, two = tmp_path / "one.bindings.gz", tmp_path / "two.bindings.gz"
    Document.loads(TEXT).save(one)
    Document.loads(TEXT).save(two)
    assert one.read_bytes() == two.read_bytes()
    assert gzip.decompress(one.read_bytes()).decode() == TEXT
    assert Document.load(one) == Document.loads(TEXT)
