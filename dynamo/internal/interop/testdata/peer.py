"""A peer for the interop tests: runs operations of the Python library for a program that speaks JSON.

One request per line on stdin, one reply per line on stdout, in order; ends when stdin closes.

    {"op": "acquire", "args": {"handle": "h", "entity_id": "alice", "resource": "gpt-4", "consume": {"rpm": 1}}}
    {"ok": {...}}  or  {"error": {"type": "RateLimitExceeded", "message": "...", ...fields of the exception}}

"handle" names a repository that the operation open made. Methods of a repository also take "stack" in its place:
then they run without namespace lookup or version check, as creating a table needs. All other arguments carry the
names that the library gives them. What the library logs goes to stderr.
"""

import argparse
import asyncio
import collections
import contextlib
import dataclasses
import enum
import json
import logging
import os
import sys
import time
import warnings

warnings.simplefilter("ignore", DeprecationWarning)

import ulid  # noqa: E402  the filter has to come first
import zae_limiter.config_cache  # noqa: E402
import zae_limiter.lease  # noqa: E402
import zae_limiter.limiter  # noqa: E402
import zae_limiter.repository  # noqa: E402
from zae_limiter import Limit, OnUnavailable, RateLimiter, RateLimitExceeded, Repository  # noqa: E402

# Methods that are called as they are, on the limiter where it has one: that is what a service calls.
LIMITER_METHODS = {
    "available",
    "create_entity",
    "delete_entity",
    "delete_limits",
    "delete_resource_defaults",
    "delete_system_defaults",
    "get_audit_events",
    "get_children",
    "get_entity",
    "get_limits",
    "get_resource_capacity",
    "get_resource_defaults",
    "get_system_defaults",
    "is_available",
    "list_entities_with_custom_limits",
    "list_resources_with_defaults",
    "list_resources_with_entity_configs",
    "set_limits",
    "set_resource_defaults",
    "set_system_defaults",
    "time_until_available",
}

REPOSITORY_METHODS = {
    "create_table",
    "delete_namespace",
    "delete_table",
    "get_buckets",
    "get_cache_stats",
    "get_namespace",
    "get_provisioner_state",
    "get_resource_buckets",
    "get_usage_snapshots",
    "get_usage_summary",
    "get_version_record",
    "invalidate_config_cache",
    "list_namespaces",
    "list_orphan_namespaces",
    "purge_namespace",
    "put_provisioner_state",
    "recover_namespace",
    "register_namespace",
    "resolve_limits",
    "set_version_record",
}

# Names for the parts of a result that is a tuple.
PARTS = {
    "get_system_defaults": ("limits", "on_unavailable"),
    "get_usage_snapshots": ("snapshots", "next_key"),
    "list_entities_with_custom_limits": ("entities", "cursor"),
    "resolve_limits": ("limits", "on_unavailable", "source"),
}


class Rollback(Exception):
    """Raised inside a lease to end it without a commit."""


class Clock:
    """Stands for the module time in the library, shifted or stopped. Signing and time-outs keep the real one."""

    # Everything that reads the clock: ids of audit events come from ulid.
    modules = (
        zae_limiter.config_cache,
        zae_limiter.lease,
        zae_limiter.limiter,
        zae_limiter.repository,
        ulid,
    )

    def __init__(self):
        self.offset_ms = 0
        self.frozen_ms = None
        for module in self.modules:
            module.time = self

    def __getattr__(self, name):
        return getattr(time, name)

    def time_ns(self):
        if self.frozen_ms is None:
            return time.time_ns() + self.offset_ms * 1_000_000
        # The library truncates float seconds x 1000. Half a millisecond more keeps the rounding from losing one.
        return (self.frozen_ms + self.offset_ms) * 1_000_000 + 500_000

    def time(self):
        return self.time_ns() / 1e9

    def gmtime(self, seconds=None):
        return time.gmtime(self.time() if seconds is None else seconds)

    def set(self, offset_ms=0, frozen_ms=None):
        self.offset_ms, self.frozen_ms = offset_ms, frozen_ms
        return {"now_ms": int(self.time() * 1000)}


