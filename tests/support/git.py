"""A scratch git repository for tests, untouched by the settings of who runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b", "GIT_ALLOW_PROTOCOL": "file",
}  # fmt: skip


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
"""Mark of a test that starts git by itself; those that call `git` are skipped by it."""


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder and return its output. The test is skipped on a machine without git."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    outer = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=outer | ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit(folder: Path, message: str = "change") -> str:
    """Commit all that is in a folder, and return the id of the commit."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def make_repository(folder: Path, files: dict[str, str]) -> str:
    """Make a repository in a folder with files in its first commit, whose id is returned; its branch is ``main``."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return commit(folder, "first")
