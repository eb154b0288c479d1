"""Parts of the JSON of `bindings.report.forms.as_json`: what the broker did, and what would be in another topology."""

from __future__ import annotations

from typing import Any

from bindings.counts.changes import summary
from bindings.counts.sketch import Frequent
from bindings.counts.verification import Verification
from bindings.counts.witness import Witness
from bindings.report.forms.json_values import parts_json, share_json, time_json
from bindings.report.gates import misrouted
from bindings.report.model import Compared
from bindings.report.words import differs, rerouted
from exchange.field_json import message_to_json

__all__ = ["comparison_json", "verification_json"]


def verification_json(found: Verification) -> dict[str, Any]:
    """What the broker did, against the prediction."""
    differences = sorted(found.differences.items(), key=lambda row: (-row[1].messages, row[0]))
    return {
        "compared": found.compared,
        "agreed": found.agreed,
        "possible": found.possible,
        "undecided": found.undecided,
        "unknown": found.unknown,
        "different": found.different,
        "misrouted": misrouted(found),
        "sorts": found.sorts,
        "more": found.more,
        "differences": [
            {
                **difference._asdict(),
                "refused": difference.refused or None,
                "only_unknown": difference.only_unknown,
                "says": differs(difference),
                "messages": evidence.messages,
                "first": time_json(evidence.span.first),
                "last": time_json(evidence.span.last),
                "witnesses": [_witness(witness) for witness in evidence.witnesses],
            }
            for difference, evidence in differences
        ],
        "strangers": _frequent(found.strangers, "queue"),
    }


def _witness(witness: Witness) -> dict[str, Any]:
    return {
        "message": message_to_json(witness.message),
        "source": witness.source,
        "offset": witness.offset,
        "routed_queues": None if witness.routed_queues is None else list(witness.routed_queues),
    }


def comparison_json(compared: Compared) -> dict[str, Any]:
    """What becomes of the messages in the other topology."""
    found = compared.changes
    return {
        "topology": {"source": compared.topology, "fingerprint": compared.fingerprint},
        "says": summary(found.totals),
        "totals": found.totals._asdict(),
        "rerouted": [
            {
                **row.change._asdict(),
                "refused_before": row.change.refused_before or None,
                "refused_after": row.change.refused_after or None,
                "becomes_unroutable": row.change.becomes_unroutable,
                "no_longer_unroutable": row.change.no_longer_unroutable,
                "says": rerouted(row.change),
                "messages": row.messages,
                "first": time_json(row.first),
                "last": time_json(row.last),
                "distinct_keys": row.distinct_keys,
                "shapes": [
                    {"shape": item.text, "messages": item.count, "example": item.example} for item in row.shapes.items
                ],
                "shapes_error": row.shapes.error,
                "witnesses": [_witness(witness) for witness in row.witnesses],
            }
            for row in found.rerouted
        ],
        "queues": [row._asdict() for row in found.queues],
        "bindings": [
            {
                "number": row.number,
                **parts_json(row.binding),
                "change": "added" if row.added else "removed",
                "messages": row.messages,
                "possible": row.possible,
                "elsewhere": row.elsewhere,
            }
            for row in found.bindings
        ],
        "partitions": [
            {
                "queue": row.queue,
                "before": None if row.before is None else str(row.before),
                "after": None if row.after is None else str(row.after),
                "messages": row.messages,
                "moved": row.moved,
                "undecided": row.undecided,
                "share": share_json(row.share),
                "flows": [
                    {"before": before, "after": after, "messages": count}
                    for (before, after), count in row.flows.items()
                ],
            }
            for row in found.partitions
        ],
    }


def _frequent(found: Frequent, what: str) -> dict[str, Any]:
    return {f"{what}s": [{what: item.text, "messages": item.count} for item in found.items], "error": found.error}
