# %% [markdown]
# Route a month of traffic in a data frame: which queues get which messages, and which messages get lost.
# Run it as a script, or cell by cell in Jupyter, VS Code or PyCharm: in a checkout, `pip install '.[audit]' polars`.

# %%
"""Route messages with Polars: ``python notebook.py [TRAFFIC] [TOPOLOGY]``."""

import json
import sys
from pathlib import Path

import polars as pl

from bindings import load
from exchange import Router

ORDERS = Path(__file__).parent.parent / "orders"
traffic = Path(sys.argv[1]) if len(sys.argv) > 1 else ORDERS / "traffic.jsonl"
topology = sys.argv[2] if len(sys.argv) > 2 else ORDERS / "orders.bindings"

# %% Read the messages: a folder of Parquet files, as `hashstar archive convert` writes it, or JSON lines.
if traffic.is_dir():
    messages = pl.read_parquet(traffic / "**/*.parquet", columns=["exchange", "routing_key", "headers"])
else:
    lines = traffic.read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    messages = pl.DataFrame(
        {
            "exchange": [row["exchange"] for row in rows],
            "routing_key": [row["routing_key"] for row in rows],
            "headers": [json.dumps(row.get("headers", {})) for row in rows],
        }
    )
print(messages.select("exchange", "routing_key").head(3))

# %% Route all of them in one call. The result is Arrow, so Polars takes it as it is.
router = Router(load(topology))
routes = router.route_columns(messages["exchange"], messages["routing_key"], messages["headers"])
print(routes)
frame = messages.hstack(pl.DataFrame(routes))

# %% Group by outcome: each distinct route once, with the number of its messages.
outcomes = frame.group_by("outcome", "queues").len().sort("len", "outcome", descending=[True, False])
print(outcomes.select("queues", "len"))

# %% Count the messages of each queue.
print(frame.explode("queues").drop_nulls("queues").group_by("queues").len().sort("len", "queues", descending=True))

# %% List the messages that no queue gets.
lost = frame.filter(pl.col("queues").list.len() == 0, pl.col("undecided").list.len() == 0)
print(lost.group_by("exchange", "routing_key").len().sort("len", "routing_key", descending=[True, False]))
