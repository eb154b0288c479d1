"""Record what RocketMQ's Java makes of remoting commands: ``python -m tests.recorders.rocketmq_remoting``.

It writes the commands of `COMMANDS` in both encodings, reads the frames that we write for them, and signs them.
"""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from random import Random
from typing import Any, Final

from bridge.rocketmq.remoting.command import LANGUAGES, Command, SerializeType, encode
from tests.recorders import golden
from tests.recorders.jvm import ask, find_classpath

VERSIONS: Final = ("4.9.7", "5.5.0")
HERE: Final = Path(__file__).parent
OPEN: Final = ("--add-opens", "java.base/java.nio=ALL-UNNAMED")

CREDENTIALS: Final = (("reader", "12345678", None), ("größe", "schlüssel\u00df", "token"), ("a", "\U0001f511", None))
"""Access key, secret key, security token."""

TEXTS: Final = (
    "a", "topic", "%RETRY%group", "größe", "中文", "\U0001f600", 'say "so"', "back\\slash", "\x01\x02", "\n\t\0",
    "x" * 300, "WAIT\x01true\x02TAGS\x01a\x02", "1700000000000", "{", "}:,[]", "\u2028",
)  # fmt: skip


def _commands(count: int = 60) -> tuple[Command, ...]:
    random = Random(0)
    commands = [
        Command(34),
        Command(105, {"topic": "t"}),
        Command(0, flag=1, remark="so"),
        Command(32767, version=32767),
    ]
    for _ in range(count):
        fields = {random.choice(TEXTS): random.choice(TEXTS) for _ in range(random.randint(0, 8))}
        commands.append(
            Command(
                random.choice((-1, 0, 10, 310, 32767)), fields, random.randbytes(random.choice((0, 0, 1, 100))),
                random.choice((0, 1, -1, (1 << 31) - 1, -(1 << 31))), random.randint(0, 3),
                random.choice((None, None, *TEXTS)), random.choice(LANGUAGES[:12]), random.randint(0, 600),
            )
        )  # fmt: skip
    return tuple(commands)


COMMANDS: Final = _commands()


def to_json(command: Command) -> dict[str, Any]:
    """Return a command in the form of the Java program."""
    fields: dict[str, Any] = {**command._asdict(), "fields": dict(command.fields)}
    return fields | {"body": b64encode(command.body).decode()}


def main() -> None:
    """Record everything again."""
    frames = [b64encode(encode(command, header)).decode() for command in COMMANDS for header in SerializeType]
    question = {"commands": [to_json(command) for command in COMMANDS], "frames": frames, "credentials": CREDENTIALS}
    for version in VERSIONS:
        wanted = [f"org.apache.rocketmq:rocketmq-client:{version}"]
        if version.startswith("4."):
            wanted.append(f"org.apache.rocketmq:rocketmq-acl:{version}")
        answers = ask(HERE / "RocketmqRemoting.java", find_classpath(*wanted), question, *OPEN)
        golden.write(f"rocketmq-remoting-{version}", "rocketmq-remoting", version, {"frames": frames, **answers})
        print(f"rocketmq-remoting {version}")


if __name__ == "__main__":
    main()
