"""Configurations: valid ones are read; mistakes are reported with their keys and a way out, and without secrets."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bindings.sources.address import name_cluster
from bridge.cli import hashstar
from bridge.daemon.config import Config, read_config
from bridge.endpoint import Disconnected, Place
from bridge.endpoints.archive.config import ArchiveSource, ArchiveTarget
from bridge.endpoints.rabbitmq.addresses import read_brokers
from bridge.mistakes import ConfigError, KeyMistake
from bridge.pump import keys as pump_keys
from bridge.pump.policy import Backoff, Policy, Unroutable
from bridge.table import Secret, Table
from exchange import InputError
from exchange.text.display import hide_logins

TOPOLOGY = """
vhost "/"
exchange events: topic
queue all
queue some
events -> all: "#"
events -> some: "key.1"
"""

RIGHT = """
topology = "t.bindings"
[sources.replay]
url = "archive:in"
[targets.out]
url = "archive:out"
queues = { all = ".", some = "some" }
"""


def read(tmp_path: Path, text: str, worker: int | None = None, **environment: str) -> Config:
    """Write a configuration and its topology, and read them."""
    (tmp_path / "t.bindings").write_text(TOPOLOGY)
    (tmp_path / "bridge.toml").write_text(text)
    return read_config(tmp_path / "bridge.toml", environment, worker)


def test_keys_that_are_missing_have_their_defaults(tmp_path: Path) -> None:
    config = read(tmp_path, RIGHT)
    assert config.policy == Policy()
    assert [inlet.source.name for inlet in config.inlets] == ["replay"]
    assert {queue: target.name for queue, target in config.targets.items()} == {"all": "out", "some": "out"}
    assert config.http is not None
    assert (config.http.host, config.http.port) == ("127.0.0.1", 9410)
    assert (config.workers, config.coverage, config.log_format, config.log_level) == (1, False, "text", "info")


def test_values_in_the_file_are_read(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        """
        topology = "t.bindings"
        http = "[::1]:0"
        http_hosts = ["bridge.example.com", "bridge"]
        ignore = ["some"]
        log_format = "json"
        log_level = "error"
        coverage = true
        [policy]
        window = 7
        window_bytes = "2 MiB"
        tries = 9
        backoff = "50 ms"
        backoff_most = 3
        unroutable = "drop"
        one_at_a_time = true
        drain = "2 m"
        [sources.replay]
        url = "archive:${WHERE}"
        exchange = "events"
        routing_key = "k"
        speed = 2.0
        since = 2026-11-21
        until = 2026-11-22T01:00:00+01:00
        state = "off"
        [sources.replay.policy]
        window = 3
        rate = 100
        [targets.out]
        url = "archive:out"
        queues = ["all"]
        [dead_letters]
        url = "archive:dead"
        """,
        WHERE="there",
    )
    assert config.policy == Policy(
        7, 2 << 20, 9, Backoff(0.05, 3.0), unroutable=Unroutable.DROP, one_at_a_time=True, drain=120.0
    )
    [inlet] = config.inlets
    assert (inlet.exchange, inlet.routing_key) == ("events", "k")
    assert inlet.policy is not None
    assert (inlet.policy.window, inlet.policy.rate, inlet.policy.tries) == (3, 100.0, 9)
    assert isinstance(inlet.source, ArchiveSource)
    assert inlet.source._path == str(tmp_path / "there")
    day = 86_400_000_000
    assert (inlet.source._selection.window.until or 0) - (inlet.source._selection.window.since or 0) == day
    out = config.targets["all"]
    assert isinstance(out, ArchiveTarget)
    assert out._folders == {"all": "queue=all"}
    assert config.http is not None
    assert (config.http.host, config.http.names) == ("::1", ("bridge.example.com", "bridge"))
    assert config.dead_letters is not None
    assert [endpoint.name for endpoint in config.endpoints] == ["replay", "out", "dead_letters"]


def edit(old: str, new: str) -> str:
    assert old in RIGHT
    return RIGHT.replace(old, new)


MIXED = edit("[targets.out]", '[sources.rabbit]\nurl = "amqp://127.0.0.1"\nqueue = "q"\n[targets.out]')


def mistakes() -> list[tuple[str, str]]:
    """Return configurations with a mistake each, and what its error matches."""
    return [
        ("topology = ", r"bridge.toml:1:12: not TOML"),
        (RIGHT + "[targets.out]", r"not TOML: Cannot declare \[targets\.out\] twice"),
        ("", "topology: is missing; write topology = ..."),
        (edit('"t.bindings"', '"none.bindings"'), "topology: .*none.bindings"),
        (edit('"t.bindings"', "3"), 'topology: must be a text in quotes, and is 3: topology = "..."'),
        ('topology = "t.bindings"', r"sources: there is none; write \[sources.NAME\] with url"),
        (edit('url = "archive:in"', ""), r"\[sources.replay\] url: is missing"),
        (
            edit('url = "archive:in"', "prefetch = 0"),
            r"\[sources.replay\] prefetch: must be a whole number, at least 1",
        ),
        (edit('url = "archive:in"', "until_end = 1"), r"\[sources.replay\] until_end: must be true or false, and is 1"),
        (edit('url = "archive:in"', "queue = 7"), r"\[sources.replay\] queue: must be a text"),
        (edit('"archive:in"', '"amqq://h"'), r"url: must begin with one of amqp:, amqps:, kafka:, rocketmq:, archive:"),
        (edit('"archive:in"', '"archive:"'), r"\[sources.replay\] url: names no file or folder; write url = "),
        (edit('"archive:in"', '"archive:${GONE}"'), "url: the environment has no variable GONE"),
        (edit('"archive:in"', '"archive:in"\nexchange = "evens"'), "exchange: the topology has no exchange 'evens'"),
        (edit('"archive:in"', '"archive:in"\nspede = 1'), r"spede: is not known here; .*did you mean 'speed'\?"),
        (edit('"archive:in"', '"archive:in"\nspeed = 0'), 'speed: must be a number above zero or "max", and is 0'),
        (edit('"archive:in"', '"archive:in"\nsince = "now"'), "since: must be a date, and is 'now': since = 2026-"),
        (edit('"archive:in"', '"archive:in"\nfollow = 1'), "follow: must be true or false, and is 1"),
        (edit(', some = "some"', ""), "targets: queue 'some' has none; add it .* or to ignore"),
        (edit("some =", "other ="), r"\[targets.out\] queues: the topology has no queue 'other'"),
        (edit('"some"', '"../up"'), r"\[targets.out\] queues.some: must be a folder below the archive, '.' for"),
        (edit('"some"', '"_hidden"'), "queues.some: must be a folder"),
        (edit('queues = { all = ".", some = "some" }', ""), r"\[targets.out\] queues: there is none; write"),
        (edit("[targets.out]", "[targets.replay]"), "targets.replay: another endpoint has this name"),
        (RIGHT + 'rotate = "1 year"', "rotate: must be a number of seconds or a text such as '30 s' or '5 m', and is"),
        (RIGHT + "rotate_bytes = true", "rotate_bytes: must be a number of bytes or a text such as '64 MiB'"),
        (RIGHT + '[targets.two]\nurl = "archive:o"\nqueues = ["all"]', "queue 'all' has a target already, out"),
        ('ignore = ["all"]' + RIGHT, "ignore: queue 'all' has a target, out; it cannot be both"),
        ('ignore = ["none"]' + RIGHT, "ignore: the topology has no queue 'none'"),
        ("workers = 0" + RIGHT, "workers: must be a whole number, at least 1, and is 0"),
        ("workers = 2" + RIGHT, "workers: all sources are archives, which one worker reads; write workers = 1"),
        ('http = "h:\u00b2"' + RIGHT, 'http: must be "HOST:PORT" or "off"'),
        ('http = "9410"' + RIGHT, 'http: must be "HOST:PORT" or "off", and is \'9410\''),
        ('log_format = "yaml"' + RIGHT, "log_format: must be one of text, json, and is 'yaml'"),
        ('log_level = "warn"' + RIGHT, r"log_level: must be one of .*, and is 'warn'; did you mean 'warning'\?"),
        (edit('"archive:in"', '"kafka://h:1"\nqueue = "a"'), r"queue: is not known here; "),
        (edit('url = "archive:in"', "spede = 1"), r"spede: is not known here; did you mean 'speed'\?"),
        ("polcy = 1" + RIGHT, r"polcy: is not known here; .*did you mean 'policy'\?"),
        (RIGHT + "[policy]\nwindow = 0", r"\[policy\] window: must be a whole number, at least 1"),
        (RIGHT + "[policy]\nrate = inf", r"\[policy\] rate: must be a number above zero, and is inf"),
        (RIGHT + f"[policy]\nrate = {10**400}", r"\[policy\] rate: must be a number above zero, and is 1000"),
        (RIGHT + "[policy]\nwindow_bytes = inf", r"\[policy\] window_bytes: must be a number of bytes"),
        (RIGHT + f'[policy]\nwindow_bytes = "{10**400} KiB"', r"\[policy\] window_bytes: must be a number of bytes"),
        (RIGHT + '[policy]\nunroutable = "keep"', r"\[policy\] unroutable: must be one of dead-letter, hold, drop"),
        (RIGHT + "[policy]\nrate = -1", r"\[policy\] rate: must be a number above zero, and is -1"),
        (RIGHT + "[policy]\nbackoff = '1 m'", r"\[policy\] backoff: must be at most backoff_most, which is 30 s"),
        (
            RIGHT + "[policy]\nreconnect = 3\nreconnect_most = 2",
            r"reconnect: must be at most reconnect_most, which is 2",
        ),
        (RIGHT + "[policy]\nretries = 1", r"\[policy\] retries: is not known here; .*did you mean 'tries'\?"),
        (RIGHT + "[sources.replay.policy]\ntries = 1.5", r"\[sources.replay.policy\] tries: must be a whole number"),
        (edit("topology =", "topolgy ="), r"topolgy: is not known here; .*did you mean 'topology'\?"),
        (edit("[sources.replay]", "[source.replay]"), r"source: is not known here; .*did you mean 'sources'\?"),
        (edit("[targets.out]", "[target.out]"), r"target: is not known here; .*did you mean 'targets'\?"),
        (edit('url = "archive:in"', 'ulr = "archive:in"'), r"ulr: is not known here; .*did you mean 'url'\?"),
        (edit("queues =", "queus ="), r"\[targets.out\] queus: is not known here; .*did you mean 'queues'\?"),
        (
            'profile = "rabbitmq-4"' + RIGHT,
            "profile: must be one of .*, or a release from 3.10 on, as 4.1.3, 4.1 or 4.1.x, and is 'rabbitmq-4'",
        ),
        ('profile = "kafka"' + RIGHT, "profile: must be one of rabbitmq-3.10, .*, and is 'kafka'$"),
        ('vhost = "/none"' + RIGHT, "vhost: .*t.bindings has no virtual host '/none'; it has '/'$"),
        (MIXED.replace('queue = "q"', 'que = "q"'), r"que: is not known here; .*did you mean 'queue'\?"),
        (
            MIXED.replace('queue = "q"', 'queue = "q"\nprefetch = 100000'),
            "prefetch: must be a whole number, at least 1 and at most 65,535, and is 100000",
        ),
        (MIXED.replace("amqp://127.0.0.1", "amqp"), r"\[sources.rabbit\] url: must begin with one of amqp:"),
        (MIXED.replace("amqp://127.0.0.1", "amqp:"), r"\[sources.rabbit\] url: not an AMQP address; write amqp://USER"),
        (MIXED.replace("amqp://127.0.0.1", "amqp://"), r"\[sources.rabbit\] url: an address without a host"),
        (MIXED.replace("amqp://127.0.0.1", "amqp://u:p@"), r"\[sources.rabbit\] url: an address without a host"),
        (RIGHT + '[dead_letters]\nurl = "amqp://h"\nqueu = "d"', r"queu: is not known here; .*did you mean 'queue'\?"),
        ("dead_letters = 1" + RIGHT, r"dead_letters: must be a table, and is 1: \[dead_letters\]"),
        ("sources = 1", r"topology: is missing"),
        (
            MIXED.replace("amqp://127.0.0.1", "amqp://u:p@127.0.0.1").replace(
                "[sources.rabbit]", '[sources.rabbit]\nuser = "v"'
            ),
            r"\[sources.rabbit\] user: is given twice, here and in url; remove one of them",
        ),
        (
            MIXED.replace("amqp://127.0.0.1", "amqp://u:p@127.0.0.1").replace(
                "[sources.rabbit]", '[sources.rabbit]\npassword = "v"'
            ),
            r"\[sources.rabbit\] password: is given twice",
        ),
        (MIXED.replace("amqp://", "ampq://", 1), r"and begins with 'ampq'; did you mean 'amqp'\?"),
    ]


@pytest.mark.parametrize(("text", "error"), mistakes())
def test_a_mistake_is_reported_with_its_key_and_a_way_out(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/bridge.toml:")
    assert re.search(error, str(caught.value), re.MULTILINE)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none.toml: cannot be read: No such file"):
        read_config(tmp_path / "none.toml")


def test_paths_are_relative_to_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    [inlet] = read(tmp_path, RIGHT).inlets
    assert isinstance(inlet.source, ArchiveSource)
    assert inlet.source._path == str(tmp_path / "in")
    assert inlet.source._settled_path == tmp_path / ".in.replay.replay.json"


def test_each_worker_has_its_port_and_only_the_first_reads_archives(tmp_path: Path) -> None:
    text = "workers = 3\n" + MIXED
    for worker, port, sources in ((1, 9410, ["replay", "rabbit"]), (3, 9412, ["rabbit"])):
        config = read(tmp_path, text, worker)
        assert config.http is not None
        assert config.http.port == port
        assert [inlet.source.name for inlet in config.inlets] == sources


# What the file alone shows to be unwise, or to go round for ever.


def test_a_future_problem_is_a_warning_with_its_key(tmp_path: Path) -> None:
    assert [str(each).partition(":")[0] for each in read(tmp_path, RIGHT).warnings] == ["dead_letters"]
    whole = MIXED + '[dead_letters]\nurl = "archive:dead"\n'
    assert read(tmp_path, whole).warnings == ()
    [warned] = read(tmp_path, whole.replace('queue = "q"', 'queue = "q"\noffset = "last"')).warnings
    assert str(warned).startswith("[sources.rabbit] offset: without offsets = ")


def test_a_certain_loop_is_refused_and_a_possible_loop_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ArchiveSource, "places", frozenset({Place("archive", "/x", "folder")}), raising=False)
    monkeypatch.setattr(ArchiveTarget, "places", frozenset({Place("archive", "/x", "folder")}), raising=False)
    with pytest.raises(
        InputError, match=r"\[targets.out\] queues: its folder is what \[sources.replay\] reads.*replay -> replay"
    ):
        read(tmp_path, RIGHT)
    filtered = edit('url = "archive:in"', 'url = "archive:in"\nselector = "a = 1"')
    assert "unless its filter leaves them out" in str(read(tmp_path, filtered).warnings[0])
    monkeypatch.setattr(ArchiveTarget, "places", frozenset(), raising=False)
    dead = '[dead_letters]\nurl = "archive:dead"\n'
    assert read(tmp_path, RIGHT + dead).warnings == ()
    monkeypatch.setattr(ArchiveTarget, "places", frozenset({Place("archive", "/x", "folder")}), raising=False)
    ignored = 'ignore = ["all", "some"]' + RIGHT[: RIGHT.index("[targets")] + dead
    with pytest.raises(InputError, match=r"dead_letters: its folder is what \[sources.replay\] reads"):
        read(tmp_path, ignored)


def test_a_source_that_reads_the_folder_of_one_queue_of_a_target_is_a_loop(tmp_path: Path) -> None:
    for queues, folder, there in (
        ('["all", "some"]', "out/queue=all", True), ('{ all = "a", some = "b/c" }', "out/b/c", True),
        ('{ all = "a", some = "b/c" }', "out/b", True), ('{ all = "a", some = "." }', "out", True),
        ('{ all = "a", some = "b/c" }', "out/d", False), ('["all", "some"]', "out/queue=other", False),
    ):  # fmt: skip
        text = edit('url = "archive:in"', f'url = "archive:{folder}"')
        text = text[: text.index("[targets")] + f'[targets.out]\nurl = "archive:out"\nqueues = {queues}\n'
        with pytest.raises(InputError, match="go round for ever") if there else nullcontext():
            read(tmp_path, text)


def test_sources_that_disturb_each_other_are_a_warning_in_one_pipeline_as_between_two(tmp_path: Path) -> None:
    """Within a pipeline there was no word, but for queues of RabbitMQ."""
    for url, one, other, key in (
        ("archive:in", 'state = ".at.json"', 'state = "./.at.json"', "state"),
        ("archive:in", 'state = "1.json"', 'state = "2.json"', ""),
        ("archive:in", "", "", ""),
        ("amqp://h", 'queue = "a"\noffsets = "at"', 'queue = "b"\noffsets = "at"', "offsets"),
        ("amqp://h", 'queue = "a"', 'queue = "a"', "queue"),
        ("amqp://h", 'queue = "a"', 'queue = "b"', ""),
        ("kafka://h", 'topic = "a"\ngroup = "g"', 'topic = "a"\ngroup = "g"', "group"),
        ("kafka://h", 'topic = "a"\ngroup = "g"', 'topic = "b"\ngroup = "g"', "group"),
        ("kafka://h", 'topic = "a"', 'topic = "a"', ""),
        ("rocketmq://h", 'topic = "a"\ngroup = "g"', 'topic = "b"\ngroup = "g"', "group"),
    ):
        replay = RIGHT[RIGHT.index("[sources") : RIGHT.index("[targets")]
        tables = [f'[sources.{name}]\nurl = "{url}"\n{more}\n' for name, more in (("s1", one), ("s2", other))]
        top, rest = RIGHT.split(replay)
        warned = read(tmp_path, top + "".join(tables) + rest).warnings
        found = [(each.table, each.key) for each in warned if "[sources.s1]" in each.text]
        assert found == ([("sources.s2", key)] if key else []), (url, one, other)


def test_a_host_of_hosts_is_refused_wherever_one_in_url_is(tmp_path: Path) -> None:
    for host, right in (
        ("h:65535", True), ("[::1]:65535", True), ("h", True), ("h:65536", False), ("[::1]:99999", False),
        ("[::x]", False), ("a b", False), ("a..b", False),
    ):  # fmt: skip
        for text in (
            MIXED.replace("amqp://127.0.0.1", f"amqp://{host}"),
            MIXED.replace('"q"', f'"q"\nhosts = ["{host}"]'),
        ):
            with nullcontext() if right else pytest.raises(InputError, match=r"hosts|url"):
                read(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read(tmp_path, MIXED.replace('"q"', '"q"\nhosts = ["h:70000", "h", "h:80000"]'))
    assert [host in str(caught.value) for host in ("'h:70000'", "'h:80000'", "'h'")] == [True, True, False]


def test_a_setting_that_does_nothing_without_another_one_is_a_warning(tmp_path: Path) -> None:
    kafka, rocketmq = 'url = "kafka://h"\ntopic = "t"\n', 'url = "rocketmq://h"\ntopic = "t"\n'
    for endpoint, setting, needed, key in (
        (kafka, 'password = "p"', 'user = "u"', "password"),
        (kafka, 'mechanism = "SCRAM-SHA-256"', 'user = "u"\npassword = "p"', "mechanism"),
        (kafka, 'librdkafka = { "sasl.password" = "p" }', "", "librdkafka.sasl.password"),
        (
            kafka,
            'librdkafka = { "ssl.endpoint.identification.algorithm" = "none" }',
            "tls = true",
            "librdkafka.ssl.endpoint.",
        ),
        (
            kafka,
            'librdkafka = { "sasl.mechanism" = "SCRAM-SHA-512" }',
            'user = "u"\npassword = "p"',
            "librdkafka.sasl.mech",
        ),
        (kafka, 'reply_topics = ["r"]', '[replies.out]\ntopic = "answers"', "reply_topics"),
        (rocketmq, 'secret_key = "s"', 'access_key = "a"', "secret_key"),
        (rocketmq, 'security_token = "s"', 'access_key = "a"\nsecret_key = "s"', "security_token"),
        (rocketmq, "verify = false", "tls = true", "verify"),
        (kafka, 'tags = "paid |"', "", "tags"),
        (rocketmq, 'subscription = "paid | shipped"', "", "subscription"),
    ):
        text = edit('url = "archive:in"\n', endpoint + setting + "\n")

        def warned(text: str, key: str = key) -> list[str]:
            return [each.key for each in read(tmp_path, text).warnings if each.key.startswith(key)]

        assert len(warned(text)) == 1, setting
        if needed.startswith("[replies"):
            text = text.replace(
                'url = "archive:out"\nqueues = { all = ".", some = "some" }',
                'url = "kafka://o"\nqueues = ["all", "some"]',
            )
            assert warned(text + needed) == []
        elif needed:
            assert warned(text.replace(setting, f"{setting}\n{needed}")) == []
    separated = read(tmp_path, edit('url = "archive:in"', 'url = "archive:in"\ntags = "paid || shipped"'))
    assert [each for each in separated.warnings if each.key == "tags"] == []


def test_the_error_of_a_loop_shows_the_line_of_the_target(tmp_path: Path) -> None:
    text = edit('url = "archive:in"', 'url = "archive:out"')
    with pytest.raises(InputError, match="go round for ever") as refused:
        read(tmp_path, text)
    line = text.splitlines().index('queues = { all = ".", some = "some" }') + 1
    assert f"bridge.toml:{line}: [targets.out] queues: its " in str(refused.value)
    assert str(refused.value).endswith("\n    queues = { all = ..., some = ... }\n    ^^^^^^")


def test_the_names_of_this_machine_are_one_broker_for_loops(tmp_path: Path) -> None:
    names = ("localhost", "127.0.0.1", "[::1]", "LOCALHOST")
    for one in names:
        for other, there in (*[(f"{name}:9092", True) for name in names], (f"{one}:9093", False), ("h:9092", False)):
            text = edit('url = "archive:in"', f'url = "kafka://{one}:9092"\ntopic = "t"\ngroup = "g"')
            text = text[: text.index("[targets")] + (
                f'[targets.out]\nurl = "kafka://{other}"\nqueues = {{ all = "t", some = "t" }}\n'
            )
            with pytest.raises(InputError, match="go round for ever") if there else nullcontext():
                read(tmp_path, text)


def test_an_address_names_its_cluster_by_its_host_and_port() -> None:
    for host in ("localhost", "127.0.0.1", "[::1]", "::1", "Localhost"):
        assert name_cluster(f"{host}:5672/%2F") == "localhost:5672/%2F"
    for other in ("localhost.example:1", "127.0.0.10:1", "::1:2:3", "[::1:2]:3", "h:1/localhost"):
        assert name_cluster(other) == other


def test_no_mistake_of_an_endpoint_hides_another(tmp_path: Path) -> None:
    url = "url = '{}://h:99999'\n".format
    for old, table, keys in (
        ('url = "archive:in"', url("amqp") + "queue = 'q'\nprefetch = 99999\noffset = 'x'\nexclusive = 3\n"
         "hosts = ['h:99999']\nmanagement = 'x'\nselector = 'a ='",
         "url prefetch offset exclusive hosts management selector"),
        ('url = "archive:in"', "url = 'amq://h'\nprefetch = 99999\nexclusive = 3", "url prefetch exclusive"),
        ('url = "archive:in"', url("kafka") + "topic = 'a b'\ntopics = ['t']\nuser = 'u'\nca_file = 'x'\n"
         "until_end = 3\nlibrdkafka = { 'linger.mss' = 1, 'group.id' = 'x', a = [1] }",
         "url topic topics password ca_file until_end librdkafka.linger.mss librdkafka.group.id librdkafka.a"),
        ('url = "archive:in"', url("rocketmq") + "topics = ['t', 't']\naccess_key = 'a'\nca_file = 'x'\noffset = 'z'",
         "url topics secret_key ca_file offset"),
        (OUT, url("amqp") + "queues = { all = 3, some = { x = 'y' } }\nunrouted_after = 'x'\nhosts = ['h:99999']",
         "url queues.all queues.some unrouted_after hosts"),
        (OUT, url("kafka") + "queues = { all = 3, some = 4 }\nuser = 'u'\nlibrdkafka = { x = 1, y = 1 }",
         "url queues.all queues.some password librdkafka.x librdkafka.y"),
        (OUT, url("rocketmq") + "queues = { all = 3, some = 4 }\naccess_key = 'a'",
         "url queues.all queues.some secret_key"),
        (OUT, f"{OUT}\n[dead_letters]\n{url('kafka')}topic = 'a b'\nuser = 'u'", "url topic password"),
    ):  # fmt: skip
        with pytest.raises(ConfigError) as caught:
            read(tmp_path, edit(old, table))
        found = [each.where[1] for each in caught.value.mistakes if isinstance(each, KeyMistake)]
        assert sorted(found) == sorted(keys.split()), table


OUT = 'url = "archive:out"\nqueues = { all = ".", some = "some" }'


def test_each_setting_of_a_source_s_policy_applies_there_or_is_a_warning(tmp_path: Path) -> None:
    values = {"window_bytes": '"1 MiB"', "unroutable": '"drop"', "one_at_a_time": "true", "max_dead_letters": "0.9"}
    for key in pump_keys.POLICY.names:
        setting = f"policy = {{ {key} = {values.get(key, '1')} }}"
        text = edit('url = "archive:in"', f'url = "archive:in"\n{setting}')
        warned = [each.key for each in read(tmp_path, text).warnings if each.table == "sources.replay.policy"]
        applies = key in ("window", "window_bytes", "rate", "max_dead_letters")
        assert warned == ([] if applies else [key])


# Secrets.


def table(values: dict[str, Any], **environment: str) -> Table:
    return Table(values, "bridge.toml", "targets.kafka", environment)


def test_a_secret_comes_from_the_environment_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hush\n")
    for value in ("hush", "${S}", {"env": "S"}, {"file": str(tmp_path / "secret")}):
        found = table({"password": value}, S="hush").secret("password")
        assert found == "hush"
        assert "hush" not in repr(found)
    assert table({}).secret("password") is None


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"env": "GONE"}, "the environment has no variable GONE"),
        ({"file": "/none"}, "the file /none cannot be read"),
        ({"vault": "hush"}, r'must be a text, \{ env = "NAME" \} or'),
        (["hush"], "must be a text"),
        (7, "must be a text"),
    ],
)
def test_an_error_about_a_secret_does_not_contain_it(value: Any, error: str) -> None:
    with pytest.raises(InputError, match=error) as caught:
        table({"password": value}).secret("password")
    assert "hush" not in str(caught.value)


def test_secrets_stay_secret_in_what_is_made_of_them() -> None:
    assert repr({"password": Secret("hush")}) == "{'password': '***'}"


def test_a_secret_is_read_again_for_each_connection_and_an_unreadable_one_is_a_lost_connection(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("old\n")
    environment = {"S": "old"}
    from_file = table({"password": {"file": str(file)}}).secret("password")
    from_environment = Table({"password": {"env": "S"}}, "bridge.toml", environment=environment).secret("password")
    written = table({"password": "old"}).secret("password")
    assert from_file is not None
    assert from_environment is not None
    assert written is not None
    file.write_text("new\n")
    environment["S"] = "new"
    assert (from_file.current(), from_environment.current(), written.current()) == ("new", "new", "old")
    troubles: list[tuple[Callable[[], Any], str]] = [
        (file.unlink, "No such file"), (lambda: file.write_text("\n"), "is empty"),
        (lambda: file.write_bytes(b"gu\0est"), "has a NUL"), (lambda: file.write_bytes(b"x" * 65_537), "65,536 bytes"),
    ]  # fmt: skip
    for trouble, error in troubles:
        trouble()
        with pytest.raises(Disconnected, match=rf"password: the file {file}.* {error}"):
            from_file.current()


def test_each_connection_to_rabbitmq_uses_the_current_password(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("old")
    brokers = read_brokers(
        "n", "amqp://u@h", Table({"password": {"file": str(file)}, "hosts": ["other"]}, "bridge.toml")
    )
    for password in ("new", "newer"):
        file.write_text(password)
        assert [each.credentials.password for each in brokers] == [password] * 2
    assert [each.host for each in brokers] == ["h", "other"]
    file.unlink()
    with pytest.raises(Disconnected, match="cannot be read: No such file"):
        list(brokers)


def test_further_hosts_have_ports_ipv6_addresses_and_certificates_of_their_own() -> None:
    hosts = ["other", "other:5673", "[::1]", "[::1]:5674"]
    brokers = read_brokers("n", "amqps://u:p@h:5671", Table({"hosts": hosts}, "bridge.toml"))
    assert [(each.host, each.port, each.ssl_options.server_hostname) for each in brokers] == [
        ("h", 5671, "h"), ("other", 5671, "other"), ("other", 5673, "other"),
        ("::1", 5671, "::1"), ("::1", 5674, "::1"),
    ]  # fmt: skip
    table = Table({"hosts": hosts, "server_name": "cluster"}, "bridge.toml")
    assert {each.ssl_options.server_hostname for each in read_brokers("n", "amqps://u:p@h", table)} == {"cluster"}
    for wrong in ("::1", "h:", "h:x", "[::1", "h:5672:1"):
        with pytest.raises(InputError, match="must be HOST"):
            read_brokers("n", "amqp://u:p@h", Table({"hosts": [wrong]}, "bridge.toml"))


@pytest.mark.parametrize("password", ["hush", "hush/hush", "h@hush", "a:hush", "hu sh'\"hush"])
def test_a_value_is_shown_without_the_password_of_an_address(password: str) -> None:
    with pytest.raises(InputError, match=r"\*\*\*@h") as caught:
        pump_keys.TRIES.read(table({"tries": f"amqp://u:{password}@h/v"}))
    assert "hush" not in str(caught.value)
    if " " not in password:
        assert hide_logins(f"no amqp://u:{password}@h/v, sorry") == "no amqp://***@h/v, sorry"


def test_tables_and_lists_are_named_and_not_shown() -> None:
    """A password may be in one, whatever its key is."""
    wrong = {"password": "hush"}
    read: Callable[[Table], object]
    for value, read in (
        (wrong, lambda table: table.text("k")),
        ([wrong], lambda table: table.table("k")),
        ([wrong], lambda table: table.texts("k")),
        ({"queue": wrong}, lambda table: table.mapping("k", lambda _: int("x"), "a text")),
    ):
        with pytest.raises(InputError, match=r"a list|a table") as caught:
            read(Table({"k": value}, "bridge.toml"))
        assert "hush" not in str(caught.value)


def test_a_value_with_the_name_of_a_secret_is_not_shown(tmp_path: Path) -> None:
    text = MIXED.replace('"amqp://127.0.0.1"', '"kafka://h"\ntopic = "t"\nlibrdkafka = { "sasl.password" = ["hush"] }')
    with pytest.raises(InputError, match=r"librdkafka.sasl.password: must be .*, and is '\*\*\*'"):
        read(tmp_path, text)


URL = "amqp://guest:hush-hush@127.0.0.1:1"


@pytest.mark.parametrize(
    "text",
    [
        MIXED.replace("amqp://127.0.0.1", f"{URL}/vhost?nonsense=1"),
        MIXED.replace("amqp://127.0.0.1", URL).replace('queue = "q"', "queu = 1"),
        MIXED.replace("amqp://127.0.0.1", URL.replace("amqp", "ampq")),
        MIXED.replace("amqp://127.0.0.1", URL.replace(":1", ":port")),
        MIXED.replace('"amqp://127.0.0.1"', f'["{URL}"]'),
    ],
)
def test_a_wrong_address_is_reported_without_its_password(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "bytes_"), [("日" * 85, 771), ("x" * 250, 256), ("/" * 84, 258)], ids=["quoted", "long", "slashes"]
)
def test_a_queue_whose_folder_no_file_system_makes_is_refused(tmp_path: Path, name: str, bytes_: int) -> None:
    text = f"""
    topology = "t.bindings"
    ignore = ["all", "some"]
    [sources.replay]
    url = "archive:in"
    [targets.out]
    url = "archive:out"
    queues = ["{name}"]
    """
    with pytest.raises(
        InputError, match=rf"\[targets.out\] queues: the folder of queue .* name of {bytes_} bytes.*queues = "
    ):
        read(tmp_path, text)
    longest = text.replace(f'["{name}"]', '["' + "x" * 249 + '"]')
    with pytest.raises(InputError, match="the topology has no queue"):  # its folder is well
        read(tmp_path, longest)


@pytest.mark.parametrize(
    ("queues", "url", "key"),
    [
        ('{ all = "a/LONG", some = "." }', "archive:out", "queues"),
        ('{ all = "PATH", some = "." }', "archive:out", "queues"),
        ('{ all = "a\\u0000b", some = "." }', "archive:out", "queues"),
        ('{ all = "a", some = "." }', "archive:LONG/out", "url"),
        ('{ all = "a", some = "." }', "archive:out\\u0000", "url"),
    ],
    ids=["name", "path", "nul", "url", "nul in url"],
)
def test_an_impossible_folder_is_refused_with_its_key(tmp_path: Path, queues: str, url: str, key: str) -> None:
    text = RIGHT.replace('{ all = ".", some = "some" }', queues).replace("archive:out", url)
    text = text.replace("LONG", "x" * 256).replace("PATH", "/".join(["x" * 200] * 20))
    with pytest.raises(InputError, match=rf"\[targets.out\] {key}"):
        read(tmp_path, text)


def test_a_target_that_a_source_follows_is_refused(tmp_path: Path) -> None:
    text = RIGHT.replace('url = "archive:in"', 'url = "archive:out"\nfollow = true')
    with pytest.raises(InputError, match=r"\[targets.out\] url: source replay follows this folder"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            'url = "archive:in"\nsince = "2026-01-01"\nspeed = -1\ncolumns = { exch = "a" }\nstate = 5',
            {"since", "speed", "columns", "state"},
        ),
        (
            'url = "amqp://h"\nqueue = "q"\n[sources.a.oauth]\ntoken_url = "ftp://x"\nclient_id = 5\nscop = "s"',
            {"oauth] token_url", "oauth] client_id", "oauth] scop"},
        ),
        (
            'url = "amqp://h"\nqueue = "q"\nuser = "u"\noauth = { token = { file = "none" }, client_auth = "body" }',
            {"user", "oauth] token", "oauth] client_auth"},
        ),
        (
            'url = "amqp://h"\nexchange = 5\nprefetch = "x"\npolicy = { window_bytes = 5, tries = "x" }',
            {"exchange", "queue", "prefetch", "policy] window_bytes", "policy] tries"},
        ),
        ('url = "amqq://h"\nexchange = 5', {"exchange", "url"}),
        ("exchange = 5\nfollow = 1", {"exchange", "follow", "url"}),
    ],
    ids=["archive", "token url", "login", "endpoint", "system", "no system"],
)
def test_a_mistake_that_ends_the_reading_of_a_table_hides_no_other(
    tmp_path: Path, source: str, expected: set[str]
) -> None:
    rest = '[targets.out]\nurl = "archive:out"\nqueues = { all = "." }\nrotate = "x"\ngather = -1\n'
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, f'topology = "t.bindings"\nvhost = 5\nprofile = 6\n[sources.a]\n{source}\n{rest}')
    keys = {
        f"{table.removeprefix('sources.a').removeprefix('.')}] {key}".removeprefix("] ")
        for each in raised.value.mistakes
        if isinstance(each, KeyMistake)
        for table, key in [each.where]
    }
    assert keys == expected | {"vhost", "profile", "targets.out] rotate", "targets.out] gather"}
    text = 'topology = "t.bindings"\n[sources.a]\nurl = "archive:in"\nexchange = "none"\nstate = 5\n'
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, text + '[targets.out]\nurl = "archive:out"\nqueues = ["all", "some"]')
    assert [each.where[1] for each in raised.value.mistakes if isinstance(each, KeyMistake)] == ["exchange", "state"]


def test_all_mistakes_of_a_configuration_are_reported_by_the_commands_a_line_each(tmp_path: Path) -> None:
    (tmp_path / "t.bindings").write_text("exchange x: fanout\nqueue a\nqueue b\nx -> a, b\n")
    (tmp_path / "bridge.toml").write_text("""\
