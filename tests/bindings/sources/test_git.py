"""Files as they were at a revision: what is read, from where, and what is refused."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from bindings.sources import git as module
from bindings.sources.git import find_repository
from exchange.errors import InputError
from tests.support.git import commit, git, make_repository, needs_git

NAMES = ["a.bindings", "to po/b*[1].bindings", ":(top)c.bindings", "-d.bindings", "ü.bindings", "e\n.bindings"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a repository with a commit."""
    make_repository(tmp_path / "repo", {name: name for name in NAMES})
    return tmp_path / "repo"


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_read_as_it_was(root: Path, name: str) -> None:
    """Whatever is in its name, and whatever it is now."""
    (root / name).write_text("changed")
    found = find_repository(root / name)
    assert found.root == root.resolve()
    assert found.name_of(root / name) == name
    assert found.commit("HEAD").read(name) == name.encode()
    assert found.commit("HEAD").read(f"no/{name}") is None


def test_a_name_that_is_no_utf_8_is_read(root: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(root) + b"/\xff.bindings"))
    path.write_text("exchange a: topic\n")
    commit(root)
    assert find_repository(path).commit("main").read(find_repository(path).name_of(path)) == b"exchange a: topic\n"


def test_a_file_is_found_from_a_subfolder_a_work_tree_and_over_a_link(root: Path, tmp_path: Path) -> None:
    git(root, "worktree", "add", "--quiet", str(tmp_path / "other"), "-b", "branch")
    (tmp_path / "link.bindings").symlink_to(root / "a.bindings")
    for path in (root / "to po" / "gone" / "x", tmp_path / "other" / "to po", tmp_path / "link.bindings"):
        repository = find_repository(path)
        assert repository.commit("main").read("a.bindings") == b"a.bindings"
    assert find_repository(tmp_path / "other").name_of(tmp_path / "other/gone/x") == "gone/x"


def test_the_variables_of_a_hook_do_not_decide(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook of one repository compares files of another."""
    make_repository(tmp_path / "other", {"x": "x"})
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other/.git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "other"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other/.git/index"))
    assert find_repository(root / "a.bindings").root == root.resolve()


def test_a_packed_file_is_unpacked(root: Path) -> None:
    (root / "p.json.gz").write_bytes(gzip.compress(b"{}"))
    commit(root)
    assert find_repository(root).commit("HEAD").read("p.json.gz") == b"{}"


def test_renamed_and_differing_files_are_found(root: Path) -> None:
    (root / "old.bindings").write_text("".join(f"queue q{n}\n" for n in range(50)))
    first = commit(root)
    git(root, "mv", "old.bindings", "new name.bindings")
    (root / "a.bindings").write_text("changed")
    (root / "untracked").write_text("new")
    (root / ".gitignore").write_text("ignored\n")
    (root / "ignored").write_text("new")
    (root / "to po" / "b*[1].bindings").unlink()
    found = find_repository(root).commit(first)
    assert found.renamed == {"new name.bindings": "old.bindings"}
    names = [path.relative_to(root).as_posix() for path in found.differing(root)]
    assert names == [
        ".gitignore", "a.bindings", "new name.bindings", "old.bindings", "to po/b*[1].bindings", "untracked",
    ]  # fmt: skip
    assert [path.name for path in found.differing(root / "to po")] == ["b*[1].bindings"]


def test_the_merge_base_is_the_common_ancestor(root: Path) -> None:
    first = git(root, "rev-parse", "HEAD")
    git(root, "switch", "--quiet", "--create", "feature")
    commit(root, "on feature")
    git(root, "switch", "--quiet", "main")
    second = commit(root, "on main")
    git(root, "switch", "--quiet", "feature")
    repository = find_repository(root)
    assert repository.commit("main").id == second
    assert repository.commit("main", merge_base=True).id == first
    git(root, "switch", "--quiet", "--orphan", "unrelated")
    commit(root, "unrelated")
    with pytest.raises(InputError, match="'main' and HEAD have no common ancestor"):
        repository.commit("main", merge_base=True)


@pytest.mark.parametrize("revision", ["nowhere", "-x", "--help", "", "a\0b", "HEAD:a.bindings", "HEAD..HEAD", "x y"])
def test_what_is_no_revision_is_refused(root: Path, revision: str) -> None:
    with pytest.raises(InputError, match="there is no revision"):
        find_repository(root).commit(revision)


def test_a_shallow_clone_is_named(root: Path, tmp_path: Path) -> None:
    first = git(root, "rev-parse", "HEAD")
    commit(root, "second")
    git(tmp_path, "clone", "--quiet", "--depth=1", root.as_uri(), "shallow")
    with pytest.raises(InputError, match="a part of the history only: git fetch the revision first"):
        find_repository(tmp_path / "shallow").commit(first)


def test_what_is_no_regular_file_is_refused(root: Path) -> None:
    (root / "link.bindings").symlink_to("a.bindings")
    commit(root)
    found = find_repository(root).commit("HEAD")
    with pytest.raises(InputError, match=r"HEAD:link\.bindings: it is a symbolic link there"):
        found.read("link.bindings")
    with pytest.raises(InputError, match="HEAD:to po: it is a folder there"):
        found.read("to po")


def test_a_link_out_of_the_repository_is_named(root: Path, tmp_path: Path) -> None:
    (root / "link.bindings").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="it is a link that leads out of the repository"):
        find_repository(root).name_of(root / "link.bindings")


def test_a_pointer_of_git_lfs_is_no_topology(root: Path) -> None:
    (root / "large.json").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n")
    commit(root)
    with pytest.raises(InputError, match="its content is in Git LFS"):
        find_repository(root).commit("HEAD").read("large.json")


@needs_git
def test_a_folder_without_a_repository_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    for path in (tmp_path / "x.bindings", tmp_path / "gone" / "x.bindings", tmp_path / ("x" * 5_000)):
        with pytest.raises(InputError, match="it is in no git repository"):
            find_repository(path)


def test_a_machine_without_git_is_named(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="there is no git to ask; install it"):
        find_repository(root)


def test_what_git_answers_is_in_the_error(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As where the repository belongs to another user, which is usual in containers."""
    fake_git(tmp_path, monkeypatch, "echo \"fatal: detected dubious ownership in repository at '/x'\" >&2; exit 128")
    with pytest.raises(InputError, match="git: detected dubious ownership in repository at '/x'"):
        find_repository(root)


def test_size_and_duration_of_an_answer_are_bounded(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where git has started a process that holds its output open."""
    fake_git(tmp_path, monkeypatch, "sleep 9999 & wait")
    monkeypatch.setattr(module, "GIT_SECONDS", 0.2)
    with pytest.raises(InputError, match="no answer within 0 s"):
        find_repository(root)
    fake_git(tmp_path, monkeypatch, "while :; do echo endless; done")
    monkeypatch.setattr(module, "GIT_SECONDS", 60)
    monkeypatch.setattr(module, "DOCUMENT_BYTES", 100_000)
    with pytest.raises(InputError, match="its answer is too large"):
        find_repository(root)


def test_a_file_that_is_too_large_is_not_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "large.bindings").write_text("#" * 2_000)
    commit(root)
    found = find_repository(root).commit("HEAD")
    monkeypatch.setattr(module, "DOCUMENT_BYTES", 1_000)
    with pytest.raises(InputError, match=r"HEAD:large\.bindings: too large"):
        found.read("large.bindings")


def fake_git(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program named git before the real one."""
    program = folder / "bin" / "git"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
