"""``hashstar diff --against``: files compared with what they were at a revision."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.git import commit, git, make_repository
from tests.support.program import invoke

ORDERS = """\
exchange orders: topic
queue billing
queue audit
orders -> billing: "order.*.paid"
orders -> audit: "order.#"
"""
HOSTS = """\
vhost "/a"
exchange x: fanout
queue q
x -> q
vhost "/b"
exchange y: fanout
queue r
y -> r
"""


run = partial(invoke, "diff")


def files_of(*arguments: str) -> list[dict[str, Any]]:
    """Return the files of the JSON."""
    return list(json.loads(run(*arguments, "--json").stdout)["files"])


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with two topologies, which is the current folder."""
    folder = tmp_path / "repo"
    make_repository(folder, {"topology/orders.bindings": ORDERS, "hosts.bindings": HOSTS, "README": "text"})
    monkeypatch.chdir(folder)
    return folder


def change(path: Path, old: str, new: str) -> None:
    """Replace a part of a file."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_files_that_are_the_same_have_no_difference(root: Path) -> None:
    """Whether they are named or not."""
    result = run("--against", "HEAD")
    assert (result.exit_code, result.stdout) == (0, "0 files: no difference\n")
    result = run("--against", "HEAD", "topology/orders.bindings", "hosts.bindings")
    assert (result.exit_code, result.stdout) == (0, "2 files: no difference\n")
    (root / "hosts.bindings").write_text(f"# a comment\n{HOSTS}")
    result = run("--against", "HEAD")
    assert (result.exit_code, result.stdout) == (0, "1 file: no difference\n")


def test_a_change_has_its_plan_and_its_meaning(root: Path) -> None:
    """As the two files compared with each other have, below a title that names the commit."""
    before = root.parent / "before.bindings"
    before.write_text(ORDERS)
    after = root / "topology" / "orders.bindings"
    change(after, "paid", "sent")
    first = git(root, "rev-parse", "HEAD")
    two = run(str(before), str(after))
    one = run("--against", "main", str(after))
    assert one.exit_code == two.exit_code == 1
    title, *lines, empty, last = one.stdout.splitlines()
    assert title == f"{after} against main ({first[:7]})"
    assert [line.removeprefix("  ") for line in lines] == two.stdout.splitlines()
    assert (empty, last) == ("", "1 file: 1 with a difference")
    assert run("--against", first, str(after)).stdout.startswith(f"{after} against {first[:7]}\n")
    [file] = files_of("--against", "main")
    values = json.loads(run(str(before), str(after), "--json").stdout)
    assert file["vhosts"] == [{"vhost": "/", **values}]
    assert (file["file"], file["state"], file["before"]) == (
        "topology/orders.bindings",
        "changed",
        f"main ({first[:7]})",
    )


def test_a_new_file_and_one_that_is_gone_are_compared_with_nothing(root: Path) -> None:
    """Also in a folder that is gone."""
    (root / "new.bindings").write_text("exchange n: fanout\nqueue n\nn -> n\n")
    (root / "topology" / "orders.bindings").unlink()
    (root / "topology").rmdir()
    new, gone = files_of("--against", "HEAD")
    assert (new["state"], new["old_name"], gone["state"]) == ("new", None, "gone")
    assert {effect["change"] for effect in new["vhosts"][0]["meaning"]["effects"]} == {"gained"}
    assert {effect["change"] for effect in gone["vhosts"][0]["meaning"]["effects"]} == {"lost"}
    assert run("--against", "HEAD", "new.bindings", "--fail-on", "lost").exit_code == 0
    assert run("--against", "HEAD", "topology/orders.bindings", "--fail-on", "lost").exit_code == 1
    text = run("--against", "HEAD").stdout
    assert "new.bindings is new since HEAD (" in text
    assert "topology/orders.bindings is gone since HEAD (" in text


def test_a_renamed_file_is_compared_with_what_it_was(root: Path) -> None:
    """It is not taken for a new file and one that is gone."""
    git(root, "mv", "topology/orders.bindings", "shop.bindings")
    [file] = files_of("--against", "HEAD")
    assert (file["file"], file["state"], file["old_name"]) == ("shop.bindings", "renamed", "topology/orders.bindings")
    assert file["vhosts"] == []
    change(root / "shop.bindings", "paid", "sent")
    assert "shop.bindings against 'topology/orders.bindings' at HEAD (" in run("--against", "HEAD").stdout


def test_each_virtual_host_is_compared(root: Path) -> None:
    """One that is new or gone with nothing; --vhost chooses one."""
    change(root / "hosts.bindings", 'vhost "/b"', 'vhost "/c"')
    change(root / "hosts.bindings", "x -> q", "exchange x2: fanout")
    [file] = files_of("--against", "HEAD")
    assert [each["vhost"] for each in file["vhosts"]] == ["/a", "/b", "/c"]
    [file] = files_of("--against", "HEAD", "--vhost", "/c")
    assert [each["vhost"] for each in file["vhosts"]] == ["/c"]
    assert "hosts.bindings, virtual host '/a', against HEAD (" in run("--against", "HEAD").stdout
    result = run("--against", "HEAD", "--vhost", "/d")
    assert (result.exit_code, result.stderr) == (2, "hashstar: no file that differs has a virtual host '/d'\n")


def test_a_folder_stands_for_what_has_changed_below_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Untracked files too, ignored ones and others not; names are relative to the current folder."""
    change(root / "topology" / "orders.bindings", "paid", "sent")
    change(root / "hosts.bindings", "x -> q", "")
    (root / "topology" / "new.bindings").write_text("queue n\n")
    (root / ".gitignore").write_text("ignored*\n")
    (root / "topology" / "ignored.bindings").write_text("queue n\n")
    (root / "README").write_text("changed")
    (root / "link.bindings").symlink_to("nowhere")
    (root / "python").symlink_to("/usr/bin/env")
    (root / "out.bindings").symlink_to(root.parent)
    names = [file["file"] for file in files_of("--against", "HEAD")]
    assert names == ["hosts.bindings", "topology/new.bindings", "topology/orders.bindings"]
    monkeypatch.chdir(root / "topology")
    assert [file["file"] for file in files_of("--against", "HEAD")] == ["new.bindings", "orders.bindings"]
    assert len(files_of("--against", "HEAD", "..")) == 3


