"""Read files as they were at a revision of the git repository that they are in.

git runs as a subprocess, without a shell, and each answer has a maximum duration and size. Its plumbing is used
(``cat-file``, ``ls-tree``), which no setting of the user changes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from signal import SIGKILL
from subprocess import DEVNULL, PIPE, Popen
from tempfile import TemporaryFile
from threading import Timer
from typing import IO, Final, NamedTuple, cast

from bindings.sources.files import gunzip
from exchange.errors import InputError
from exchange.limits import DOCUMENT_BYTES, GIT_SECONDS

OF_ONE_REPOSITORY: Final = frozenset({
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_DIR", "GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE", "GIT_INTERNAL_SUPER_PREFIX", "GIT_NO_REPLACE_OBJECTS", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE", "GIT_WORK_TREE",
})  # fmt: skip
"""Variables that git sets for the hooks of one repository (``git rev-parse --local-env-vars``); the file decides here,
and not the repository whose hook runs."""
QUIET: Final = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
"""Never wait for a password, take no lock, and answer in English."""
FILES: Final = frozenset({b"100644", b"100755", b"100664"})
"""Modes of regular files in a tree."""
OTHERS: Final = {b"120000": "a symbolic link", b"160000": "a submodule", b"040000": "a folder"}
"""Modes of other entries of a tree -> what they are."""
LARGE_FILE: Final = b"version https://git-lfs.github.com/spec/"
"""Beginning of what git keeps of a file that Git LFS stores elsewhere."""


def find_repository(path: Path) -> Repository:
    """Return the repository that a file or folder is in, whether it exists or is gone. Raises InputError."""
    folder = _resolve(path)
    while not os.path.isdir(folder):  # noqa: PTH112  Path.is_dir raises an error for a name that is too long
        folder = folder.parent
    answer = _ask(folder, "rev-parse", "--show-toplevel")
    if answer.status:
        reason = "it is in no git repository" if "not a git repository" in answer.error else f"git: {answer.error}"
        raise InputError(f"{path}: {reason}")
    return Repository(Path(os.fsdecode(answer.output.removesuffix(b"\n"))))


@dataclass(frozen=True)
class Repository:
    """A git repository with a work tree."""

    root: Path
    """The folder of the work tree."""

    def commit(self, revision: str, *, merge_base: bool = False) -> Commit:
        """Return the commit of a revision; with ``merge_base``, the best common ancestor of it and HEAD.

        Raises InputError if there is no such revision, or no common ancestor.
        """
        answer = None
        # A name that begins with a hyphen is none to git, which would take it for an option.
        if revision and not revision.startswith("-") and "\0" not in revision:
            answer = _ask(self.root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        if answer is None or answer.status:
            raise InputError(f"there is no revision {revision!r} in {self.root}{self._why_missing()}")
        found = answer.output.decode("ascii").strip()
        if merge_base:
            answer = _ask(self.root, "merge-base", found, "HEAD")
            if answer.status:
                raise InputError(f"{revision!r} and HEAD have no common ancestor in {self.root}{self._why_missing()}")
            found = answer.output.decode("ascii").strip()
        return Commit(self, revision, found)

    def name_of(self, path: Path) -> str:
        """Return the name of a file in trees of the repository: its path from the root, with slashes.

        Raises InputError for a link that leads out of the repository.
        """
        try:
            return _resolve(path).relative_to(self.root.resolve()).as_posix()
        except ValueError:
            raise InputError(f"{path}: it is a link that leads out of the repository {self.root}") from None

    def _why_missing(self) -> str:
        """Return what to do about a revision that is missing where only a part of the history was cloned."""
        if _ask(self.root, "rev-parse", "--is-shallow-repository").output.strip() == b"true":
            return ", which has a part of the history only: git fetch the revision first, or clone all"
        return ""


@dataclass(frozen=True)
class Commit:
    """A commit of a repository, and the files in it."""

    repository: Repository
    revision: str
    """The revision as it was given."""
    id: str
    """The object id in hexadecimal digits."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, unpacked if it is gzipped; None if the commit does not have it.

        Raises InputError for a folder, a link or a submodule, for a file of Git LFS, and for one that is too large.
        """
        label = f"{self.revision}:{name}"
        answer = self._ask("ls-tree", "-z", "-l", "--full-tree", self.id, "--", name)
        if not answer:
            return None
        mode, _, object_id, size = answer.partition(b"\t")[0].split()
        if mode not in FILES:
            raise InputError(f"{label}: it is {OTHERS.get(mode, 'no file')} there, and no topology")
        if int(size) > DOCUMENT_BYTES:
            raise InputError(f"{label}: too large: a topology has {DOCUMENT_BYTES >> 20} MiB at most")
        content = self._ask("cat-file", "blob", object_id.decode("ascii"))
        if content.startswith(LARGE_FILE):
            raise InputError(f"{label}: its content is in Git LFS; save it to a file, and give diff both files")
        return gunzip(content, label)

    @cached_property
    def renamed(self) -> Mapping[str, str]:
        """Name in the work tree -> name in the commit, for files that git holds to be renamed and that it knows of."""
        answer = self._ask("diff", "--name-status", "-z", "-M", "--diff-filter=R", "--no-ext-diff", self.id, "--")
        fields = iter(answer.decode("utf-8", "surrogateescape").split("\0"))
        return {after: before for _, before, after in zip(fields, fields, fields, strict=False)}

    def differing(self, folder: Path) -> Iterator[Path]:
        """Yield the files below a folder that differ from the commit: changed, new or gone, but not ignored."""
        root = self.repository.root
        below = ("-z", "--", str(_resolve(folder)))
        names = {
            *self._ask("diff", "--name-only", "--no-renames", "--no-ext-diff", self.id, *below).split(b"\0"),
            *self._ask("ls-files", "--others", "--exclude-standard", *below).split(b"\0"),
        }
        for name in sorted(filter(None, names)):
            yield root / os.fsdecode(name)

    def _ask(self, *arguments: str) -> bytes:
        """Return the output of git. Raises InputError."""
        answer = _ask(self.repository.root, *arguments)
        if answer.status:
            raise InputError(f"git {arguments[0]} in {self.repository.root}: {answer.error}")
        return answer.output


class _Answer(NamedTuple):
    status: int
    output: bytes
    error: str
    """The first line on standard error, without git's ``fatal:``."""


