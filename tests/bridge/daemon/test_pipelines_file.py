"""A file with several pipelines: what is read, what is refused, and what its check says, each with its pipeline."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from pathlib import Path

import pytest

from bridge.daemon.config import Config, read_config
from bridge.daemon.pipelines import is_same
from bridge.daemon.probe import check, choose_pipeline, encode_report, format_report
from bridge.endpoint import Finding
from bridge.mistakes import ConfigError
from bridge.pump.policy import Policy
from bridge.schema.configuration import build_bridge_schema
from exchange import InputError
from exchange.text.display import list_some
from tests.bridge.daemon.test_config import TOPOLOGY
from tests.bridge.daemon.test_examples import ENVIRONMENT, EXAMPLES
from tests.bridge.schema.test_configuration import errors
from tests.support.waiting import find_limit

ONE = """
topology = "t.bindings"
[sources.replay]
url = "archive:NAME"
exchange = "events"
[targets.out]
url = "archive:out/NAME"
queues = { all = ".", some = "some" }
"""


def nest(text: str, name: str) -> str:
    """Return the text of a file with one pipeline as the pipeline of this name."""
    return f"[pipelines.{name}]\n" + re.sub(r"^\[(\w)", rf"[pipelines.{name}.\1", text, flags=re.MULTILINE)


def make(*names: str, top: str = "", **changes: str) -> str:
    parts = [nest(changes.get(name, ONE).replace("NAME", name), name) for name in names]
    return "\n".join([top, *parts])


def read(folder: Path, text: str, worker: int | None = None, **environment: str) -> Config:
    (folder / "t.bindings").write_text(TOPOLOGY)
    (folder / "bridge.toml").write_text(text)
    return read_config(folder / "bridge.toml", environment, worker)


def read_mistakes(folder: Path, text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        read(folder, text)
    found = caught.value.mistakes if isinstance(caught.value, ConfigError) else (caught.value,)
    return [str(each).splitlines()[0].replace(f"{folder}/bridge.toml", "") for each in found]


@pytest.mark.parametrize("name", ["rabbitmq-to-kafka", "kafka-to-rabbitmq", "rabbitmq-to-rocketmq", "replay"])
def test_a_file_reads_as_a_pipeline_as_it_does_by_itself(name: str, tmp_path: Path) -> None:
    text = (EXAMPLES / f"{name}.toml").read_text()
    (tmp_path / "password").write_text("hush")
    text = text.replace("/etc/hashstar/rabbitmq-password", str(tmp_path / "password"))
    of_process = re.compile(r"^(?:http|http_hosts|workers|log_format|log_level) = .*\n", re.MULTILINE)
    (tmp_path / "shop.bindings").write_text((EXAMPLES / "shop.bindings").read_text())
    (tmp_path / "one.toml").write_text(text)
    (tmp_path / "several.toml").write_text("".join(of_process.findall(text)) + nest(of_process.sub("", text), "p"))
    one, several = [read_config(tmp_path / f"{each}.toml", ENVIRONMENT) for each in ("one", "several")]
    assert one.parts == (one,)
    [part] = several.parts
    assert (part.name, one.name, several.inlets) == ("p", "", ())
    for key in ("topology", "policy", "ignored", "http", "coverage", "workers", "log_format", "log_level"):
        assert getattr(part, key) == getattr(one, key), key
    assert [each.name for each in part.endpoints] == [each.name for each in one.endpoints]
    assert [each.places for each in part.endpoints] == [each.places for each in one.endpoints]
    assert [str(each).replace("pipelines.p.", "").replace("pipelines.p] ", "") for each in several.warnings] == [
        f"[{each}" if not each.table else str(each) for each in one.warnings
    ]


def test_what_stands_at_the_top_holds_for_each_pipeline_that_says_nothing_else(tmp_path: Path) -> None:
    top = (
        'http = "127.0.0.1:9500"\nworkers = 1\n[policy]\nwindow = 7\ntries = 2\n[dead_letters]\nurl = "archive:dead"\n'
    )
    own = ONE + '[policy]\nwindow = 9\n[dead_letters]\nurl = "archive:own"\n'
    config = read(tmp_path, make("a", "b", top=top, b=own))
    assert config.warnings == ()
    first, second = config.pipelines
    assert (first.policy, second.policy) == (Policy(window=7, tries=2), Policy(window=9, tries=2))
    dead = [
        sorted(place.cluster for place in each.dead_letters.places) for each in (first, second) if each.dead_letters
    ]
    assert [each[0].rpartition("/")[2] for each in dead] == ["dead", "own"]
    assert first.dead_letters is not second.dead_letters
    assert {each.http for each in config.parts} == {config.http}


def test_all_mistakes_of_all_pipelines_are_reported_at_once(tmp_path: Path) -> None:
    wrong = ONE.replace("exchange", "exchnge")
    text = make("a", "b", "c", top='log_level = "loud"\ncolour = 1\n', a=wrong, c=ONE.replace("t.bindings", "gone"))
    found = read_mistakes(tmp_path, text)
    assert [re.sub(r"^:\d+: ", "", each).split(": ")[0] for each in found] == [
        "log_level", "colour", "[pipelines.a.sources.replay] exchnge", "[pipelines.c] topology",
    ]  # fmt: skip
    assert all(re.match(r":\d+: ", each) for each in found)


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (ONE + make("a"), "topology: belongs to one pipeline, and there is [pipelines]: write it in each"),
        ("[pipelines]\n", "pipelines: there is none; write [pipelines.NAME]"),
        ('[pipelines.a]\ntopology = "t.bindings"\n', "there is none; write [pipelines.a.sources.NAME] with url"),
        (
            make("a", a=f"workers = 2\n{ONE}"),
            "[pipelines.a] workers: belongs to the process: write it once, at the top",
        ),
        ("pipelines = 1\n", "pipelines: must be a table, and is 1"),
        (nest(ONE, '"a.b"'), "must have a name of letters, digits, _ and -"),
        (nest(ONE, "x" * 101), "must have a name of letters, digits, _ and -, at most 100"),
        (make("a", a="http = 'off'\n" + ONE), "[pipelines.a] http: belongs to the process"),
        (make("a", top="workers = 2\n"), "workers: all sources are archives"),
        (make("a") + "[pipelines.a]\n", "Cannot declare [pipelines.a] twice"),
        (
            make("a", a=ONE.replace("queues = { all", "queues = { al")),
            "[pipelines.a.targets.out] queues: the topology has no",
        ),
        (make("a", top="[policy]\nwindw = 1\n"), "[policy] windw: is not known here"),
    ],
)
def test_what_is_no_pipeline_is_refused_and_named(tmp_path: Path, text: str, mistake: str) -> None:
    found = read_mistakes(tmp_path, text)
    assert any(mistake in each for each in found), found


def test_the_schema_has_the_same_files_with_several_pipelines(tmp_path: Path) -> None:
    assert errors("bridge", make("a", "b", top="[policy]\nwindow = 7\n")) == []
    assert errors("bridge", ONE) == []
    for wrong in (
        ONE + make("a"),
        "[pipelines]\n",
        nest(ONE, '"a.b"'),
        make("a", a="http = 'off'\n" + ONE),
        "workers = 1\n",
    ):
        assert errors("bridge", wrong), wrong
        with pytest.raises(InputError):
            read(tmp_path, wrong)
    assert "pipelines" not in build_bridge_schema()["definitions"]["pipeline"]["properties"]


def test_a_worker_reads_what_it_shares_and_the_first_alone_the_archives(tmp_path: Path) -> None:
    rabbit = ONE.replace('"archive:NAME"', '"amqp://guest@127.0.0.1:1"\npassword = "x"\nqueue = "q"')
    text = make("a", "b", top="workers = 2\n", b=rabbit)
    sources = [
        [[inlet.source.name for inlet in each.inlets] for each in read(tmp_path, text, worker).pipelines]
        for worker in (1, 2)
    ]
    assert sources == [[["replay"], ["replay"]], [[], ["replay"]]]


def test_a_pipeline_is_the_same_while_the_file_its_secrets_and_its_topology_are(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    rabbit = ONE.replace('"archive:NAME"', '"amqp://guest@127.0.0.1:1"\npassword = { file = "secret" }\nqueue = "q"')
    text = make("a", "b", a=rabbit)

    def changed(new: str) -> list[str]:
        old = read(tmp_path, text)
        later = read(tmp_path, new)
        return [one.name for one, other in zip(old.pipelines, later.pipelines, strict=True) if not is_same(one, other)]

    assert changed(text) == []
    assert changed(f"log_level = 'debug'\n{text}# a remark\n") == []
    assert changed(text.replace("archive:out/b", "archive:other")) == ["b"]
    assert changed(f"[policy]\nwindow = 3\n{text}") == ["a", "b"]
    assert changed(f"[dead_letters]\nurl = 'archive:d'\n{text}") == ["a", "b"]
    old = read(tmp_path, text)
    os.utime(secret, ns=(1, 1))
    assert [is_same(*each) for each in zip(old.pipelines, read(tmp_path, text).pipelines, strict=True)] == [False, True]
    (tmp_path / "t.bindings").write_text(TOPOLOGY + 'events -> some: "key.2"\n')
    later = read_config(tmp_path / "bridge.toml", {})
    assert not any(is_same(*each) for each in zip(old.pipelines, later.pipelines, strict=True))
    (tmp_path / "one.toml").write_text(ONE)
    one = read_config(tmp_path / "one.toml", {})
    assert not is_same(one, one)  # a file with one pipeline is begun anew by each reload


def test_each_finding_names_its_pipeline(tmp_path: Path) -> None:
    rabbit = ONE.replace('"archive:NAME"', '"amqp://guest@127.0.0.1:1"\npassword = "x"\nqueue = "q"')
    text = make("a", "b", a=rabbit, b=rabbit, top='[dead_letters]\nurl = "archive:dead"\n')
    config = read(tmp_path, text)
    report = asyncio.run(check(config, offline=True))
    assert [*format_report(report)][-1] == (
        "the file is right, and nothing was connected to: 2 pipelines, 2 sources, 2 targets, 1 warning"
    )
    [warning] = [each for each in encode_report(report)["findings"] if each["level"] == "warning"]
    assert (warning["pipeline"], warning["table"], warning["endpoint"], warning["key"]) == (
        "b", "pipelines.b.sources.replay", "replay", "queue",
    )  # fmt: skip
    assert "[pipelines.a.sources.replay] reads queue q, too" in warning["text"]
    findings = encode_report(report)["findings"]
    assert all(each.get("pipeline") in ("a", "b") for each in findings if each["table"] != "dead_letters")
    one = asyncio.run(check(choose_pipeline(config, "a"), offline=True))
    assert {each.pipeline for each in one.checked if each.table != "dead_letters"} == {"a"}
    assert one.warnings == 0  # it is told at the other
    with pytest.raises(InputError, match="there is no pipeline 'c'; there are a, b"):
        choose_pipeline(config, "c")
    with pytest.raises(InputError, match="the file of this bridge has one, without a name"):
        choose_pipeline(read(tmp_path, ONE), "a")


def find_headings(text: str, folder: Path) -> list[str]:
    """Return the headings about dead letters, and those of pipelines, of the check of a file."""
    lines = format_report(asyncio.run(check(read(folder, text), offline=True)))
    return [line for line in lines if line.startswith("[") and "sources" not in line and "targets" not in line]


def test_dead_letters_at_the_top_are_checked_once_under_their_own_name(tmp_path: Path) -> None:
    top = '[dead_letters]\nurl = "archive:dead"\n'
    own = f'{ONE}[dead_letters]\nurl = "archive:own"\n'
    strict = f"{ONE}[policy]\nmax_dead_letters = 0.1\n"
    assert find_headings(make("a", "b", top=top), tmp_path) == ["[dead_letters]"]
    assert find_headings(make("a", "b", "c", top=top, b=own), tmp_path) == [
        "[dead_letters]",
        "[pipelines.b.dead_letters]",
    ]
    assert find_headings(make("a", "b", top=top, a=own, b=own), tmp_path) == [
        "[pipelines.a.dead_letters]", "[pipelines.b.dead_letters]",
    ]  # fmt: skip
    assert find_headings(make("a", "b", top=top, b=strict), tmp_path) == [
        "[dead_letters]",
        "[pipelines.a]",
        "[pipelines.b]",
    ]  # fmt: skip, since what waits differs


def test_a_warning_about_shared_dead_letters_stays_with_one_pipeline_alone(tmp_path: Path) -> None:
    top = '[dead_letters]\nurl = "amqp://guest:secret@127.0.0.1:1"\nqueue = "dead"\n'
    config = read(tmp_path, make("a", "b", top=top))
    whole, one = (
        [each for each in asyncio.run(check(some, offline=True)).checked if each.table == "dead_letters"]
        for some in (config, choose_pipeline(config, "a"))
    )
    assert whole == one
    assert any(finding.level == "warning" for each in one for finding in each.findings) == bool(config.warnings)


def test_endpoints_of_many_pipelines_wait_for_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each check of a folder ends when all have begun, as on a storage that is slow."""
    names = [f"p{number}" for number in range(50)]
    begun = threading.Barrier(len(names))

    def check_source(*_: object, **__: object) -> list[Finding]:
        begun.wait()
        return [Finding("ok", "it is there")]

    monkeypatch.setattr("bridge.endpoints.archive.reading.check_source", check_source)
    report = asyncio.run(check(read(tmp_path, make(*names)), seconds=find_limit()))
    assert report.errors == 0


def test_the_verdict_names_the_pipelines_with_errors(tmp_path: Path) -> None:
    gone = ONE.replace("archive:out/NAME", "archive:bridge.toml/NAME")
    names = [f"p{number}" for number in range(9)]
    report = asyncio.run(check(read(tmp_path, make(*names, p4=gone, p7=gone))))
    wrong = {each.pipeline for each in report.checked if each.has_error} - {None}
    assert {"p4", "p7"} <= wrong
    assert f"(in {list_some(sorted(map(str, wrong)), 5)})" in [*format_report(report)][-1]


def test_a_warning_about_a_pipeline_itself_has_a_heading_of_its_own(tmp_path: Path) -> None:
    lines = [*format_report(asyncio.run(check(read(tmp_path, make("a", "b")), offline=True)))]
    heads = [line for line in lines if line.startswith("[")]
    assert heads == [
        f"[pipelines.{name}{table}]" for name in ("a", "b") for table in ("", ".sources.replay", ".targets.out")
    ]
    assert sum("[pipelines.a] dead_letters: there is no [dead_letters]" in line for line in lines) == 1