def test_a_file_that_cannot_be_read_does_not_hide_the_others(root: Path) -> None:
    """Neither one with a mistake now, nor one with a mistake then, nor one that there is not; they end with 2."""
    (root / "bad.bindings").write_text("exchnage x\n")
    commit(root)
    (root / "bad.bindings").write_text("exchange x: topic\n")
    change(root / "hosts.bindings", "exchange", "exchnage")
    change(root / "topology" / "orders.bindings", "paid", "sent")
    result = run("--against", "HEAD", ".", "none.bindings", "--fail-on", "never")
    assert result.exit_code == 2
    assert "- queue 'billing' loses" in result.stdout
    assert "4 files: 1 with a difference, 3 not compared" in result.stdout
    assert "hashstar: HEAD:bad.bindings:1:1: " in result.stderr
    assert "hashstar: hosts.bindings:2:1: " in result.stderr
    assert "hashstar: none.bindings: there is no such file, neither now nor at HEAD (" in result.stderr
    assert [bool(file["error"]) for file in files_of("--against", "HEAD")] == [True, True, False]


def test_definitions_are_compared(root: Path) -> None:
    queue = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    (root / "d.json").write_text(json.dumps({"queues": [queue], "exchanges": [], "bindings": []}))
    commit(root)
    (root / "d.json").write_text(json.dumps({"queues": [], "exchanges": [], "bindings": []}))
    assert "delete queue 'q'" in run("--against", "HEAD", "d.json").stdout


