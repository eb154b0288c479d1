"""A broker's data folder with something of everything in it, and what Kafka's own tools show of it."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from tests.recorders.jvm import QUICK, find_classpath, make_command
from tests.support.waiting import find_limit

TOPICS: Final = {"orders": 3, "paid": 2, "empty": 1}
BATCH: Final = re.compile(
    r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*?isControl: (\w+) .*?size: (\d+) magic: (\d)"
)
ABORTED: Final = re.compile(
    r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", re.IGNORECASE
)


@contextmanager
def filled(url: str, *, is_modern: bool, prefix: str = "") -> Iterator[None]:
    """Fill a broker; while this lasts, groups have members and a transaction is open.

    ``is_modern`` adds a group of the consumer protocol of KIP-848. All names get a prefix.
    """
    from confluent_kafka import Consumer, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    where: dict[str, Any] = {"bootstrap.servers": url, "log_level": 0}
    admin = AdminClient(where)
    made = admin.create_topics([NewTopic(prefix + name, count, 1) for name, count in TOPICS.items()])
    for future in made.values():
        future.result(find_limit())
    plain = Producer(where | {"compression.type": "lz4", "enable.idempotence": True, "linger.ms": 20})
    for n in range(600):
        plain.produce(prefix + "orders", key=f"k{n % 50}", value=b"v" * (n % 90), partition=n % 3)
        if n % 100 == 99:
            plain.flush(find_limit())
    with ExitStack() as open_ones:
        paid = prefix + "paid"
        for name, ends in (("commits", "cac"), ("aborts", "aa"), ("stays-open", "o")):
            producer = Producer(where | {"transactional.id": prefix + name, "transaction.timeout.ms": 300_000})
            producer.init_transactions(60)
            for end in ends:
                producer.begin_transaction()
                for n in range(7):
                    producer.produce(paid, key=f"{name}{n}", value=b"x", partition=n % 2)
                producer.flush(find_limit())
                if end != "o":
                    (producer.commit_transaction if end == "c" else producer.abort_transaction)(30)
            open_ones.callback(lambda held: None, producer)  # it lives as long, and its transaction stays open

        def join(group: str, **settings: Any) -> Consumer:
            consumer = Consumer(where | {"group.id": prefix + group, "enable.auto.commit": False} | settings)
            consumer.subscribe([prefix + "orders"])
            deadline = time.monotonic() + find_limit()
            count = 0
            while count < 250 and time.monotonic() < deadline:
                count += len(consumer.consume(250 - count, 1))
            assert count == 250
            consumer.commit(asynchronous=False)
            return consumer

        first = {"auto.offset.reset": "earliest"}
        join("left", **first).close()
        stays = join("stays", **first, **{"client.id": "größe", "group.instance.id": "static-1"})
        open_ones.callback(stays.close)
        if is_modern:
            open_ones.callback(join("modern", **first, **{"group.protocol": "consumer", "client.id": "neu"}).close)
        by_hand = Consumer(where | {"group.id": prefix + "by-hand", "enable.auto.commit": False})
        offsets = [TopicPartition(paid, 0, 5), TopicPartition(prefix + "empty", 0, 0)]
        by_hand.commit(offsets=offsets, asynchronous=False)
        in_transaction = Producer(where | {"transactional.id": prefix + "commits-offsets"})
        in_transaction.init_transactions(60)
        for end, offset in (("c", 4), ("a", 6)):
            in_transaction.begin_transaction()
            in_transaction.produce(paid, key=b"o", value=b"o", partition=0)
            moved = [TopicPartition(paid, 1, offset)]
            in_transaction.send_offsets_to_transaction(moved, by_hand.consumer_group_metadata(), 30)
            (in_transaction.commit_transaction if end == "c" else in_transaction.abort_transaction)(30)
        by_hand.close()
        yield


TOOLS: Final = Path(__file__).parents[1] / "java" / "KafkaTools.java"
END: Final = "=== end ==="
"""What stands behind the arguments of a tool, and behind what it prints."""
GROUP_TOOL: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
GROUP_OPTIONS: Final = {"offsets": "--offsets", "states": "--state", "members": "--members"}
PRODUCER_TOOL: Final = "org.apache.kafka.tools.TransactionsCommand"
DUMP_TOOLS: Final = {"3": "kafka.tools.DumpLogSegments", "4": "org.apache.kafka.tools.DumpLogSegments"}
"""First number of a version -> the tool's main class."""


def _run_tools(version: str, *commands: Sequence[str]) -> list[str]:
    """Return what each tool prints, called with its arguments: in one JVM, whose start costs more than what they do."""
    jars = find_classpath(f"org.apache.kafka:kafka-tools:{version}", f"org.apache.kafka:kafka_2.13:{version}")
    arguments = [word for each in commands for word in (*each, END)]
    command = [*make_command(TOOLS, jars, *QUICK), *arguments]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=find_limit()).stdout
    *texts, rest = printed.split(f"{END}\n")
    assert (len(texts), rest) == (len(commands), ""), printed
    return texts


def ask_groups(version: str, url: str, prefix: str = "") -> dict[str, Any]:
    """Return what kafka-consumer-groups shows."""
    return _read_groups(_run_tools(version, *_describe_groups(url)), prefix)


def _describe_groups(url: str) -> list[Sequence[str]]:
    command = (GROUP_TOOL, "--bootstrap-server", url, "--describe", "--all-groups")
    return [(*command, option) for option in GROUP_OPTIONS.values()]


def _read_groups(tables: Sequence[str], prefix: str) -> dict[str, Any]:
    return {
        name: [row for row in _read_tables(table) if row["GROUP"].startswith(prefix)]
        for name, table in zip(GROUP_OPTIONS, tables, strict=True)
    }


