"""``bindings.upgrade`` and the command: the transformed definitions, the traffic that moves, and the files of both."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import bindings
from bindings.cli import find_command
from bindings.sources.definitions import Definitions
from bindings.sources.document import Document
from bindings.upgrading.forms.markdown import to_markdown
from bindings.upgrading.run import NEWEST
from exchange import Binding, Exchange, Message, Queue, Topology
from exchange.entities.releases import find_profile
from exchange.errors import InputError

OLD = """\
profile rabbitmq-3.12
exchange h: headers
queue jobs: classic, x-max-priority = 5
queue replies: classic, transient
policy ha: "^jobs", queues, ha-mode = "all"
h -> jobs: all { n = 1 }
"""


def run(tmp_path: Path, *options: str, text: str = OLD) -> Result:
    path = tmp_path / "shop.bindings"
    path.write_text(text)
    command = find_command("upgrade")
    return CliRunner().invoke(command, [str(path), *options])


def test_the_transformed_definitions_are_written_in_the_form_of_the_name(tmp_path: Path) -> None:
    for name in ("new.json", "new.json.gz", "new.bindings"):
        path = tmp_path / name
        run(tmp_path, "-o", str(path))
        data = path.read_bytes()
        text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
        content = Document.loads(text) if name.endswith("bindings") else Definitions.loads(text)
        topology = content.topology()
        assert topology.queues["jobs"] == Queue("jobs", arguments={"x-queue-type": "quorum"})
        assert topology.queues["replies"].durable
        assert not topology.policies
        assert topology.profile.name == f"rabbitmq-{NEWEST}"


def test_the_definitions_go_to_standard_output_and_the_report_to_standard_error(tmp_path: Path) -> None:
    result = run(tmp_path, "--output", "-")
    assert Definitions.loads(result.stdout).topology().queues["jobs"].type == "quorum"
    assert "mirrored-to-quorum" in result.stderr
    assert run(tmp_path, "-o", "-", "--format", "json").stdout == result.stdout


def test_what_is_written_is_a_fixed_point(tmp_path: Path) -> None:
    new, again = tmp_path / "new.bindings", tmp_path / "again.bindings"
    run(tmp_path, "-o", str(new))
    result = run(tmp_path, "--from", "3.12", "-o", str(again), text=new.read_text())
    assert again.read_text() == new.read_text()
    assert "nothing had to be transformed" in result.output


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (None, 1),  # as it is: refused and lost
        ("no_op", 1),
        ("default", 1),  # the delivery limit of 20, and numbers in headers
        ("default,keep-delivery-limit", 1),
    ],
)
def test_the_exit_code_is_about_what_is_left(tmp_path: Path, names: str | None, code: int) -> None:
    options = [] if names is None else ["--transform", names]
    assert run(tmp_path, *options).exit_code == code
    if names == "default,keep-delivery-limit":
        text = OLD.replace("n = 1", 'n = "a"')
        result = run(tmp_path, *options, text=text)
        assert result.exit_code == 0, result.output


def test_the_report_names_the_changes_the_proof_and_what_applications_must_do(tmp_path: Path) -> None:
    text = run(tmp_path, "--transform", "default").output
    assert '      queue \'jobs\': x-max-priority 5 -> none, x-queue-type "classic" -> "quorum"' in text
    assert f"  newly refused by {NEWEST}: nothing" in text
    assert "  the transformations move no message: proved for all keys and headers" in text
    assert "in applications: declare it durable" in text
    markdown = run(tmp_path, "--transform", "default", "--format", "markdown").output
    assert f"**Transformed for {NEWEST}**" in markdown
    values = json.loads(run(tmp_path, "--transform", "default", "--format", "json").output)
    [vhost] = values["vhosts"]
    done = {each["name"]: each for each in vhost["transformed"]["transformations"]}
    [change] = done["mirrored-to-quorum"]["changes"]
    assert change["changes"] == [
        {"name": "arguments.x-max-priority", "before": 5, "after": None},
        {"name": "arguments.x-queue-type", "before": "classic", "after": "quorum"},
    ]
    assert change["why"] is None
    assert vhost["transformed"]["meaning"]["verdict"] == "same"
    assert done["drop-empty-policies"]["changes"][0]["becomes"] is None


def test_the_report_gives_the_reason_for_a_policy_that_applies_elsewhere(tmp_path: Path) -> None:
    text = 'profile rabbitmq-3.12\nqueue s: stream\npolicy p: "^s", streams, ha-mode = "all", max-age = "7D"\n'
    why = "it was not in force in stream 's' because of ha-mode: apply it to streams if it should be"
    result = run(tmp_path, "--transform", "default", text=text).output
    assert f'policy \'p\': apply-to "streams" -> "classic_queues"; {why}\n' in result
    [vhost] = json.loads(run(tmp_path, "--transform", "default", "--format", "json", text=text).output)["vhosts"]
    changes = [change for each in vhost["transformed"]["transformations"] for change in each["changes"]]
    assert [change["why"] for change in changes if change["why"]] == [why]


@pytest.mark.parametrize("options", [("--transform", "nothing"), ("-o", "/nowhere/at/all.json"), ("--archive", "none")])
def test_bad_usage_ends_with_2(tmp_path: Path, options: tuple[str, ...]) -> None:
    result = run(tmp_path, *options)
    assert result.exit_code == 2, result.output


def test_the_function_takes_topologies_paths_and_names_of_releases(tmp_path: Path) -> None:
    path = tmp_path / "shop.bindings"
    path.write_text(OLD)
    topology = bindings.load(path)
    of_path, of_value = (bindings.upgrade(each, transform=["default"]) for each in (path, topology))
    assert [str(of_path.old), str(of_path.new)] == ["3.12", NEWEST]
    assert of_path.vhosts == of_value.vhosts
    assert of_path.definitions is not None
    assert of_value.definitions is None
    assert bindings.upgrade(path, "4.0", old="3.13").vhosts[0].transformed is None
    path.write_text("queue q")
    with pytest.raises(InputError, match="names no release"):
        bindings.upgrade(path)


def write_traffic(path: Path, messages: list[Message], vhost: str = "/") -> str:
    from exchange.values.field_json import encode_message

    with path.open("w") as file:
        for message in messages:
            file.write(json.dumps({**encode_message(message), "vhost": vhost}) + "\n")
    return str(path)


def ring() -> Topology:
    """Return an exchange whose buckets are chosen by a header's value, which 3.13 hashes without its type."""
    exchange = Exchange("c", "x-consistent-hash", arguments={"hash-header": "h"})
    queues = [Queue(f"q{n}") for n in range(4)]
    return Topology([exchange], queues, [Binding.to_queue("c", queue.name, "1") for queue in queues])