def _ask(folder: Path, *arguments: str) -> _Answer:
    """Run git in a folder. Raises InputError if there is no git, or its answer takes too long or is too large."""
    outer = {name: value for name, value in os.environ.items() if name not in OF_ONE_REPOSITORY}
    # Names are names, whatever * and : they contain; standard error is in a file, so that no pipe fills up unread.
    command = ["git", "--literal-pathspecs", "--no-pager", *arguments]
    with TemporaryFile() as errors:
        try:
            process = Popen(  # noqa: S603
                command, cwd=folder, env=outer | QUIET, stdin=DEVNULL, stdout=PIPE, stderr=errors,
                start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError:
            raise InputError("there is no git to ask; install it") from None
        except OSError as error:
            raise InputError(f"git cannot be run in {folder}: {error.strerror or error}") from None
        timer = Timer(GIT_SECONDS, _kill, [process])
        timer.start()
        with process:
            try:
                output = cast("IO[bytes]", process.stdout).read(DOCUMENT_BYTES + 1)
            except BaseException:
                _kill(process)
                raise
            finally:
                late = not timer.is_alive()
                timer.cancel()
            if len(output) > DOCUMENT_BYTES:
                _kill(process)
        if late:
            raise InputError(f"git {arguments[0]} in {folder}: no answer within {GIT_SECONDS:.0f} s")
        if len(output) > DOCUMENT_BYTES:
            raise InputError(f"git {arguments[0]} in {folder}: its answer is too large")
        errors.seek(0)
        first = errors.readline(1_000).decode("utf-8", "replace").strip()
    return _Answer(process.returncode, output, first.removeprefix("fatal: ") or f"it ended with {process.returncode}")


def _kill(process: Popen[bytes]) -> None:
    """End git and the processes that it started, which may hold its output open."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, SIGKILL)


def _resolve(path: Path) -> Path:
    """Return an absolute path without links. Raises InputError."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # a circle of links; a NUL
        raise InputError(f"{str(path)!r}: cannot be read: {error}") from None
