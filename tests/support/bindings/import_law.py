"""Random definitions, imported by a broker of a container: what `check` says of each, and what became of it there."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from bindings.checking.source import check_source
from bindings.sources.definitions import Definitions
from bindings.sources.management import Management, RefusedRequest
from bindings.sources.open import read_source
from exchange.entities.entities import PREDECLARED_NAMES, Queue
from exchange.entities.in_force import Policies
from exchange.entities.releases import find_profile
from exchange.errors import InputError
from exchange.values.field_values import FieldTable
from tests.support.bindings.imports import random_definitions

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

AT_ONCE: Final = 8
"""Number of files that are imported at the same time, where each may be refused: brokers wait for their disks."""
BATCH: Final = 60
"""Number of files that are imported as one, where `check` finds nothing against them."""
REFUSED_BY: Final = frozenset({
    "HS101", "HS102", "HS404", "HS405", "HS601", "HS602", "HS603", "HS605", "HS701", "HS705", "HS707", "HS903",
})  # fmt: skip
"""Codes of the errors about what an import refuses or leaves out."""
OTHERWISE: Final = frozenset({"HS706", "HS904"})
"""Codes of warnings about what an import may refuse, or makes otherwise."""
OF_NO_USE: Final = re.compile(r" is no string \(function_clause\)$| more than 255|; an import of definitions stores it")
"""Texts about names and keys that a release may store, and that no client can use."""
BY_CHANCE: Final = " at the same time: one is refused, unless the other is there before it "
"""What texts about entries say that a broker refuses mostly."""
EXCHANGE: Final = ("name", "vhost", "type", "durable", "auto_delete", "internal", "arguments")
BINDING: Final = ("vhost", "source", "destination", "destination_type", "routing_key", "arguments")
COMPARED: Final = {
    "users": ("name", ("tags", "limits")),
    "permissions": ("user vhost", ("configure", "write", "read")),
    "topic_permissions": ("user vhost exchange", ("write", "read")),
    "parameters": ("vhost component name", ("value",)),
    "global_parameters": ("name", ("value",)),
}
"""Section that is no part of a topology -> its identifying fields, and those that are compared."""

ASK: Final = r"""
Show = fun(K, R, P) ->
  {resource, V, _, N} = R,
  D = case P of undefined -> []; M when is_map(M) -> maps:to_list(M); L -> L end,
  io:format("EFFECTIVE ~s~n", [base64:encode(rabbit_json:encode(#{vhost => V, kind => K, name => N,
    definition => maps:from_list(D)}))]) end,
lists:foreach(fun(Q) -> Show(queue, amqqueue:get_name(Q), rabbit_policy:effective_definition(Q)) end,
  rabbit_amqqueue:list()),
lists:foreach(fun(X) -> Show(exchange, element(2, X), rabbit_policy:effective_definition(X)) end,
  [X || X <- lists:append([rabbit_exchange:list(V) || V <- rabbit_vhost:list_names()]),
   binary:match(element(4, element(2, X)), [<<"amq.">>]) =/= {0, 4}, element(4, element(2, X)) =/= <<>>]), ok.
