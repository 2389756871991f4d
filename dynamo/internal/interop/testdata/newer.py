"""Takes requests of a key until one is refused, with whatever release of zae-limiter is installed, and prints how many were admitted.

Arguments: URL of the engine, region, table, entity, resource, limit.
"""

import asyncio
import sys

from zae_limiter import RateLimiter, RateLimitExceeded, Repository


async def main(url, region, table, entity, resource, limit):
    limiter = RateLimiter(repository=await Repository.open(stack=table, region=region, endpoint_url=url))
    admitted = 0
    try:
        while admitted < 1000:
            async with limiter.acquire(entity, resource, {limit: 1}):
                admitted += 1
    except RateLimitExceeded:
        pass
    await limiter.close()
    print(admitted)


asyncio.run(main(*sys.argv[1:]))
