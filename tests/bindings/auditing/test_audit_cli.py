"""``hashstar audit`` as users call it, in this process: the numbers of Spark are the same (test_job.py)."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from bindings.sources.document import Document
from bridge.cli import hashstar
from tests.support.bindings.report_pages import report_in

TOPOLOGY = """\
exchange orders: topic
queue billing
queue audit
queue mail

orders -> billing: "order.*.created"
orders -> audit: "order.#"
orders -> mail: "order.*.shipped", "mail.#"
"""

KEYS = ["order.eu.created"] * 5 + ["order.us.created"] * 3 + ["order.eu.paid"] * 2 + ["Order.eu.created"] * 4


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working folder with a topology and an archive of fourteen messages, an hour apart."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.bindings").write_text(TOPOLOGY)
    write(tmp_path / "archive.jsonl", KEYS)
    return tmp_path


def write(path: Path, keys: list[str], vhost: str | None = None, first: int = 0) -> None:
    """Write an archive of messages to orders, one an hour from 2026-11-01 on."""
    lines = []
    for hour, key in enumerate(keys, first):
        line: dict[str, Any] = {"exchange": "orders", "routing_key": key, "timestamp": 1_793_491_200 + 3_600 * hour}
        lines.append(json.dumps(line if vhost is None else {**line, "vhost": vhost}))
    path.write_text("\n".join(lines) + "\n")


def audit(*arguments: object, text: str | None = None) -> Result:
    """Run the command, with a text at standard input."""
    return CliRunner().invoke(hashstar, ["audit", *map(str, arguments)], input=text)


def report(*arguments: object) -> dict[str, Any]:
    """Return the report of a run as JSON."""
    result = audit(*arguments, "--format", "json")
    assert result.exit_code in (0, 1), result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


RUN = ("-t", "orders.bindings", "--no-spark")


def test_the_report_lists_dead_bindings_and_unroutable_messages(folder: Path) -> None:
    result = audit(*RUN, "archive.jsonl")
    assert result.exit_code == 0, result.output
    assert "binding coverage" in result.stdout
    assert "2 of 4 hit" in result.stdout
    assert "10 of 14 routed" in result.stdout
    assert "'mail.#'" in result.stdout
    assert "Order" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("bindings hit: 2 of 4 (50.0 %)")


def test_run_is_the_default_command(folder: Path) -> None:
    assert report("run", *RUN, "archive.jsonl")["totals"] == report(*RUN, "archive.jsonl")["totals"]


def test_help_lists_the_commands_and_their_options(folder: Path) -> None:
    assert {"run", "merge"} <= set(audit("--help").output.split())
    assert "--compare" in audit("run", "--help").output


def test_all_forms_are_written_at_once(folder: Path) -> None:
    result = audit(
        *RUN, "archive.jsonl", "--html", "out/a.html", "--json", "out/a.json", "--junit", "out/a.xml", "--tables",
        "out/tables", "--save-tally", "out/a.tally",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    written = json.loads((folder / "out/a.json").read_bytes())
    assert written["totals"]["messages"]["all"] == 14
    assert report_in((folder / "out/a.html").read_text())["totals"] == written["totals"]
    assert ET.parse(folder / "out/a.xml").getroot().tag == "testsuites"  # noqa: S314  our own
    tables = [*(folder / "out/tables").glob("*.parquet")]
    assert sum(pq.read_metadata(path).num_rows for path in tables) > 0


def test_the_page_has_the_text_of_the_topology_whose_lines_it_counts(folder: Path) -> None:
    """From an archive, and from saved tallies; definitions have none, standard input has."""
    assert audit(*RUN, "archive.jsonl", "--html", "run.html", "--save-tally", "a.tally").exit_code == 0
    assert audit("merge", "-t", "orders.bindings", "a.tally", "--html", "merged.html").exit_code == 0
    for name in ("run.html", "merged.html"):
        page = (folder / name).read_text()
        (line,) = [each for each in report_in(page)["lines"] if 3 in each["bindings"]]
        assert TOPOLOGY.split("\n")[line["line"] - 1].startswith("orders -> ")
        assert json.dumps(TOPOLOGY.rstrip("\n")).replace("<", r"\u003c") in page
    assert audit("run", "-t", "-", *RUN[2:], "archive.jsonl", "--html", "in.html", text=TOPOLOGY).exit_code == 0
    assert report_in((folder / "in.html").read_text())["lines"] == report_in(page)["lines"]
    Document.loads(TOPOLOGY).definitions().save(folder / "orders.json")
    assert audit("run", "-t", "orders.json", *RUN[2:], "archive.jsonl", "--html", "json.html").exit_code == 0
    page = (folder / "json.html").read_text()
    assert report_in(page)["lines"] is None
    assert '"text":null' in page


def test_a_missed_threshold_ends_with_1_and_is_named(folder: Path) -> None:
    assert audit(*RUN, "archive.jsonl", "--fail-under", "50").exit_code == 0
    result = audit(*RUN, "archive.jsonl", "--fail-under", "51")
    assert result.exit_code == 1
    assert "binding coverage is 50.0 %" in " ".join(result.stdout.split())
    assert audit(*RUN, "archive.jsonl", "--max-unroutable", "3").exit_code == 1
    assert audit(*RUN, "archive.jsonl", "--max-unroutable", "30%").exit_code == 0
    assert audit(*RUN, "archive.jsonl", "--fail-under-messages", "72").exit_code == 1


def test_settings_are_found_where_one_works(folder: Path) -> None:
    (folder / "hashstar.toml").write_text(
        '[audit]\nfail_under = 100\n[[audit.ignore]]\nsource = "orders"\ndestination = "mail"\n'
        'reason = "not live yet"\nuntil = 2099-01-01\n'
    )
    assert audit(*RUN, "archive.jsonl").exit_code == 0
    (folder / "other.toml").write_text("[audit]\nfail_under = 100\n")
    assert audit(*RUN, "archive.jsonl", "--settings", "other.toml").exit_code == 1


def test_a_month_is_the_sum_of_its_days(folder: Path) -> None:
    write(folder / "day1.jsonl", KEYS[:6])
    write(folder / "day2.jsonl", KEYS[6:], first=6)
    for day in ("day1", "day2"):
        assert audit(*RUN, f"{day}.jsonl", "--save-tally", f"{day}.tally").exit_code == 0
    merged = report("merge", "-t", "orders.bindings", "day1.tally", "day2.tally")
    whole = report(*RUN, "archive.jsonl")
    for part in ("totals", "bindings", "queues", "exchanges", "timeline", "flows", "lines"):
        assert merged.get(part) == whole.get(part), part


def test_a_tally_of_another_topology_is_refused(folder: Path) -> None:
    assert audit(*RUN, "archive.jsonl", "--save-tally", "a.tally").exit_code == 0
    (folder / "orders.bindings").write_text(TOPOLOGY + 'orders -> mail: "more"\n')
    result = audit("merge", "-t", "orders.bindings", "a.tally")
    assert result.exit_code == 2
    assert "a.tally: a tally for another topology" in result.stderr


def test_several_archives_are_audited_as_one(folder: Path) -> None:
    write(folder / "more.jsonl", ["mail.x"])
    assert report(*RUN, "archive.jsonl", "more.jsonl")["totals"]["messages"]["all"] == 15


def test_compare_lists_the_messages_that_are_routed_otherwise(folder: Path) -> None:
    (folder / "next.bindings").write_text(TOPOLOGY.replace('"order.*.created"', '"*.*.created"'))
    result = audit(*RUN, "archive.jsonl", "--compare", "next.bindings")
    assert result.exit_code == 0, result.output
    told = " ".join(result.stdout.split())
    assert "Over 14 messages: 4 go elsewhere (0 lose a queue, 4 gain one)" in told
    assert "gain billing" in told


def test_compare_profile_lists_the_messages_that_another_release_routes_otherwise(folder: Path) -> None:
    (folder / "h.bindings").write_text("exchange h: headers\nqueue q\nh -> q: all { n = 1 }\n")
    lines = [{"exchange": "h", "routing_key": "", "headers": {"n": value}} for value in (1, 1.0, 1.0, 2)]
    (folder / "h.jsonl").write_text("\n".join(map(json.dumps, lines)))
    run = ("-t", "h.bindings", "--no-spark", "h.jsonl", "--profile", "3.12", "--compare-profile", "4.3")
    result = audit(*run)
    assert result.exit_code == 0, result.output
    told = " ".join(result.stdout.split())
    assert "With h.bindings on rabbitmq-4.3 instead: Over 4 messages: 2 go elsewhere (2 lose a queue" in told
    assert " ".join(audit(*run, "--compare", "h.bindings").stdout.split()).count("2 go elsewhere") == 1
    assert audit(*run[:-1], "2.8").exit_code == 2


def test_verify_finds_the_messages_that_the_broker_routed_otherwise(folder: Path) -> None:
    right = {"exchange": "orders", "routing_key": "order.eu.created", "routed_queues": ["audit", "billing"]}
    wrong = {**right, "routed_queues": ["audit"]}
    (folder / "trace.jsonl").write_text(f"{json.dumps(right)}\n{json.dumps(wrong)}\n")
    told = " ".join(audit(*RUN, "trace.jsonl", "--verify").stdout.split())
    assert "2 messages compared with the prediction" in told
    assert "1 went where they should, 1 elsewhere" in told
    assert "billing" in told


def test_a_window_of_time_leaves_the_rest_out(folder: Path) -> None:
    found = report(*RUN, "archive.jsonl", "--since", "2026-11-01T02:00:00Z", "--until", "2026-11-01T05:00:00Z")
    assert found["totals"]["messages"]["all"] == 3
    result = audit(*RUN, "archive.jsonl", "--since", "yesterday")
    assert result.exit_code == 2
    assert "--since: a time such as 2026-11-21" in result.stderr
    for until in ("2026-11-01", "2026-10-31T23:00:00-01:00", "2020-01-01"):
        result = audit(*RUN, "archive.jsonl", "--since", "2026-11-01", "--until", until)
        assert result.exit_code == 2
        assert "--until: must be after --since: nothing is between them" in result.stderr


def test_the_first_and_the_last_times_that_there_are_have_dates(folder: Path) -> None:
    times = ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
    lines = [{"exchange": "orders", "routing_key": "order.eu", "timestamp": time} for time in times]
    (folder / "ages.jsonl").write_text("".join([json.dumps(line) + "\n" for line in lines]))
    assert report(*RUN, "ages.jsonl")["timeline"]["start"] == "0001-01-01T00:00:00Z"
    text = " ".join(audit(*RUN, "ages.jsonl").stdout.split())
    assert "0001-01-01 00:00 to 9999-12-31 23:59 UTC" in text


def test_messages_of_another_virtual_host_are_left_out_unless_asked_for(folder: Path) -> None:
    write(folder / "other.jsonl", KEYS, vhost="prod")
    result = audit(*RUN, "other.jsonl")
    assert result.exit_code == 2
    assert "in another virtual host" in result.stderr
    for name in ("*", "prod"):
        assert report(*RUN, "other.jsonl", "--archive-vhost", name)["totals"]["messages"]["all"] == 14


def test_bad_records_are_counted_and_kept_and_too_many_end_the_audit(folder: Path) -> None:
    with (folder / "archive.jsonl").open("a") as file:
        file.write("no json\n" * 3)
    result = audit(*RUN, "archive.jsonl", "--keep-bad", "bad")
    assert result.exit_code == 0
    assert "17 read: 14 counted, 0 skipped, 3 bad" in result.stdout
    kept = [json.loads(line) for path in (folder / "bad").iterdir() for line in path.read_text().splitlines()]
    assert len(kept) == 3
    assert {"source", "offset", "reason"} <= set(kept[0])
    stopped = audit(*RUN, "archive.jsonl", "--max-bad", "2")
    assert stopped.exit_code == 1
    assert "more than 2 bad records" in stopped.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("-t", "orders.bindings", "--no-spark", "nowhere.jsonl"), "nowhere.jsonl: there is no such file or folder"),
        (("-t", "nothing.bindings", "--no-spark", "archive.jsonl"), "nothing.bindings"),
        (("-t", "orders.bindings", "--no-spark", "empty.jsonl"), "empty.jsonl"),
        (("-t", "orders.bindings", "--no-spark", "archive.jsonl", "--fail-under", "110"), "from 0 to 100"),
        (("-t", "orders.bindings", "--no-spark", "archive.jsonl", "--fail-under", "nan"), "from 0 to 100, not NaN"),
        (("-t", "orders.bindings", "--no-spark", "archive.jsonl", "--max-unroutable", "few"), "--max-unroutable"),
        (("-t", "orders.bindings", "--no-spark", "orders.bindings"), "orders.bindings: this is a topology"),
    ],
)
def test_input_that_cannot_be_read_ends_with_2_and_the_reason(
    folder: Path, arguments: tuple[str, ...], told: str
) -> None:
    (folder / "empty.jsonl").write_text("")
    result = audit(*arguments)
    assert result.exit_code == 2, result.output
    assert told in result.stderr
    assert "Traceback" not in result.output


def test_all_prints_lists_in_full(folder: Path) -> None:
    bindings = "".join([f'orders -> mail: "letter.{number}"\n' for number in range(30)])
    (folder / "orders.bindings").write_text(TOPOLOGY + bindings)
    short, whole = audit(*RUN, "archive.jsonl").stdout, audit(*RUN, "archive.jsonl", "--all").stdout
    assert "more; --all shows them" in short
    assert short.count("orders -> mail: 'letter.") < whole.count("orders -> mail: 'letter.") == 30
    assert "--all" not in whole


@pytest.mark.parametrize("options", [["--verify"], ["--compare", "b.bindings"], ["--compare-profile", "4.3"]])
def test_a_comparison_that_a_tally_would_lose_is_refused(folder: Path, options: list[str]) -> None:
    result = audit(*RUN, "archive.jsonl", "--save-tally", "a.tally", *options)
    assert result.exit_code == 2
    assert f"nothing of {options[0]}:" in " ".join(result.output.replace("\u2502", "").split())
    assert not (folder / "a.tally").exists()
