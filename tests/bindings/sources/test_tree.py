"""Which files below folders are topologies, and what a glob pattern stands for."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from bindings.sources import tree
from bindings.sources.tree import SkippedFile, TopologyFile, asks_for_several, find_files, find_reason_to_skip
from exchange.errors import InputError

QUEUE = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
BINDING = {"source": "x", "destination": "q", "destination_type": "queue", "routing_key": "a", "arguments": {}}
POLICY = {"name": "p", "pattern": "", "definition": {}}
NO_DEFINITIONS = "no definitions of RabbitMQ"


def names_below(folder: Path) -> list[str]:
    return [Path(file.name).relative_to(folder).as_posix() for file in find_files([str(folder)])]


def touch(*files: Path) -> None:
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def test_a_folder_stands_for_its_topology_files_in_order(tmp_path: Path) -> None:
    """Those that may be topologies by their names: hidden folders and node_modules are not entered."""
    touch(
        *(tmp_path / name for name in ("b.bindings", "a/z.json", "a/y.json.gz", "a/x/w.bindings.gz", "c.txt", "json")),
        *(tmp_path / name for name in (".git/b.bindings", "node_modules/p/package.json", "a/.venv/b.json", ".c.json")),
    )
    assert names_below(tmp_path) == [".c.json", "b.bindings", "a/y.json.gz", "a/z.json", "a/x/w.bindings.gz"]
    assert {file.folder for file in find_files([str(tmp_path)]) if isinstance(file, TopologyFile)} == {str(tmp_path)}


def test_a_link_to_a_folder_is_not_followed(tmp_path: Path) -> None:
    """So a link to a parent is no endless tree; a link to a file is one of its names."""
    touch(tmp_path / "a.bindings")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "b.bindings").symlink_to(tmp_path / "a.bindings")
    assert names_below(tmp_path) == ["a.bindings", "b.bindings"]


def test_a_file_is_yielded_once_by_however_many_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is named first; its own name counts as named by the user."""
    touch(tmp_path / "a.bindings", tmp_path / "b.bindings")
    monkeypatch.chdir(tmp_path)
    found = list(find_files(["b.bindings", ".", str(tmp_path), "*.bindings", "./b.bindings", "-", "-"]))
    assert found == [TopologyFile("b.bindings"), TopologyFile("a.bindings", "."), TopologyFile("-")]


def test_a_pattern_is_expanded_unless_it_is_the_name_of_a_file(tmp_path: Path) -> None:
    """As a shell with globstar does; files that it matches are named by the user."""
    touch(tmp_path / "a/b/c.bindings", tmp_path / "a/d.bindings", tmp_path / "e[1].bindings", tmp_path / "e1.bindings")
    found = list(find_files([f"{tmp_path}/a/**/*.bindings"]))
    assert [Path(file.name).name for file in found] == ["c.bindings", "d.bindings"]
    assert {file.folder for file in found if isinstance(file, TopologyFile)} == {None}
    for name in ("e[1].bindings", "e1.bindings"):
        assert list(find_files([f"{tmp_path}/{name}"])) == [TopologyFile(f"{tmp_path}/{name}")]
    with pytest.raises(InputError, match=r"nothing\*: no file matches"):
        list(find_files([f"{tmp_path}/nothing*"]))


def test_addresses_and_missing_files_are_left_to_their_reader() -> None:
    """A question mark or a star in an address makes no pattern."""
    names = ["http://host:15672/a*", "https://h/?", "amqp://h/*", "gone.bindings", "-", ""]
    assert list(find_files(names)) == [TopologyFile(name) for name in names]


def test_what_may_be_several_files_is_known_by_the_names_alone(tmp_path: Path) -> None:
    """A folder with one file asks for several: the form of the output does not change with the second one."""
    touch(tmp_path / "a.bindings")
    assert asks_for_several([str(tmp_path)])
    assert asks_for_several([f"{tmp_path}/*"])
    assert asks_for_several(["a", "b"])
    assert not asks_for_several([str(tmp_path / "a.bindings")])
    assert not asks_for_several(["gone"])
    assert not asks_for_several(["http://h/*"])