class Peer:
    def __init__(self, endpoint_url, region):
        self.where = {"endpoint_url": endpoint_url, "region": region}
        self.clock = Clock()
        self.limiters = {}  # by handle
        self.bare = {}  # repositories by stack
        self.leases = {}  # (exit stack, lease) by number
        self.leases_made = 0

    async def answer(self, op, args):
        """The result of one request, or the exception that the library raised."""
        if op in LIMITER_METHODS or op in REPOSITORY_METHODS:
            return await self.method(op, args)
        own = getattr(self, "op_" + op, None)
        if own is None:
            raise LookupError(f"unknown operation: {op}")
        return await own(**args)

    async def method(self, op, args):
        args = dict(args)
        target = self.target(op, args)
        result = getattr(target, op)(**arguments(args, op in LIMITER_METHODS))
        if asyncio.iscoroutine(result):
            result = await result
        return dict(zip(PARTS[op], result, strict=True)) if op in PARTS else result

    def target(self, op, args):
        if op in LIMITER_METHODS:
            return self.limiter(args.pop("handle"))
        if "stack" in args:
            return self.bare_repository(args.pop("stack"))
        return self.limiter(args.pop("handle"))._repository

    def limiter(self, handle):
        if handle not in self.limiters:
            raise LookupError(f"no open handle: {handle}")
        return self.limiters[handle][0]

    def bare_repository(self, stack):
        if stack not in self.bare:
            self.bare[stack] = Repository(stack, **self.where)
        return self.bare[stack]

    async def op_open(
        self, handle, stack, namespace=None, speculative_writes=True, bucket_ttl_multiplier=None, **settings
    ):
        """Opens a repository; settings: auto_update, config_cache_ttl, endpoint_url, region."""
        if handle in self.limiters:
            raise ValueError(f"handle is open already: {handle}")
        owner = await Repository.open(namespace, stack=stack, **{**self.where, **settings})
        repo = owner
        if bucket_ttl_multiplier is not None:
            repo = await owner.namespace(owner.namespace_name, bucket_ttl_multiplier=bucket_ttl_multiplier)
        self.limiters[handle] = (RateLimiter(repository=repo, speculative_writes=speculative_writes), owner)
        return {"namespace_id": repo.namespace_id, "namespace_name": repo.namespace_name, "table_name": repo.table_name}

    async def op_close(self, handle):
        self.limiter(handle)
        _, owner = self.limiters.pop(handle)
        await owner.close()

    async def op_clock(self, offset_ms=0, frozen_ms=None):
        """Shifts the library's clock; frozen_ms stops it there. Without arguments it is the real one again."""
        return self.clock.set(offset_ms, frozen_ms)

    async def op_acquire(self, handle, **args):
        """Begins a lease and ends it; see op_acquire_begin and in_lease for the arguments."""
        end = {key: args.pop(key) for key in ("consume_more", "adjust", "release", "rollback") if key in args}
        with contextlib.suppress(Rollback):
            async with self.limiter(handle).acquire(**arguments(args, True)) as lease:
                await in_lease(lease, **end)
        return describe(lease)

    async def op_acquire_begin(self, handle, **args):
        """Takes a lease and leaves it open; args are entity_id, resource, consume, limits and on_unavailable."""
        stack = contextlib.AsyncExitStack()
        lease = await stack.enter_async_context(self.limiter(handle).acquire(**arguments(args, True)))
        self.leases_made += 1
        self.leases[self.leases_made] = (stack, lease)
        return {"lease": self.leases_made, **describe(lease)}

    async def op_acquire_end(self, lease, **end):
        """Ends the lease of that number: an error inside it rolls it back, as in a service."""
        if lease not in self.leases:
            raise LookupError(f"no open lease: {lease}")
        stack, lease = self.leases.pop(lease)
        with contextlib.suppress(Rollback):
            async with stack:
                await in_lease(lease, **end)
        return describe(lease)

    async def op_hammer(self, handle, attempts, tasks=1, seconds=None, **args):
        """Acquires from several tasks until attempts or seconds are used up, and counts the outcomes."""
        began = time.perf_counter()
        counts, errors = collections.Counter(), collections.Counter()
        numbers = iter(range(attempts))
        args = arguments(args, True)

        async def work():
            for _ in numbers:
                if seconds is not None and time.perf_counter() - began >= seconds:
                    return
                await self.count(handle, args, counts, errors)

        await asyncio.gather(*(work() for _ in range(tasks)))
        return {
            "admitted": counts["admitted"],
            "rejected": counts["rejected"],
            "errors": errors,
            "seconds": time.perf_counter() - began,
        }

    async def count(self, handle, args, counts, errors):
        try:
            async with self.limiter(handle).acquire(**args):
                counts["admitted"] += 1
        except RateLimitExceeded:
            counts["rejected"] += 1
        except Exception as e:  # counted by type and text: the caller decides what it may tolerate
            errors[f"{type(e).__name__}: {e}"] += 1

    async def op_bench(self, handle, calls, concurrency=1, warmup=0, entities=1, latencies=False, **args):
        """Measures acquires, with the entity numbered where there are several. CPU is this process's."""
        args = arguments(args, True)
        counts, errors, took = collections.Counter(), collections.Counter(), []

        async def run(total):
            numbers = iter(range(total))

            async def work():
                for n in numbers:
                    one = args if entities == 1 else {**args, "entity_id": f"{args['entity_id']}-{n % entities}"}
                    began = time.perf_counter()
                    await self.count(handle, one, counts, errors)
                    took.append(time.perf_counter() - began)

            await asyncio.gather(*(work() for _ in range(concurrency)))

        await run(warmup)
        for measured in (counts, errors, took):
            measured.clear()
        wall, cpu = time.perf_counter(), time.process_time()
        await run(calls)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return {
            "calls": len(took),
            "admitted": counts["admitted"],
            "rejected": counts["rejected"],
            "errors": errors,
            "wall_seconds": wall,
            "cpu_seconds": cpu,
            "p50_ms": percentile(took, 50),
            "p95_ms": percentile(took, 95),
            "p99_ms": percentile(took, 99),
            **({"latencies_ms": [1000 * t for t in took]} if latencies else {}),
        }

    async def op_aggregate(self, table, records, windows):
        """Runs the code of the stack's function on records of the table's stream, with this peer's clock."""
        os.environ["AWS_ENDPOINT_URL"] = self.where["endpoint_url"]
        os.environ["AWS_DEFAULT_REGION"] = self.where["region"]
        from zae_limiter_aggregator import processor  # few tests need it

        processor.time_module = self.clock
        return await asyncio.to_thread(processor.process_stream_records, records, table, windows)

    async def close(self):
        for handle in list(self.limiters):
            await self.op_close(handle)
        for repo in self.bare.values():
            await repo.close()


