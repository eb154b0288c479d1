"""What the real Sarama and franz-go do: ``python -m tests.recorders.go``; needs Go.

The program in ``go_partitioners`` asks them; its go.mod names their versions.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

from tests.recorders import golden
from tests.recorders.keys import COUNTS, KEYS
from tests.recorders.librdkafka import LEAST_FNV1A

PROGRAM: Final = Path(__file__).parent / "go_partitioners"


def main() -> None:
    """Record."""
    question = json.dumps({"keys": [*KEYS, *LEAST_FNV1A], "counts": COUNTS})
    run = ["go", "run", "."]
    answer = subprocess.run(run, cwd=PROGRAM, input=question, stdout=subprocess.PIPE, encoding="utf-8", check=True)
    for client, said in json.loads(answer.stdout).items():
        answers = {
            f"{name} {count}": partitions
            for name, by_count in sorted(said["partitions"].items())
            for count, partitions in zip(COUNTS, by_count, strict=True)
        }
        version = said["version"].removeprefix("v")
        golden.write(f"go-{client}-{version}", client, version, answers)


if __name__ == "__main__":
    main()