def test_archived_messages_that_move_are_counted_also_between_the_buckets_of_a_hash(tmp_path: Path) -> None:
    messages = [Message("c", f"k{n}", {"h": f"v{n}"}) for n in range(400)]
    archive = write_traffic(tmp_path / "traffic.jsonl", messages)
    result = bindings.upgrade(ring(), "3.13", old="3.12", archives=archive)
    traffic = result.vhosts[0].traffic
    assert traffic is not None
    from exchange import Router

    routers = [Router(ring().with_profile(find_profile(name))) for name in ("3.12", "3.13")]
    moved = sum(routers[0].route(each).queues != routers[1].route(each).queues for each in messages)
    assert (traffic.changes.totals.messages, traffic.changes.totals.elsewhere, traffic.share) == (400, moved, 1.0)
    assert moved > 100
    assert traffic.moved == moved / 400


def test_the_command_shows_the_traffic_in_every_form(tmp_path: Path) -> None:
    archive = write_traffic(tmp_path / "traffic.jsonl", [Message("h", "k", {"n": value}) for value in (1, 1.0, 1.0)])
    text = run(tmp_path, "--archive", archive).output
    assert "  Over 3 messages: 2 go elsewhere (2 lose a queue, 0 gain one), 2 become unroutable." in text
    values: Any = json.loads(run(tmp_path, "--archive", archive, "--format", "json").output)
    traffic = values["vhosts"][0]["traffic"]
    assert (traffic["messages"], traffic["elsewhere"], traffic["moves"][0]["lost"]) == (3, 2, ["jobs"])
    assert "**Traffic**" in run(tmp_path, "--archive", archive, "--format", "markdown").output


