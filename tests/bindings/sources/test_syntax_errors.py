"""What is not TOML, YAML or JSON is shown with its line and a caret, by one function, and no secret is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindings.sources.definitions.text import parse_text
from bindings.sources.formats.nodes import parse_json_node
from bindings.sources.formats.yaml_text import parse_documents
from bindings.sources.recording.file import read_recording
from bindings.sources.toml_file import read_toml
from exchange import InputError
from exchange.text.display import split_error
from tests.support.tiers import examples


def read(language: str, text: str, folder: Path) -> None:
    """Read a text in a language, as the commands do."""
    if language == "toml":
        path = folder / "f.toml"
        path.write_text(text, encoding="utf-8", newline="")
        read_toml(path)
    elif language == "yaml":
        list(parse_documents(text, "f.yaml"))
    elif language == "lines":
        read_recording(text, "f.jsonl")
    else:
        {"json": parse_json_node, "definitions": parse_text}[language](text, "f.json")


@pytest.mark.parametrize(("language", "text", "shown"), [
    ("toml", "a = 1\n  b = \n", ":2:7: not TOML: Invalid value\n      b = \n          ^"),
    ("toml", "a = 1\r\nb = {x = 1\r\n", ":2:11: not TOML: Unclosed inline table\n    b = {x = 1\n              ^"),
    ("toml", "a = [1,", ":1:8: not TOML: Invalid value\n    a = [1,\n           ^"),
    ("yaml", "a: b\nc: d: e", ":2:5: not YAML: mapping values are not allowed in this context\n    c: d: e\n        ^"),
    ("yaml", "a: 1\nb: \x07", ":2:4: not YAML: "),
    ("json", '{"a": 1,\n"b" 2}', ":2:5: not JSON: Expecting ':' delimiter\n    \"b\" 2}\n        ^"),
    ("json", '{"a": 1, "a": 2}',
     ':1:10: a name that is twice in one object: "a"\n    {"a": 1, "a": 2}\n             ^'),
    ("definitions", '{"a": [1,\n ]}', ":2:2: not JSON: a comma with nothing behind it\n     ]}\n     ^"),
    ("lines", '{"a": }\n', ': line 1: not JSON: Expecting value at column 7\n    {"a": }\n          ^'),
    ("toml", 'passwd = "s3cret\n', ":1:17: not TOML: Illegal character '\\n'\n    passwd = ...\n                ^"),
    ("toml", 'u = "amqp://u:s3cret@h\n', ":1:23: not TOML: Illegal character '\\n'\n    u = \"...\n            ^"),
    ("toml", 'pem_password = """\ns3cret\n\\x"""', ":3:3: not TOML: Unescaped '\\' in a string\n    ...\n    ^"),
    ("yaml", "password: 's3' cret\n", ":1:16: not YAML: "),
    ("yaml", "token: |\n  s3cret\n s\x01", ":3:3: not YAML: "),
])  # fmt: skip
def test_the_place_is_shown(tmp_path: Path, language: str, text: str, shown: str) -> None:
    with pytest.raises(InputError) as error:
        read(language, text, tmp_path)
    told = str(error.value)
    assert shown in told
    assert "s3" not in told
    assert "\n".join(split_error(told)) == told  # a command prints it as it is


DOCUMENTS: dict[str, Callable[[str, str], str]] = {
    "toml": lambda key, value: f'[sources.a]\nurl = "amqp://u:{value}@h/"\n{key} = "{value}"\nx = [1, {{y = 2}}]\n',
    "yaml": lambda key, value: f'a:\n  - url: amqp://u:{value}@h/\n    {key}: "{value}"\n    x: {{y: [1]}}\n',
    "json": lambda key, value: f'{{"a": [1], "url": "amqp://u:{value}@h/",\n "{key}": "{value}", "b": {{"c": 2}}}}',
}
SECRETS = ["password", "sasl.password", "password_hash", "client-secret", "access_token", "tls_key_pem", "passwd"]


@examples(150)
@given(st.integers(0, 2**32), st.sampled_from(list(DOCUMENTS)), st.sampled_from(SECRETS), st.integers(1, 3))
def test_no_secret_is_shown_however_the_text_is_damaged(
    tmp_path_factory: pytest.TempPathFactory, seed: int, language: str, key: str, damages: int
) -> None:
    """Signs are added outside of the secret's own characters, or lost; its value is in no error."""
    rng = Random(seed)
    text = DOCUMENTS[language](key, "HIDDEN")
    for _ in range(damages):
        at = rng.randrange(len(text) + 1)
        if any(at - size in range(text.find(word, max(0, at - size)), at) for word, size in ((key, len(key)),)):
            continue
        if "HIDDEN" in text[max(0, at - 6) : at + 6]:
            continue
        text = (
            text[:at]
            + rng.choice(["", '"', "'", "[", "{", "}", "\n", ":", "=", ",", "\x01"])
            + text[at + rng.choice([0, 1]) :]
        )
    told = ""
    try:
        read(language, text, tmp_path_factory.getbasetemp())
    except InputError as error:
        told = "\n".join(split_error(str(error)))
    assert "HIDDEN" not in told or key not in text
