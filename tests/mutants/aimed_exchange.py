"""Mutants of the engine, written from its code: caches, bounds, what is given back, what is remembered."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant, mutants_of

NOTHING: Final = "pass"
ROUTING: Final = (
    "exchange/routing/test_router_memory.py exchange/routing/test_router.py "
    "exchange/routing/test_router_laws.py exchange/routing/test_explain.py"
)

EXCHANGE: Final[list[Mutant]] = [
    *mutants_of(
        "exchange/patterns/matcher.py",
        "exchange/patterns/test_matcher_memory.py exchange/patterns/test_matcher.py",
        (
            "a literal pattern that is unbound stays in the cache of keys",
            "                    del self._literal[pattern.text]\n                self._forget_key(pattern.text)",
            "                    del self._literal[pattern.text]",
        ),
        (
            "a wildcard pattern that changes leaves the cache of keys",
            "            keys.clear()\n        self._narrow.clear()",
            "            pass\n        self._narrow.clear()",
        ),
        (
            "a wildcard pattern that changes leaves the answers of keys of one length",
            "        self._narrow.clear()\n",
            "",
        ),
        (
            "the cache of keys has no bound",
            "return keys.add(key, values, self._cache_size)",
            "return keys.add(key, values, 1 << 60)",
        ),
        (
            "the answers of keys of one length have no bound",
            "        if len(narrow.answers) >= min(ANSWERS, self._cache_size):\n            narrow.answers.clear()\n",
            "",
        ),
        (
            "the cache of signatures has no bound",
            "            if len(self._signatures) >= self._cache_size:\n                self._signatures.clear()\n",
            "",
        ),
        (
            "a word that three patterns name is forgotten with the second",
            "            if others > 1:",
            "            if others > 2:",
        ),
        (
            "a pattern that is removed stays in the indexes",
            "            index.remove(wild)",
            "            pass",
        ),
        ("long patterns without # are in no index that is there", " if wild.least <= LONGEST else None", ""),
        (
            "values of a literal and a wildcard pattern come twice",
            "(*literal, *wild) if self._distinct else",
            "(*literal, *wild) if not self._distinct else",
        ),
    ),
    *mutants_of(
        "exchange/patterns/shapes.py",
        "exchange/patterns/test_matcher.py exchange/patterns/test_matcher_memory.py",
        (
            "places of a tail are counted from the beginning",
            "enumerate(form.tail, -len(form.tail))",
            "enumerate(form.tail)",
        ),
        ("an inner part is never at the end", "range(first, end - size + 1)", "range(first, end - size)"),
        ("a shape stays large when it is empty", "if not large.values:", "if False:"),
        (
            "shapes that fit a length are remembered when others come",
            "patterns)\n            self._fitting.clear()",
            "patterns)",
        ),
        ("patterns of a large shape stay in the indexes", "                self._remove(each)", "                pass"),
    ),
    *mutants_of(
        "exchange/patterns/wildcards.py",
        "exchange/patterns/test_matcher_memory.py exchange/patterns/test_matcher.py",
        ("long patterns without # are in no index", "return self.open or self.least > LONGEST", "return self.open"),
        (
            "long patterns without # match longer keys",
            'return [(*conditions, ("length", self.least))]',
            "return [conditions]",
        ),
        (
            "long patterns with # ask for one word more than they need",
            "(self.least - 1, PRESENT)",
            "(self.least, PRESENT)",
        ),
        ("no word may be left out between parts", "range(spare + 1)", "range(spare)"),
        (
            "words under which nothing is compared are kept",
            "        if not self._compared[word]:\n            del self._compared[word]\n",
            "",
        ),
    ),
    *mutants_of(
        "exchange/patterns/conjunctions.py",
        "exchange/patterns/test_matcher_memory.py exchange/patterns/test_matcher.py",
        (
            "an answer with a removed value is remembered",
            'the memory when it was the last."""\n        self._answers.clear()',
            'the memory when it was the last."""',
        ),
        (
            "blocks split by name lose what asks for nothing",
            "places = {_REST, *map(self.spread, features)}",
            "places = {*map(self.spread, features)}",
        ),
        ("slots that are free are not used again", "        if self._free:", "        if False:"),
        (
            "the answers of a block have no bound",
            (
                "                    if len(self._answers) >= self._answers_size:\n"
                "                        self._answers.clear()\n"
            ),
            "",
        ),
        (
            "a split stays when its last child is gone",
            "            if node.parent.children:\n                return",
            "            if True:\n                return",
        ),
    ),
    *mutants_of(
        "exchange/routing/cache.py",
        ROUTING,
        ("remembered routes have no bound", "        if self._count >= most:\n            self.clear()\n", ""),
        (
            "a binding changes only what the default exchange remembers",
            "self.by_exchange.values() if exchange is None else [self.by_exchange.get(exchange, {})]",
            '[self.by_exchange.get(exchange or "", {})]',
        ),
    ),
    *mutants_of(
        "exchange/routing/compiled.py",
        ROUTING,
        (
            "routes are remembered by key before an exchange that looks at more",
            'pending += [b.source for b in self.tables.bindings_to(Destination("exchange", name))]',
            NOTHING,
        ),
        (
            "the default exchange remembers partitions that a header decides",
            'pending += ["", *(b.source',
            "pending += [*(b.source",
        ),
        (
            "the partitions of a deleted queue stay",
            "before = self.partitioned.pop(part.name, None)",
            "before = self.partitioned.get(part.name)",
        ),
    ),
    *mutants_of(
        "exchange/routing/walk.py",
        ROUTING,
        (
            "a circle leads through its first exchange once more",
            "    seen = {start.exchange.name}\n",
            "    seen: set[str] = set()\n",
        ),
    ),
    *mutants_of(
        "exchange/routing/hops.py",
        "exchange/routing/test_delayed.py",
        (
            "a walk after a delay knows the exchanges before it",
            "queues, seen = set(), {visit.exchange.name}",
            "queues, seen = set(), {*seen, visit.exchange.name}",
        ),
    ),
    *mutants_of(
        "exchange/routing/router.py",
        ROUTING,
        (
            "a route with BCC is remembered",
            'or ("CC" not in headers and "BCC" not in headers)',
            'or "CC" not in headers',
        ),
    ),
    *mutants_of(
        "exchange/topology/rules.py",
        "exchange/topology/test_rules_state.py exchange/topology/test_rules.py exchange/kinds/test_hash_kinds.py",
        (
            "an exchange is in use when something is bound to it",
            "if if_unused and tables.bindings_from(name):",
            'if if_unused and tables.bindings_to(Destination("exchange", name)):',
        ),
        (
            "an auto-delete exchange goes with its first binding",
            "exchange.auto_delete and not left[source]",
            "exchange.auto_delete",
        ),
        (
            "declaring a queue once more without partitions takes them away",
            "if queue.partitioning in (None, existing.partitioning):",
            "if queue.partitioning == existing.partitioning:",
        ),
    ),
    *mutants_of(
        "exchange/kinds/consistent_hash.py",
        "exchange/topology/test_rules_state.py exchange/kinds/test_hash_kinds.py",
        (
            "a ring keeps the bounds of before an unbinding",
            "            self._ends = list(accumulate(widths))",
            "            self._ends = self._ends[: len(self._ring)]",
        ),
        ("a place whose buckets are lost is given to another", "[lost] * bool(lost)", "[0] * bool(lost)"),
        (
            "the header BCC is hashed",
            'return header in message.headers and header != "BCC"',
            "return header in message.headers",
        ),
    ),
    *mutants_of(
        "exchange/kinds/headers.py",
        "exchange/routing/test_router_memory.py exchange/routing/test_router.py",
        ("the header BCC matches", '        if name != "BCC"\n', ""),
    ),
    *mutants_of(
        "exchange/kinds/topic.py",
        "exchange/routing/test_router_memory.py exchange/routing/test_router.py exchange/routing/test_router_laws.py",
        (
            "a binding with # and no * changes the routes of its own key alone",
            'may_be_wild = "*" in key or "#" in key',
            'may_be_wild = "*" in key',
        ),
    ),
    *mutants_of(
        "exchange/dispatch/dispatcher.py",
        "exchange/dispatch/test_dispatch.py",
        (
            "a handler that was removed keeps its place in the order",
            "            if not registration.patterns:\n                del self._handlers[registration.handler]\n",
            "",
        ),
    ),
    *mutants_of(
        "exchange/dispatch/consumer.py",
        "exchange/dispatch/test_consumer.py",
        (
            "what is to be a dead letter is put back",
            '"requeue" if policy == "requeue" else "reject"',
            '"requeue" if policy == "dead-letter" else "reject"',
        ),
    ),
    *mutants_of(
        "exchange/routing/router.py",
        "exchange/routing/test_learning.py",
        (
            "keys are learned although more than the key decides",
            "if not self._cache_size or exchange in self._compiled.beyond_key():",
            "if not self._cache_size:",
        ),
        (
            "routes are learned without the partitions of their queues",
            "if number not in found.errors and partitioned.isdisjoint(route.queues) else None",
            "if number not in found.errors else None",
        ),
    ),
    *mutants_of(
        "exchange/routing/cache.py",
        "exchange/routing/test_learning.py",
        (
            "learned routes have no bound",
            "        if self._count + len(routes) > most:\n            self.clear()\n",
            "",
        ),
    ),
    *mutants_of(
        "exchange/routing/columns/column_router.py",
        "exchange/routing/columns/test_route_columns.py",
        (
            "keys beyond the limit of sets have the outcome of nothing",
            "                answers[answers == UNKNOWN] = BY_MESSAGE\n",
            "",
        ),
    ),
    *mutants_of(
        "exchange/routing/nearest.py",
        "exchange/routing/test_nearest.py exchange/routing/test_explain.py",
        (
            "obstacles are named from the queue backwards",
            "(*step.obstacles, *obstacles)",
            "(*obstacles, *step.obstacles)",
        ),
        (
            "of many bindings the first ones are looked at, not the nearest",
            (
                "bindings = heapq.nsmallest(MAX_MEASURED, bindings, "
                "key=lambda b: estimate_distance(b.routing_key, walk.message))"
            ),
            "bindings = bindings[:MAX_MEASURED]",
        ),
    ),
    *mutants_of(
        "exchange/partition/clients/kafka_builtin.py",
        "exchange/partition/clients/test_kafka_builtin.py",
        (
            "what was produced is counted from the last append only",
            "return memory._replace(produced=produced)",
            "return memory._replace(produced=event.size)",
        ),
    ),
    *mutants_of(
        "exchange/partition/clients/kafka.py",
        "exchange/partition/clients/test_kafka.py",
        (
            "the Scala producer draws for each record",
            "memory._replace(partition=partition)\n\n\ndef _absolute",
            "memory\n\n\ndef _absolute",
        ),
    ),
    *mutants_of(
        "exchange/routing/columns/headers.py",
        "exchange/routing/columns/test_route_columns.py",
        ("a header of a map without a value is absent", "_encode(values, null=VOID)", "_encode(values, null=ABSENT)"),
    ),
    *mutants_of(
        "exchange/routing/dead_letters.py",
        "exchange/routing/test_dead_letters.py",
        ("BCC goes along with the key of a queue", 'if name not in ("CC", "BCC")}', 'if name != "CC"}'),
        ("CC goes along with the key of a queue", 'if name not in ("CC", "BCC")}', 'if name != "BCC"}'),
    ),
    *mutants_of(
        "exchange/kinds/consistent_hash.py",
        "exchange/kinds/test_hash_kinds.py",
        (
            "weights are in the order of numbers",
            "[*map(encode_binary, (each.routing_key, *each.destination))]",
            "[_weight(each), *each.destination]",
        ),
        (
            "destinations come before weights",
            "(each.routing_key, *each.destination))]",
            "(*each.destination, each.routing_key))]",
        ),
    ),
    *mutants_of(
        "exchange/entities/merging.py",
        "exchange/entities/test_in_force.py",
        ("the shorter delay counts", '"delayed-retry-min": prefer_higher', '"delayed-retry-min": prefer_lower'),
        (
            "the smaller group counts",
            '"target-group-size": prefer_higher,\n    "delayed',
            '"target-group-size": prefer_lower,\n    "delayed',
        ),
    ),
    *mutants_of(
        "exchange/entities/in_force.py",
        "exchange/lifecycle/test_odd_numbers.py",
        (
            "what hides another value has no effect",
            "if len(list_given_settings(queue, policy, operator, name)) == 1:",
            "if True:",
        ),
    ),
    *mutants_of(
        "exchange/entities/odd_numbers.py",
        "exchange/lifecycle/test_odd_numbers.py",
        ("a fraction is no limit", "if isinstance(value, float) and isfinite(value):", "if False:"),
    ),
    *mutants_of(
        "exchange/lifecycle/queues.py",
        "exchange/lifecycle/test_broker.py",
        ("bytes count again after a change of policies", "        self._bytes = 0\n        for", "        for"),
    ),
    *mutants_of(
        "exchange/lifecycle/quorum.py",
        "exchange/lifecycle/test_broker.py",
        ("dead letters take no room below the limit", "len(self.waiting) + len(self._retained)", "len(self.waiting)"),
        (
            "bytes of dead letters take no room below the limit",
            "self._bytes + sum(self._retained.values()) <= int(",
            "self._bytes <= int(",
        ),
        (
            "a queue takes messages again as soon as it is not full",
            "SOFT_LIMIT: Final = 0.8",
            "SOFT_LIMIT: Final = 1.0",
        ),
        ("four fifths are one too many", "<= int(length * self.SOFT_LIMIT)", "< int(length * self.SOFT_LIMIT)"),
    ),
    *mutants_of(
        "exchange/lifecycle/quorum.py",
        "exchange/lifecycle/test_returns.py",
        ("what waits takes no room", "len(self.order) + len(self.waiting) +", "len(self.order) +"),
        ("the soonest of those that wait is forgotten", "or later[0] < self._soonest[0]", "or later < self._soonest"),
        ("a late nack lets a consumer go on", 'if outcome != "requeue" or', "if outcome or"),
        ("a late return is a failure", "self._take_back(back, False)", "self._take_back(back, True)"),
        ("a cancelled consumer keeps its channel", "if not consumer.is_active:", "if consumer.is_active:"),
        ("a consumer takes the later timeout of its queue", "if consumer.timeout is None or timeout", "if timeout"),
    ),
    *mutants_of(
        "exchange/lifecycle/content.py",
        "exchange/lifecycle/test_patch_releases.py",
        ("early 3.13 knows the latest death", "sorted(deaths, key=identify_death) if release.sorts_deaths else ", ""),
        (
            "early 3.13 shows the keys of now alone",
            "or content.hidden_keys or release.sorts_deaths",
            "or content.hidden_keys",
        ),
    ),
    *mutants_of(
        "exchange/lifecycle/quorum.py",
        "exchange/lifecycle/test_patch_releases.py",
        ("no consumer need be there", "and consumer and not consumer.is_active", "and consumer"),
    ),
    *mutants_of(
        "exchange/entities/queue_arguments.py",
        "exchange/lifecycle/test_unreadable.py",
        ("any timeout of a policy helps", "value < by_policy", "value > by_policy"),
        ("a void timeout is none", 'kind != "void" and not _is_read_as', "not _is_read_as"),
    ),
    *mutants_of(
        "exchange/lifecycle/dead_letters.py",
        "exchange/lifecycle/test_broker.py",
        ("a target gets a dead letter twice", "retry.reason, retry.arrived)", "retry.reason)"),
        ("what arrived is forgotten at the next try", "        arrived |= {name", "        arrived = {name"),
    ),
    *mutants_of(
        "exchange/dispatch/consumer.py",
        "exchange/dispatch/test_consumer.py",
        (
            "what replied and then failed is acknowledged",
            "await self._wait_for_replies(ticket) or error",
            "await self._wait_for_replies(ticket)",
        ),
        (
            "a failed request does not wait for its replies",
            "error = await self._wait_for_replies(ticket) or error",
            "error = error or await self._wait_for_replies(ticket)",
        ),
    ),
    *mutants_of(
        "exchange/dispatch/sending.py",
        "exchange/dispatch/test_consumer.py",
        (
            "a lost answer counts once for all",
            "                    self._counts.lost += number",
            "                    self._counts.lost += 1",
        ),
        (
            "lost answers do not count",
            "                    self._counts.lost += number",
            "                    self._counts.lost += 0",
        ),
    ),
    *mutants_of(
        "exchange/partition/clients/kafka_accumulator.py",
        "exchange/partition/clients/test_kafka_accumulator.py",
        (
            "a batch that just fits waits for the next request",
            "size + waiting[0].size > max_size",
            "size + waiting[0].size >= max_size",
        ),
        (
            "latencies are noted without a timeout",
            "if self.availability_timeout_ms <= 0:",
            "if self.availability_timeout_ms < 0:",
        ),
    ),
]