"""


class Difference(NamedTuple):
    """A file of which a broker made another thing than `check` says."""

    seed: int
    what: str
    document: dict[str, Any]


File = tuple[int, dict[str, Any], str]
"""A seed, its definitions, and these as text."""


class JudgedFile(NamedTuple):
    """A file, and what `check` says of it."""

    file: File
    verdict: str
    messages: list[str]


@dataclass
class ImportLaw:
    """The law, at one broker: what `check` passes is imported whole, and what is refused or lost was named."""

    container: DockerContainer
    broker: Management
    version: str
    counts: Counter[str] = field(default_factory=Counter)
    pending: list[File] = field(default_factory=list)
    imported: list[File] = field(default_factory=list)

    @classmethod
    def at(cls, container: DockerContainer, url: str, management_url: str, version: str) -> ImportLaw:
        """Return the law at the broker in a container."""
        login = urlsplit(url)
        broker = Management.at(management_url.replace("//", f"//{login.username}:{login.password}@"))
        return cls(container, broker, version)

    def eval(self, text: str) -> str:
        """Return what the broker prints when it evaluates an expression of Erlang."""
        return str(self.container.exec(["rabbitmqctl", "eval", text]).output.decode())

    def run(self, seeds: Iterable[int]) -> Iterator[Difference]:
        """Yield the differences of the files of these seeds."""
        alone: list[JudgedFile] = []
        for seed in seeds:
            judged = draw_file(self.version, seed)
            self.counts[judged.verdict] += 1
            if judged.verdict == "fine" and not {"rabbit_version", "rabbitmq_version"} & judged.file[1].keys():
                self.pending.append(judged.file)
                if len(self.pending) == BATCH:
                    yield from self.flush()
            elif judged.verdict in ("fine", "refused"):  # of all others the law says nothing: they are not imported
                alone.append(judged)
        yield from self.import_each(alone)
        yield from self.flush()
        yield from self.ineffective()

    def import_each(self, judged: Sequence[JudgedFile]) -> Iterator[Difference]:
        """Import files one by one, several at once as their names differ, and yield how broker and `check` differ."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            refusals = [*pool.map(self.refusal_of, [each.file[1] for each in judged])]
        taken = [each.file for each, refusal in zip(judged, refusals, strict=True) if not refusal]
        lost: dict[int, list[str]] = {}
        for difference in self.losses(taken) if taken else ():
            lost.setdefault(difference.seed, []).append(difference.what)
        for ((seed, document, _), verdict, messages), refusal in zip(judged, refusals, strict=True):
            is_whole = not refusal and seed not in lost
            if is_whole is (verdict == "fine"):
                continue
            if verdict == "refused" and all(OF_NO_USE.search(each) for each in messages):
                self.counts["stored, of no use"] += 1
                continue
            yield Difference(seed, f"{verdict} {messages}: refused {refusal!r}, lost {lost.get(seed)}", document)

    def flush(self) -> Iterator[Difference]:
        """Import the files that wait as one file, and yield what the broker lost of them."""
        pending, self.pending = self.pending, []
        if not pending:
            return
        if self.refusal_of(merge_files(pending)):
            self.counts["batches taken apart"] += 1
            yield from self.import_each([draw_file(self.version, seed, "again-") for seed, _, _ in pending])
            return
        yield from self.losses(pending)
        self.imported += pending

    def refusal_of(self, document: Mapping[str, Any]) -> str:
        """Return why the broker refuses to import definitions; empty if it imports them. No answer is an InputError."""
        try:
            self.broker.request("POST", "/api/definitions", document)
        except RefusedRequest as error:
            return str(error)
        return ""

    def export(self, vhosts: Collection[str]) -> Definitions:
        """Return what the broker has in these virtual hosts, and exchanges and bindings that exports leave out."""
        export = self.broker.request("GET", "/api/definitions")
        kept = {
            section: [each for each in entries if each.get("vhost") in vhosts or "vhost" not in each]
            for section, entries in export.items()
            if isinstance(entries, list)
        }
        listed = [each for each in self.broker.request("GET", "/api/exchanges") if each["vhost"] in vhosts]
        known = {(each["vhost"], each["name"]) for each in kept["exchanges"]}
        kept["exchanges"] += [
            {name: each[name] for name in EXCHANGE}
            for each in listed
            if each["internal"] and (each["vhost"], each["name"]) not in known
        ]
        if not any(self._leads_to_default(each) for each in kept["bindings"]):  # before 4.3, exports leave these out
            all_bindings = self.broker.request("GET", "/api/bindings")
            kept["bindings"] += [
                {name: each[name] for name in BINDING}
                for each in all_bindings
                if each["vhost"] in vhosts and self._leads_to_default(each)
            ]
        return Definitions.loads(json.dumps({**export, **kept}))

    @staticmethod
    def _leads_to_default(binding: Mapping[str, Any]) -> bool:
        return bool(binding["destination_type"] == "exchange" and binding["destination"] == "")

    def losses(self, files: Sequence[File]) -> Iterator[Difference]:
        """Yield what a broker that imported files does not have as they say."""
        profile = find_profile(self.version)
        sources = [read_source(text.encode(), "definitions.json") for _, _, text in files]
        export = self.export({vhost for source in sources for vhost in source.vhosts})
        there = {
            (section, *(str(entry.get(name)) for name in key.split())): entry
            for section, (key, _) in COMPARED.items()
            for entry in export.other_entries(section)
        }
        for source, (seed, document, _) in zip(sources, files, strict=True):
            for vhost in source.vhosts:
                wanted = source.topology(vhost, profile)
                if vhost not in export.vhosts:
                    yield Difference(seed, f"{vhost} is not there", document)
                    continue
                found = export.topology(vhost, profile)
                for kind in ("exchanges", "queues", "policies", "operator_policies", "bindings"):
                    ours, theirs = (
                        {without_default_type(each) for each in getattr(where, kind).values()}
                        if isinstance(getattr(where, kind), Mapping)
                        else {*getattr(where, kind)}
                        for where in (wanted, found)
                    )
                    if ours != theirs:
                        what = f"{vhost}: {kind}: ours {ours - theirs} theirs {theirs - ours}"
                        yield Difference(seed, what, document)
            for section, (key, fields) in COMPARED.items():
                entries = {
                    (section, *(str(entry.get(one)) for one in key.split())): entry
                    for entry in document.get(section, ())
                }
                for name, entry in entries.items():
                    if name not in there:
                        yield Difference(seed, f"{name} is not there", document)
                        continue
                    for one in fields:
                        if one in entry and not is_alike(entry[one], there[name].get(one)):
                            yield Difference(
                                seed, f"{name}.{one}: {entry[one]!r} is {there[name].get(one)!r}", document
                            )

    def ineffective(self) -> Iterator[Difference]:
        """Yield the queues and exchanges at which other policies are in force than `Policies` says."""
        answer = self.eval(ASK)
        lines = [line.split()[1] for line in answer.splitlines() if line.startswith("EFFECTIVE ")]
        if not lines:
            raise AssertionError(f"no effective definitions: {answer}")
        effective = {}
        for line in lines:
            entry = json.loads(base64.b64decode(line))
            effective[entry["vhost"], entry["kind"], entry["name"]] = entry["definition"]
        profile = find_profile(self.version)
        files, self.imported = self.imported, []
        for seed, document, text in files:
            source = read_source(text.encode(), "definitions.json")
            for vhost in source.vhosts:
                topology = source.topology(vhost, profile)
                policies = Policies(topology.policies, topology.operator_policies, profile)
                exchanges = {name: each for name, each in topology.exchanges.items() if name not in PREDECLARED_NAMES}
                for kind, parts in (("queue", topology.queues), ("exchange", exchanges)):
                    for name, part in parts.items():
                        there = effective.get((vhost, kind, name))
                        self.counts[f"effective definitions of a {kind}"] += 1
                        if there is None:
                            continue  # `losses` has it
                        possible = [settings.policy_definition for settings in policies.possible_settings(part)]
                        if there not in possible:
                            what = f"{vhost}: {kind} {name!r}: in force {there}, here {possible}"
                            yield Difference(seed, what, document)


