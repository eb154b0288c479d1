"""Where a source goes on that remembers a position in a log, if the log does not have that position any more.

A log has the offsets from its start up to its end. What is before the start was removed: by retention, on request. An
offset beyond the end is of another log of the same name, or its end was lost: a broker was restored, a topic made anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from bridge.endpoint import Finding
from exchange.text.display import count_noun, list_some

Reset = Literal["start", "end", "refuse"]
"""Where a source goes on without a position that the log has, or that it is not read then."""

MAX_LISTED: Final = 5
"""Maximum number of logs that a finding names."""


class KeptPosition(NamedTuple):
    """The position that is remembered for a log, and what the log has now."""

    log: str
    """Name of the partition or queue."""
    position: int | None
    """Offset to be read next; None: nothing is remembered."""
    start: int
    """Offset of the first message that is there."""
    end: int
    """Offset of the next message to come."""
    is_other: bool = False
    """Whether the position is known to be of another log that had this name; this one is read from its start then."""

    @property
    def is_beyond(self) -> bool:
        """Whether it is not of this log, or this log has lost its end."""
        return self.position is not None and (self.is_other or self.position > self.end)

    @property
    def removed(self) -> int:
        """Number of offsets that were removed before they were read."""
        return 0 if self.position is None or self.is_beyond else max(0, self.start - self.position)

    def goes_on_at(self, reset: Reset) -> int | None:
        """Return the offset to be read next; None: it is not read."""
        if self.position is not None and not self.is_beyond and self.start <= self.position:
            return self.position
        if reset == "refuse":
            return None
        return self.end if reset == "end" and not self.is_other else self.start


def judge_positions(
    found: Sequence[KeptPosition],
    keeper: str,
    key: str,
    reset: Reset,
    way_out: str = "",
    *,
    begins: Reset | None = None,
) -> Iterator[Finding]:
    """Yield what a source does in logs that have not its position, and how much it has to read in the others.

    ``keeper`` remembers the positions; ``way_out`` is what to do if nothing is to be read, or all is skipped; where
    nothing is remembered, reading ``begins`` like that, by default as ``reset``.
    """
    removed = sum([each.removed for each in found])
    for what, logs in (
        ("made anew since it was read", [each for each in found if each.is_other and each.is_beyond]),
        ("ends before what was read", [each for each in found if each.is_beyond and not each.is_other]),
        (f"{count_noun(removed, 'message')} removed unread", [each for each in found if each.removed]),
    ):
        if logs:
            text = f"{keeper}: {list_some([each.log for each in logs], MAX_LISTED)}: {what}: "
            there, goes_on = (
                count_noun(sum([each.end - each.start for each in logs]), "message"),
                logs[0].goes_on_at(reset),
            )
            if goes_on is None:
                yield Finding("error", f"{text}not read; {way_out}", key)
            elif any(each.goes_on_at(reset) != each.start for each in logs):
                yield Finding("warning", f"{text}the {there} there now are skipped; {way_out}", key)
            else:
                yield Finding("warning", f"{text}read from the start on, {there}", key)
    known = [
        (each.end, at)
        for each in found
        if (at := each.position) is not None and each.start <= at and not each.is_beyond
    ]
    if known:
        waiting = sum([end - position for end, position in known])
        yield Finding(
            "ok", f"{keeper}: goes on where it was in {len(known)}, {count_noun(waiting, 'message')} behind", key
        )
    if new := [each for each in found if each.position is None]:
        if (begins := begins or reset) == "refuse":
            yield Finding("error", f"{keeper}: no position in {len(new)}: not read; {way_out}", key)
        else:
            yield Finding("ok", f"{keeper}: no position in {len(new)}: read from the {begins} on", key)
