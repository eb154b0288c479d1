"""Where a source goes on whose log has not the position that it remembers: as a slow reader of a list of messages."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from bridge.endpoints.positions import KeptPosition, Reset, judge_positions
from tests.support.tiers import examples

RESETS = st.sampled_from(["start", "end", "refuse"])
LOGS = st.builds(
    lambda position, start, size, is_other: KeptPosition("log-0", position, start, start + size, is_other),
    st.none() | st.integers(0, 12), st.integers(0, 6), st.integers(0, 6), st.booleans(),
)  # fmt: skip


def read_slowly(kept: KeptPosition, reset: Reset) -> list[int] | None:
    """Return the offsets that are read of a log, one after the other; None if it is not read."""
    there = list(range(kept.start, kept.end))
    if kept.position is not None and not kept.is_other and kept.position in [*there, kept.end]:
        return [offset for offset in there if offset >= kept.position]
    if reset == "refuse":
        return None
    # What is known to be another log was never read, whatever is set for logs that are the same.
    return [] if reset == "end" and not (kept.is_other and kept.position is not None) else there


@examples(400)
@given(LOGS, RESETS)
@example(KeptPosition("log-0", 9, 0, 3), "end")
@example(KeptPosition("log-0", 4, 0, 3), "start")
@example(KeptPosition("log-0", 3, 0, 3), "start")
@example(KeptPosition("log-0", 0, 0, 3, is_other=True), "refuse")
def test_a_finding_is_what_a_slow_reader_does(kept: KeptPosition, reset: Reset) -> None:
    [finding] = judge_positions([kept], "group 'g'", "group", reset, "reset them")
    read, there = read_slowly(kept, reset), kept.end - kept.start
    assert (finding.level == "error") == (read is None)
    if kept.position is None:
        assert finding.level != "warning"
        return
    goes_on = not kept.is_other and kept.start <= kept.position <= kept.end
    assert (finding.level == "ok") == goes_on
    if read is None:
        assert "not read; reset them" in finding.text
    elif goes_on:
        assert f"{len(read)} message" in finding.text
    elif len(read) < there:
        assert f"the {there} message" in finding.text
        assert "are skipped; reset them" in finding.text
    elif there:
        assert f"read from the start on, {there} message" in finding.text
    lost = [offset for offset in range(kept.position, kept.start) if not kept.is_other and kept.position <= kept.end]
    assert bool(lost) == ("removed unread" in finding.text)
    assert not lost or f"{len(lost)} message" in finding.text


def test_logs_of_a_kind_are_one_finding_with_their_sum() -> None:
    found = [KeptPosition(f"t-{n}", 7, 10, 20) for n in range(9)] + [KeptPosition("t-9", 12, 10, 20)]
    findings = list(judge_positions(found, "group 'g'", "group", "start", ""))
    assert [each.level for each in findings] == ["warning", "ok"]
    assert "27 messages removed unread" in findings[0].text
    assert "t-0" in findings[0].text
    assert "t-8" not in findings[0].text
    assert "8 messages behind" in findings[1].text