def test_records_that_cannot_be_read_and_messages_to_unknown_exchanges_are_counted_apart(tmp_path: Path) -> None:
    archive = write_traffic(tmp_path / "traffic.jsonl", [Message("h", "jobs", {"n": 1.0}), Message("nope", "k")])
    with Path(archive).open("a") as file:
        file.write('not json\n{"x": 1}\n')
    lines = run(tmp_path, "--archive", archive).output.splitlines()
    at = lines.index("traffic:")
    assert lines[at + 1].startswith("  Over 2 messages: 1 go elsewhere")
    assert lines[at + 2] == "  1 of them to exchanges that the topology lacks, refused before and after"
    assert [line.startswith("  not read: 1 record: ") for line in lines[at + 3 : at + 5]] == [True, True]
    assert lines[at + 5].endswith(", such as key 'jobs'")
    values: Any = json.loads(run(tmp_path, "--archive", archive, "--format", "json").output)
    traffic = values["vhosts"][0]["traffic"]
    assert (traffic["messages"], traffic["to_unknown_exchanges"], traffic["unreadable"]) == (2, 1, 2)


def test_a_large_archive_is_sampled_and_the_report_names_the_share(tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    folder.mkdir()
    body = [Message("h", "k" * 200, {"n": 1, "pad": "x" * 600}) for _ in range(12_000)]
    first = write_traffic(folder / "0.jsonl", body)
    for number in (1, 2):
        shutil.copy(first, folder / f"{number}.jsonl")
    values: Any = json.loads(run(tmp_path, "--archive", str(folder), "--sample", "9", "--format", "json").output)
    traffic = values["vhosts"][0]["traffic"]
    assert 0.2 < traffic["share"] < 0.6
    assert traffic["messages"] == pytest.approx(36_000 * traffic["share"], rel=0.1)
    assert "that is a sample" in run(tmp_path, "--archive", str(folder), "--sample", "9").output
    whole: Any = json.loads(run(tmp_path, "--archive", str(folder), "--sample", "0", "--format", "json").output)
    assert whole["vhosts"][0]["traffic"]["messages"] == 36_000


def test_a_virtual_host_without_messages_has_no_traffic(tmp_path: Path) -> None:
    archive = write_traffic(tmp_path / "traffic.jsonl", [Message("h", "k", {"n": 1})], "a")
    text = 'profile rabbitmq-3.12\nvhost "a"\nqueue q\nvhost "b"\nqueue q\n'
    path = tmp_path / "two.bindings"
    path.write_text(text)
    one, other = bindings.upgrade(path, archives=archive).vhosts
    assert one.traffic is not None
    assert other.traffic is None
    with pytest.raises(InputError, match="another virtual host"):
        bindings.upgrade(path, vhost="b", archives=archive)


MANY = 400
ALIKE = "".join(f'queue q{n}: classic, x-queue-version = 1\nt -> q{n}: "#.a.#.b{n}.#"\n' for n in range(MANY))


def test_parts_that_are_refused_for_the_same_reason_are_one_line_with_their_number(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    text = f"profile rabbitmq-4.2\nexchange t: topic\n{ALIKE}"
    printed = [
        run(tmp_path, "--format", form, *more, text=text).stdout
        for form, more in (("text", ("--html", str(page))), ("markdown", ()))
    ]
    for shown in (*printed, page.read_text()):
        assert shown.count("HSU001") == shown.count("HSU003") == 1
        assert f"{MANY} queues, " in shown
        assert f"{MANY} bindings, " in shown
        assert shown.lower().count("the broker, for the first") == 2
        assert len(shown) < 20_000
    found = json.loads(run(tmp_path, "--format", "json", text=text).stdout)["vhosts"][0]["sightings"]
    assert len({each["answer"] for each in found if each["id"] == "HSU001"}) == MANY


def test_markdown_lists_two_hundred_kinds_of_refusals_and_counts_the_others() -> None:
    queue = Queue("q", arguments={"x-queue-version": 1})
    result = bindings.upgrade(Topology(queues=[queue]), "4.3", old="4.2")
    [vhost] = result.vhosts
    refused = vhost.sightings[0]
    many = tuple(refused._replace(detail=f"400 refused for reason {n}") for n in range(300))
    shown = to_markdown(result._replace(vhosts=(vhost._replace(sightings=many),)))
    assert shown.count("- HSU001") == 200
    assert "- and 100 more; the JSON has all\n" in shown


def test_what_applications_declare_is_told_only_where_something_that_they_declare_has_changed(tmp_path: Path) -> None:
    policy = 'policy p: "^q", queues, queue-master-locator = "min-masters"\n'
    for queue, is_declared in (("queue q", False), ('queue q: x-queue-master-locator = "min-masters"', True)):
        text = f"profile rabbitmq-3.13\n{queue}\n{policy}"
        result = run(tmp_path, "--transform", "translate-locator", text=text)
        assert "policy 'p': " in result.output
        assert ("in applications: declare it without x-queue-master-locator" in result.output) is is_declared


def test_the_page_goes_to_standard_output_and_the_report_to_standard_error(tmp_path: Path) -> None:
    result = run(tmp_path, "--html", "-")
    assert result.stdout.startswith("<!doctype html>")
    assert result.stdout.endswith("</html>\n")
    assert f"upgrade from 3.12 to {NEWEST}" in result.stderr
    both = run(tmp_path, "--html", "-", "-o", "-")
    assert (both.exit_code, both.stdout) == (2, "")


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        (("--transform", ""), "give names of transformations: default, "),
        (("--transform", ","), "give names of transformations"),
        (("-o", "new.yaml"), "RabbitMQ imports JSON"),
        (("-o", "new.yml.gz"), "RabbitMQ imports JSON"),
        (("--from", "4"), "'4' is no release of RabbitMQ that is known here"),
        (("--to", "4.x"), "'4.x' is no release of RabbitMQ that is known here"),
        (("--to", "4.3-rc.1"), "or a release from 3.10 on, as 4.1.3, 4.1 or 4.1.x"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused_with_what_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], wrong: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(tmp_path, *options)
    assert result.exit_code == 2
    assert wrong in result.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["shop.bindings"]


def test_a_release_of_an_export_that_is_no_release_is_quoted_in_part_if_it_is_long(tmp_path: Path) -> None:
    result = run(tmp_path, text=json.dumps({"rabbitmq_version": "4." * 5_000, "queues": []}))
    assert result.exit_code == 2
    assert "is no release of RabbitMQ" in result.stderr
    assert len(result.stderr) < 300


def test_an_export_of_no_release_asks_for_from_and_warns_of_no_profile(tmp_path: Path) -> None:
    text = json.dumps({"rabbitmq_version": "%%VSN%%", "queues": []})
    result = run(tmp_path, text=text)
    assert result.exit_code == 2
    assert "shop.bindings: '%%VSN%%' is no release of RabbitMQ" in result.stderr
    assert "give --from RELEASE" in result.stderr
    assert run(tmp_path, "--from", "3.13", text=text).stderr == ""


@pytest.mark.parametrize("version", ["3.5.7", "3.6.15", "3.7.28", "3.8.9", "3.9.0"])
def test_an_export_of_an_older_release_is_upgraded_by_the_rules_of_the_oldest_one(tmp_path: Path, version: str) -> None:
    text = json.dumps({"rabbitmq_version": version, "queues": []})
    result = run(tmp_path, text=text)
    assert result.exit_code == 0
    assert (
        f'"{version}" is older than the oldest profile; without --from, the rules of rabbitmq-3.10 hold'
        in result.stderr
    )
    assert run(tmp_path, "--from", "3.13", text=text).stderr == ""


def test_the_function_names_what_is_wrong_with_its_arguments() -> None:
    topology = Topology(queues=[Queue("q", durable=False)])
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"new": NEWEST}, f"the topology has the rules of {NEWEST}: name the release that it is on, old='4.2'"),
        ({"new": 4.3, "old": "4.2"}, "4.3 is no release of RabbitMQ that is known here: .*'4.3'"),
        ({"new": "4.3", "old": 4.2}, "4.2 is no release of RabbitMQ that is known here"),
    ]
    for arguments, message in wrong:
        with pytest.raises(InputError, match=message):
            bindings.upgrade(topology, **arguments)
    result = bindings.upgrade(topology, "4.3", old="4.2")
    for name in ("never", "critical"):
        with pytest.raises(InputError, match=f"'{name}' is no severity: give note, warning, error"):
            result.reaches(name)  # type: ignore[arg-type]


def test_one_transformation_may_be_a_text() -> None:
    topology = Topology(queues=[Queue("q", durable=False)])
    one, several = (bindings.upgrade(topology, "4.3", old="4.2", transform=each) for each in ("default", ["default"]))
    assert one == several
