"""Each rule finds its example in a topology as small as possible; and the output of the command."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pytest
from click.testing import CliRunner

from bindings.checking.check import MAX_FINDINGS_OF_CODE, check
from bindings.checking.rules import paths
from bindings.checking.rules.table import RULES, SEVERITIES
from bindings.commands.check import check_command
from bindings.sources.document import Document
from bindings.sources.section import Section
from bridge.cli import hashstar
from exchange import Binding, Destination, Exchange, Policy, Queue, Topology, Typed
from exchange.entities.releases import LATEST_PROFILE, PROFILES
from tests.support.cases import with_each
from tests.support.program import invoke

T = "exchange t: topic\nqueue q\nqueue r\n"
H = "exchange h: headers\nqueue q\n"
A = "exchange f: fanout\nexchange t: topic, alternate f\nqueue q\n"
DEAD_LETTERS = 'x-dead-letter-exchange = "d", x-dead-letter-routing-key = "q"'

WRITTEN: dict[str, tuple[str, str | None]] = {
    # code -> a text in which it is found, and the witness
    "HS103": (f'{T}t -> q: "#.*", "*.#"', "x"),
    "HS104": (f'{T}t -> q: "a.*", "a.b"', "a.b"),
    "HS105": (f'{T}t -> q: "a.#", "*", "*.*.#"', "a"),
    "HS106": (f'exchange f: fanout\n{T}t -> exchange f: "a.#"\nf -> q\nt -> q: "a.b"', "a.b"),
    "HS107": ('exchange d: direct\nqueue q\nd -> q: "a.*"', "a.*"),
    "HS108": ('exchange f: fanout\nqueue q\nf -> q: "a"', None),
    "HS110": (f'exchange i: topic, internal\n{T}t -> exchange i: "a.*"\ni -> q: "b.*"\ni -> r: "#"', None),
    "HS111": (f'exchange u: topic\n{T}t -> exchange u: "a.*"\nu -> q: "b.*"', "a.x"),
    "HS201": ("exchange f: fanout", None),
    "HS202": (f'exchange f: fanout\n{T}t -> exchange f: "#"\nt -> q: "a"', None),
    "HS203": ('exchange i: topic, internal\nqueue q\ni -> q: "a"', None),
    "HS204": ("queue q", None),
    "HS205": (f'{T}t -> q: "a", ""', "x"),
    "HS206": (f'exchange u: topic\n{T}t -> exchange u: "a"\nu -> exchange t: "a"\nu -> q: "a"', None),
    "HS207": (f'{T}t -> exchange t: "a"\nt -> q: "a"', None),
    "HS301": ("exchange f: fanout, alternate gone\nqueue q\nf -> q", None),
    "HS302": ('exchange d: direct\nexchange t: topic, alternate d\nqueue q\nt -> q: ""\nd -> q: "backup"', "x"),
    "HS303": (f'{A}exchange u: topic\nf -> q\nt -> exchange u: "a.#"\nu -> q: "a.b"', "a"),
    "HS304": (f'{A}f -> q\nt -> q: "*.#", ""', None),
    "HS305": (f'{A}exchange u: topic, alternate u\nu -> q: "a"\nf -> q', None),
    "HS307": (f'{A}exchange d: x-delayed-message, alternate f, x-delayed-type = "topic"\nd -> q: "#"\nf -> q', None),
    "HS306": (f"{A}f -> q\npolicy p: '^t$', exchanges, alternate-exchange = \"g\"", None),
    "HS311": ('queue q: x-dead-letter-exchange = "gone"', None),
    "HS312": (f'exchange d: direct\nqueue q: {DEAD_LETTERS}\nd -> q: "other"', "q"),
    "HS313": (
        ('exchange f: fanout\nf -> r\nqueue r\n'
        'queue q: x-queue-type = "quorum", x-dead-letter-exchange = "f", x-dead-letter-strategy = "at-least-once"'),
        None,
    ),
    "HS314": ('queue q: x-message-ttl = 5, x-dead-letter-exchange = "", x-dead-letter-routing-key = "q"', None),
    "HS321": ('queue q: x-dead-letter-exchange = "", x-dead-letter-routing-key = "q"', "q"),
    "HS322": (
        ('queue q: x-dead-letter-exchange = "", x-dead-letter-routing-key = "w"\n'
        'queue w: x-message-ttl = 5, x-dead-letter-exchange = "", x-dead-letter-routing-key = "q"'),
        "q",
    ),
    "HS325": (
        ('exchange e: topic\nqueue a\ne -> a, q: "k"\nqueue q: x-dead-letter-exchange = "", '
        'x-dead-letter-routing-key = "w"\nqueue w: x-message-ttl = 5, x-dead-letter-exchange = "e", '
        'x-dead-letter-routing-key = "k"'),
        "k",
    ),
    "HS326": ("queue q: stream, x-max-age = '1D'", None),
    "HS327": ("queue q: quorum, x-max-length = 5, x-delayed-retry-type = 'all', x-delayed-retry-min = 9", "q"),
    "HS323": ("queue q: quorum, x-message-ttl = 5", "q"),
    "HS324": ("queue q", "q"),
    "HS112": (f'{T}t -> amq.gen-x: "a"', None),
    "HS608": ('queue q: x-queue-type = "jms"', None),
    "HS609": ("profile rabbitmq-4.3.1\nqueue q: quorum, x-consumer-timeout = 5.5", None),
    "HS610": ("profile rabbitmq-4.2.4\nqueue q: quorum, x-delivery-limit = 2.5", None),
    "HS401": (f'{T}t -> q: "a.#"\nt -> r: "a"', "a"),
    "HS402": (f'{T}t -> q: "a#b"', "a#b"),
    "HS403": (f'{T}t -> q: "a."', None),
    "HS404": (f'{T}t -> q: "#.a.#.b.#"', None),
    "HS406": (f'{T}t -> q: "sensor/+/heat"', None),
    "HS407": (f'{T}t -> q: "a .b"', None),
    "HS408": (f'{T}t -> q: "Order"\nt -> r: "order"', None),
    "HS501": (f"{H}h -> q: any {{ x-a = 1 }}", None),
    "HS502": (f"{H}h -> q", None),
    "HS503": (f"{H}h -> q: all {{ a = 1, x-b = 2 }}", None),
    "HS505": (f'{H}h -> q: all {{ a = 1 }}\nh -> q: all {{ a = "1" }}', None),
    "HS601": ("exchange p: x-plugin\nqueue q\np -> q", None),
    "HS604": ('exchange c: x-consistent-hash\nqueue q\nc -> q: "1", "2"', None),
    "HS605": ("queue q: x-message-ttl = -5", None),
    "HS606": ("queue q: x-max-lenght = 5", None),
    "HS607": ("queue q: x-owner = 5", None),
    "HS709": ("queue q: quorum\npolicy p: 'q', queues, overflow = \"reject-publish-dlx\"", None),
    "HS708": ("queue q\npolicy p: 'q', queues, delivery-limit = 5, message-ttl = 5", None),
    "HS707": ("queue q\npolicy p: 'q', queues, ha-mode = \"all\"", None),
    "HS701": ("queue q\npolicy p: '(', queues, expires = 1", None),
    "HS706": ("queue q\npolicy p: '(a)\\1', queues, expires = 1", None),
    "HS702": ("queue q\npolicy p: '^gone', queues, expires = 1", None),
    "HS703": ("queue q\npolicy p: '^q', queues, expires = 1\npolicy o: '', queues, priority 1, expires = 2", None),
    "HS704": ("queue q\npolicy p: '^q', queues, expires = 1\npolicy o: 'q$', queues, expires = 2", None),
    "HS902": ("exchange s: x-modulus-hash\npolicy p: '^s$', exchanges, shards-per-node = 2", None),
    "HS801": (f'{T}t -> q: "a.*"\nexpect t "a.b.c" -> q', "a.b.c"),
}  # fmt: skip

TOPIC, FANOUT, HEADERS = Exchange("t", "topic"), Exchange("f", "fanout"), Exchange("h", "headers")
Q = Queue("q")

MADE: dict[str, Topology] = {
    # What one would not write.
    "HS101": Topology([], [Q], [Binding.to_queue("gone", "q", "a"), Binding.to_queue("gone", "q", "b")]),
    "HS102": Topology([TOPIC], [], [Binding.to_queue("t", "gone", "a"), Binding.to_queue("t", "gone", "b")]),
    # All keys of 'a.#' have as many words as one of the others has, which takes long to find out.
    "HS190": Topology(
        [TOPIC],
        [Q],
        [
            Binding.to_queue("t", "q", key)
            for key in ("a.#", *(".".join("*" * words) for words in range(1, 110)), ".".join("*" * 110) + ".#")
        ],
    ),
    "HS109": Topology([TOPIC], [Q], [Binding.to_queue("t", "q", "a", {"x-match": "any", "b": 1})]),
    "HS405": Topology([TOPIC], [Q], [Binding.to_queue("t", "q", "é" * 128)]),
    "HS504": Topology([HEADERS], [Q], [Binding.to_queue("h", "q", "", {"X-Match": "any", "a": 1})]),
    "HS506": Topology([HEADERS], [Q], [Binding.to_queue("h", "q", "", {"a": Typed("timestamp", 5)})]),
    "HS602": Topology([Exchange("amq.own", "topic")]),
    "HS603": Topology([HEADERS], [Q], [Binding.to_queue("h", "q", "", {"x-match": "some", "a": 1})]),
    "HS705": Topology([], [Q], [], [Policy("p", "q", apply_to="everything")]),
}

OF_APPLICATIONS = frozenset(code for code in RULES if code.startswith("HS81"))
"""Rules about what no file can have: see tests/bindings/sources/applications."""
TWICE = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
OF_FILES = {
    "HS901": {
        ".json": json.dumps({"queues": [TWICE, TWICE]}),
        ".bindings": "exchange f: fanout\nqueue q\nf -> q\nf -> q\n",
    },
    "HS903": {
        ".json": json.dumps(
            {
                "queues": [],
                "users": [],
                "permissions": [{"user": "app", "vhost": "/", "configure": "", "write": "", "read": ""}],
            }
        )
    },
    "HS904": {".json": json.dumps({"queues": [TWICE, {**TWICE, "durable": False}]})},
}
"""Code -> form -> a file; found by reading a file, not in a topology."""


def document_of(code: str) -> Document:
    """Return the example of a rule that is found in a topology."""
    if code in WRITTEN:
        return Document.loads(WRITTEN[code][0])
    return Document({"/": Section(MADE[code])})


def test_every_rule_has_a_case() -> None:
    """And a severity that there is, and sentences without a full stop where another text goes on."""
    assert {*WRITTEN, *MADE, *OF_FILES} == set(RULES) - OF_APPLICATIONS
    for rule in RULES.values():
        assert rule.severity in SEVERITIES
        assert rule.meaning.endswith((".", ")"))
        assert not rule.way_out.endswith(".")


@with_each("code", WRITTEN)
def test_a_rule_finds_its_example(code: str) -> None:
    """Once, with the shortest key that shows it."""
    text, witness = WRITTEN[code]
    document = Document.loads(text)
    found = check(document.topology(), document.expectations(), optional=["HS205", "HS323", "HS324"])
    assert [finding.witness for finding in found if finding.code == code] == [witness]
    assert all(finding.message for finding in found)


@pytest.mark.parametrize("code", MADE)
def test_a_rule_finds_what_only_a_program_would_write(code: str) -> None:
    """Once, however many bindings name what is missing."""
    assert [finding.code for finding in check(MADE[code])].count(code) == 1


def test_what_is_missing_as_a_source_and_as_a_destination_is_found_as_both() -> None:
    """Each finding is about the bindings of its side."""
    ways = [Binding.to_exchange("t", "gone", "a"), Binding.to_queue("gone", "q", "b"), Binding.to_queue("gone", "q")]
    found = {each.code: (each.part, *each.related) for each in check(Topology([TOPIC], [Q], ways))}
    assert (found["HS101"], found["HS102"]) == ((ways[1], ways[2]), (ways[0],))


SOUND = {
    "the words of a topic": f'{T}t -> q: "a.*", "a.b.c", "*.c"\nt -> r: "a.#"',
    "a binding for every queue": f'{T}t -> q: "a.#"\nt -> r: "a.#"',
    "headers that overlap": f"{H}h -> q: all {{ a = 1, b = 2 }}\nh -> q: any {{ a = 2, d = 1 }}",
    "weights": 'exchange c: x-consistent-hash\nqueue q\nqueue r\nc -> q: "1"\nc -> r: "2"',
    "one binding twice to be drawn more often": 'exchange x: x-random\nqueue q\nx -> q: "1", "2"',
    "an alternate that takes everything": "exchange f: fanout\nexchange t: topic, alternate f\nqueue q\nqueue r\n"
    't -> r: "a"\nf -> q',
    "another way for some": f'exchange u: topic\n{T}t -> exchange u: "a.#"\nu -> q: "#.b"\nt -> q: "a.*"\nt -> r: "b"',
    "dead letters by the default exchange": 'queue d\nexchange f: fanout\nqueue q: x-dead-letter-exchange = "", '
    'x-dead-letter-routing-key = "d"\nf -> q',
    "a fanout that is bound with a hash": 'exchange f: fanout\nqueue q\nf -> q: "#"',
}


@pytest.mark.parametrize("text", SOUND.values(), ids=SOUND)
def test_a_sound_topology_has_no_findings(text: str) -> None:
    """Not even notes."""
    assert check(Document.loads(text).topology()) == []


@pytest.mark.parametrize(
    ("exchange", "is_stored"),
    [
        (Exchange("x", "topic", arguments={"alternate-exchange": 5}), True),
        (Exchange("x", "x-consistent-hash", arguments={"alternate-exchange": True, "hash-property": "no"}), False),
        (Exchange("amq.x", "topic", arguments={"alternate-exchange": 5}), False),
    ],
)
def test_an_alternate_that_is_no_name_is_refused_to_clients_and_stored_by_imports(
    exchange: Exchange, is_stored: bool
) -> None:
    """As brokers of 3.10.8, 4.0.5 and 4.3.6 imported it on 2026-11-28: unroutable messages are returned there."""
    [finding] = [each for each in check(Topology([exchange])) if each.code == "HS602"]
    assert finding.message.endswith("stores it, and it has no alternate") is is_stored


def test_the_profile_decides_what_is_refused() -> None:
    """Three '#' are refused since 4.3.5, x-local-random is known since 4.0, timestamps count in seconds before 3.13."""
    many = Document.loads(WRITTEN["HS404"][0]).topology()
    local = Topology([Exchange("l", "x-local-random")], [Q], [Binding.to_queue("l", "q")])

    def codes(topology: Topology, profile: str) -> set[str]:
        return {finding.code for finding in check(topology.with_profile(PROFILES[profile]))}

    assert "HS404" not in codes(many, "rabbitmq-4.0")
    assert "HS602" in codes(local, "rabbitmq-3.13")
    assert not codes(local, "rabbitmq-4.0")
    assert "HS506" not in codes(MADE["HS506"], "rabbitmq-3.12")


def test_an_expectation_that_fails_is_explained() -> None:
    """By the words of `Router.explain`, for a queue that does not get it."""
    text, _ = WRITTEN["HS801"]
    document = Document.loads(text)
    (finding,) = [f for f in check(document.topology(), document.expectations()) if f.code == "HS801"]
    assert finding.line == 5
    assert "'q' does not get it" in finding.message
    assert "one too many" in finding.message


def test_very_many_findings_of_a_kind_are_counted() -> None:
    """`MAX_FINDINGS_OF_CODE` of each code and exchange are listed, and one more finding counts the others."""
    bindings = [Binding.to_queue("t", "q", f"a.{number}") for number in range(1000)]
    found = check(Topology([TOPIC], [Q], [*bindings, Binding.to_queue("t", "q", "#")]))
    assert [finding.code for finding in found] == ["HS104"] * (MAX_FINDINGS_OF_CODE + 1)
    assert sum("900 more" in finding.message for finding in found) == 1


def test_what_costs_too_much_is_undecided() -> None:
    """And nothing is claimed of it, nor of the others for its sake."""
    hard = ["#." + ".#.".join(word * 3) + ".#" for word in ("ab", "ba")]
    wide = [f"#.{'*.' * number}a" for number in range(40)] + [f"#.{'*.' * number}b" for number in range(40)]
    bindings = [Binding.to_queue("t", "q", key) for key in (*hard, *wide)]
    assert {finding.code for finding in check(Topology([TOPIC], [Q], bindings))} <= {"HS104", "HS105", "HS190", "HS404"}


run = partial(invoke, "check")


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def definitions(topology: Topology) -> str:
    from bindings.sources.definitions import Definitions

    return Definitions().with_topology(topology).dump()


def test_the_exit_code_is_1_for_a_finding_as_severe_as_asked(tmp_path: Path) -> None:
    """0 fine, 1 findings at or above --fail-on, 2 bad input."""
    covered = written(tmp_path / "covered.bindings", WRITTEN["HS104"][0].replace("queue r\n", ""))
    missing = written(tmp_path / "missing.json", definitions(MADE["HS102"]))
    assert run(covered).exit_code == 0
    assert run(covered, "--fail-on", "warning").exit_code == 1
    assert run(covered, "--fail-on", "warning", "--ignore", "HS1").exit_code == 0
    assert run(missing).exit_code == 1
    assert run(missing, "--select", "HS2").exit_code == 0
    assert run(tmp_path / "gone.json").exit_code == 2
    assert run(written(tmp_path / "bad.bindings", "exchange")).exit_code == 2


def test_the_longer_prefix_of_a_code_counts(tmp_path: Path) -> None:
    """--select and --ignore take codes and their beginnings; optional rules must be named in full."""
    path = written(tmp_path / "t.bindings", WRITTEN["HS104"][0])

    def codes(*arguments: str) -> list[str]:
        found = json.loads(run(path, "--format", "json", *arguments).stdout)["vhosts"][0]["findings"]
        return [finding["code"] for finding in found]

    assert codes() == ["HS104", "HS204"]
    assert codes("--ignore", "HS1", "--select", "HS,hs104") == ["HS104", "HS204"]
    assert codes("--ignore", "HS204,HS104") == []
    assert codes("--select", "HS2") == ["HS204"]
    assert codes("--select", "HS205") == ["HS205"]
    assert run(path, "--select", "HS0").exit_code == 2
    assert "hashstar check --explain HS" in run(path, "--ignore", "nonsense").stderr


def test_findings_have_the_lines_of_their_file(tmp_path: Path) -> None:
    """Of .bindings files and of definitions, gzipped and by virtual host; not of standard input."""
    text = WRITTEN["HS104"][0]
    dumped = definitions(Document.loads(text).topology())
    at = 1 + next(n for n, line in enumerate(dumped.splitlines()) if '"a.b"' in line)
    packed = tmp_path / "d.json.gz"
    packed.write_bytes(gzip.compress(dumped.encode()))
    for path, line in (
        (written(tmp_path / "t.bindings", text), 4),
        (written(tmp_path / "d.json", dumped), at),
        (written(tmp_path / "pretty.json", json.dumps(json.loads(dumped), indent=2)), None),
        (packed, at),
    ):
        (finding,) = json.loads(run(path, "--format", "json", "--select", "HS104").stdout)["vhosts"][0]["findings"]
        if line is None:
            assert "{" in path.read_text().splitlines()[finding["line"] - 1]
            assert '"a.b"' in "".join(path.read_text().splitlines()[finding["line"] - 1 : finding["line"] + 8])
        else:
            assert finding["line"] == line
    (finding,) = json.loads(run("-", "--format", "json", "--select", "HS104", given=dumped).stdout)["vhosts"][0][
        "findings"
    ]
    assert finding["line"] is None


def test_text_groups_findings_and_ends_with_counts(tmp_path: Path) -> None:
    """The meaning of a rule and its way out are printed once."""
    path = written(tmp_path / "t.bindings", f'{T}t -> q: "a.*", "a.b", "a.c"')
    out = run(path).stdout
    assert out.count("way out: remove it, or narrow") == 1
    assert f"{path}:4: 't' -> queue 'q' with 'a.b' is covered by 'a.*'" in out
    assert out.splitlines()[-1] == f"{path}: 2 warnings, 1 note"
    assert run(written(tmp_path / "s.bindings", SOUND["weights"])).stdout.endswith("s.bindings: nothing found\n")


def test_all_virtual_hosts_are_checked(tmp_path: Path) -> None:
    """Unless one is chosen."""
    path = written(tmp_path / "t.bindings", 'vhost "/a"\nqueue q\nvhost "/b"\nqueue q')
    assert "2 notes" in run(path).stdout
    assert "virtual host '/b'" in run(path).stdout
    assert "1 note" in run(path, "--vhost", "/b").stdout
    assert run(path, "--vhost", "/c").exit_code == 2


def test_sarif_places_each_result_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a path relative to where one stands, and rules for all results."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "my topology.bindings", WRITTEN["HS104"][0])
    result = run(tmp_path / "my topology.bindings", "--format", "sarif")
    log = json.loads(result.stdout)
    (sarif,) = log["runs"]
    assert log["version"] == "2.1.0"
    rules = [rule["id"] for rule in sarif["tool"]["driver"]["rules"]]
    for found in sarif["results"]:
        assert rules[found["ruleIndex"]] == found["ruleId"]
        assert found["level"] in SEVERITIES
        (place,) = found["locations"]
        assert place["physicalLocation"]["artifactLocation"]["uri"] == "my%20topology.bindings"
        assert place["physicalLocation"]["region"]["startLine"] >= 1
    prints = [found["partialFingerprints"]["part/v1"] for found in sarif["results"]]
    assert len(set(prints)) == len(prints) == 2


def test_a_code_is_explained(tmp_path: Path) -> None:
    """Without a topology; all of them by their common beginning."""
    assert "HS303 bypassed-alternate (warning)" in run("--explain", "hs303").stdout
    assert run("--explain", "HS").stdout.count("way out: ") == len(RULES)
    assert run("--explain", "HS000").exit_code == 2


def test_a_warning_about_the_file_is_a_note_unless_a_rule_covers_it(tmp_path: Path) -> None:
    """A part that is there twice is HS901; an unknown type is HS601 and not both."""
    twice: dict[str, Any] = json.loads(definitions(replace_kind("x-plugin")))
    twice["queues"] *= 2
    out = json.loads(run(written(tmp_path / "d.json", json.dumps(twice)), "--format", "json").stdout)
    codes = [finding["code"] for finding in out["vhosts"][0]["findings"]]
    assert sorted(codes) == ["HS601", "HS901"]


def replace_kind(kind: str) -> Topology:
    exchange = replace(FANOUT, type=kind)
    return Topology([exchange], [Q], [Binding("f", Destination("queue", "q"))])


def chain(length: int) -> Topology:
    """Return exchanges that stand one behind another, the last before a queue."""
    names = [f"x{number}" for number in range(length)]
    return Topology(
        [Exchange(name, "topic") for name in names],
        [Q],
        [
            *(Binding.to_exchange(one, other, "a.#") for one, other in pairwise(names)),
            Binding.to_queue(names[-1], "q", "a.b.#"),
        ],
    )


def test_a_long_chain_of_exchanges_is_followed_to_its_end() -> None:
    """A way of 300 exchanges is followed, and what comes after the last one counts."""
    assert check(chain(300)) == []
    broken = chain(300).delete_queue("q").declare_queue(Queue("other")).bind(Binding.to_queue("x298", "other", "b"))
    assert "HS111" in {finding.code for finding in check(broken.bind(Binding.to_queue("x299", "other", "b")))}


def test_a_chain_beyond_the_stack_is_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound of all paths together is enough for each exchange once, and not for the rest of the chain from each."""
    monkeypatch.setattr(paths, "TOTAL", 60_000)
    assert check(chain(2_000)) == []


