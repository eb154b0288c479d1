"""Fix a topology file: remove what decides nothing, where that is proved to change no route.

Invariants: every virtual host of the fixed file routes each message as before, which the comparison of `bindings.diff`
proves, and has exactly the parts that the fixes leave, which is checked by reading the new text; fixing again changes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from bindings.analysis.crawl import Deadline
from bindings.checking.check import find_all
from bindings.checking.rules.table import RULES
from bindings.diffing.planning.step import describe_part
from bindings.fix.bindings_text import BindingsText
from bindings.fix.candidates import Fix, Removal, find_fixes
from bindings.fix.definitions_text import DefinitionsText
from bindings.fix.proof import prove, without
from bindings.sources.definitions import Definitions
from bindings.sources.definitions.hosts import explain_no_vhost
from bindings.sources.files import GZIP, decode_text, open_file, read_whole
from bindings.sources.management import is_address
from bindings.sources.open import STDIN, Source, read_source
from bindings.sources.tree import SkippedFile, find_files, find_reason_to_skip
from exchange.entities.profile import Profile
from exchange.errors import HashstarError, InputError, name_os_errors
from exchange.files.replacing import replace_file
from exchange.text.display import count_rest

SECONDS: Final = 60.0
"""Maximum duration in seconds of the proofs for one file; what is not proved then is not fixed."""
ROUNDS: Final = 100
"""Maximum number of times that a file is looked at again, since one removal may allow another."""
AGAIN: Final = "HS901"
"""Code of the findings about bindings that a file declares twice."""
MAX_LISTED_FIXES: Final = 1_000
"""Maximum number of fixes of one file that are listed."""
MARK: Final = b"\xef\xbb\xbf"


class NotFixable(InputError):
    """A topology that is fine to read, and not to be fixed."""


class FindingFix(NamedTuple):
    """A finding that was fixed, or that was not."""

    line: int | None
    """Line of the part before it was removed, from 1."""
    code: str
    message: str
    obstacle: str = ""
    """Why it was not fixed."""


class FixedFile(NamedTuple):
    """A file before and after its fixes."""

    name: str
    before: bytes
    after: bytes
    done: Sequence[FindingFix]
    """The findings that were fixed, in the order of the fixes."""
    left: Sequence[FindingFix]
    """The findings of the same rules that were not fixed, each with the reason."""


class _Text(Protocol):
    """The text of a file, from which parts are removed."""

    @property
    def repeated(self) -> frozenset[Removal]: ...

    def line_of(self, removal: Removal) -> int | None: ...

    def why_kept(self, wanted: frozenset[Removal]) -> dict[Removal, str]: ...

    def remove(self, wanted: frozenset[Removal], again: frozenset[Removal]) -> str: ...


def fix_file(
    name: str,
    *,
    codes: Container[str] = RULES,
    vhost: str | None = None,
    profile: Profile | str | None = None,
    seconds: float = SECONDS,
) -> FixedFile:
    """Return a file with its fixes, which are not written yet: `save_fixed` does that.

    Only findings with ``codes`` are fixed, and only in ``vhost`` if it is given. ``profile`` names the RabbitMQ release
    whose rules apply; None for that of the file. Raises InputError for what cannot be read; NotFixable for standard
    input, a broker, a gzipped file, and a file without the virtual host.
    """
    if name == STDIN or is_address(name):
        raise NotFixable("only files can be fixed: .bindings and definitions.json")
    data = _read(name)
    text = decode_text(data, name)
    fixed, done, left = fix_text(text, name, codes=codes, vhost=vhost, profile=profile, seconds=seconds)
    mark = MARK if data.startswith(MARK) else b""
    return FixedFile(name, data, data if fixed == text else mark + fixed.encode(), done, left)


def save_fixed(fixed: FixedFile) -> None:
    """Replace a file by its fixed content; the old one stays until the new one is complete.

    Raises InputError when it cannot be written, and when it was changed since it was read.
    """
    if fixed.after == fixed.before:
        return
    if _read(fixed.name) != fixed.before:
        raise InputError(f"{fixed.name}: changed while it was fixed; nothing was written, run it again")
    with name_os_errors(fixed.name, "written"), replace_file(Path(fixed.name)) as file:
        file.write(fixed.after)


def _read(name: str) -> bytes:
    with name_os_errors(name), open_file(name) as file:
        data = read_whole(file, name)
    if data.startswith(GZIP):
        raise NotFixable(f"{name}: a gzipped file is not fixed; unpack it first")
    return data


def fix_text(
    text: str,
    name: str,
    *,
    codes: Container[str] = RULES,
    vhost: str | None = None,
    profile: Profile | str | None = None,
    seconds: float = SECONDS,
) -> tuple[str, list[FindingFix], list[FindingFix]]:
    """Return the fixed text, what was fixed and what was not; see `fix_file`. Errors call the text ``name``."""
    deadline = Deadline(seconds)
    done: list[FindingFix] = []
    left: list[FindingFix] = []
    for _ in range(ROUNDS):
        fixed, now, left = _Round(text, name, vhost, profile, codes).fix(deadline)
        done += now
        if fixed == text:
            break
        text = fixed
    return text, done, left


class _Round:
    """One look at a text."""

    def __init__(
        self, text: str, name: str, vhost: str | None, profile: Profile | str | None, codes: Container[str]
    ) -> None:
        self._text: Final = text
        self._name: Final = name
        self._vhost: Final = vhost
        self._profile: Final = profile
        self._codes: Final = codes
        self._source: Final = read_source(text.encode(), name, vhost)
        self._editor: Final = _open_text(self._source, text, name, vhost)
        names = self._source.vhosts if vhost is None else (vhost,)
        if vhost not in (None, *self._source.vhosts):
            raise NotFixable(f"{name}: {explain_no_vhost(str(vhost), self._source.vhosts)}")
        self._topologies: Final = {each: self._source.topology(each, profile) for each in names}

    def fix(self, deadline: Deadline) -> tuple[str, list[FindingFix], list[FindingFix]]:
        """Return the text with all fixes that are proved, what was fixed, and what was not."""
        fixes, left = self._choose(deadline)
        wanted = frozenset(removal for fix in fixes for removal in fix.removals)
        twice = frozenset[Removal]()
        if AGAIN in self._codes:
            twice = frozenset(removal for removal in self._editor.repeated if removal[0] in self._topologies) - wanted
        if not wanted and not twice:
            return self._text, [], left
        text = self._editor.remove(wanted, twice)
        after = self._read_again(text)
        if after is None or not self._has_only_lost(after, wanted):
            obstacle = "the file without it would not declare the rest as before"
            return self._text, [], [*left, *(self._change(fix, obstacle) for fix in fixes)]
        gone = twice - _open_text(after, text, self._name, self._vhost).repeated
        again = [
            FindingFix(self._editor.line_of(removal), AGAIN, f"{describe_part(removal[1])} is declared again below")
            for removal in gone
        ]
        again.sort(key=lambda change: (change.line or 0, change.message))
        return text, [*(self._change(fix) for fix in fixes), *again], left

    def _choose(self, deadline: Deadline) -> tuple[list[Fix], list[FindingFix]]:
        """Return the fixes that are proved and whose parts can be removed from the text, and why the others are not."""
        fixes: list[Fix] = []
        left: list[FindingFix] = []
        for vhost, topology in self._topologies.items():
            expectations = self._source.expectations(vhost)
            findings = find_all(topology, expectations)
            for fix in find_fixes(topology, findings, expectations, self._codes):
                if fix.obstacle is None:
                    fixes.append(fix)
                else:
                    left.append(self._change(fix, fix.obstacle))
        while fixes:
            # A part may be removable together with others only, and a proof is of all that is removed: so each fix that
            # falls out has the rest looked at again.
            kept = self._editor.why_kept(frozenset(removal for fix in fixes for removal in fix.removals))
            out = [(fix, kept[min(lost, key=repr)]) for fix in fixes if (lost := fix.removals & kept.keys())]
            if not out:
                for vhost, topology in self._topologies.items():
                    out += prove(topology, [fix for fix in fixes if fix.vhost == vhost], deadline).unproved
            if not out:
                break
            left += [self._change(fix, reason) for fix, reason in out]
            fixes = [fix for fix in fixes if not any(fix is each for each, _ in out)]
        return fixes, left

    def _read_again(self, text: str) -> Source | None:
        """Return the source of an edited text; None if the edit has broken it."""
        try:
            return read_source(text.encode(), self._name, self._vhost)
        except InputError:
            return None

    def _has_only_lost(self, after: Source, wanted: frozenset[Removal]) -> bool:
        """Return whether the text has all virtual hosts as they were, except for what is wanted to go."""
        if after.vhosts != self._source.vhosts:
            return False
        for vhost in after.vhosts:
            before = self._source.topology(vhost)
            parts = [part for of, part in wanted if of == vhost]
            if after.topology(vhost) != without(before, parts):
                return False
            if after.expectations(vhost) != self._source.expectations(vhost):
                return False
        return after.profile == self._source.profile

    def _change(self, fix: Fix, obstacle: str = "") -> FindingFix:
        finding = fix.finding
        line = None
        if finding.part is not None:
            line = self._source.line_of(fix.vhost, finding.part) or self._editor.line_of((fix.vhost, finding.part))
        return FindingFix(line, finding.code, finding.message, obstacle)


def _open_text(source: Source, text: str, name: str, vhost: str | None) -> _Text:
    if source.format is not None:
        raise NotFixable(
            f"{name}: only .bindings files and definitions.json are fixed, no files of {source.format.title}"
        )
    if isinstance(source.content, Definitions):
        return DefinitionsText(text, name, vhost)
    return BindingsText(text, name)


class FailedFile(NamedTuple):
    """A file that could not be fixed, and why."""

    name: str
    error: HashstarError
    passed_over: bool = False
    """Whether it is not to be fixed, and the user named a folder, and not the file: then this is no failure."""


def fix_files(
    names: Iterable[str],
    codes: Container[str],
    *,
    vhost: str | None = None,
    profile: Profile | str | None = None,
    show: Callable[[str], None] = lambda text: None,
) -> Iterator[FixedFile | FailedFile]:
    """Yield each file that ``names`` stand for with its fixes, which are not written; see `bindings.fix.fix.fix_file`.

    Files below a folder that are no topologies are left out. ``show`` is called with the text of what is being done.
    Raises InputError if a pattern matches no file.
    """
    for file in find_files(names):
        if isinstance(file, SkippedFile) or (file.folder is not None and find_reason_to_skip(file.name) is not None):
            continue
        show(f"fixing {file.name} ...")
        try:
            yield fix_file(file.name, codes=codes, vhost=vhost, profile=profile)
        except HashstarError as error:
            yield FailedFile(file.name, error, file.folder is not None and isinstance(error, NotFixable))


def format_fixes(name: str, fixes: Sequence[FindingFix]) -> Iterator[str]:
    """Yield what was fixed in a file, and what was not with the reason."""
    for each in fixes[:MAX_LISTED_FIXES]:
        position = name if each.line is None else f"{name}:{each.line}"
        verb, why = ("not fixed", f"; {each.obstacle}") if each.obstacle else ("fixed", "")
        yield f"{position}: {verb}: {each.code} {each.message}{why}"
    yield from count_rest(len(fixes), MAX_LISTED_FIXES, indent=f"{name}: ")


def diff_lines(fixed: FixedFile) -> Iterator[str]:
    """Yield the lines of a unified diff, each with its line break; none if nothing is fixed."""
    before, after = (data.decode("utf-8") for data in (fixed.before, fixed.after))
    for line in unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), fixed.name, fixed.name
    ):  # fmt: skip
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
