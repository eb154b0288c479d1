"""Write ``docs/schemas``, and the tables of keys in the documentation, as the code has them.

::

    $ python -m docs.scripts.schemas
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from bindings.report.settings import build_settings_schema
from bridge.daemon.keys import FILE, REPLIES_OF
from bridge.endpoints.archive import keys as archive
from bridge.endpoints.kafka import keys as kafka
from bridge.endpoints.rabbitmq import keys as rabbitmq
from bridge.endpoints.rocketmq import keys as rocketmq
from bridge.keys import Keys
from bridge.oauth import KEYS as OAUTH
from bridge.pump.keys import POLICY, SOURCE
from bridge.registry.keys import REGISTRY
from bridge.schema.names import SCHEMAS

DOCS: Final = Path(__file__).parents[1]
FOLDER: Final = DOCS / "schemas"

TABLES: Final[Mapping[str, Mapping[str, Keys]]] = {
    "bridge-configuration.md": {
        "The file": FILE,
        "`[policy]`": POLICY,
        "A source: every kind": SOURCE,
        "Tokens of OAuth 2": OAUTH,
        "Schemas of bodies": REGISTRY,
    },
    "bridge-rabbitmq.md": {"RabbitMQ as a source": rabbitmq.SOURCE, "RabbitMQ as a target": rabbitmq.TARGET},
    "bridge-kafka.md": {"Kafka as a source": kafka.SOURCE, "Kafka as a target": kafka.TARGET},
    "bridge-rocketmq.md": {"RocketMQ as a source": rocketmq.SOURCE, "RocketMQ as a target": rocketmq.TARGET},
    "bridge-requests.md": {"Requests and replies": REPLIES_OF},
    "bridge-archives.md": {"An archive as a source": archive.SOURCE, "An archive as a target": archive.TARGET},
}
"""Page -> its headings, each with the keys in the table below it."""

HEAD: Final = "| key | default | |\n|---|---|---|\n"


SETTINGS: Final = DOCS / "audit.md"
SETTINGS_HEAD: Final = "| key of `[audit]` | default | |\n|---|---|---|\n"

LIST: Final = """# JSON Schemas

Files that hashstar reads and outputs that it writes, each as a [JSON Schema](https://json-schema.org/). `hashstar
schema NAME` prints one. Those of files are for editors ([how](../bridge-configuration.md#in-an-editor)) and refuse
unknown keys; those of outputs accept the fields that a later release adds.

| schema | what it describes |
|---|---|
"""


def schema_files() -> Iterator[tuple[Path, str]]:
    """Yield the path and the content of the page that lists the schemas, and of the file of each."""
    rows = [f"| [{name}]({name}.json) | {schema.about} |\n" for name, schema in SCHEMAS.items()]
    yield FOLDER / "README.md", "".join([LIST, *rows])
    for name, schema in SCHEMAS.items():
        yield FOLDER / f"{name}.json", json.dumps(schema.build(name), indent=2, ensure_ascii=False) + "\n"


def with_tables(name: str) -> str:
    """Return the text of a page with its tables of keys made anew. Raises ValueError where it has no place for one."""
    page = (DOCS / name).read_text("utf-8")
    for heading, table in TABLES[name].items():
        rows = re.compile(rf"^## {re.escape(heading)}\n(?:(?!## ).*\n)*?{re.escape(HEAD)}((?:\|.*\n)*)", re.MULTILINE)
        found = rows.search(page)
        if found is None:
            raise ValueError(f"{name} has no table of keys below {heading!r}")
        page = page[: found.start(1)] + "".join([f"{key.row}\n" for key in table.keys]) + page[found.end(1) :]
    return page


def with_settings(page: str) -> str:
    """Return the page with the table of the settings of audits made anew. Raises ValueError where there is none."""
    found = re.search(rf"{re.escape(SETTINGS_HEAD)}((?:\|.*\n)*)", page)
    if found is None:
        raise ValueError(f"{SETTINGS.name} has no table of settings")
    rows = []
    for name, setting in build_settings_schema()["properties"]["audit"]["properties"].items():
        default = f"`{setting['default']}`" if "default" in setting else "none"
        rows.append(f"| `{name}` | {default} | {setting['description'].rstrip('.')} |\n")
    return page[: found.start(1)] + "".join(rows) + page[found.end(1) :]


def main() -> None:
    """Write the files, and remove those of schemas that are gone."""
    files = dict(schema_files())
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.iterdir():
        if path not in files:
            path.unlink()
    for path, text in files.items():
        path.write_text(text, "utf-8")
    for name in TABLES:
        (DOCS / name).write_text(with_tables(name), "utf-8")
    SETTINGS.write_text(with_settings(SETTINGS.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