def test_a_mesh_of_exchanges_ends_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ways through it are more than anyone can count; the number of bindings not looked at is reported once."""
    monkeypatch.setattr(paths, "TOTAL", 60_000)
    side = 16
    right = [Binding.to_exchange(f"x{i}.{j}", f"x{i}.{j + 1}", "*.b.#") for i in range(side) for j in range(side - 1)]
    down = [Binding.to_exchange(f"x{i}.{j}", f"x{i + 1}.{j}", "a.#") for i in range(side - 1) for j in range(side)]
    exchanges = [Exchange(f"x{i}.{j}", "topic") for i in range(side) for j in range(side)]
    last = Binding.to_queue(f"x{side - 1}.{side - 1}", "q", "#")
    found = check(Topology(exchanges, [Q], [*right, *down, last]))
    [undecided] = [finding for finding in found if finding.code == "HS190"]
    assert undecided.part is None
    assert "bindings are needed beside other ways is undecided" in undecided.message


def test_a_key_that_many_paths_save_is_found_beyond_the_depth_of_the_stack() -> None:
    """As many ways as fresh words, each of which saves one key more."""
    words = [*"xyzabcdefghijklmnopqrstuvwABCDEFGHIJKLMNOPQRSTUVWXYZ", *(f"x{number}" for number in range(1, 1_100))]
    bindings = [Binding.to_exchange("t", "u", "*"), Binding.to_queue("u", "q", "*.*")]
    bindings += [Binding.to_exchange("t", "f", word) for word in words] + [Binding.to_queue("f", "q")]
    found = check(
        Topology([TOPIC, Exchange("u", "topic"), FANOUT], [Q], bindings), optional=["HS205", "HS323", "HS324"]
    )
    assert {"HS205"} <= {finding.code for finding in found}


@pytest.mark.parametrize(
    ("key", "version", "shown", "profile"),
    [
        ("rabbitmq_version", '"banana"', '"banana" is no release of RabbitMQ', LATEST_PROFILE.name),
        ("rabbitmq_version", "5", "5 is no release of RabbitMQ", LATEST_PROFILE.name),
        ("rabbitmq_version", '""', '"" is no release of RabbitMQ', LATEST_PROFILE.name),
        ("rabbitmq_version", "null", "null is no release of RabbitMQ", LATEST_PROFILE.name),
        ("rabbit_version", '"9"', '"9" is no release of RabbitMQ', LATEST_PROFILE.name),
        ("rabbitmq_version", '"3.8.9"', '"3.8.9" is older than the oldest profile', "rabbitmq-3.10"),
    ],
)
def test_a_version_without_a_profile_is_named_with_the_profile_that_holds(
    tmp_path: Path, key: str, version: str, shown: str, profile: str
) -> None:
    """As a finding of check, and as a warning of every command that reads the file."""
    plain = json.loads(definitions(Topology(queues=[Q])))
    file = written(tmp_path / "d.json", json.dumps({**plain, key: json.loads(version)}))
    warning = f"{key}: {shown}; without --profile, the rules of {profile} hold"
    result = run(file)
    assert result.stdout.count(warning) == 1
    assert f"by the rules of {profile}, " in result.stdout
    for command in (["graph", str(file)], ["explain", "-t", str(file), "", "q"], ["diff", str(file), str(file)]):
        assert f"warning: {warning}\n" in CliRunner().invoke(hashstar, command).stderr
    named = written(
        tmp_path / "named.json", json.dumps({**plain, key: json.loads(version), "hashstar": {"profile": "4.0"}})
    )
    assert key not in run(named).stdout


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("d.json", '{"queues": []}', f"{LATEST_PROFILE.name}, the newest, as it names no release of RabbitMQ"),
        ("d.bindings", "queue q\n", f"{LATEST_PROFILE.name}, the newest, as it names no profile"),
        ("d.bindings", "profile 4.1\nqueue q\n", None),
        ("d.json", '{"hashstar": {"profile": "rabbitmq-4.0"}, "rabbitmq_version": "3.12.1"}', None),
    ],
)
def test_check_names_the_profile_where_neither_user_nor_file_does(
    tmp_path: Path, name: str, text: str, line: str | None
) -> None:
    """With the reason; a profile that the file names needs none."""
    found = re.findall(r"by the rules of (.*)", run(written(tmp_path / name, text)).stdout)
    assert found == ([] if line is None else [line])


def test_a_pattern_that_is_not_understood_is_clipped_and_shown_with_the_names_it_may_match() -> None:
    """The policy may be for any exchange: those that every broker has are no help."""
    policy = Policy("p", "a{" + "1" * 5_000 + "}", apply_to="exchanges")
    topology = Topology([TOPIC], [Q], policies=[policy], profile="4.1")
    (found,) = [finding for finding in check(topology) if finding.code == "HS706"]
    assert "whether policy 'p' applies to 't' is not known here: 'a{1111" in found.message
    assert len(found.message) < 250
    (found,) = [f for f in check(Topology(policies=[policy], profile="4.1")) if f.code == "HS706"]
    assert "applies to exchanges is not known here" in found.message


def test_a_pattern_that_is_not_understood_is_named_where_the_policy_applies_to_nothing_too() -> None:
    """A release may refuse it (4.3.6 does), and with it the file: a node that loads it at boot does not start."""
    policy = Policy("p", "(?P<1>a)", {"max-age": "1D"}, "streams")
    found = [finding for finding in check(Topology([], [Queue("q")], [], [policy])) if finding.code == "HS706"]
    assert [each.message.partition(": ")[0] for each in found] == [
        "whether policy 'p' applies to anything is not known here"
    ]


def test_a_warning_shows_a_pattern_as_it_is_written(tmp_path: Path) -> None:
    """Without the escapes of Python, and in short."""
    file = written(tmp_path / "d.bindings", r"policy p: '^(a)\k<x>', queues, max-length = 1" + "\nqueue q\n")
    result = CliRunner().invoke(hashstar, ["graph", str(file)])
    assert r"'^(a)\k<x>' is not understood here" in result.stderr
    file = written(tmp_path / "d.bindings", "policy p: '" + "(" * 5_000 + "', queues, max-length = 1\nqueue q\n")
    assert len(CliRunner().invoke(hashstar, ["graph", str(file)]).stderr) < 500


def test_a_setting_without_effect_is_explained_for_each_type_of_queues() -> None:
    topology = Topology(
        queues=[Queue("c"), Queue("s", arguments={"x-queue-type": "stream"})],
        policies=[Policy("r", "^[cs]$", {"consumer-timeout": 5000}, "queues")],
        profile="4.3",
    )
    [message] = [finding.message for finding in check(topology) if finding.code == "HS709"]
    assert message == (
        "'consumer-timeout' of policy 'r' has no effect on 'c': classic queues of rabbitmq-4.3 ignore it; "
        "nor on 's': stream queues of rabbitmq-4.3 ignore it"
    )


@pytest.mark.parametrize("release", ["2.0", "3.9.29", "rabbitmq-3.8", "banana", "4"])
def test_an_unknown_release_is_refused_with_the_list_of_profiles(tmp_path: Path, release: str) -> None:
    """On the command line and in a file."""
    file = str(written(tmp_path / "d.bindings", f"profile {release}\nqueue q\n"))
    fine = str(written(tmp_path / "fine.bindings", "queue q\n"))
    commands = [["check", file], ["check", fine], ["graph", fine], ["explain", "-t", fine, ""], ["diff", fine, fine]]
    for number, command in enumerate(commands):
        result = CliRunner().invoke(hashstar, command + ["--profile", release] * (number > 0))
        assert result.exit_code == 2
        assert "rabbitmq-3.10, rabbitmq-3.12, rabbitmq-3.13, rabbitmq-4.0, rabbitmq-4.3" in result.output
        assert "a release from 3.10 on" in result.output


def test_the_version_of_an_export_that_chose_the_rules_is_named(tmp_path: Path) -> None:
    """In text only where the file chose; in JSON the profile always."""
    document = json.loads(definitions(Topology(queues=[Q]))) | {"rabbitmq_version": "3.10.8"}
    file = written(tmp_path / "d.json", json.dumps(document))
    chosen = "by the rules of rabbitmq-3.10, as its rabbitmq_version is 3.10.8"
    assert chosen in run(file).stdout
    assert json.loads(run(file, "--format", "json").stdout)["profile"] == "rabbitmq-3.10"
    assert "by the rules of" not in run(file, "--profile", "4.0").stdout
    assert json.loads(run(file, "--profile", "4.1", "--format", "json").stdout)["profile"] == "rabbitmq-4.1"


def test_findings_that_are_counted_name_no_exchange_by_chance() -> None:
    """Findings of exchanges are counted together, also where one of these is called as the class is."""
    exchanges = [Exchange(f"e{number}", "topic") for number in range(MAX_FINDINGS_OF_CODE + 20)]
    findings = check(Topology([*exchanges, Exchange("Exchange", "topic")]))
    more = [finding for finding in findings if " more of this kind" in finding.message]
    assert more
    assert all(finding.part is None for finding in more)


DEAD = "exchange dead: direct\nexchange orders: topic\nqueue kept\ndead -> kept: 'order.paid'\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('queue q\npolicy p: "q", queues, dead-letter-exchange = "gone"',
         ("HS311", "policy 'p' sends dead letters of queue 'q' to the exchange 'gone', which does not exist")),
        (('queue q: x-dead-letter-exchange = "dead"\npolicy p: "q", queues, dead-letter-exchange = "gone"\n'
         'orders -> q: "order.paid"'), None),  # the argument counts
        ('queue q\norders -> q: "order.*"\npolicy p: "q", queues, dead-letter-exchange = "dead"',
         ("HS312", ("dead letters of queue 'q' keep their key: they go to 'dead' with the key 'order.x' by policy 'p' "
                   "and are lost"))),
        ('queue q\norders -> q: "order.paid"\npolicy p: "q", queues, dead-letter-exchange = "dead"', None),
        ('queue q\norders -> q: "#"\npolicy p: "q", queues, dead-letter-exchange = "dead"', None),  # of any key
        ('queue q: x-dead-letter-exchange = "dead"',
         ("HS312", "dead letters of queue 'q' keep their key: they go to 'dead' with the key 'q' and are lost")),
        (('queue q: quorum, x-dead-letter-exchange = "dead", x-dead-letter-strategy = "at-least-once", '
         'x-overflow = "reject-publish"'),
         ("HS312", ("dead letters of queue 'q' keep their key: they go to 'dead' with the key 'q' and are kept in it, "
                   "and sent again later, as no queue gets them"))),
        (('queue q: quorum, x-dead-letter-exchange = "", x-dead-letter-routing-key = "kept", '
         'x-dead-letter-strategy = "at-least-once", x-overflow = "reject-publish"\n'
         'policy p: "q", queues, overflow = "drop-head"'),
         ("HS313", "queue 'q' asks for dead letters at least once without overflow reject-publish")),
        (('queue q: x-dead-letter-exchange = "", x-dead-letter-routing-key = "kept"\n'
         'policy o: "q", queues, operator, message-ttl = 5'), None),  # the queue kept keeps it
        (('queue q: x-dead-letter-exchange = "", x-dead-letter-routing-key = "q"\n'
         'policy o: "q", queues, operator, message-ttl = 5'),
         ("HS314", "a message that nobody takes from queue 'q' expires, comes back and is dropped")),
        (('queue q: x-dead-letter-exchange = ""\norders -> q: "q"\nqueue w\n'
         'policy a: "^q$", queues, message-ttl = 5\npolicy b: "^q$", queues, max-length = 5'), None),  # not known
        (('exchange again: headers\nqueue later: x-message-ttl = 15000, x-dead-letter-exchange = ""\nagain -> later\n'
         'queue jobs: x-dead-letter-exchange = "again", x-dead-letter-routing-key = "jobs"'), None),  # a delayed retry
        ('queue q\nqueue r: quorum\npolicy p: "^[qr]$", queues, delivery-limit = 5, expires = 50',
         ("HS708", ("policy 'p' does not apply to 'q', with all of its settings (expires): classic queues do not "
                   "support 'delivery-limit'"))),
        ('queue r: quorum\npolicy p: "^r$", all, ha-mode = "all"\nprofile rabbitmq-3.10',
         ("HS702", "policy 'p' applies to nothing: it matches only 'r', which does not support its settings")),
    ],
)  # fmt: skip
def test_dead_letters_are_judged_by_the_settings_in_force(text: str, found: tuple[str, str] | None) -> None:
    document = Document.loads(DEAD + text)
    findings = [
        (finding.code, finding.message)
        for finding in check(document.topology())
        if finding.code.startswith(("HS31", "HS70")) and finding.code != "HS704"
    ]
    assert findings == ([] if found is None else [found])


AT_LEAST_ONCE = (
    'quorum, x-dead-letter-exchange = "", x-dead-letter-routing-key = "kept", x-dead-letter-strategy = "at-least-once"'
)


@pytest.mark.parametrize(
    ("queue", "policy", "code"),
    [
        (AT_LEAST_ONCE, "max-length = 3", "HS313"),
        (AT_LEAST_ONCE, 'overflow = "reject-publish"', None),
        ('quorum, x-dead-letter-exchange = "gone", x-dead-letter-strategy = "at-least-once", x-overflow = "drop-head"',
         'overflow = "reject-publish", max-length = 3', "HS311"),
        ('x-dead-letter-exchange = "", x-dead-letter-routing-key = "q", x-message-ttl = 5', "max-length = 3", "HS314"),
        ('x-dead-letter-exchange = "", x-dead-letter-routing-key = "q"', "message-ttl = 5", None),
    ],
)  # fmt: skip
def test_what_holds_whether_a_policy_is_in_force_or_not_is_found(queue: str, policy: str, code: str | None) -> None:
    document = Document.loads(f'{DEAD}queue q: {queue}\npolicy odd: "q(?R)?", queues, {policy}')
    assert len(document.topology().policies_in_force().possible_settings(document.topology().queues["q"])) == 2
    codes = [finding.code for finding in check(document.topology()) if finding.code.startswith("HS31")]
    assert codes == ([] if code is None else [code])


def expiring(name: str, to: str) -> Queue:
    arguments = {"x-message-ttl": 5, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": to}
    return Queue(name, arguments=arguments)


def test_a_circle_of_expiry_is_found_however_long_it_is() -> None:
    ring = [expiring(f"q{number}", f"q{(number + 1) % 3_000}") for number in range(3_000)]
    chain = [expiring(f"c{number}", f"c{number + 1}") for number in range(3_000)]  # the last queue keeps what it gets
    [found] = [one for one in check(Topology(queues=[*ring, *chain, Queue("c3000")])) if one.code == "HS314"]
    assert len(found.related) == 2_999


def test_a_search_for_circles_that_ends_early_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bindings.checking.rules.dead_letters.MAX_STEPS", 100)
    ring = [expiring(f"q{number}", f"q{(number + 1) % 200}") for number in range(200)]
    [found] = [one for one in check(Topology(queues=ring)) if one.code == "HS314"]
    assert found.message == "not all circles of expiry were looked for: the search ends after 100 dead letters"


@pytest.mark.parametrize("destination", [Destination("queue", "e"), Destination("exchange", "e")])
def test_a_binding_whose_ends_are_swapped_is_named_the_right_way_round(destination: Destination) -> None:
    made = Topology([Exchange("e", "topic")], [Q], [Binding("q", destination, "k")])
    found = [finding for finding in check(made) if finding.code in ("HS101", "HS102")]
    assert {finding.code for finding in found} == ({"HS101", "HS102"} if destination.kind == "queue" else {"HS101"})
    for finding in found:
        assert finding.message.endswith("; 'q' is a queue and 'e' an exchange: did you mean e -> q?")


@pytest.mark.parametrize("kind", ["queue", "exchange"])
def test_an_end_of_a_binding_that_is_of_the_other_kind_is_named(kind: Literal["queue", "exchange"]) -> None:
    made = Topology(
        [Exchange("e", "topic")], [Q], [Binding("e", Destination(kind, "e" if kind == "queue" else "q"), "k")]
    )
    (finding,) = (each for each in check(made) if each.code == "HS102")
    assert finding.message.endswith(f"; there is {'an exchange' if kind == 'queue' else 'a queue'} of this name")


def test_a_check_of_a_path_has_the_lines_that_the_command_shows(tmp_path: Path) -> None:
    text = tmp_path / "shop.bindings"
    text.write_text('exchange t: topic\nqueue q\nt -> q: "a#b"\n')
    definitions = tmp_path / "shop.json"
    Document.loads(text.read_text()).definitions().save(definitions)
    for path in (text, definitions):
        shown = json.loads(CliRunner().invoke(check_command, ["--json", str(path)]).output)
        lines = [(each["code"], each["line"]) for of in shown["vhosts"] for each in of["findings"]]
        found = [(finding.code, finding.line) for finding in check(path)]
        assert ("HS402", 3) in found or path is definitions
        assert all(line for _, line in found)
        assert found == [each for each in lines if each[0] != "HS901"]
