"""Mutants of the audit and of what compares topologies, written from their code."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, mutants_of

BINDINGS: Final[list[Mutant]] = [
    *mutants_of(
        "bindings/counts/tally.py",
        "bindings/counts/test_groups.py",
        ("one more outcome than the limit is kept", "len(self.facts) <= OUTCOMES", "len(self.facts) <= OUTCOMES + 1"),
        ("what is added to groups stays apart", "not self.groups and len(self.facts)", "len(self.facts)"),
        (
            "a timeline names every exchange",
            "timeline = self.timeline.gather(named, name_others(topology))",
            "timeline = self.timeline",
        ),
        ("groups have no messages", " + list_spans(self.groups).total(published)", ""),
        ("a message counts once for each of its groups", '.groups) if group.group == "exchange"]', ".groups)]"),
    ),
    *mutants_of(
        "bindings/counts/groups.py",
        "bindings/counts/test_groups.py",
        ("pieces of outcomes are the first each time", "order[begin : begin + PIECE]", "order[:PIECE]"),
        ("outcomes are added up as a counter met them", "names[row].fate, names[row][6:])", "row)[2:]"),
        ("two bindings to a queue bring two messages", "keys = keys[np.diff(keys, prepend=-1) != 0]", "pass"),
        ("alike are outcomes with other fates", "len(each[1]), each[3:])", "len(each[1]), each[3:5])"),
        (
            "alike are outcomes with other numbers of queues",
            "(each[0], len(each[1]), each[3:])",
            "(each[0], 0, each[3:])",
        ),
        ("the names that come first are kept", "key=lambda name: (_hash(name), name))", "key=lambda name: name)"),
        ("others are counted by their errors", 'name=name, other=group.other.partition(" - ")[0]', "name=name"),
        ("others have the name of an exchange", 'if (name := "*" * number) not in named)', 'if (name := "*"))'),
        ("others take the place of a name that is kept", "sorted(unnamed - {others}, key", "sorted(unnamed, key"),
        (
            "an exchange that only bindings name is one of the others",
            "*[binding.source for binding in topology.bindings]}",
            "}",
        ),
        ("queues have no distinct keys", '(["binding", "queue", "exchange"])', '(["binding", "exchange"])'),
        ("a binding that is the only way may have more messages", 'case "sole binding":', 'case "none":'),
    ),
    *mutants_of(
        "bindings/archive/routing_keys.py",
        "bindings/archive/test_routing_keys.py",
        ("a column counts where it has no keys", "if pc.all(is_filled).as_py():", "if len(column):"),
        ("a header counts before the column", "            if not is_there:", "            if header not in table:"),
        ("the first of two headers counts", '(headers, header, "last")', '(headers, header, "first")'),
        ("a message that a broker refuses is routed by its key", "return (), error.text", 'return (), ""'),
    ),
    *mutants_of(
        "bindings/archive/kafka/rows.py",
        "bindings/archive/test_routing_keys.py",
        (
            "a header of a record of Kafka distributes it",
            "pc.or_(pc.starts_with(names, PREFIX), pc.is_in(names, NAMES))",
            "pc.starts_with(names, PREFIX)",
        ),
    ),
    *mutants_of(
        "bindings/counts/comparison.py",
        "bindings/counts/test_comparison.py",
        ("one more change than the limit is kept", "return changes > CHANGES or", "return changes > CHANGES + 1 or"),
        ("what is added to folded changes stays apart", " or self.is_folded\n", "\n"),
        ("folded changes have the name of a queue", "* number) not in queues", "* number)"),
    ),
    *mutants_of(
        "bindings/counts/columnar/comparing.py",
        "bindings/counts/test_comparison.py",
        ("pairs are never forgotten", "if len(self._pairs) > MOST_PAIRS:", "if False:"),
        ("a sum of all changes is that of the last", "self._total += replace", "self._total = replace"),
    ),
    *mutants_of(
        "bindings/counts/columnar/counting.py",
        "bindings/counts/test_groups.py",
        ("outcomes are never added up", "np.count_nonzero(self._spans.messages) > MOST_OUTCOMES", "False"),
        ("outcomes are never forgotten", "if len(outcomes) > MOST_OUTCOMES:", "if False:"),
        (
            "a counter begins with what it had",
            "self._total = self._zero",
            "self.__dict__.setdefault('_total', self._zero)",
        ),
        (
            "windows depend on earlier counts",
            "self._window.most_rows = LIGHT_WINDOWS * WINDOW",
            "self._window.most_rows = self._window.most_rows if hasattr(self, '_spans') else LIGHT_WINDOWS * WINDOW",
        ),
    ),
    *mutants_of(
        "bindings/report/gates.py",
        "bindings/counts/test_groups.py",
        (
            "what has no row keeps every threshold",
            "for glob, limits in entries if others else ():",
            "for glob, limits in ():",
        ),
        ("a plain name may have no row", 'if set(glob) & set("*?[") and (limits', "if (limits"),
    ),
    *mutants_of(
        "bindings/auditing/local/cache.py",
        "bindings/auditing/test_cache_groups.py",
        ("names of others are kept", "if find_others(groups.names, self._topology):", "if not exchanges:"),
        ("groups keep the numbers of bindings", "if each.group in OF_BINDINGS else each", "if False else each"),
    ),
    *mutants_of(
        "bindings/counts/columnar/classes/own_bindings.py",
        "bindings/counts/test_columnar.py",
        (
            "an exchange that keeps messages decides by keys",
            "in compares and not can_delay(topology.exchanges[binding.source])",
            "in compares",
        ),
    ),
    *mutants_of(
        "bindings/counts/columnar/sketches/bottom_k.py",
        "bindings/counts/test_uses.py",
        ("another key of a group was offered", "new |= self._offered_hashes.take(slots) != hashes", "pass"),
        ("the same key of another group was offered", ".take(slots) != groups\n", ".take(slots) < 0\n"),
    ),
    *mutants_of(
        "bindings/counts/columnar/classes/own_bindings.py",
        "bindings/counts/test_columnar.py",
        ("no message goes on to another exchange", "own[rows[self._goes_on[bindings]]] = False", "pass"),
        ("a message takes patterns of the exchanges behind", " if each[0] == met.exchange else ()", ""),
        ("a message takes literal keys of the exchanges behind", " if each[0] == met.exchange]", "]"),
    ),
    *mutants_of(
        "bindings/fix/candidates.py",
        "bindings/fix/test_fix_cli.py bindings/fix/test_fix_laws.py",
        ("what keeps messages from an alternate exchange goes", 'code == "HS207" and (', 'code == "HS2" and ('),
        (
            "the last binding of an auto-delete exchange goes",
            "if exchange.auto_delete and ",
            "if not exchange.name and ",
        ),
        (
            "an exchange that a policy names goes",
            "for policy in topology.policies.values()),\n    ]",
            "for policy in ()),\n    ]",
        ),
        ("an exchange that an expectation names goes", "names | {expectation.exchange for", "names | {None for"),
    ),
    *mutants_of(
        "bindings/fix/proof.py",
        "bindings/fix/test_fix_cli.py bindings/fix/test_fix_laws.py",
        ("what is undecided is proved", 'meaning.verdict == "same":', 'meaning.verdict != "changed":'),
        ("what changes routes is proved", 'meaning.verdict == "same":', 'meaning.verdict != "undecided":'),
    ),
    *mutants_of(
        "bindings/fix/bindings_text.py",
        "bindings/fix/test_fix_cli.py bindings/fix/test_fix_laws.py",
        ("a for that repeats nothing stays", "[*whole, *self._empty_loops(whole)]", "[*whole]"),
        (
            "the comma behind the last key stays",
            "if tail < len(nodes) - 1 and not has_comma",
            "if tail < 0 and not has_comma",
        ),
        (
            "what another repetition needs goes",
            "            return all(\n                removal in wanted",
            "            return any(\n                removal in wanted",
        ),
        (
            "comments go with their statements",
            "    if not comment:\n        return None\n",
            "    if comment or not comment:\n        return None\n",
        ),
    ),
    *mutants_of(
        "bindings/fix/definitions_text.py",
        "bindings/fix/test_fix_cli.py bindings/fix/test_fix_laws.py",
        (
            "the comma behind the last entry stays",
            "    if last is not items[-1]:\n        yield last.end, ",
            "    if last is not items[-1]:\n        yield items[items.index(last) + 1].begin, ",
        ),
    ),
    *mutants_of(
        "bindings/fix/fix.py",
        "bindings/fix/test_fix_cli.py bindings/fix/test_fix_laws.py",
        (
            "a file that was changed meanwhile is overwritten",
            "if _read(fixed.name) != fixed.before:",
            "if not fixed.before:",
        ),
        ("the byte order mark goes", 'data.startswith(MARK) else b""', 'not data else b""'),
    ),
    *mutants_of(
        "bindings/sources/git.py",
        "bindings/sources/test_git.py",
        ("the variables of a hook decide", "if name not in OF_ONE_REPOSITORY}", "if name}"),
        ("a name is a pattern", ' "--literal-pathspecs",', ""),
        ("a link is read as a topology", "if mode not in FILES:", "if not mode:"),
        ("the children of git live on", "        os.killpg(process.pid, SIGKILL)\n", "        process.kill()\n"),
    ),
    *mutants_of(
        "bindings/diffing/forms/markdown.py",
        "bindings/diffing/test_diff_markdown.py",
        ("what is undecided is called proved", "    if meaning.undecided:\n", "    if not meaning:\n"),
        (
            "what is left out is not counted",
            '    return [*kept, "", f"and {len(rows) - len(kept):,} more"]',
            "    return kept",
        ),
        ("a text is as long as it is", "    while kept and (room < 0 or", "    while kept and ("),
    ),
    *mutants_of(
        "exchange/text/markdown.py",
        "exchange/test_markdown.py bindings/report/test_forms.py",
        ("a bar in a name ends its cell", 'code = code.replace("|", "\\\\|")', "code = code"),
        ("a name mentions a user", '.replace("@", "@&#8203;")', ""),
        ("a name ends a block of code", "max(3, longest + 1)", "3"),
    ),
    *mutants_of(
        "bindings/checking/baseline.py",
        "bindings/checking/test_baseline.py",
        ("a finding is known however often it occurs", "            left[identity] -= left[identity] > 0\n", ""),
        (
            "what another code or virtual host has is gone",
            "for finding in filter(self._is_checked, findings):",
            "for finding in findings:",
        ),
        (
            "findings of codes that were not checked are forgotten",
            "[finding for finding in findings if not self._is_checked(finding)]",
            "[]",
        ),
        (
            "files that were not checked are forgotten",
            "                files[file] = findings\n",
            "                pass\n",
        ),
        ("the order of the file is that of the check", "lines = sorted(", "lines = list("),
    ),
    *mutants_of(
        "bindings/checking/fingerprint.py",
        "bindings/checking/test_fingerprint.py bindings/checking/test_baseline.py",
        ("the first of several bindings is the object", '"HS101": _source,', '"HS101": _part,'),
        ("of two equal bindings the second is the object", '("HS103", "HS206",', '("HS206",'),
        ("details do not count", "        about.append(finding.detail)\n", "        pass\n"),
        ("virtual hosts do not count", "[finding.code, vhost, OBJECTS", '[finding.code, "", OBJECTS'),
    ),
    *mutants_of(
        "bindings/checking/run.py",
        "bindings/checking/test_check_many.py bindings/checking/test_baseline.py",
        (
            "a folder without a topology is fine",
            "if Path(name).is_dir() and name not in productive",
            "if False and name not in productive",
        ),
        ("a baseline is written in spite of errors", "written = record and not errors", "written = record"),
    ),
    *mutants_of(
        "bindings/sources/tree.py",
        "bindings/sources/test_tree.py bindings/checking/test_check_many.py",
        ("damaged definitions are skipped", 'return None if DAMAGED.search(text) else "not JSON"', 'return "not JSON"'),
        ("a file is checked twice", "if identity not in seen:", "if identity or identity not in seen:"),
    ),
    *mutants_of(
        "bindings/sources/glob_pattern.py",
        "bindings/sources/test_glob_pattern.py bindings/sources/test_tree.py",
        ("the name of a file may be a pattern", " and not os.path.lexists(name)", ""),
        ("** matches one folder at least", "    return states | {", "    return states | set() and {"),
        ("** follows links", "if not entry.is_symlink() and not name", "if not name"),
    ),
    *mutants_of(
        "bindings/checking/forms/github.py",
        "bindings/checking/test_check_forms.py",
        ("a comma ends a property", '":": "%3A", ",": "%2C"', '":": "%3A"'),
        ("percent signs are not escaped", 'DATA: Final = str.maketrans({"%": "%25", ', "DATA: Final = str.maketrans({"),
    ),
    *mutants_of(
        "bindings/checking/forms/gitlab.py",
        "bindings/checking/test_check_forms.py",
        (
            "equal findings have one compute_fingerprint",
            "return identity if seen[identity] == 1 else",
            "return identity if True else",
        ),
    ),
    *mutants_of(
        "bindings/checking/check.py",
        "bindings/checking/test_check_many.py",
        (
            "of very many expectations the first are listed",
            'UNLIMITED: Final = frozenset({"HS801", "HS901", NOT_READ})',
            'UNLIMITED: Final = frozenset({"HS901", NOT_READ})',
        ),
    ),
    *mutants_of(
        "bindings/diffing/comparison/compare.py",
        "bindings/test_unread.py",
        (
            "a comparison does not look at what was not read",
            "find_unread(*(side.topology for side in self._sides)),",
            "(),",
        ),
    ),
    *mutants_of(
        "bindings/commands/apply.py",
        "bindings/test_unread.py",
        (
            "an empty file is a reason to delete everything",
            "if not (own or wanted.bindings",
            "if False and not (own or wanted.bindings",
        ),
        ("parts that were not read are deleted", "    if unread:\n        raise", "    if False:\n        raise"),
    ),
    *mutants_of(
        "bindings/analysis/crawl.py",
        "bindings/analysis/test_crawl.py bindings/analysis/test_algebra.py",
        (
            "a fresh word may be one that is named with a $",
            'if not any(word in vocabulary or "$" + word in vocabulary for',
            "if not any(word in vocabulary for",
        ),
    ),
    *mutants_of(
        "bindings/diffing/planning/order.py",
        "bindings/diffing/test_plan_order.py bindings/diffing/test_plan.py",
        (
            "two bindings of a ring move no keys",
            "            if count > 1 and name",
            "            if count > 2 and name",
        ),
        (
            "alternates in between are those of before",
            "versions.setdefault(policy.name, [None]).append(policy)",
            "versions.setdefault(policy.name, [None])",
        ),
        (
            "a replaced exchange is fed before it feeds",
            "dict.fromkeys([*self._after.bindings_from(old.name), *bindings])",
            "dict.fromkeys([*bindings, *self._after.bindings_from(old.name)])",
        ),
    ),
    *mutants_of(
        "bindings/diffing/planning/tangles.py",
        "bindings/diffing/test_plan_order.py bindings/diffing/test_plan.py",
        (
            "only the next exchanges below are looked at",
            "handed_up = changes.get(name, Alteration.NOTHING) | below.get(name, Alteration.NOTHING)",
            "handed_up = changes.get(name, Alteration.NOTHING)",
        ),
        (
            "an alternate that turns below a change is not looked at",
            "    (Alteration.SWITCHES, ANY),\n    (ANY, Alteration.SWITCHES),\n",
            "    (Alteration.SWITCHES, ANY),\n",
        ),
    ),
    *mutants_of(
        "bindings/counts/tally.py",
        "bindings/counts/test_tally_state.py bindings/counts/test_tally.py",
        (
            "topologies with other priorities of policies have one compute_fingerprint",
            "definition, policy.apply_to, policy.priority))",
            "definition, policy.apply_to))",
        ),
        (
            "an internal exchange has the compute_fingerprint of another",
            "(name, exchange.type, exchange.internal, exchange.arguments.identity)",
            "(name, exchange.type, exchange.arguments.identity)",
        ),
        (
            "the ring of a delayed exchange is not in the compute_fingerprint",
            "if sequence is not None:",
            'if sequence is not None and exchange.type == "x-consistent-hash":',
        ),
    ),
    *mutants_of(
        "bindings/counts/sketch.py",
        "bindings/counts/test_tally_state.py bindings/counts/test_tally.py",
        (
            "errors of frequent keys do not add",
            "error = sum(summary.error for summary in summaries)",
            "error = max(summary.error for summary in summaries)",
        ),
    ),
    *mutants_of(
        "bindings/counts/groups.py",
        "bindings/counts/test_coverage_edges.py bindings/counts/test_uses.py",
        ("a binding that chance may take is no other way", "keys(possible.rows, of[possible.values]), ", ""),
        ("a binding leads to where a message was published", "else (each.exchange,)", "else ()"),
    ),
    *mutants_of(
        "bindings/counts/columnar/sketches/summaries.py",
        "bindings/counts/test_uses.py",
        ("what merging columns leaves out is no error", "            errors += sums.errors\n", ""),
    ),
    *mutants_of(
        "bindings/counts/columnar/sketches/hyperloglog.py",
        "bindings/counts/test_uses.py",
        (
            "codes are lost when a group gets an array",
            "        self._arrays[places[places >= 0], numbers] = moved & ((1 << RANKS) - 1)\n",
            "",
        ),
    ),
    *mutants_of(
        "bindings/auditing/spark/ledger.py",
        "bindings/auditing/test_ledger.py",
        (
            "a batch that comes again is counted twice",
            "        self._before = batch + 1, total",
            "        self._before = batch, total",
        ),
        (
            "a batch that comes again is an error",
            "if max(batches, default=0) > batch:",
            "if max(batches, default=0) >= batch:",
        ),
    ),
    *mutants_of(
        "bindings/auditing/spark/growth.py",
        "bindings/auditing/test_growth_state.py bindings/auditing/test_growth.py",
        (
            "what is written to a file that was cut is not read",
            "return known._replace(end=min(known.end, file.size))",
            "return known",
        ),
        ("notices come with each step", "        self._reported.update(notices)\n", ""),
    ),
    *mutants_of(
        "bindings/auditing/spark/source.py",
        "bindings/auditing/test_pruning.py",
        ("a row group that begins at the last moment is left out", "least > wanted.last", "least >= wanted.last"),
        ("of two ends the later one counts", "else min(self.last, time)", "else max(self.last, time)"),
    ),
    *mutants_of(
        "bindings/auditing/local/planning.py",
        "bindings/auditing/test_growth_state.py bindings/auditing/test_planning.py",
        (
            "a split with an exact end is joined to one without",
            " and before.end == split.start and before.exact == split.exact:",
            " and before.end == split.start:",
        ),
        ("tasks begin in the order of files", "    groups.sort(key=lambda group: -group[0])\n", ""),
    ),
    *mutants_of(
        "bindings/archive/kafka/transactions.py",
        "bindings/archive/kafka/test_kafka_ends.py bindings/archive/kafka/test_kafka_segment.py",
        (
            "only one of the markers of earlier transactions is passed over",
            "        while markers and markers[0].place < (0, place):",
            "        if markers and markers[0].place < (0, place):",
        ),
        (
            "no marker is found behind damage",
            "place = behind if is_chained else find_sound_header(data, place + 1)",
            "place = behind if is_chained else len(data)",
        ),
    ),
    *mutants_of(
        "bindings/archive/formats/json_lines.py",
        "bindings/archive/test_json_lines_fast.py bindings/archive/test_json_lines.py",
        (
            "the fast path takes the firehose's messages as they are",
            "        or pc.any(pc.equal(exchange, firehose.EXCHANGE)).as_py()\n",
            "",
        ),
        (
            "the fast path takes times that a float does not hold",
            "        or (np.abs(seconds) >= SURE_SECONDS).any()\n",
            "",
        ),
    ),
    *mutants_of(
        "bindings/archive/kafka/batches.py",
        "bindings/archive/kafka/test_kafka_ends.py bindings/archive/kafka/test_kafka_segment.py",
        (
            "a length that goes round is taken",
            " or (moved > ends).any() or (moved < starts).any():",
            " or (moved > ends).any():",
        ),
        ("a header may have no name", "        if (keys.lengths < 0).any():", "        if False:"),
    ),
    *mutants_of(
        "bindings/report/gates.py",
        "bindings/report/test_gates.py",
        (
            "a glob goes before the very name",
            "    for glob, limits in entries:\n        if glob == name:\n            return limits\n",
            "",
        ),
        ("the last entry that fits ignores a binding", "ignored.setdefault(binding, use)", "ignored[binding] = use"),
    ),
    *mutants_of(
        "exchange/values/notation.py",
        "bindings/sources/test_language_writer.py bindings/sources/test_language_laws.py",
        (
            "names that are keywords are written bare",
            "_BARE.fullmatch(name) and name not in KEYWORDS and",
            "_BARE.fullmatch(name) and",
        ),
    ),
    *mutants_of(
        "bindings/sources/document_writer.py",
        "bindings/sources/test_language_writer.py bindings/sources/test_language_laws.py",
        (
            "a partitioning with a # is written bare",
            'text.isprintable() and "#" not in text and',
            "text.isprintable() and",
        ),
    ),
    *mutants_of(
        "bindings/drift/drift.py",
        "bindings/drift/test_drift.py",
        (
            "an auto-delete queue that has changed is ignored",
            'if item.change != "changed" and isinstance(item.part, Exchange | Queue) and item.part.auto_delete',
            "if isinstance(item.part, Exchange | Queue) and item.part.auto_delete",
        ),
        (
            "a kind before a glob is not looked at",
            "if kind == named.kind and matches_glob(rest, named.name):",
            "if matches_glob(rest, named.name):",
        ),
        (
            "--ignore-extra ignores what is missing, too",
            'return "extra" if self.extra and item.change == "extra" else None',
            'return "extra" if self.extra else None',
        ),
        (
            "a queue is made anew where only its partitioning differs",
            "return compare(self.intended, _with_partitions(self.live, self.wanted), deadline=Deadline(seconds))",
            "return compare(self.intended, self.live, deadline=Deadline(seconds))",
        ),
    ),
    *mutants_of(
        "bindings/drift/watch.py",
        "bindings/drift/test_drift.py",
        (
            "the wait after a failure never starts again",
            "        self._failed_in_a_row = 0\n        self.state = WatchState(drift",
            "        self.state = WatchState(drift",
        ),
        (
            "a broker that answers again is no news",
            "is_news = not before.up or known is None or",
            "is_news = before.drift is None or",
        ),
        ("an old result counts as up", "return self.drift is not None and self.error is None", "return True"),
    ),
    *mutants_of(
        "exchange/values/json_schema.py",
        "bridge/schema/test_schemas.py",
        ("every field is required", "is_required = get_origin(field) is not NotRequired", "is_required = True"),
        ("no field is required", "            required += [name] * is_required\n", "            pass\n"),
        (
            "fields of a base have no description",
            "found |= describe_fields(above) if isinstance(above, type) else {}",
            "pass",
        ),
        ("absent fields are required", "required += [field.name] * (not field.if_any)", "required += [field.name]"),
        ("what is null is a text", 'text.replace(\'""\', "null") if field.or_null else text', "text"),
    ),
    *mutants_of(
        "exchange/values/documents.py",
        "exchange/test_documents.py",
        (
            "a false value is absent by mistake",
            "if result[name] is None or result[name] is False:",
            "if not result[name]:",
        ),
        (
            "sets are not sorted",
            "sorted(values) if isinstance(values, (frozenset, set)) else list(values)",
            "list(values)",
        ),
        (
            "any class is a document",
            "    if kind in _LAYOUTS:\n        return partial",
            "    if True:\n        return partial",
        ),
        ("keys of mappings stay", "{key(name): item(each)", "{name: item(each)"),
        ("null is kept", "encode(value) if value else None}", "encode(value)}"),
    ),
    *mutants_of(
        "bindings/checking/rules/dead_letters.py",
        "bindings/checking/test_silence.py",
        (
            "a dead letter has a key of what nobody can publish",
            "source is not None and not source.internal",
            "source is not None",
        ),
    ),
    *mutants_of(
        "bindings/checking/rules/policies.py",
        "bindings/checking/test_silence.py",
        (
            "a policy fails to apply to other types",
            "isinstance(part, Queue) and is_for_type(policy, part.type)",
            "isinstance(part, Queue)",
        ),
        ("policies tie where another one is in force", "        if not higher:\n", "        if parts:\n"),
        (
            "policies of other parts tie",
            "for other in by_part[part]:\n                if other is",
            "for other in by_part[parts[0]]:\n                if other is",
        ),
    ),
    *mutants_of(
        "bindings/checking/rules/reach.py",
        "bindings/checking/test_silence.py",
        (
            "messages begin in internal exchanges",
            "in topology.exchanges.items() if not exchange.internal), *view",
            "in topology.exchanges.items()), *view",
        ),
        ("dead letters lead nowhere", "if not exchange.internal), *view.dead_letters]", "if not exchange.internal)]"),
        (
            "alternates lead nowhere",
            "    for name, alternate in view.alternates.items():\n        targets.",
            "    for name, alternate in ():\n        targets.",
        ),
        ("dead letters keep their keys", "name if letters.routing_key is None else letters.routing_key\n", "name\n"),
        (
            "dead letters have a key of their own",
            "name if letters.routing_key is None else letters.routing_key\n",
            "letters.routing_key\n",
        ),
        ("each dead letter goes to the default exchange", '        if letters.exchange == ""\n', ""),
        ("an alternate starves", "by_other_ways = {*view.alternates.values(), *view", "by_other_ways = {*view"),
        (
            "a dead letter exchange starves",
            "by_other_ways = {*view.alternates.values(), *view.dead_letters}",
            "by_other_ways = {*view.alternates.values()}",
        ),
    ),
    *mutants_of(
        "bindings/checking/rules/alternates.py",
        "bindings/checking/test_silence.py",
        (
            "a policy contradicts without an alternate",
            "and other is not None and other != alternate",
            "and other != alternate",
        ),
        (
            "a policy contradicts with the same alternate",
            "and other is not None and other != alternate",
            "and other is not None",
        ),
    ),
    *mutants_of(
        "bindings/checking/lives/rounds.py",
        "bindings/checking/test_silence.py",
        (
            "a queue that expires at once pauses",
            "pausing = {place for place in expiring if self._graph.pauses(place)}",
            "pausing = expiring",
        ),
    ),
    *mutants_of(
        "bindings/upgrading/facts/quorum.py",
        "bindings/upgrading/facts/test_seen.py",
        (
            "a negative limit of a policy is an argument's",
            'any(_is_negative(settings, "argument") for',
            "any(_is_negative(settings) for",
        ),
        ("dead letters without a limit drop", '_gives(new, "max-length", "max-length-bytes") and may', "may"),
        (
            "a limit by argument is one by policy",
            '"policy" in settings.values["delivery-limit"].source',
            '"a" in settings.values["delivery-limit"].source',
        ),
    ),
    *mutants_of(
        "bindings/diffing/planning/order.py",
        "bindings/diffing/test_plan.py",
        (
            "a wanted binding goes with its slot",
            "first, last = new, [binding for binding in old if binding not in new]",
            "first, last = new, old",
        ),
        (
            "a queue is there before its policies",
            "        first += [(Step(True, part),) for part in todo.new]",
            "        first = [*((Step(True, part),) for part in todo.new), *first]",
        ),
        (
            "new parts are bound before they are there",
            "        first += [(Step(True, part),) for part in todo.new]",
            "        first = [(Step(True, part),) for part in todo.new]",
        ),
        (
            "a slot is emptied after it was filled",
            "return (*(Step(False, binding, why) for binding in old), *(Step(True, binding, why) for binding in new))",
            "return (*(Step(True, binding, why) for binding in new), *(Step(False, binding, why) for binding in old))",
        ),
        (
            "an auto-delete exchange goes with its slot",
            "if exchange.auto_delete and len(old) ==",
            "if exchange.auto_delete and -len(old) ==",
        ),
    ),
    *mutants_of(
        "bindings/diffing/comparison/changes.py",
        "bindings/diffing/test_diff_meaning.py",
        (
            "the alternate of an exchange that opens is the same",
            "                    if name in side.alternates:\n                        yield",
            "                    if name in ():\n                        yield",
        ),
        ("an exchange that opens is the same", "if name not in other.published:", "if not name:"),
    ),
    *mutants_of(
        "bindings/applying/live.py",
        "bindings/applying/test_management.py",
        ("a policy that was not cleared is", 'if any(policy.get("name") == name for', "if any(not name for"),
        ("a policy that is gone is an error", 'if any(policy.get("name") == name for', "if any(name for"),
        ("transient queues get the default type", " or not queue.durable:\n", ":\n"),
        ("each queue gets the default type", '"x-queue-type" in queue.arguments or not', "not"),
    ),
    *mutants_of(
        "bindings/upgrading/requests/answering.py",
        "bindings/upgrading/test_applications.py",
        ("a deleted queue stays exclusive", "        self._exclusive.discard(name)\n", ""),
    ),
    *mutants_of(
        "bindings/upgrading/transform/policies.py",
        "bindings/upgrading/transform/test_transform.py",
        ("the policy that keeps the limit ties", "min(0, lowest - 1)", "min(0, lowest)"),
        ("the policy that keeps the limit displaces others", "min(0, lowest - 1)", "0"),
    ),
    *mutants_of(
        "bindings/counts/verification.py",
        "bindings/counts/test_verification.py",
        ("one queue too many is undecided beside an unknown one", " and not got - certain)", ")"),
        ("an unknown queue of any exchange proves nothing", "(unknown and not outcome.exchange and", "(unknown and"),
    ),
    *mutants_of(
        "bindings/archive/rocketmq/log.py",
        "bindings/archive/rocketmq/test_rocketmq_log.py",
        ("what has no time is of 1970", "born * 1000 if born > 0 else None", "born * 1000"),
        ("a time of 1970 is none", "born * 1000 if born > 0 else None", "born * 1000 if born > 1 else None"),
    ),
    *mutants_of(
        "bindings/archive/avro/records.py",
        "bindings/archive/test_avro.py",
        ("records of no bytes are decoded", "if block.rows > len(records):", "if False:"),
        (
            "rows after a damaged block have its number",
            "row += block.rows\n            yield from reader.flush()",
            "row += 1\n            yield from reader.flush()",
        ),
        ("splits of a file begin with row 0", "floor=first)", "floor=0)"),
        ("a record that is no row costs all beside it", "if len(records) == 1:", "if True:"),
    ),
    *mutants_of(
        "bindings/archive/avro/schema.py",
        "bindings/archive/test_avro.py",
        ("arrays of nothing are read", 'if self._is_empty(schema["items"]):', "if False:"),
        ("a schema that contains itself is read", 'if schema["name"] in around:', "if False:"),
        ("values of several types become one", "if len({*kinds}) > 1:", "if False:"),
    ),
    *mutants_of(
        "bindings/archive/formats/delimited.py",
        "bindings/archive/test_delimited.py",
        ("an empty time is a time", "is_kept=name in kept)", "is_kept=True)"),
        ("a row that is too short is filled", "if fields and len(fields) != len(header.names):", "if False:"),
        ("rows after a wrong one have its number", "            start = row + 1\n", ""),
    ),
    *mutants_of(
        "bindings/archive/formats/parquet.py",
        "bindings/archive/test_parquet.py",
        ("all row groups after the first split are one each", "start, size = group + 1, 0", "start = group + 1"),
        ("a file is one split", "if size >= split_bytes or group", "if group"),
    ),
    *mutants_of(
        "bindings/checking/lives/ends.py",
        "bindings/checking/test_silence.py",
        ("a queue that keeps nothing refuses dead letters", "        and limits.ttl != 0\n", ""),
        (
            "what must arrive vanishes",
            "        if limits.dead_letters.at_least_once:\n            continue",
            "        if limits is None:\n            continue",
        ),
        (
            "messages vanish with a queue that keeps none",
            "if not holds_messages(limits) or limits.ttl == 0:\n        return",
            "if not holds_messages(limits):\n        return",
        ),
        (
            "what is dropped vanishes in a full queue",
            "limits.loses_dead_letters\n            or",
            "limits.has_length\n            or",
        ),
        ("a queue that keeps nothing has many tries", "or limits.ttl == 0 or not holds_messages(limits)", ""),
        (
            "a stream has many tries",
            'if limits is None or limits.type == "stream" or limits.ttl == 0',
            "if limits is None or limits.ttl == 0",
        ),
    ),
    *mutants_of(
        "bindings/checking/rules/dangling.py",
        "bindings/checking/test_check.py",
        ("bindings to what is missing are from it", "if binding.source == end.name and end.kind", "if end.kind"),
    ),
    *mutants_of(
        "bindings/spark/streams/log.py",
        "bindings/spark/streams/test_stream_log.py",
        ("what is in the chunk before an offset is read", "if message.offset >= expected:  #", "if True:  #"),
        ("the message behind a range is in it", "if message.offset < end:", "if True:"),
        ("what was lost is not counted", "return max(0, min(self.end, first) - self.start)", "return 0"),
        (
            "a connection that is lost begins the range again",
            "_read(broker, OffsetRange(stream, expected, end))",
            "_read(broker, wanted)",
        ),
    ),
    *mutants_of(
        "bindings/spark/streams/planning.py",
        "bindings/spark/streams/test_stream_planning.py",
        ("a stream that was declared again is not noticed", 'before.seen in ("", at.fingerprint)', "True"),
        ("what was removed before is not noticed", "(lost := each.count_below(first.offset))", "(lost := 0)"),
        (
            "a copy that is behind is a stream declared again",
            "if self._clock() - since < BEHIND_SECONDS:",
            "if False:",
        ),
        ("held ends grow", "if not self._holds and self._clock()", "if self._clock()"),
    ),
]
