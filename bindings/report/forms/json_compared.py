"""Two sections of the JSON of a report: what the broker did, and what another topology would do."""

from __future__ import annotations

from bindings.counts.changes import PartitionMoves, Rerouted, summary
from bindings.counts.verification import Difference, Evidence, Verification
from bindings.counts.witness import Witness
from bindings.report.forms import json_types as types
from bindings.report.forms.json_values import encode_binding, encode_shapes, encode_share, encode_time
from bindings.report.gates import count_misrouted
from bindings.report.model import Compared
from bindings.report.words import describe_change, describe_difference
from exchange.values.field_json import message_to_json

__all__ = ["encode_comparison", "encode_verification"]


def encode_verification(verification: Verification) -> types.VerificationJson:
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
        "differences": [_difference(difference, evidence) for difference, evidence in differences],
        "strangers": {
            "queues": [{"queue": item.text, "messages": item.count} for item in verification.strangers.items],
            "error": verification.strangers.error,
        },
    }


def _difference(difference: Difference, evidence: Evidence) -> types.DifferenceJson:
    return {
        "exchange": difference.exchange,
        "missing": list(difference.missing),
        "extra": list(difference.extra),
        "unknown": list(difference.unknown),
        "none_of": list(difference.none_of),
        "refused": difference.refused or None,
        "only_unknown": difference.only_unknown,
        "says": describe_difference(difference),
        "messages": evidence.messages,
        "first": encode_time(evidence.span.first),
        "last": encode_time(evidence.span.last),
        "witnesses": [_witness(witness) for witness in evidence.witnesses],
    }


def _witness(witness: Witness) -> types.WitnessJson:
    return {
        "message": message_to_json(witness.message),
        "source": witness.source,
        "offset": witness.offset,
        "routed_queues": None if witness.routed_queues is None else list(witness.routed_queues),
    }


def encode_comparison(compared: Compared) -> types.ComparisonJson:
    """Return which messages go elsewhere in the other topology."""
    changes = compared.changes
    return {
        "topology": {"source": compared.topology, "fingerprint": compared.fingerprint},
        "says": summary(changes.totals),
        "totals": {
            "messages": changes.totals.messages,
            "elsewhere": changes.totals.elsewhere,
            "lose": changes.totals.lose,
            "gain": changes.totals.gain,
            "unsure": changes.totals.unsure,
            "become_unroutable": changes.totals.become_unroutable,
            "no_longer_unroutable": changes.totals.no_longer_unroutable,
            "repartitioned": changes.totals.repartitioned,
        },
        "rerouted": [_rerouted(row) for row in changes.rerouted],
        "queues": [
            {
                "queue": row.queue,
                "before": row.before,
                "after": row.after,
                "lost": row.lost,
                "gained": row.gained,
                "unsure": row.unsure,
                "status": row.status,
            }
            for row in changes.queues
        ],
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
        "partitions": [_repartitioned(row) for row in changes.partitions],
    }


def _rerouted(row: Rerouted) -> types.ReroutedJson:
    change = row.change
    return {
        "exchange": change.exchange,
        "lost": list(change.lost),
        "gained": list(change.gained),
        "unsure": list(change.unsure),
        "before": change.before,
        "after": change.after,
        "refused_before": change.refused_before or None,
        "refused_after": change.refused_after or None,
        "becomes_unroutable": change.becomes_unroutable,
        "no_longer_unroutable": change.no_longer_unroutable,
        "says": describe_change(change),
        "messages": row.messages,
        "first": encode_time(row.first),
        "last": encode_time(row.last),
        "distinct_keys": row.distinct_keys,
        "shapes": encode_shapes(row.shapes),
        "shapes_error": row.shapes.error,
        "witnesses": [_witness(witness) for witness in row.witnesses],
    }


def _repartitioned(row: PartitionMoves) -> types.RepartitionedJson:
    return {
        "queue": row.queue,
        "before": None if row.before is None else str(row.before),
        "after": None if row.after is None else str(row.after),
        "messages": row.messages,
        "moved": row.moved,
        "undecided": row.undecided,
        "share": encode_share(row.share),
        "flows": [
            {"before": before, "after": after, "messages": count} for (before, after), count in row.flows.items()
        ],
    }