def ask_tools(version: str, url: str, prefix: str = "") -> dict[str, Any]:
    """Return what kafka-consumer-groups and kafka-transactions show: rows of their tables, by their headings."""
    groups, paid = _describe_groups(url), f"{prefix}paid"
    producers = [
        (PRODUCER_TOOL, "--bootstrap-server", url, "describe-producers", "--topic", paid, "--partition", str(partition))
        for partition in range(TOPICS["paid"])
    ]
    tables = _run_tools(version, *groups, *producers)
    found = _read_groups(tables[: len(groups)], prefix)
    return found | {"producers": [_read_tables(table) for table in tables[len(groups) :]]}


def dump(version: str, folder: Path) -> dict[str, dict[str, Any]]:
    """Return what kafka-dump-log shows of the partitions in a data folder: name of the folder -> its figures."""
    files = sorted(
        path for path in folder.glob("*-[0-9]*/*") if path.suffix in (".log", ".txnindex") and path.stat().st_size
    )
    [text] = _run_tools(version, (DUMP_TOOLS[version[0]], "--files", ",".join(map(str, files))))
    found: dict[str, dict[str, Any]] = {}
    figures: dict[str, Any] = {}
    for line in text.splitlines():
        if line.startswith("Dumping "):
            name = Path(line.removeprefix("Dumping ")).parent.name
            figures = found.setdefault(name, {"batches": 0, "records": 0, "markers": 0, "bytes": 0, "aborted": []})
        elif batch := BATCH.match(line):
            first, last, count, control, size, magic = batch.groups()
            figures["batches"] += 1
            figures["markers" if control == "true" else "records"] += int(count)
            figures["bytes"] += int(size)
            figures["end_offset"] = int(last) + 1
            figures["formats"] = sorted({int(magic), *figures.get("formats", ())})
            figures.setdefault("start_offset", int(first))
        elif aborted := ABORTED.search(line):
            names = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
            figures["aborted"].append(dict(zip(names, map(int, aborted.groups()), strict=True)))
    return found


def check_json(
    kafka: dict[str, Any], tools: dict[str, Any], dumped: dict[str, dict[str, Any]], prefix: str = ""
) -> None:
    """Raise AssertionError where the field ``kafka`` of an inspection is not what the tools show."""
    partitions = {
        f"{topic['topic']}-{each['partition']}": each for topic in kafka["topics"] for each in topic["partitions"]
    }
    for name, figures in dumped.items():
        assert {key: partitions[name][key] for key in figures} == figures, name
        assert partitions[name]["bad"] == 0
    ours = [group for group in kafka["groups"] if group["group"].startswith(prefix)]
    ends = {(topic["topic"], each["partition"]): each for topic in kafka["topics"] for each in topic["partitions"]}
    numbers = ("PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")
    assert sorted(
        (g["group"], o["topic"], o["partition"], o["offset"], ends[o["topic"], o["partition"]]["end_offset"], o["lag"])
        for g in ours for o in g["offsets"]
    ) == sorted(
        (row["GROUP"], row["TOPIC"], *(int(row[name]) for name in numbers))
        for row in tools["offsets"] if row["CURRENT-OFFSET"] != "-"
    )  # fmt: skip
    assert sorted((g["group"], g["state"], len(g["members"])) for g in ours) == sorted(
        (row["GROUP"], row["STATE"], int(row["#MEMBERS"])) for row in tools["states"]
    )
    assert sorted(
        (g["group"], m["member_id"], m["instance"] or "-", m["host"], m["client_id"], len(m["partitions"]))
        for g in ours for m in g["members"]
    ) == sorted(
        (
            row["GROUP"], row["CONSUMER-ID"], row.get("GROUP-INSTANCE-ID", "-"), row["HOST"], row["CLIENT-ID"],
            int(row["#PARTITIONS"]),
        )
        for row in tools["members"]
    )  # fmt: skip
    for number, rows in enumerate(tools["producers"]):
        producers = partitions[f"{prefix}paid-{number}"]["producers"]
        assert [
            (each["producer_id"], each["epoch"], each["coordinator_epoch"], each["last_sequence"], each["open_since"])
            for each in producers
        ] == sorted(
            (
                *(int(row[n]) for n in ("ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence")),
                None if row["CurrentTransactionStartOffset"] == "None" else int(row["CurrentTransactionStartOffset"]),
            )
            for row in rows
        )  # fmt: skip
        times = [datetime.fromisoformat(each["last_time"]).timestamp() for each in producers]
        assert [round(time * 1000) for time in times] == [
            int(row["LastTimestamp"]) for row in sorted(rows, key=lambda row: int(row["ProducerId"]))
        ]


def _read_tables(text: str) -> list[dict[str, str]]:
    """Return the rows of the tables that a tool prints, whose cells are below their headings or behind tabs."""
    rows: list[dict[str, str]] = []
    starts: list[tuple[str, int]] = []
    names: list[str] = []
    for line in text.splitlines():
        if line.startswith("ProducerId"):
            names = [name.strip() for name in line.split("\t")]
        elif names:
            rows.append(dict(zip(names, [word.strip() for word in line.split("\t")], strict=False)))
        elif line.startswith("GROUP "):
            starts = [(match[0], match.start()) for match in re.finditer(r"\S+(?: \(ID\))?", line)]
        elif starts and line.strip() and not line.startswith("Consumer group "):
            ends = [*[start for _, start in starts[1:]], len(line)]
            rows.append({name: line[start:end].strip() for (name, start), end in zip(starts, ends, strict=True)})
    return rows
