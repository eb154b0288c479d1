"""A drift as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal, NamedTuple, NotRequired, TypedDict

from bindings.diffing.comparison.meaning import Meaning
from bindings.diffing.forms import COLOURS, as_json  # noqa: F401  the documents of meanings
from bindings.diffing.forms.text import format_meaning, format_settings
from bindings.diffing.planning.step import describe_part
from bindings.drift.drift import KINDS, REASONS, Change, Drift, Object, Reason
from exchange.text.display import count_noun, count_rest, list_some
from exchange.text.numbers import write_time
from exchange.topology.unread import format_not_proved, format_unread
from exchange.values.documents import document
from exchange.values.forms import Form, Forms

FORMS: Final[Forms] = {
    "text": Form("bindings.drift.forms:to_text", (".txt",), colours=((r"  (missing|extra) ", "red"), *COLOURS)),
    "json": Form("bindings.drift.forms:DriftReport", (".json",)),
}
UNKNOWN: Final = Form("bindings.drift.forms:encode_unknown")
"""The form of a comparison that failed, where the others are JSON."""
MAX_LISTED_OBJECTS: Final = 50
"""Maximum number of objects, and of lines about what they mean, in text; JSON has all."""

WHY: Final[dict[Reason, str]] = {
    "amq.*": "named amq.*", "exclusive": "exclusive queues and their bindings", "auto-delete": "auto-delete",
    "by name": "by --exclude", "extra": "extra, by --ignore-extra",
}  # fmt: skip
"""Reason to ignore objects -> what it is called in text."""

WHERE: Final[dict[Change, str]] = {
    "missing": "missing on the broker", "extra": "only on the broker", "changed": "different on the broker",
}  # fmt: skip
"""How an object differs -> that in the summary."""

SIDES: Final = {
    "declared": "only the broker has it",
    "deleted": "it is missing on the broker",
    "internal": "it is internal",
}
"""Why publishers may use an exchange on one side only -> that in words, from the file to the broker."""

MEANINGS: Final = 10
"""Maximum number of differences of each kind that are listed of what a drift means; JSON has all."""


class UnknownJson(TypedDict):
    """A comparison that failed: `hashstar drift --every --format json`."""

    version: Literal[1]
    time: str
    file: str
    broker: str
    state: Literal["unknown"]
    error: str
    retry_in: NotRequired[float]
    """Seconds until the next try."""


class DriftReport(NamedTuple):
    """The difference between a file and a broker: `hashstar drift --format json`."""

    drift: Drift
    meaning: Meaning | None
    """Which messages go elsewhere by the drift, from the file to the broker; None if there is none."""
    file: str
    broker: str
    """The address, without user and password."""
    time: float
    """Seconds since 1970."""
    is_watched: bool = False
    """Whether it is one of many comparisons, so that its time is shown."""


def to_text(report: DriftReport) -> Iterator[str]:
    """Yield the state in a sentence, and what differs."""
    yield (
        f"{write_time(report.time)} {build_headline(report.drift)}"
        if report.is_watched
        else build_headline(report.drift)
    )
    yield from format_drift(report.drift, report.meaning)


def format_drift(drift: Drift, meaning: Meaning | None) -> Iterator[str]:
    """Yield what differs, first how much of each kind, what is ignored, and what it means to messages."""
    yield from _summary_lines(drift)
    for item in drift.objects[:MAX_LISTED_OBJECTS]:
        yield f"  {item.change:7}  {describe_part(item.part)}{_details(item)}"
    yield from count_rest(len(drift.objects), MAX_LISTED_OBJECTS, "; --format json lists all")
    yield from format_unread(drift.unread)
    if drift.ignored:
        counts = [f"{drift.ignored[reason]:,} {WHY[reason]}" for reason in REASONS if reason in drift.ignored]
        yield f"ignored: {'; '.join(counts)}"
    if meaning is not None:
        yield "meaning, from the file to the broker:"
        yield from format_meaning(meaning, MEANINGS, SIDES)
    yield from _first(list(format_settings(drift.settings)))


def _summary_lines(drift: Drift) -> Iterator[str]:
    """Yield how many objects of each kind are missing, extra and changed, where there is more than one."""
    if len(drift.objects) > 1:
        for change, where in WHERE.items():
            found = [(kind, drift.counts[kind, change]) for kind in KINDS]
            listed = [
                count_noun(number, kind, "policies" if kind == "policy" else "") for kind, number in found if number
            ]
            if listed:
                yield f"{where}: {', '.join(listed)}"


def _first(lines: list[str]) -> Iterator[str]:
    yield from lines[:MAX_LISTED_OBJECTS]
    yield from count_rest(len(lines), MAX_LISTED_OBJECTS, " lines; --format json has all")


def _details(item: Object) -> str:
    if not item.fields:
        return ""
    texts = [f"{field.name} is {_value(field.broker)}, in the file {_value(field.file)}" for field in item.fields]
    return f": {list_some(texts, 4)}"


def _value(value: Any) -> str:
    return "absent" if value is None else repr(value) if isinstance(value, str) else str(value)


def build_headline(drift: Drift) -> str:
    """Return the state in a sentence."""
    if drift.state == "undecided":
        return (
            f"{format_not_proved(drift.unread)}; of what was read, virtual host {drift.vhost!r} is as the file has it"
        )
    if not drift.objects:
        return f"same: virtual host {drift.vhost!r} is as the file has it"
    differ = "differs" if len(drift.objects) == 1 else "differ"
    return f"drift: {count_noun(len(drift.objects), 'object')} of virtual host {drift.vhost!r} {differ} from the file"


def _time(report: DriftReport) -> str:
    """When the broker was asked."""
    return write_time(report.time)


def _caveat(report: DriftReport) -> str | None:
    """Why the rules are not those of the broker's release: it is newer than all that are known here."""
    return report.drift.live.profile.caveat or None


def _ignored(report: DriftReport) -> dict[Reason, int]:
    """Reason -> number of objects that differ and are ignored."""
    ignored = report.drift.ignored
    return {reason: ignored[reason] for reason in REASONS if reason in ignored}


document(
    "DriftJson",
    "version = 1, time, file, broker, drift.vhost, drift.profile, caveat if any, drift.state, drift.objects, ignored, "
    "meaning, drift.settings, drift.unread",
    time=_time,
    caveat=_caveat,
    ignored=_ignored,
)(DriftReport)


def encode_unknown(error: str, *, file: str, broker: str, time: float, retry_in: float) -> UnknownJson:
    """Return a comparison that failed as JSON values; times are in seconds."""
    return {
        "version": 1,
        "time": write_time(time),
        "file": file,
        "broker": broker,
        "state": "unknown",
        "error": error,
        "retry_in": round(retry_in, 1),
    }
