"""Terraform: plans and states are read, configurations are written and, as only Terraform evaluates them, refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bindings.sources.definitions import Definitions
from bindings.sources.formats import FORMATS, SourceFile
from bindings.sources.formats.format import WriteTarget
from bindings.sources.formats.imported import Imported
from bindings.sources.formats.terraform.writer import _quote
from exchange import Binding, Exchange, Policy, Queue, Topology
from exchange.errors import InputError
from tests.support.bindings.written_terraform import plan_of, read_written
from tests.support.program import run_program

TERRAFORM = FORMATS["terraform"]


def read(text: str, name: str) -> Imported:
    return TERRAFORM.read([SourceFile(name, text)], name)


def plan(kind: str, values: dict[str, Any], **rest: Any) -> str:
    """Return a plan with one resource, as terraform show -json prints it."""
    resource = {"mode": "managed", "type": kind, "address": f"{kind}.x", "values": values}
    root = {"planned_values": {"root_module": {"resources": [resource]}}}
    return json.dumps({"format_version": "1.2", "terraform_version": "1.11.4", **root, **rest})


QUEUE = {"name": "q", "vhost": "/", "settings": [{"durable": True}]}


@pytest.mark.parametrize(
    ("kind", "values", "words"),
    [
        ("rabbitmq_queue", {**QUEUE, "name": ["a"]}, "values.name: [...] is not a text"),
        ("rabbitmq_queue", {**QUEUE, "settings": [{}, {}]}, "there are 2 blocks 'settings'; there must be one"),
        ("rabbitmq_queue", {**QUEUE, "settings": [{"arguments_json": "{"}]}, "arguments_json:1:2: not JSON"),
        ("rabbitmq_queue", {**QUEUE, "settings": [{"arguments": {"a": [1]}}]}, "[...] is not a text; the provider takes lists and objects in arguments_json only"),
        ("aws_s3_bucket", {}, "plan.json: there is no resource of the provider cyrilgdn/rabbitmq"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_resource_is_an_error(kind: str, values: dict[str, Any], words: str) -> None:
    """With the address of the resource."""
    with pytest.raises(InputError) as error:
        read(plan(kind, values), "plan.json")
    assert words in str(error.value)


CONFIGURATION = 'resource "rabbitmq_queue" "q" {\n  name = "q"\n  vhost = "/"\n  settings {}\n}\n'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("main.tf", CONFIGURATION),
        ("main.tf", "}{"),
        ("-", CONFIGURATION),
        ("main.tf.json", '{"resource": {"rabbitmq_queue": {"q": {"name": "q"}}}}'),
        ("-", '{"resource": {"rabbitmq_queue": {"q": {"name": "q"}}}}'),
        ("folder", CONFIGURATION),
    ],
)
def test_a_configuration_is_refused_with_the_commands_that_print_all_values(
    name: str, text: str, tmp_path: Path
) -> None:
    """Only Terraform knows what a configuration makes: no command makes anything of a part of it."""
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
        (path / "main.tf").write_text(text)
    elif name != "-":
        path.write_text(text)
    where = name if name == "-" else str(path)
    for command in (["check", where], ["diff", where, where], ["convert", where], ["explain", "-t", where, "e", "k"]):
        result = run_program(*command, given=text)
        assert result.returncode == 2
        assert "terraform plan -out=tfplan && terraform show -json tfplan" in result.stderr
        assert "or the state, terraform show -json" in result.stderr


VALUES = {
    "name": "q",
    "vhost": "/",
    "settings": [{"durable": True, "arguments": {"x-queue-type": "quorum"}, "arguments_json": None}],
}


@pytest.mark.parametrize("key", ["planned_values", "values"])
def test_a_plan_and_a_state_have_all_values(key: str) -> None:
    """Of child modules, too; what is not known yet is a warning."""
    resource = {"mode": "managed", "type": "rabbitmq_queue", "name": "q", "provider_name": "x"}
    child = {"resources": [{**resource, "address": "module.m.rabbitmq_queue.q", "values": {**VALUES, "name": "inner"}}]}
    root = {
        "resources": [
            {**resource, "address": "rabbitmq_queue.q[0]", "values": VALUES},
            {**resource, "address": "rabbitmq_queue.later", "values": {"vhost": "/", "settings": []}},
            {**resource, "address": "rabbitmq_user.u", "type": "rabbitmq_user", "values": {}},
            {**resource, "address": "rabbitmq_shovel.s", "type": "rabbitmq_shovel", "values": {}},
            {**resource, "address": "data.rabbitmq_exchange.e", "mode": "data", "type": "rabbitmq_exchange"},
        ],
        "child_modules": [child],
    }
    text = json.dumps({"format_version": "1.2", "terraform_version": "1.11.4", key: {"root_module": root}})
    imported = read(text, "plan.json")
    kinds = {"x-queue-type": "quorum"}
    assert imported.definitions.topology() == Topology(
        [], [Queue("q", arguments=kinds), Queue("inner", arguments=kinds)]
    )
    assert [str(warning) for warning in imported.warnings] == [
        "rabbitmq_queue.later: left out: its name will be known after terraform apply",
        (
            "not read, as it moves messages and changes no route, so that it is no part of a topology: 1 rabbitmq_shovel "
            "('rabbitmq_shovel.s')"
        ),
        "not read, as it is no part of a topology: 1 rabbitmq_user",
    ]
    assert run_program("convert", "-", given=text).stdout == 'vhost "/"\n\nqueue inner: quorum\nqueue q: quorum\n'


def test_a_state_file_is_read() -> None:
    """terraform.tfstate, as Terraform writes it."""
    resource = {"mode": "managed", "type": "rabbitmq_queue", "name": "q", "instances": [{"attributes": VALUES}]}
    text = json.dumps({"version": 4, "terraform_version": "1.11.4", "resources": [resource]})
    assert list(read(text, "terraform.tfstate").definitions.topology().queues) == ["q"]


def test_check_finds_modules_objects_and_documents_below_a_folder(tmp_path: Path) -> None:
    """A folder of Kubernetes is one topology; other YAML files, and Terraform without RabbitMQ, are none."""
    for name, text in {
        "a/main.tf": 'resource "aws_s3_bucket" "b" {}',
        "b/e.yaml": "apiVersion: rabbitmq.com/v1beta1\nkind: Exchange\nspec: {name: e, type: fanout}\n",
        "b/q.yaml": "apiVersion: rabbitmq.com/v1beta1\nkind: Queue\nspec: {name: q}\n",
        "b/ci.yml": "on: [push]",
        "c/asyncapi.yaml": "asyncapi: 3.0.0\nchannels: {}",
        "c/chart.yaml": "{{ broken",
        "d/x.bindings": "queue q",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    result = run_program("check", str(tmp_path), "--format", "json")
    assert result.returncode == 0
    names = {file["source"] for file in json.loads(result.stdout)["files"]}
    assert names == {f"{tmp_path}/{name}" for name in ("b", "c/asyncapi.yaml", "d/x.bindings")}
    (tmp_path / "a/main.tf").write_text(CONFIGURATION)
    result = run_program("check", str(tmp_path), "--format", "json")
    assert result.returncode == 2
    assert f"{tmp_path}/a/main.tf: Terraform's language is not evaluated" in result.stderr


WRITTEN = r"""terraform {
  required_providers {
    rabbitmq = {
      source = "cyrilgdn/rabbitmq"
    }
  }
}