async def in_lease(lease, consume_more=None, adjust=None, release=None, rollback=False):
    """What happens inside a lease: each argument is a map of limit to amount, rollback ends it by an exception."""
    if consume_more:
        await lease.consume(**consume_more)
    if adjust:
        await lease.adjust(**adjust)
    if release:
        await lease.release(**release)
    if rollback:
        raise Rollback


def describe(lease):
    """A lease as data. No entries: it was waved through without a write."""
    entries = [
        {
            "entity_id": e.entity_id,
            "limit_name": e.limit.name,
            "consumed": e.consumed,
            "tokens_milli": e.state.tokens_milli,
        }
        for e in lease.entries
    ]
    return {"consumed": lease.consumed, "entries": entries}


def arguments(args, enums):
    """JSON arguments as the library wants them: limits as objects, for the limiter the mode as an enum."""
    args = dict(args)
    if args.get("limits") is not None:
        args["limits"] = [Limit.from_dict(limit) for limit in args["limits"]]
    if enums and args.get("on_unavailable") is not None:
        args["on_unavailable"] = OnUnavailable(args["on_unavailable"])
    return args


def percentile(seconds, percent):
    """In milliseconds, by nearest rank; None when nothing was measured."""
    if not seconds:
        return None
    ordered = sorted(seconds)
    return 1000 * ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def encode(value):
    """A result of the library as JSON: records by their fields, and whatever is unknown as text."""
    match value:
        case enum.Enum():
            return value.value
        case None | bool() | int() | float() | str():
            return value
        case BaseException():
            return failure(value)
        case dict():
            return {str(k): encode(v) for k, v in value.items()}
        case list() | tuple():
            return [encode(v) for v in value]
        case set() | frozenset():
            return sorted(encode(v) for v in value)
        case _ if dataclasses.is_dataclass(value):
            return {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return str(value)


def failure(e):
    """An exception with its own fields; of an error of the AWS client the code and the cancellation reasons."""
    fields = {k: encode(v) for k, v in vars(e).items() if not k.startswith("_")}
    response = getattr(e, "response", None)
    if isinstance(response, dict):
        reasons = [r.get("Code") for r in response.get("CancellationReasons", [])]
        fields = {"code": response.get("Error", {}).get("Code"), "operation": e.operation_name, "reasons": reasons}
    return {**fields, "type": type(e).__name__, "message": str(e)}


async def reply(peer, line):
    try:
        request = json.loads(line)
        return {"ok": encode(await peer.answer(request["op"], request.get("args") or {}))}
    except Exception as e:  # the peer outlives every failing request
        logging.debug("request failed", exc_info=e)
        return {"error": failure(e)}


async def serve(peer, out):
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        out.write(json.dumps(await reply(peer, line)) + "\n")
        out.flush()
    await peer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--endpoint-url", required=True, help="DynamoDB endpoint; open can name another one")
    parser.add_argument("--region", default="us-east-1")
    args = parser.parse_args()
    # Replies have stdout to themselves: whatever else prints there goes to stderr.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    logging.basicConfig(stream=sys.stderr, level=os.environ.get("ZAEL_PEER_LOG", "WARNING"))
    # It complains of the connection that the library leaves behind whenever opening a repository fails.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    asyncio.run(serve(Peer(args.endpoint_url, args.region), out))


main()