topology = "t.bindings"
polcy = 1
workers = 0
log_level = "warn"
http = "9410"
[policy]
window = 0
rate = "fast"
retries = 1
[sources.one]
url = "archive:in"
speed = 0
follow = 1
[sources.two]
url = "amqq://h"
[targets.out]
url = "archive:out"
queues = { none = ".", nobody = "n" }
[dead_letters]
url = "archive:${GONE}"
""")
    for arguments in (["check", "--offline"], ["run"]):
        result = CliRunner().invoke(hashstar, ["bridge", *arguments, str(tmp_path / "bridge.toml")])
        assert result.exit_code == 2
        start = f"hashstar: {tmp_path}/bridge.toml:"
        lines = result.stderr.splitlines()
        assert all(line.startswith(start) for line in lines[::3]), result.stderr
        assert all(set(line.strip()) == {"^"} for line in lines[2::3]), result.stderr
        assert [": ".join(line.removeprefix(start).split(": ")[:2]) for line in lines[::3]] == [
            "2: polcy", "5: http", "3: workers", "4: log_level", "7: [policy] window", "8: [policy] rate",
            "9: [policy] retries", "12: [sources.one] speed", "13: [sources.one] follow", "15: [sources.two] url",
            "18: [targets.out] queues", "18: [targets.out] queues", "20: [dead_letters] url",
        ]  # fmt: skip
    text = "topology = 't.bindings'\n[sources.one]\nurl = 'archive:in'\n"
    (tmp_path / "bridge.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_config(tmp_path / "bridge.toml", {})
    assert [str(each).partition("toml:")[2].partition(";")[0].strip() for each in caught.value.mistakes] == [
        "targets: queue 'a' has none", "targets: queue 'b' has none",
    ]  # fmt: skip


def test_a_longest_wait_that_is_written_alone_may_be_below_the_usual_shortest_one(tmp_path: Path) -> None:
    policy = read(tmp_path, f"{RIGHT}[policy]\nbackoff_most = '10 ms'").policy
    assert policy.backoff.delay(1, 0.0) == policy.backoff.delay(9, 0.0) == 0.01


WHOLE_POLICY = {
    "window": "7", "window_bytes": '"2 MiB"', "tries": "9", "backoff": "0.5", "backoff_most": "3", "reconnect": "0.25",
    "reconnect_most": "8", "unroutable": '"drop"', "one_at_a_time": "true", "rate": "50", "drain": "40",
    "stalled_after": "70", "max_hops": "3", "give_up_after": "600",
    "max_dead_letters": "0.2",
}  # fmt: skip
"""Each key of a policy, and a value that is not its default."""


def test_a_policy_of_a_source_has_of_the_general_one_what_it_does_not_say_itself(tmp_path: Path) -> None:
    assert {key.name for key in pump_keys.POLICY.keys} == WHOLE_POLICY.keys()
    general = "".join([f"{name} = {value}\n" for name, value in WHOLE_POLICY.items()])
    for name, value in WHOLE_POLICY.items():
        own = f"{RIGHT.partition('[targets')[0]}[sources.replay.policy]\n{name} = {value}\n"
        rest = "[targets" + RIGHT.partition("[targets")[2]
        alone = read(tmp_path, own + rest).inlets[0].policy
        both = read(tmp_path, f"{own}{rest}[policy]\n{general}")
        assert alone not in (None, Policy())
        assert both.inlets[0].policy == both.policy
        without = "".join([f"{other} = {one}\n" for other, one in WHOLE_POLICY.items() if other != name])
        assert read(tmp_path, f"{own}{rest}[policy]\n{without}").inlets[0].policy == both.policy
