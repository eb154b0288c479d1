"""The evidence of traffic for findings: traffic confirms or contradicts what a finding claims about messages.

Reports call a confirmed finding ``proved`` and a contradicted one ``belied``. A sample of messages cannot prove a claim
about all messages: ``proved`` means that the traffic of this window shows what the finding claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from bindings.checking.rules.finding import Finding
from bindings.counts.uses import AlternateUse, BindingUse, ExchangeUse, QueueUse
from bindings.report.model import Evidence, FindingRow
from exchange.entities.entities import Binding, Exchange, Queue
from exchange.text.display import count_noun


class WindowCounts(NamedTuple):
    """The counts of a window: of each binding, exchange and queue, and of alternate exchanges."""

    bindings: Mapping[Binding, BindingUse]
    exchanges: Mapping[str, ExchangeUse]
    queues: Mapping[str, QueueUse]
    alternates: Sequence[AlternateUse]


Statement = tuple[Evidence, str]
"""The evidence, and a sentence about it."""

NOTHING: Final[Statement] = ("", "")


def add_evidence(findings: Iterable[Finding], traffic: WindowCounts, *, is_whole: bool) -> tuple[FindingRow, ...]:
    """Return each finding with the evidence that the traffic gives.

    Unless the topology ``is_whole``, traffic confirms nothing: a part that was not read may have led messages there.
    """
    rows = [_row(finding, traffic) for finding in findings]
    return tuple(
        [row._replace(evidence="", sentence="") if row.evidence == "proved" and not is_whole else row for row in rows]
    )


def _row(finding: Finding, traffic: WindowCounts) -> FindingRow:
    parts = [finding.part, *finding.related]
    bindings = [
        traffic.bindings[part].number for part in parts if isinstance(part, Binding) and part in traffic.bindings
    ]
    claim = CLAIMS.get(finding.code)
    evidence, sentence = claim(finding, traffic) if claim is not None else NOTHING
    use = _use_of(finding, traffic)
    return FindingRow(finding, evidence, sentence, tuple(bindings), None if use is None else use.messages)


def _use_of(finding: Finding, traffic: WindowCounts) -> BindingUse | ExchangeUse | QueueUse | None:
    """Return the counts of the part that a finding is about; None where it is no such part, or has none."""
    part = finding.part
    if isinstance(part, Binding):
        return traffic.bindings.get(part)
    if isinstance(part, Exchange):
        return traffic.exchanges.get(part.name)
    return traffic.queues.get(part.name) if isinstance(part, Queue) else None


def _decides_nothing(finding: Finding, traffic: WindowCounts) -> Statement:
    use = _use_of(finding, traffic)
    if not isinstance(use, BindingUse):
        return NOTHING
    if not use.messages:
        return "no traffic", "no message matched it"
    if use.only:
        return "belied", f"{use.only:,} of its {count_noun(use.messages, 'message')} got to its destination by it alone"
    matched = count_noun(use.messages, "message")
    return "proved", f"{matched} matched it, and all got to its destination by another way, too"


def _leads_nowhere(finding: Finding, traffic: WindowCounts) -> Statement:
    parts = [part for part in (finding.part, *finding.related) if isinstance(part, Binding)]
    messages = sum([traffic.bindings[part].messages for part in parts if part in traffic.bindings])
    if not messages:
        return "no traffic", "no message was led there"
    return "proved", f"{count_noun(messages, 'message')} matched and would have gone there"


def _matches_nothing(finding: Finding, traffic: WindowCounts) -> Statement:
    use = _use_of(finding, traffic)
    if not isinstance(use, BindingUse):
        return NOTHING
    if use.messages:
        return "belied", f"{count_noun(use.messages, 'message')} matched it"
    if not use.exposure:
        return "no traffic", "no message went through its exchange"
    return "proved", f"none of {count_noun(use.exposure, 'message')} through its exchange matched it"


def _matches_all(finding: Finding, traffic: WindowCounts) -> Statement:
    use = _use_of(finding, traffic)
    if not isinstance(use, BindingUse):
        return NOTHING
    if not use.exposure:
        return "no traffic", "no message went through its exchange"
    matched = f"{use.messages:,} of {count_noun(use.exposure, 'message')} through its exchange matched it"
    return ("proved" if use.messages == use.exposure else "belied"), matched


def _loses(finding: Finding, traffic: WindowCounts) -> Statement:
    part = finding.part
    name = part.source if isinstance(part, Binding) else part.name if isinstance(part, Exchange) else None
    use = traffic.exchanges.get(name) if name is not None else None
    if use is None:
        return NOTHING
    if not use.published:
        return "no traffic", "no message was published to it"
    if not use.unroutable:
        return "no traffic", f"{count_noun(use.published, 'message')} published to it, and none was lost"
    return "proved", f"{use.unroutable:,} of {count_noun(use.published, 'message')} published to it went nowhere"


def _count(
    finding: Finding, traffic: WindowCounts, some: Evidence, none: Evidence, where: str, by: str = ""
) -> Statement:
    """Return what the number of messages of an exchange or queue makes of a finding: ``some``, or ``none`` for 0."""
    use = _use_of(finding, traffic)
    if not isinstance(use, ExchangeUse | QueueUse):
        return NOTHING
    return (
        (some, f"{count_noun(use.messages, 'message')} {where}{by}") if use.messages else (none, f"no message {where}")
    )


def _never_takes_alternate(finding: Finding, traffic: WindowCounts) -> Statement:
    use = _use_of(finding, traffic)
    if not isinstance(use, ExchangeUse):
        return NOTHING
    taken = sum([row.messages for row in traffic.alternates if row.exchange == use.exchange])
    if taken:
        return "belied", f"{count_noun(taken, 'message')} took it"
    if not use.messages:
        return "no traffic", "no message went through the exchange"
    return "proved", f"none of {count_noun(use.messages, 'message')} took it"


CLAIMS: Final[Mapping[str, Callable[[Finding, WindowCounts], Statement]]] = {
    "HS102": _leads_nowhere,
    "HS103": _decides_nothing,
    "HS104": _decides_nothing,
    "HS105": _decides_nothing,
    "HS106": _decides_nothing,
    "HS107": _matches_nothing,
    "HS110": _matches_nothing,
    "HS201": partial(_count, some="proved", none="no traffic", where="went there"),
    "HS202": partial(_count, some="proved", none="no traffic", where="went there"),
    "HS203": partial(_count, some="belied", none="proved", where="went through it"),
    "HS204": partial(_count, some="", none="", where="got there", by=" by the default exchange"),
    "HS205": _loses,
    "HS301": _loses,
    "HS302": _loses,
    "HS303": _loses,
    "HS304": _never_takes_alternate,
    "HS305": _loses,
    "HS402": _matches_nothing,
    "HS403": _matches_nothing,
    "HS406": _matches_nothing,
    "HS407": _matches_nothing,
    "HS408": _matches_nothing,
    "HS501": _matches_nothing,
    "HS502": _matches_all,
    "HS506": _matches_nothing,
}
"""Code of a finding -> the function that compares its claim with the traffic. Other findings get no evidence."""
