"""Archives to audit and topologies to audit them against, made from a seed: ten million messages of one week.

Keys are of three to five words, the first ones of the vocabulary more often, and one of them is an id; each belongs to
one exchange. Of 50,000 keys some come often (Zipf), of five million each once or a few times. Each message has three
headers, of 20, 3 and 1,000 values. Times rise, as they do in archives.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.workloads import SEED
from bindings.archive.formats.parquet import ParquetWriter
from bindings.archive.reading import Bias
from bindings.archive.record import SCHEMA, make_empty_column
from exchange import Binding, Exchange, Queue, Topology

EXCHANGES: Final = tuple(f"x{number}" for number in range(5))
QUEUES: Final = 50
PATTERNS: Final = 1_000
SHARES: Final = {"literal": 35, "one": 25, "tail": 25, "head": 5, "middle": 5, "two": 5}
"""Sort of a pattern -> percent."""
VOCABULARY: Final = tuple(
    f"{stem}{number}"
    for number in range(25)
    for stem in ("order", "user", "device", "eu", "created", "paid", "svc", "t")
)
KEYS: Final = {"few": 50_000, "many": 5_000_000}
"""Archive -> how many keys its messages are drawn from; for every ten million messages."""
ZIPF: Final = 1.1
HEADERS: Final = {"region": 20, "priority": 3, "tenant": 1_000}
"""Header -> how many values it has."""
BEGIN: Final = 1_760_918_400_000_000
WEEK_US: Final = 7 * 86_400_000_000
PIECE: Final = 1 << 17
VERSION: Final = 1
"""Version of these archives: one of another version is made again."""


def keys_topology() -> Topology:
    """Return a thousand bindings of topic exchanges."""
    chance = random.Random(SEED)
    sorts = chance.choices(list(SHARES), list(SHARES.values()), k=PATTERNS)
    bindings = [
        Binding.to_queue(chance.choice(EXCHANGES), f"q{number % QUEUES}", _pattern(chance, sort))
        for number, sort in enumerate(sorts)
    ]
    exchanges = [Exchange(name, "topic") for name in EXCHANGES]
    return Topology(exchanges, [Queue(f"q{number}") for number in range(QUEUES)], bindings)


def headers_topology() -> Topology:
    """Return a thousand bindings of headers exchanges, each with one or two of the headers that have few values."""
    chance = random.Random(SEED)
    bindings = []
    for number in range(PATTERNS):
        names = chance.sample(("region", "priority"), chance.choices((1, 2), (1, 3))[0])
        arguments: dict[str, Any] = {name: f"{name}-{chance.randrange(HEADERS[name])}" for name in names}
        arguments["x-match"] = chance.choice(("all", "all", "any"))
        bindings.append(Binding.to_queue(chance.choice(EXCHANGES), f"q{number % QUEUES}", "", arguments))
    exchanges = [Exchange(name, "headers") for name in EXCHANGES]
    return Topology(exchanges, [Queue(f"q{number}") for number in range(QUEUES)], bindings)


def _pattern(chance: random.Random, sort: str) -> str:
    words = chance.choices(VOCABULARY, k=chance.randint(3, 5))
    if sort == "one":
        words[chance.randrange(len(words))] = "*"
    elif sort == "tail":
        words = [*words[: chance.randint(1, 3)], "#"]
    elif sort == "head":
        words = ["#", *words[-chance.randint(1, 2) :]]
    elif sort == "middle":
        words[chance.randrange(1, len(words) - 1)] = "#"
    elif sort == "two":
        for place in chance.sample(range(len(words)), 2):
            words[place] = "*"
    return ".".join(words)


def write_archive(folder: Path, which: str, messages: int) -> Path:
    """Return the folder of the archive ``few`` or ``many`` of this many messages; make it if it is missing."""
    place = folder / f"{which}-{messages}-v{VERSION}"
    done = place / "complete"
    if not done.exists():
        with ParquetWriter(place, Bias.EVERYTHING) as writer:
            for batch in _batches(which, messages):
                writer.write(batch)
        done.touch()
    return place


def _batches(which: str, messages: int) -> Iterator[pa.RecordBatch]:
    generator = np.random.default_rng(SEED)
    size = KEYS[which] if which == "few" else KEYS[which] * messages // 10_000_000
    keys, exchanges = draw_keys(generator, size), pa.array(EXCHANGES).take(pa.array(generator.integers(0, 5, size)))

    values = {name: pa.array([f"{name}-{n}" for n in range(count)]) for name, count in HEADERS.items()}
    times = BEGIN + np.sort(generator.integers(0, WEEK_US, messages))
    for start in range(0, messages, PIECE):
        count = min(PIECE, messages - start)
        drawn = draw_by_rank(generator, size, count) if which == "few" else generator.integers(0, size, count)
        columns = {
            "time": pa.array(times[start : start + count], pa.timestamp("us", "UTC")),
            "vhost": pa.array(["/"] * count),
            "exchange": exchanges.take(pa.array(drawn)),
            "routing_key": keys.take(pa.array(drawn)),
            "headers": _headers(generator, values, count),
            "body_size": pa.array(generator.integers(100, 2_000, count)),
            "source": pa.array(["generated"] * count),
            "offset": pa.array(np.arange(start, start + count)),
        }
        arrays = [columns[name] if name in columns else make_empty_column(name, count) for name in SCHEMA.names]
        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def draw_by_rank(generator: np.random.Generator, size: int, count: int) -> npt.NDArray[np.integer]:
    """Draw ``count`` numbers below a size, by Zipf's law."""
    weights = (1 / np.arange(1, size + 1) ** ZIPF).cumsum()
    drawn: npt.NDArray[np.integer] = np.searchsorted(weights, generator.random(count) * weights[-1])
    return drawn


def draw_keys(generator: np.random.Generator, number: int) -> pa.Array:
    """Draw ``number`` keys, most of them different."""
    words = pa.array(VOCABULARY)
    lengths = generator.integers(3, 6, number)
    ids = generator.integers(0, lengths)
    columns = []
    for place in range(5):
        drawn: npt.NDArray[Any] = (len(VOCABULARY) * generator.random(number) ** 2).astype(np.int64)
        named = words.take(pa.array(drawn))
        chosen = pc.if_else(
            pa.array(ids == place), pa.array(generator.integers(0, 10**6, number)).cast("string"), named
        )
        columns.append(pc.if_else(pa.array(place < lengths), chosen, pa.scalar(None, pa.string())))
    return pc.binary_join_element_wise(*columns, ".", null_handling="skip")


def _headers(generator: np.random.Generator, values: dict[str, pa.Array], count: int) -> pa.MapArray:
    each = [named.take(pa.array(generator.integers(0, len(named), count))) for named in values.values()]
    order = pa.array(np.arange(len(values) * count).reshape(len(values), count).T.reshape(-1))
    texts = pa.concat_arrays(each).take(order)
    kind = SCHEMA.field("headers").type
    fields = pa.StructArray.from_arrays([pa.array(["longstr"] * len(texts)), texts], fields=list(kind.item_type))
    offsets = pa.array(np.arange(0, len(texts) + 1, len(values), dtype=np.int32))
    return pa.MapArray.from_arrays(offsets, pa.array(list(values) * count), fields, kind)
