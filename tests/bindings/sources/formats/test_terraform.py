"""Terraform: its language as terraform 1.11 reads it, what is evaluated here, plans and states, the written text."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bindings.sources.definitions import Definitions
from bindings.sources.formats import FORMATS, File
from bindings.sources.formats.format import Target
from bindings.sources.formats.imported import Imported
from bindings.sources.formats.terraform.parser import parse_hcl
from bindings.sources.formats.terraform.syntax import Expression, Items, Literal, Object, Opaque, Template
from bindings.sources.open import open_source
from exchange import Binding, Exchange, Policy, Queue, Topology
from exchange.errors import InputError
from tests.support.program import run_program

TERRAFORM = FORMATS["terraform"]


def read(text: str, name: str = "f.tf") -> Imported:
    return TERRAFORM.read([File(name, text)], name)


def value_of(expression: Expression) -> Any:
    """Return what a literal, list or object stands for; the kind of anything else."""
    match expression:
        case Literal(value):
            return value
        case Items(items):
            return list(map(value_of, items))
        case Object(pairs):
            return {value_of(key): value_of(value) for key, value in pairs}
        case Template(parts):
            return [part if isinstance(part, str) else value_of(part) for part in parts]
        case Opaque(text):
            return f"<{text}>"
        case _:
            return f"<{expression.text}>"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"a\n\t\"\\\u00e9\U0001F407"', 'a\n\t"\\é\U0001f407'), ('"$${x}"', "${x}"), ('"$$${"', "$${"), ('"%%{"', "%{"),
        ('"$$"', "$$"), ('"$"', "$"), ('"x$${y"', "x${y"), ('"$${}"', "${}"), ('"%%%{"', "%%{"), ('"${"x"}"', "x"),
        ('"a${b.c}d"', ["a", "<b.c>", "d"]), ('"${b}"', "<b>"), ('"${"a${"b"}"}"', ["a", "b"]), ('"%{ if x }a%{ endif }"', ["<%{ if x }>", "a", "<%{ endif }>"]),
        ('<<EOT\n  x\\n"\nEOT', '  x\\n"\n'), ("<<-EOT\n      x\n\n    y $${z}\n      EOT", "  x\n\ny ${z}\n"),
        ('<<-EOT\n      x\n   ${"y"}\n      z\n  EOT', ["   x\n", "y", "\n   z\n"]), ("<<-EOT\n\ttab\n\t  x\n  EOT", "tab\n  x\n"),
        ("<<EOT\nEOT", ""), ("<<EOT\nEOT2\nEOT", "EOT2\n"),
        ("5", 5), ("-5", -5), ("1.5e3", 1500), ("1.50", 1.5), ("1e-2", 0.01), ("true", True), ("null", None),
        ("[1, 2,\n# c\n 3,]", [1, 2, 3]), ("[]", []), ("{}", {}), ('{ a = 1, "b" : 2 }', {"a": 1, "b": 2}),
        ('{\n  a = 1 // c\n  "b c" = [\n    2\n  ]\n}', {"a": 1, "b c": [2]}), ("{ (x) = 1 }", {"<x>": 1}), ("(5)", 5),
        ("a.b[0].c", "<a.b[0].c>"), ('a.b["x"]', '<a.b["x"]>'), ("f(1, [2])", "<f(1, [2])>"), ("f(x...)", "<f(x...)>"),
        ("1 + 2", "<1 + 2>"), ("!x", "<!x>"), ("-x", "<-x>"), ("a[*].b", "<a[*].b>"), ("a.*.b", "<a.*.b>"),
        ("[for x in y : x]", "<[for x in y : x]>"), ("{ for k, v in x : k => v }", "<{ for k, v in x : k => v }>"),
        ('x == "}" ? 1 : 2', '<x == "}" ? 1 : 2>'), ("for", "<for>"), ("{ for = 1 }", {"for": 1}),
    ],
)  # fmt: skip
def test_expressions_are_those_of_terraform(text: str, value: object) -> None:
    """Texts, heredocs and escapes were compared with what terraform 1.11 evaluates; the rest is kept and not guessed."""
    body = parse_hcl(f"a = {text} # end\nb = 1\n" if "\n" not in text else f"a = {text}\nb = 1\n", "f.tf")
    assert value_of(body.attributes["a"][0]) == value
    assert value_of(body.attributes["b"][0]) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('a = "x\ny"', "f.tf:1:5: a text in quotes is not closed on its line"),
        ('a = "x', "f.tf:1:5: a text in quotes is not closed on its line"),
        ("a = <<X\nx\n", "f.tf:1:5: a heredoc is not closed: there is no line X"),
        ("a =", "f.tf:1:4: expected a value"),
        ("a = [1", "f.tf:1:7: expected ',' or ']'"),
        ("a = (1 + 2", "f.tf:1:11: expected ')'"),
        ("a { b = 1", "f.tf:1:10: a block is not closed: '}' is missing"),
        ("a = 1 }", "f.tf:1:7: expected the end of the line"),
        ("a {\n", "f.tf:2:1: a block is not closed: '}' is missing"),
        ("a = 1\na = 2", "f.tf:2:1: a has a value already"),
        ('a "${b}" {}', "f.tf:1:3: the label of a block is a text without interpolations"),
        (r'a = "\q"', r"f.tf:1:6: no escape of Terraform"),
        (r'a = "\ud800"', r"f.tf:1:6: no escape of Terraform"),
        ('a = "${b"', "f.tf:1:8: '\"' is missing"),
        ("a = /* x", "f.tf:1:5: expected"),
        ("}", "f.tf:1:1: expected the name of an attribute or a block"),
        ("a = " + "[" * 200, "nested too deeply, beyond 100 levels"),
        ("a {\n" * 200, "nested too deeply, beyond 100 levels"),
        ('a = "' + '${"' * 200, "nested too deeply, beyond 100 levels"),
        (f"a = {'9' * 5000}", "f.tf:1:5: a number of more than 4300 digits"),
        ("a = 1e9999", "f.tf:1:5: a number beyond all floats"),
    ],
)
def test_a_mistake_is_an_error_with_line_and_column(text: str, words: str) -> None:
    """And a caret below it."""
    with pytest.raises(InputError) as error:
        parse_hcl(text, "f.tf")
    assert words in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "a = <<X\n" + "\n" * 300_000 + "Y",
        "a = " + "<<X\n" * 100_000,
        'a = "' + "$" * 1_000_000 + '"',
        'a = "' + "$${" * 300_000 + '"',
        "a = [" + "1," * 300_000 + "]",
        "# " + "x" * 1_000_000,
        "/*" + "*" * 1_000_000,
        "a = " + "(" * 90 + "1 + 1" + ") + 1" * 90,
        'a = "' + '${f("' * 24 + '"...)} + 1}"' * 24,
        "a = " + "x." * 300_000 + "y",
        "a = " + "-" * 1_000_000,
        " " * 1_000_000 + "\n" * 1_000_000,
    ],
    ids=lambda text: text[:12],
)
def test_long_texts_are_parsed_in_a_time_linear_in_their_length(text: str) -> None:
    """What is parsed in vain is looked at once more at most: seconds here would be hours with a step back for each."""
    with suppress(InputError):
        parse_hcl(text, "f.tf")


CONFIGURATION = """
variable "env" {
  type    = string
  default = "prod"
}
variable "ttl" { default = 60000 }
variable "secret" {}
locals {
  prefix  = "shop-${var.env}"
  regions = ["eu", "us"]
  keys = {
    billing = "order.*.created" # comment
    "odd key" : "x"
  }
  args = {
    "x-queue-type"   = "quorum"
    x-delivery-limit = 5
  }
}
resource "rabbitmq_vhost" "v" {
  name            = "/${local.prefix}"
  max_connections = 5
}
resource "rabbitmq_exchange" "orders" {
  name  = "${local.prefix}.orders"
  vhost = rabbitmq_vhost.v.name
  settings {
    type    = "topic"
    durable = true
    arguments = {
      alternate-exchange = "amq.fanout"
      n                  = 5
    }
  }
  lifecycle { prevent_destroy = true }
}
resource "rabbitmq_queue" "q" {
  for_each = local.keys
  name     = "${each.key}-${var.env}"
  vhost    = rabbitmq_exchange.orders.vhost
  settings {
    durable        = "true"
    arguments_json = jsonencode(local.args)
  }
}
resource "rabbitmq_queue" "r" {
  count = 2
  name  = "r${count.index}-${local.regions[count.index]}"
  vhost = rabbitmq_vhost.v.id
  settings { arguments = { "x-message-ttl" = var.ttl, "on" = true, "f" = 1.5 } }
}
resource "rabbitmq_binding" "b" {
  for_each         = local.keys
  source           = rabbitmq_exchange.orders.name
  vhost            = rabbitmq_vhost.v.name
  destination      = rabbitmq_queue.q[each.key].name
  destination_type = "queue"
  routing_key      = each.value
}
resource "rabbitmq_binding" "s" {
  for_each         = toset(["us", "eu", "us"])
  source           = rabbitmq_exchange.orders.name
  vhost            = rabbitmq_vhost.v.name
  destination      = rabbitmq_queue.r[0].name
  destination_type = "queue"
  arguments_json   = <<-EOF
    { "a": 1.0, "n": "${each.key}", "e": "$${x}" }
    EOF
}
resource "rabbitmq_policy" "p" {
  name  = "p"
  vhost = rabbitmq_vhost.v.name
  policy {
    pattern  = "^orders\\\\."
    priority = "3"
    apply_to = "all"
    definition = {
      message-ttl = 5000
      ha-mode     = "nodes"
      ha-params   = "a,b"
      x           = "+7"
      lazy        = true
    }
  }
}
resource "rabbitmq_user" "u" {
  name     = "u"
  password = var.secret
}
"""
EVALUATED = Topology(
    [Exchange("shop-prod.orders", "topic", arguments={"alternate-exchange": "amq.fanout", "n": "5"})],
    [
        *(
            Queue(name, arguments={"x-queue-type": "quorum", "x-delivery-limit": 5})
            for name in ("billing-prod", "odd key-prod")
        ),
        *(
            Queue(name, durable=False, arguments={"x-message-ttl": "60000", "on": "true", "f": "1.5"})
            for name in ("r0-eu", "r1-us")
        ),
    ],
    [
        Binding.to_queue("shop-prod.orders", "billing-prod", "order.*.created"),
        Binding.to_queue("shop-prod.orders", "odd key-prod", "x"),
        *(
            Binding.to_queue("shop-prod.orders", "r0-eu", "", {"a": 1, "n": region, "e": "${x}"})
            for region in ("eu", "us")
        ),
    ],
    [
        Policy(
            "p",
            r"^orders\.",
            {"message-ttl": 5000, "ha-mode": "nodes", "ha-params": ["a", "b"], "x": 7, "lazy": "true"},
            "all",
            3,
        )
    ],
    vhost="/shop-prod",
)


def test_a_configuration_is_evaluated_as_terraform_does() -> None:
    """Variables, locals, references, count, for_each, conversions: equal to what a plan of terraform 1.11 has."""
    imported = read(CONFIGURATION)
    assert imported.definitions.topology("/shop-prod") == EVALUATED
    assert (imported.warnings, imported.others) == ([], {"rabbitmq_user": 1})
    assert json.loads(imported.definitions.dump())["parameters"][0]["value"] == {"max-connections": 5}


def test_many_instances_refer_to_one_another_in_a_time_linear_in_their_number() -> None:
    """Each is found by its key."""
    number = 20_000
    keys = ", ".join(f'"k{at}"' for at in range(number))
    text = (
        f"locals {{\n  keys = toset([{keys}])\n}}\n"
        'resource "rabbitmq_queue" "q" {\n  for_each = local.keys\n  name = each.key\n  settings {}\n}\n'
        'resource "rabbitmq_binding" "b" {\n  for_each = local.keys\n  source = "amq.topic"\n  vhost = "/"\n'
        '  destination = rabbitmq_queue.q[each.key].name\n  destination_type = "queue"\n}\n'
    )
    topology = read(text).definitions.topology()
    assert (len(topology.queues), len(topology.bindings)) == (number, number)


def one(attributes: str, rest: str = "") -> str:
    return f'resource "rabbitmq_queue" "q" {{\n  {attributes}\n  settings {{ durable = true }}\n}}\n{rest}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (one("name = upper(var.x)"), "line 2: rabbitmq_queue.q is left out: upper(var.x) is a call that Terraform carries out"),
        (one("name = var.x", 'variable "x" {}'), "line 2: rabbitmq_queue.q is left out: variable 'x' has no default"),
        (one("name = var.x"), "line 2: rabbitmq_queue.q is left out: there is no var.x"),
        (one('name = "a-${var.x ? 1 : 2}"'), "var.x ? 1 : 2 is an expression that Terraform evaluates"),
        (one("name = data.x.y.z"), "data.x.y.z is known to Terraform only"),
        (one("name = module.x.y"), "module.x.y is known to Terraform only"),
        (one("name = local.a", "locals {\n  a = local.b\n  b = local.a\n}"), "a value that leads back to itself"),
        (one("name = rabbitmq_queue.q.name"), "a value that leads back to itself"),
        (one("name = rabbitmq_queue.nope.name"), "there is no rabbitmq_queue.nope"),
        (one("count = var.n\n  name = 1"), "line 2: rabbitmq_queue.q is left out: there is no var.n"),
        (one("for_each = data.x.y\n  name = each.key"), "line 2: rabbitmq_queue.q is left out: data.x.y is known"),
        (one('name = "q"\n  dynamic "settings" {\n for_each = []\n content {}\n}'), "line 3: rabbitmq_queue.q is left out: a dynamic block"),
        (one("name = local.a0", "locals {\n" + "".join(f"  a{n} = local.a{n + 1}\n" for n in range(99)) + "a99 = 1\n}"), "a chain of more than 60 references"),
        ('module "m" {\n source = "./m"\n}\n' + one('name = "q"'), "line 1: module 'm' is not read; terraform show -json has what it makes"),
    ],
)  # fmt: skip
def test_what_only_terraform_knows_is_left_out_with_a_warning(text: str, words: str) -> None:
    """With the line of what cannot be evaluated, and the way out; other resources are read."""
    imported = read(text + "\n" + one('name = "other"').replace('"q"', '"other"'))
    assert "other" in imported.definitions.topology().queues
    (warning,) = imported.warnings
    assert words in str(warning)
    assert "terraform show -json" in str(warning)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (one(""), "f.tf:1: it has no name"),
        (one('name = ["a"]'), "f.tf:2: [...] is not a text"),
        ('resource "rabbitmq_queue" "q" {\n  name = "q"\n}', "f.tf:1: it has no block 'settings'"),
        (one('name = "q"\n  settings {}'), "there are 2 blocks 'settings'; there must be one"),
        (one("name = 1") * 2, "f.tf:5: rabbitmq_queue.q is declared already, at f.tf:1"),
        ('resource "rabbitmq_queue" "q" {\n  name = "q"\n  settings {\n    arguments_json = "{"\n  }\n}', "f.tf:4: arguments_json:1:2: not JSON"),
        ('resource "rabbitmq_queue" "q" {\n  name = "q"\n  settings {\n    arguments = { a = [1] }\n  }\n}', "f.tf:4: [...] is not a text; the provider takes lists and objects in arguments_json only"),
        (one('name = "q"\n  count = -1'), "count is -1, not a number of resources"),
        (one('name = "q"\n  count = 1000000'), "more than 250,000 resources"),
        (one('name = "q"\n  for_each = 5'), "for_each is neither a map nor a set of texts"),
        ("terraform {}\n", "f.tf: there is no resource of the provider cyrilgdn/rabbitmq"),
        (one("name = local.a", "locals {\n  a = " + '"${local.b}${local.b}"\n  b = "' + "x" * 99 + '"\n}').replace("local.b}", "local.c0}", 2)
         + "\nlocals {\n" + "".join(f'  c{n} = "${{local.c{n + 1}}}${{local.c{n + 1}}}"\n' for n in range(40)) + '  c40 = "xxxxxxxxx"\n}', "evaluates to more than 2,000,000 values"),
        (one("name = jsonencode(local.c0)", "locals {\n" + "".join(f"  c{n} = [local.c{n + 1}, local.c{n + 1}]\n" for n in range(40)) + "  c40 = 1\n}"), "evaluates to more than 2,000,000 values"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_resource_is_an_error(text: str, words: str) -> None:
    """With file and line; bombs of locals end at a limit."""
    with pytest.raises(InputError) as error:
        read(text)
    assert words in str(error.value)


def test_a_configuration_in_json_has_templates_and_objects_for_blocks() -> None:
    """As terraform reads .tf.json."""
    document = {
        "//": "a comment",
        "variable": {"env": {"default": "prod"}},
        "locals": {"limit": 5, "args": {"x-max-length": "${local.limit}"}},
        "resource": {
            "rabbitmq_queue": {
                "a": {
                    "name": "a-${var.env}",
                    "settings": [{"durable": True, "arguments_json": "${jsonencode(local.args)}"}],
                },
                "b": {"for_each": {"k": "v"}, "name": "$${each.key}-${each.key}", "settings": {"durable": "true"}},
                "c": {"name": "${uuid()}", "settings": {}},
            }
        },
    }
    imported = read(json.dumps(document), "f.tf.json")
    assert imported.definitions.topology() == Topology(
        [], [Queue("a-prod", arguments={"x-max-length": 5}), Queue("${each.key}-k")]
    )
    assert [str(warning) for warning in imported.warnings] == [
        (
            "resource.rabbitmq_queue.c.name: rabbitmq_queue.c is left out: uuid() is a call that Terraform carries out; "
            "terraform show -json has the value"
        )
    ]


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
        "rabbitmq_queue.later: left out: its name will be known after terraform apply"
    ]
    assert imported.others == {"rabbitmq_user": 1}
    assert run_program("convert", "-", given=text).stdout == 'vhost "/"\n\nqueue inner: quorum\nqueue q: quorum\n'


def test_a_state_file_is_read() -> None:
    """terraform.tfstate, as Terraform writes it."""
    resource = {"mode": "managed", "type": "rabbitmq_queue", "name": "q", "instances": [{"attributes": VALUES}]}
    text = json.dumps({"version": 4, "terraform_version": "1.11.4", "resources": [resource]})
    assert list(read(text, "terraform.tfstate").definitions.topology().queues) == ["q"]


def test_check_finds_modules_objects_and_documents_below_a_folder(tmp_path: Path) -> None:
    """A folder of Terraform or of Kubernetes is one topology; other YAML files are none."""
    for name, text in {
        "a/main.tf": one('name = "q"'),
        "a/more.tf": "locals {}",
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
    assert names == {f"{tmp_path}/{name}" for name in ("a", "b", "c/asyncapi.yaml", "d/x.bindings")}


def test_a_folder_is_a_module(tmp_path: Path) -> None:
    """All of its files together, with the values of terraform.tfvars and *.auto.tfvars."""
    (tmp_path / "main.tf").write_text(one("name = local.name"))
    (tmp_path / "variables.tf").write_text(
        'variable "env" { default = "dev" }\nlocals { name = "q-${var.env}-${var.n}" }\n'
    )
    (tmp_path / "more.tf.json").write_text('{"variable": {"n": {}}}')
    (tmp_path / "terraform.tfvars").write_text('env = "prod"\n')
    (tmp_path / "x.auto.tfvars").write_text("n = 5\n")
    (tmp_path / "README.md").write_text("{{")
    source = open_source(str(tmp_path))
    assert list(source.topology().queues) == ["q-prod-5"]
    (tmp_path / "main.tf").write_text("# rabbitmq_queue\nresource {")
    result = run_program("check", str(tmp_path))
    assert result.returncode == 2
    assert f"{tmp_path}/main.tf:2:11: a block is not closed" in result.stderr


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
    written = TERRAFORM.write(Definitions().with_topology(topology), Target("out.tf"))
    text = "".join(written.chunks)
    assert text == WRITTEN
    assert read(text).definitions.topology() == topology


def test_what_the_provider_cannot_send_is_named() -> None:
    """Each argument and setting, and what the provider makes of the others."""
    topology = Topology(
        [Exchange("e", "x-consistent-hash", internal=True, arguments={"n": 5, "hash-header": "h"})],
        [Queue("q", arguments={"x": 2.0})],
        [],
        [Policy("p", "x", {"a": True, "b": "7", "c": ["x"], "d": "ok"}, priority=1), Policy("half", "x", priority=0.5)],  # type: ignore[arg-type]
    )
    assert TERRAFORM.write(Definitions().with_topology(topology), Target("")).warnings == [
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
    path = tmp_path / "q.tf"
    path.write_text(one('name = "q"'))
    result = run_program("check", "--fix", str(path))
    assert result.returncode == 2
    assert "only .bindings files and definitions.json are fixed, no files of Terraform" in result.stderr
    assert path.read_text() == one('name = "q"')


def test_the_command_writes_and_reads_terraform(tmp_path: Path) -> None:
    """By the ending of the file's name; JSON is not written."""
    text = "vhost /shop\nexchange orders: topic\nqueue billing: quorum\norders -> billing: 'order.#'\n"
    out = tmp_path / "main.tf"
    result = run_program("convert", "-", str(out), given=text)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert 'resource "rabbitmq_vhost" "shop_' in out.read_text()
    assert run_program("diff", "-", str(out), given=text).returncode == 0
    assert run_program("explain", "-d", str(out), "orders", "order.x").stdout.endswith("routed to 1 queue: billing\n")
    result = run_program("convert", "--to", "terraform", "-", str(tmp_path / "x.tf.json"), given=text)
    assert (result.returncode, "configurations are written in Terraform's own language only" in result.stderr) == (
        2,
        True,
    )
