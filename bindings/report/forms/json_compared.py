"""Two sections of the JSON of a report: what the broker did, and what another topology would do."""

from __future__ import annotations

from typing import Any

from bindings.counts.changes import summary
from bindings.counts.sketch import Frequent
from bindings.counts.verification import Verification
from bindings.counts.witness import Witness
from bindings.report.forms.json_values import encode_binding, encode_share, encode_time
from bindings.report.gates import count_misrouted
from bindings.report.model import Compared
from bindings.report.words import describe_change, describe_difference
from exchange.field_json import message_to_json

__all__ = ["encode_comparison", "encode_verification"]


def encode_verification(verification: Verification) -> dict[str, Any]:
    """Return what the broker did, compared with the prediction."""
    differences = sorted(verification.differences.items(), key=lambda row: (-row[1].messages, row[0]))
    return {
        "compared": verification.compared,
        "agreed": verification.agreed,
        "possible": verification.possible,
        "undecided": verification.undecided,
        "unknown": verification.unknown,
        "different": verification.different,
        "misrouted": count_misrouted(verification),
        "sorts": verification.sorts,
        "more": verification.more,
        "differences": [
            {
                **difference._asdict(),
                "refused": difference.refused or None,
                "only_unknown": difference.only_unknown,
                "says": describe_difference(difference),
                "messages": evidence.messages,
                "first": encode_time(evidence.span.first),
                "last": encode_time(evidence.span.last),
                "witnesses": [_witness(witness) for witness in evidence.witnesses],
            }
            for difference, evidence in differences
        ],
        "strangers": _frequent(verification.strangers, "queue"),
    }


def _witness(witness: Witness) -> dict[str, Any]:
    return {
        "message": message_to_json(witness.message),
        "source": witness.source,
        "offset": witness.offset,
        "routed_queues": None if witness.routed_queues is None else list(witness.routed_queues),
    }


def encode_comparison(compared: Compared) -> dict[str, Any]:
    """Return which messages go elsewhere in the other topology."""
    changes = compared.changes
    return {
        "topology": {"source": compared.topology, "fingerprint": compared.fingerprint},
        "says": summary(changes.totals),
        "totals": changes.totals._asdict(),
        "rerouted": [
            {
                **row.change._asdict(),
                "refused_before": row.change.refused_before or None,
                "refused_after": row.change.refused_after or None,
                "becomes_unroutable": row.change.becomes_unroutable,
                "no_longer_unroutable": row.change.no_longer_unroutable,
                "says": describe_change(row.change),
                "messages": row.messages,
                "first": encode_time(row.first),
                "last": encode_time(row.last),
                "distinct_keys": row.distinct_keys,
                "shapes": [
                    {"shape": item.text, "messages": item.count, "example": item.example} for item in row.shapes.items
                ],
                "shapes_error": row.shapes.error,
                "witnesses": [_witness(witness) for witness in row.witnesses],
            }
            for row in changes.rerouted
        ],
        "queues": [row._asdict() for row in changes.queues],
        "bindings": [
            {
                "number": row.number,
                **encode_binding(row.binding),
                "change": "added" if row.added else "removed",
                "messages": row.messages,
                "possible": row.possible,
                "elsewhere": row.elsewhere,
            }
            for row in changes.bindings
        ],
        "partitions": [
            {
                "queue": row.queue,
                "before": None if row.before is None else str(row.before),
                "after": None if row.after is None else str(row.after),
                "messages": row.messages,
                "moved": row.moved,
                "undecided": row.undecided,
                "share": encode_share(row.share),
                "flows": [
                    {"before": before, "after": after, "messages": count}
                    for (before, after), count in row.flows.items()
                ],
            }
            for row in changes.partitions
        ],
    }


def _frequent(frequent: Frequent, what: str) -> dict[str, Any]:
    return {f"{what}s": [{what: item.text, "messages": item.count} for item in frequent.items], "error": frequent.error}
