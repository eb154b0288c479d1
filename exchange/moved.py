"""Import modules by the names they had in 1.0 or before: each import gives a DeprecationWarning and the present module.

This module and its calls will be removed in 1.1. An old module name that is a package now is missing here: the package
exports what the module did.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final
from warnings import warn

__all__ = ["NEW_NAMES", "find_moved", "find_new_name", "install"]

MOVED: Final = {
    ("exchange", "exchange.patterns"): "pattern matcher wild>wildcards conjunctions pcre",
    ("exchange", "exchange.entities"): "parts>entities tables>indexes profile queue_arguments policy_definitions",
    ("exchange", "exchange.topology"): "rules",
    ("exchange", "exchange.routing"): "router route explain nearest",
    ("exchange", "exchange"): "values>field_values typed_json>field_json",
    ("exchange.partition", "exchange.partition.clients"): (
        "kafka kafka_builtin librdkafka go rabbitmq key_hash rocketmq"
    ),
    ("exchange.partition", "exchange.partition.hashing"): "hashes java guava erlang keys",
    ("exchange.partition", "exchange.partition.partitioning"): "strategies key_source",
    ("exchange", "exchange.commands"): "cli>route console",
    ("exchange.partition", "exchange.commands"): "cli>partition",
    ("exchange.selector", "exchange.commands"): "cli>selector",
    ("bridge", "exchange"): "amqp",
    ("bindings", "bindings.sources"): ("definitions document management http_answer address files toml_file language"),
    ("bindings", "bindings.sources.definitions"): "entries findings>import_warnings additions>extensions",
    ("bindings.sources", "bindings.sources.definitions"): (
        "definition_entries>entries definition_positions>positions import_warnings extensions"
    ),
    ("bindings.language", "bindings.sources"): "reader>document_reader writer>document_writer",
    ("bindings", "bindings.sources.language"): "expectations",
    ("bindings", "bindings.analysis"): "algebra crawl pattern_set",
    ("bindings.check", "bindings.analysis"): "header_conditions",
    ("bindings.diff", "bindings.analysis"): "key_classes",
    ("bindings.check", "bindings.check.forms"): "as_json sarif text",
    ("bindings.check", "bindings.check.rules"): (
        "finding words subject>view lost>leaks alternates ends>dangling expected headers kinds patterns policies "
        "reach redundancy"
    ),
    ("bindings.diff", "bindings.diff.planning"): "plan order rehearsal step tangles",
    ("bindings.diff", "bindings.diff.comparison"): (
        "changed>changes choices conditions headers meaning partitions reach>sides routes>paths search terms"
    ),
    ("bindings.apply", "bindings.apply"): "steps>broker",
    ("bindings", "bindings"): "graph>drawing",
    ("bindings.archive", "bindings.archive.formats"): (
        "detect fetched connect firehose json_lines parquet queue_dump rabtap tracing"
    ),
    ("bindings.archive", "bindings.archive.kafka"): (
        "kafka_batches>batches kafka_rows>rows kafka_segment>segment kafka_transactions>transactions"
    ),
    ("bindings.archive.formats", "bindings.archive.kafka"): (
        "kafka_batches>batches kafka_rows>rows kafka_segment>segment kafka_transactions>transactions"
    ),
    ("bindings.archive", "bindings.archive.rocketmq"): (
        "rocketmq_log>log rocketmq_commit>commit rocketmq_find>find rocketmq_fit>fit rocketmq_id>id "
        "rocketmq_index>index rocketmq_inspection>inspection rocketmq_queue>queue rocketmq_record>record "
        "rocketmq_store>store"
    ),
    ("bindings", "bindings.counts"): (
        "tally tally_file comparison comparison_file coverage verification verification_file changes outcome "
        "witness sketch slots rows>codec batch>columnar"
    ),
    ("bindings.batch", "bindings.counts.columnar.arrays"): "keys spans window messages hashing placing",
    ("bindings.batch", "bindings.counts.columnar.classes"): ("classes header_codes header_sorts>header_classes"),
    ("bindings.batch", "exchange.arrays"): "table",
    ("bindings.batch", "exchange.patterns.columns"): "automaton literals shapes words",
    ("bindings.batch", "exchange.routing.columns"): "key_sorts>key_classes ways>routing_inputs addresses",
    ("bindings.counts.columnar.arrays", "exchange.arrays"): "table",
    ("bindings.counts.columnar.classes", "exchange.patterns.columns"): "automaton literals shapes words",
    ("bindings.counts.columnar.classes", "exchange.routing.columns"): "key_classes routing_inputs key_groups>addresses",
    ("exchange.partition.batch", "exchange.arrays"): "columns",
    ("bindings.analysis", "exchange.topology"): "graph",
    ("bindings.batch", "bindings.counts.columnar.sketches"): (
        "often>heavy_hitters registers>hyperloglog samples>bottom_k"
    ),
    ("bindings.audit", "bindings.audit.local"): "here>run planning selection studies study tasks",
    ("bindings.audit", "bindings.archive"): "account",
    ("bindings.audit", "bindings.audit.spark"): (
        "frames gathering growth kafka ledger pruning session source streaming job"
    ),
    ("bindings.report", "bindings.report"): "report>model",
    ("bindings.report", "bindings.report.forms"): (
        "terminal markdown as_json junit html tables json_compared json_values cells"
    ),
    ("bindings", "bindings.testing"): "virtual_broker",
    ("bridge", "bridge.pump"): "outlet window order policy filtering dead_letters inlet gate loops reach",
    ("bridge", "bridge.endpoints"): "kafka rabbitmq archive",
    ("bridge.kafka", "bridge.endpoints.kafka.cluster"): "addresses asking checking errors health lazy topics",
    ("bridge.kafka", "bridge.endpoints.kafka.consumer"): "membership>member consuming>source fetching topic_ids",
    ("bridge.kafka", "bridge.endpoints.kafka.producer"): (
        "producing>plain transactions>transactional transacting>transaction watching records>writer"
    ),
    ("bridge.rocketmq", "bridge.endpoints.rocketmq"): "reading>source writing>target placing addresses checking lane",
    ("bridge.rocketmq", "bridge.rocketmq.remoting"): (
        "channel connections codes errors acl client properties message batch stored ids admin pulse"
    ),
    ("bridge.rocketmq", "bridge.rocketmq.producer"): "publishing tries requests",
    ("bridge.rocketmq", "bridge.rocketmq.consumer"): (
        "assigned fetching group offsets ordering pulling retrying room running share subscription"
    ),
    ("bridge", "bridge"): "mapping>interop",
    ("bridge", "bindings.http"): "listener",
    ("bridge", "bridge.daemon"): (
        "commands config workers web metrics journal coverage progress probe health gauges "
        "signals views history>metrics process>gauges"
    ),
}
"""(Old package, new package) -> the modules that moved, as ``name`` or ``old>new``."""

NEW_NAMES: Final = {
    f"{old}.{name.partition('>')[0]}": f"{new}.{name.rpartition('>')[2]}"
    for (old, new), names in MOVED.items()
    for name in names.split()
}


def find_new_name(name: str) -> str | None:
    """Return the present name of a module that has moved, itself or with its package; None for all others."""
    if not name.startswith(("exchange.", "bindings.", "bridge.")):
        return None
    head, tail = name, ""
    while "." in head:
        if head in NEW_NAMES:
            return NEW_NAMES[head] + tail
        head, _, last = head.rpartition(".")
        tail = f".{last}{tail}"
    return None


class _Finder:
    """A finder of moved modules, first in `sys.meta_path`: else a package that has moved would load modules twice.

    It is no subclass of `importlib.abc`, since importing that takes longer than importing the rest of the engine.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return find_moved(fullname)


def find_moved(name: str) -> ModuleSpec | None:
    """Warn of an old module name and return the spec to import it by; return None for all other names."""
    new = find_new_name(name)
    if new is None:
        return None
    warn(f"{name} has moved to {new}; the old name goes in hashstar 1.1", DeprecationWarning, stacklevel=3)
    return ModuleSpec(name, _Alias(new))  # type: ignore[arg-type]  # it has the methods of a Loader


class _Alias:
    """A loader that returns the module of another name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self._name)
        self._own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own  # the import system has replaced it by the spec of the old name


def install() -> None:
    """Make the old names importable in this process."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