resource "rabbitmq_exchange" "orders" {
  name  = "orders"
  vhost = "/"

  settings {
    type        = "topic"
    durable     = true
    auto_delete = false
    arguments = {
      "alternate-exchange" = "amq.fanout"
    }
  }
}

resource "rabbitmq_queue" "a_b_c_8f3aefc127" {
  name  = "a \"b\"\n$${c}\u0000é"
  vhost = "/"

  settings {
    durable     = true
    auto_delete = true
    arguments_json = jsonencode({
      "x-max-length" = 5
      "x" = [
        1.5,
        {
          "y" = null
        },
      ]
      "zz" = {}
    })
  }
}

resource "rabbitmq_binding" "orders_a_b_c_9b1537153f" {
  source           = rabbitmq_exchange.orders.name
  vhost            = "/"
  destination      = rabbitmq_queue.a_b_c_8f3aefc127.name
  destination_type = "queue"
  routing_key      = "order.#"
}

resource "rabbitmq_policy" "keep" {
  name  = "keep"
  vhost = "/"

  policy {
    pattern  = "^a\\."
    priority = 0
    apply_to = "all"
    definition = {
      "message-ttl" = 5
      "queue-mode"  = "lazy"
    }
  }
}
"""


def test_the_written_text_is_formatted_as_terraform_fmt_does() -> None:
    """References between resources, aligned attributes, exact escapes; terraform fmt 1.11 changes nothing in it."""
    odd = 'a "b"\n${c}\x00é'
    topology = Topology(
        [Exchange("orders", "topic", arguments={"alternate-exchange": "amq.fanout"})],
        [Queue(odd, auto_delete=True, arguments={"x-max-length": 5, "x": [1.5, {"y": None}], "zz": {}})],
        [Binding.to_queue("orders", odd, "order.#")],
        [Policy("keep", r"^a\.", {"message-ttl": 5, "queue-mode": "lazy"})],
    )
    written = TERRAFORM.write(Definitions().with_topology(topology), WriteTarget("out.tf"))
    text = "".join(written.chunks)
    assert text == WRITTEN
    assert read_written(text).definitions.topology() == topology


def test_what_the_provider_cannot_send_is_named() -> None:
    """Each argument and setting, and what the provider makes of the others."""
    topology = Topology(
        [Exchange("e", "x-consistent-hash", internal=True, arguments={"n": 5, "hash-header": "h"})],
        [Queue("q", arguments={"x": 2.0})],
        [],
        [Policy("p", "x", {"a": True, "b": "7", "c": ["x"], "d": "ok"}, priority=1), Policy("half", "x", priority=0.5)],  # type: ignore[arg-type]
    )
    assert TERRAFORM.write(Definitions().with_topology(topology), WriteTarget("")).warnings == [
        "exchange 'e' is internal, which the provider cannot declare: clients may publish to it",
        "exchange 'e' is written without n: the provider sends arguments of exchanges as texts",
        "queue 'q' changes on the way: arguments.x is 2.0 and arrives as 2",
        "policy 'p' is written without a: the provider sends texts and integers only",
        "policy 'p' is written without b: the provider sends a text that looks like an integer as one",
        "policy 'p' is written without c: the provider sends texts and integers only",
        "policy 'half' is left out: its priority 0.5 is no integer",
    ]


def test_no_file_of_another_system_is_fixed(tmp_path: Path) -> None:
    """It would be written anew in another language."""
    path = tmp_path / "plan.json"
    path.write_text(plan("rabbitmq_queue", QUEUE))
    result = run_program("check", "--fix", str(path))
    assert result.returncode == 2
    assert "only .bindings files and definitions.json are fixed, no files of Terraform" in result.stderr
    assert path.read_text() == plan("rabbitmq_queue", QUEUE)


def test_the_command_writes_terraform(tmp_path: Path) -> None:
    """By the ending of the file's name, and a plan of it is the same topology; JSON is not written."""
    text = "vhost /shop\nexchange orders: topic\nqueue billing: quorum\norders -> billing: 'order.#'\n"
    out = tmp_path / "main.tf"
    result = run_program("convert", "-", str(out), given=text)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert 'resource "rabbitmq_vhost" "shop_' in out.read_text()
    made = tmp_path / "plan.json"
    made.write_text(plan_of(out.read_text()))
    assert run_program("diff", "-", str(made), given=text).returncode == 0
    assert run_program("explain", "-t", str(made), "orders", "order.x").stdout.endswith("routed to 1 queue: billing\n")
    result = run_program("convert", "--format", "terraform", "-", str(tmp_path / "x.tf.json"), given=text)
    assert (result.returncode, "configurations are written in Terraform's own language only" in result.stderr) == (
        2,
        True,
    )


@pytest.mark.parametrize("text", ["${a}", "%{if a}", "$${a}", "%%{a}", "a$%{", "${%{"])
def test_no_name_or_key_is_an_expression_or_a_directive(text: str) -> None:
    """In quotes, Terraform takes ``$${`` and ``%%{`` for what begins with one of the signs, and else evaluates it."""
    quoted = _quote(text)
    assert not re.search(r"[$%]\{", re.sub(r"([$%])\1\{", "", quoted))
    assert re.sub(r"([$%])\1\{", r"\1{", quoted) == f'"{text}"'