def test_definitions_below_a_folder_are_known_by_their_content(root: Path) -> None:
    """Of now, or of then if the file is gone; other JSON, and hidden folders, are left out."""
    definitions = {"rabbitmq_version": "4.1.0", "queues": [], "exchanges": [], "bindings": []}
    for name in ("gone.json", "stays.json", ".hidden/d.json", "node_modules/d.json"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(json.dumps(definitions))
    (root / "package.json").write_text('{"name": "x"}')
    commit(root)
    (root / "gone.json").unlink()
    for name in ("stays.json", ".hidden/d.json", "node_modules/d.json", "package.json"):
        (root / name).write_text((root / name).read_text() + "\n")
    assert [file["file"] for file in files_of("--against", "HEAD")] == ["gone.json", "stays.json"]
    assert [file["file"] for file in files_of("--against", "HEAD", "s*.json")] == ["stays.json"]
    assert run("--against", "HEAD", "no*.json").exit_code == 2


def test_the_merge_base_leaves_out_what_others_changed(root: Path) -> None:
    """As a pull request does."""
    git(root, "switch", "--quiet", "--create", "feature")
    change(root / "hosts.bindings", "x -> q", "")
    commit(root)
    git(root, "switch", "--quiet", "main")
    change(root / "topology" / "orders.bindings", "paid", "sent")
    commit(root)
    git(root, "switch", "--quiet", "feature")
    assert len(files_of("--against", "main")) == 2
    assert [file["file"] for file in files_of("--against", "main", "--merge-base")] == ["hosts.bindings"]


def test_the_time_is_shared_by_all_virtual_hosts(root: Path) -> None:
    """What is not decided within it is undecided."""
    change(root / "hosts.bindings", "x -> q", "")
    change(root / "topology" / "orders.bindings", "paid", "sent")
    verdicts = {
        each["meaning"]["verdict"] for file in files_of("--against", "HEAD", "--wait", "0") for each in file["vhosts"]
    }
    assert verdicts == {"undecided"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--against", "nowhere"], "there is no revision 'nowhere'"),
        (["--against", "HEAD", "-"], "only files in a git repository can be compared"),
        (["--against", "HEAD", "http://u:hush@h:15672"], "only files in a git repository can be compared"),
        (["--against", "HEAD", "/"], "it is in no git repository"),
        (["--merge-base", "a", "b"], "--merge-base needs --against"),
        (["hosts.bindings"], "two topologies are compared, A and B"),
        ([], "two topologies are compared, A and B"),
        (["--against", "HEAD", "--messages", "README"], "--messages compares A and B"),
        (["--json", "--format", "text", "a", "b"], "--json is --format json"),
    ],
)
def test_bad_usage_ends_with_2(root: Path, arguments: list[str], words: str) -> None:
    """With words, and without a password."""
    result = run(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert "hush" not in result.stderr


def test_files_of_several_repositories_are_compared_each_with_its_own(root: Path) -> None:
    other = root.parent / "other"
    make_repository(other, {"o.bindings": ORDERS})
    git(other, "branch", "only-here")
    change(other / "o.bindings", "paid", "sent")
    name = os.path.relpath(other / "o.bindings")
    assert [file["file"] for file in files_of("--against", "HEAD", name, "hosts.bindings")] == [name, "hosts.bindings"]
    assert run("--against", "only-here", name).exit_code == 1
    assert run("--against", "only-here", name, "hosts.bindings").exit_code == 2


def test_never_fails_for_a_difference_only(root: Path) -> None:
    change(root / "hosts.bindings", "x -> q", "")
    assert run("--against", "HEAD").exit_code == 1
    assert run("--against", "HEAD", "--fail-on", "never").exit_code == 0
    assert run("--against", "nowhere", "--fail-on", "never").exit_code == 2