@pytest.mark.parametrize(
    "document",
    [
        {"rabbit_version": "3.8.9"},
        {"rabbitmq_version": "4.1.0", "users": []},
        {"queues": [QUEUE]},
        {"bindings": [BINDING], "other": 1},
        {"exchanges": [{"name": "x", "type": "topic"}]},
        {"policies": [POLICY]},
    ],
    ids=json.dumps,
)
def test_definitions_are_recognised_by_their_content(document: object, tmp_path: Path) -> None:
    """Of any version, whole or of one virtual host; packed as well."""
    text = json.dumps(document)
    for name, data in (
        ("a.json", text.encode()),
        ("b.json.gz", gzip.compress(text.encode())),
        ("c.json", b"\xef\xbb\xbf" + text.encode()),
    ):
        (tmp_path / name).write_bytes(data)
        assert find_reason_to_skip(str(tmp_path / name)) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", NO_DEFINITIONS),
        ("[]", NO_DEFINITIONS),
        ('["queues"]', NO_DEFINITIONS),
        ("{}", NO_DEFINITIONS),
        ('{"queues": []}', NO_DEFINITIONS),
        ('{"queues": ["high", "low"]}', NO_DEFINITIONS),
        ('{"queues": {"name": 1}}', NO_DEFINITIONS),
        ('{"queues": [{"name": "of another product"}]}', NO_DEFINITIONS),
        (json.dumps({"bindings": [BINDING], "queues": [{"queue": "of a report of an audit"}]}), NO_DEFINITIONS),
        ('{"a": {"rabbitmq_version": "4.0"}}', NO_DEFINITIONS),
        ('{"queues": [}', "not JSON"),
        ('{"policies": ' + "[" * 100_000, "not JSON"),
    ],
)
def test_other_json_is_skipped_with_the_reason(text: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(text)
    assert find_reason_to_skip(str(file)) == reason


@pytest.mark.parametrize(
    "text", ['{"rabbitmq_version": "4.0", "queues": [', '{"bindings": [{"destination_type": "queue"},]}']
)
def test_damaged_definitions_are_not_skipped(text: str, tmp_path: Path) -> None:
    """They are for the reader to refuse: a mistake does not take a file out of the check."""
    file = tmp_path / "a.json"
    file.write_text(text)
    assert find_reason_to_skip(str(file)) is None


def test_what_cannot_be_read_is_skipped_with_the_reason(tmp_path: Path) -> None:
    """A pipe, a link that leads nowhere, bytes that are no text, data that are not gzipped to their end."""
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "gone.json").symlink_to(tmp_path / "nowhere")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe{")
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(b"{}")[:-3])
    for name, reason in (
        ("pipe.json", "a pipe"),
        ("gone.json", "No such file"),
        ("bytes.json", "not UTF-8"),
        ("cut.json.gz", "cannot be read"),
    ):
        assert reason in str(find_reason_to_skip(str(tmp_path / name)))


def test_a_folder_that_cannot_be_entered_is_skipped_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root can enter all folders, so the error is the listing's own."""
    touch(tmp_path / "a.bindings", tmp_path / "b/c.bindings")
    scan = os.scandir

    def refuse(path: str) -> object:
        if path.endswith("b"):
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert list(find_files([str(tmp_path)]))[1:] == [
        SkippedFile(str(tmp_path / "b"), "cannot be read: Permission denied")
    ]


def test_the_number_of_files_below_a_folder_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "FOLDER_FILES", 2)
    touch(tmp_path / "a.json", tmp_path / "b.bindings")
    assert len(names_below(tmp_path)) == 2
    touch(tmp_path / "c.json")
    with pytest.raises(InputError, match="more than 2 files may be topologies"):
        names_below(tmp_path)


TERRAFORM = 'resource "rabbitmq_queue" "q" {\n  name = "q"\n  vhost = "/"\n  settings {}\n}\n'
OBJECT = "apiVersion: rabbitmq.com/v1beta1\nkind: Queue\n"


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("main.tf", TERRAFORM, ["."]),
        ("main.tf", 'resource "aws_s3_bucket" "b" {}\n', []),
        ("main.tf", b"\xff", []),
        ("queue.yaml", OBJECT, ["."]),
        ("deployment.yaml", "apiVersion: apps/v1\nkind: Deployment\n", []),
        ("Chart.yaml", "apiVersion: v2\nname: shop\n", []),
        ("deployment.yaml", "kind: {{ .Values.kind }}\n", []),
        ("workflow.yml", "on: push\n", []),
        ("asyncapi.yaml", "asyncapi: 3.0.0\n", ["asyncapi.yaml"]),
    ],
)
def test_infrastructure_of_something_else_is_no_topology(
    name: str, text: str | bytes, found: list[str], tmp_path: Path
) -> None:
    """Most repositories have such files: a check of the whole repository leaves them alone."""
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    assert names_below(tmp_path) == found


def test_folders_are_named_without_the_dot_in_front(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "infra").mkdir()
    (tmp_path / "infra/main.tf").write_text(TERRAFORM)
    monkeypatch.chdir(tmp_path)
    assert list(find_files(["."])) == [TopologyFile("infra", ".")]