def draw_file(version: str, seed: int, again: str = "") -> JudgedFile:
    """Return the definitions of a seed, with other names if they are drawn ``again``, and what `check` says of them.

    That is "refused", "unread", "otherwise" or "fine", and its words.
    """
    document = random_definitions(Random(f"{version}/{seed}"), f"i{again}{seed}")
    text = json.dumps(document)
    file = seed, document, text
    try:
        report = check_source(read_source(text.encode(), "definitions.json"), profile=find_profile(version))
    except InputError as error:
        return JudgedFile(file, "unread", [str(error)])
    found = [finding for of in report.vhosts for finding in of.findings]
    refused = [finding.message for finding in found if finding.code in REFUSED_BY]
    otherwise = [finding.message for finding in found if finding.code in OTHERWISE]
    if refused and all(BY_CHANCE in message for message in refused):
        return JudgedFile(file, "otherwise", refused)
    verdict = "refused" if refused else "otherwise" if otherwise else "fine"
    return JudgedFile(file, verdict, refused or otherwise)


def merge_files(files: Sequence[File]) -> dict[str, list[Any]]:
    """Return one file of several; the names of their virtual hosts and users differ."""
    merged: dict[str, list[Any]] = {}
    for _, document, _ in files:
        for section, entries in document.items():
            if isinstance(entries, list):
                merged.setdefault(section, []).extend(entries)
    merged.pop("operator_policies", None)
    return merged


def without_default_type(part: Any) -> Any:
    """Return a queue without the type that it has without one, too."""
    if not isinstance(part, Queue) or part.type != "classic":
        return part
    return replace(part, arguments=FieldTable({k: v for k, v in part.arguments.items() if k != "x-queue-type"}))


def is_alike(ours: Any, theirs: Any) -> bool:
    """Return whether a broker's value is the one of a file, as it writes it."""
    if isinstance(ours, str) and isinstance(theirs, list):
        ours = [one.strip() for one in ours.split(",") if one.strip()]
    if isinstance(ours, list) and isinstance(theirs, list):  # a number among tags becomes a name
        return [*map(str, ours)] == [*map(str, theirs)]
    if ours in ({}, []) and theirs in ({}, [], None):
        return True
    return bool(ours == theirs)
