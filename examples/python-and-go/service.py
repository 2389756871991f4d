"""Charges the same table as main.go does in Go. It needs exactly zae-limiter 0.10.0 (pip install zae-limiter==0.10.0)."""

import sys

from zae_limiter import RateLimitExceeded, SyncRateLimiter, SyncRepository

table = sys.argv[1] if len(sys.argv) > 1 else "shared"
limiter = SyncRateLimiter(repository=SyncRepository.open(stack=table, auto_update=False))

try:
    with limiter.acquire(entity_id="alice", resource="search", consume={"calls": 4}):
        left = limiter.available(entity_id="alice", resource="search")["calls"]
        print(f"Python: took 4 calls, {left} left")
except RateLimitExceeded as refused:
    left = refused.violations[0].available
    print(f"Python: refused: {left} calls left, retry after {refused.retry_after_header}s")
