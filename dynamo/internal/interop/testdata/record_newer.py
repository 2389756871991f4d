"""Records the items that a newer release of zae-limiter for Python writes: dynamo/testdata/python-VERSION.jsonl.

scripts/python-newer record runs it. It uses the public API alone, on an engine whose URL is the first argument, and prints one item per
line as DynamoDB JSON, sorted by key.
"""

import asyncio
import json
import os
import sys
import warnings
from datetime import timedelta

os.environ.update(AWS_ACCESS_KEY_ID="x", AWS_SECRET_ACCESS_KEY="x", AWS_DEFAULT_REGION="us-east-1")
warnings.simplefilter("ignore")

import boto3  # noqa: E402
from zae_limiter import Limit, OnUnavailable, RateLimiter, Repository, __version__  # noqa: E402

URL = sys.argv[1]
TABLE = "recorded-" + __version__.replace(".", "-")
WHERE = {"stack": TABLE, "region": "us-east-1", "endpoint_url": URL}


async def plain(repo, limiter):
    """Writes what both releases know."""
    await limiter.set_system_defaults([Limit.per_minute("rpm", 60)], on_unavailable=OnUnavailable.BLOCK)
    await limiter.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 100), Limit.per_minute("tpm", 10_000, burst=15_000)])
    await limiter.set_resource_defaults("gpt-3", [Limit.custom("odd", 7, 3, 90)])
    await limiter.create_entity("project", name="The project", metadata={"team": "search", "cost centre": "4711"})
    await limiter.create_entity("key-1", name="Key 1", parent_id="project", cascade=True)
    await limiter.create_entity("key-2", parent_id="project")
    await limiter.set_limits("key-1", [Limit.per_hour("rph", 500)], resource="gpt-4")
    await limiter.set_limits("project", [Limit.per_day("tpd", 1_000_000)])
    async with limiter.acquire("key-1", "gpt-3", {"odd": 1}):
        pass
    async with limiter.acquire("loner", "gpt-4", {"rpm": 1, "tpm": 20}):
        pass


async def newest(repo, limiter):
    """Writes what only 0.17.0 knows."""
    from zae_limiter import ScheduleEntry

    # Some kinds of limits need a function that knows them. The record says that there is one.
    await repo.set_version_record("0.10.0", lambda_version=__version__, client_min_version="0.0.0", updated_by="client:" + __version__)
    repo = await Repository.open(**WHERE)
    limiter = RateLimiter(repository=repo)
    await limiter.set_resource_defaults(
        "quotas",
        [
            Limit.quota("monthly", 1000, cron="0 0 1 * *"),
            Limit.quota("daily", 100, cron="0 0 * * *"),
            Limit.quota("hourly", 10, cron="0 * * * *"),
            Limit.quota("weekly", 500, cron="0 0 * * 1"),
            Limit.quota("yearly", 5000, cron="0 0 1 1 *"),
            Limit.quota("fiscal", 900, cron="30 6 15 */3 *"),
            Limit.quota("rolling", 70, reset_after=timedelta(hours=5)),
        ],
    )

    night = ScheduleEntry("* 0-6 * * *", scale=0.5)
    await limiter.set_resource_defaults("zoned", [Limit.quota("monthly", 1000, cron="0 0 1 * *", tz="Europe/Berlin")])
    fixed = ScheduleEntry("* 7-8 * * *", capacity=5, refill_amount=5, refill_period_seconds=60)
    await limiter.set_resource_defaults("soft", [Limit.per_minute("rpm", 30, soft=True), Limit.per_minute("tpm", 300)])
    await limiter.set_resource_defaults("timed", [Limit.per_minute("rpm", 40).with_schedule((night, fixed))])
    await limiter.set_resource_defaults("off", [Limit.per_minute("rpm", 1)])
    await repo.disable_resource("off")
    await limiter.set_resource_defaults("free", [Limit.per_minute("rpm", 1)])
    await repo.bypass_resource("free")
    await limiter.set_resource_defaults("cascading", [Limit.per_minute("rpm", 1)])
    await repo.set_resource_cascade("cascading", True)
    await limiter.create_entity("grandchild", parent_id="key-1", cascade=True)
    await repo.disable_entity("key-2")
    await repo.disable_entity("key-1", "gpt-3")
    await repo.bypass_entity("loner", "gpt-4")
    await repo.enable_entity("project", "off")
    await repo.set_entity_cascade("key-2", True, "gpt-3")
    async with limiter.acquire("key-1", "quotas", {"monthly": 3, "rolling": 2}):
        pass
    await repo.reset_bucket("key-1", "quotas")
    await limiter.close()


async def main():
    bare = Repository(TABLE, "us-east-1", URL)
    await bare.create_table()
    await bare.close()
    for namespace in ("default", "tenant-b"):
        repo = await Repository.open(namespace, **WHERE)
        limiter = RateLimiter(repository=repo)
        if namespace == "default":
            await plain(repo, limiter)
            if hasattr(Limit, "quota"):
                await newest(repo, limiter)
        else:
            await limiter.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 5)])
        await limiter.close()
    client = boto3.client("dynamodb", endpoint_url=URL, region_name="us-east-1")
    items = [i for page in client.get_paginator("scan").paginate(TableName=TABLE) for i in page["Items"]]
    for item in sorted(items, key=lambda i: (i["PK"]["S"], i["SK"]["S"])):
        if "/AUDIT#" not in item["PK"]["S"]:
            print(json.dumps(item, sort_keys=True))


asyncio.run(main())
