"""A Python worker for the test beside ours: users of the Python library, in the namespace of the master's test."""

import os
import time
import uuid

from locust import User, between, events, task
from locust.runners import WorkerRunner
from zae_limiter import SyncRateLimiter, SyncRepository

test = {}


@events.init.add_listener
def on_init(environment, **_):
    runner = environment.runner
    if not isinstance(runner, WorkerRunner):
        return

    def join(msg, **_):
        test.update(msg.data)
        runner.send_message("zae_limiter_joined", msg.data)

    def stop(**_):
        # After quit, the master waits only 0.5 s for the last report.
        runner.stop()
        runner._send_stats()
        runner.send_message("zae_limiter_stopped")

    runner.register_message("zae_limiter_test", join)
    runner.register_message("zae_limiter_stop", stop, concurrent=True)


def open_limiter():
    """Wait until the other worker has made the namespace and its limits."""
    for _ in range(300):
        try:
            repository = SyncRepository.open(
                f"loadtest-{test['scenario']}-{test['id']}",
                "serial",
                stack=os.environ["ZAEL_STACK"],
                region=os.environ["AWS_REGION"],
                endpoint_url=os.environ["AWS_ENDPOINT_URL"],
                auto_update=False,
            )
            limiter = SyncRateLimiter(repository=repository)
            if limiter.get_system_defaults()[0]:
                return limiter
        except Exception as e:  # not registered yet
            test["error"] = e
        time.sleep(0.05)
    raise test.get("error", TimeoutError("no limits"))


class SimpleUser(User):
    wait_time = between(0.1, 1)

    def on_start(self):
        self.entity = f"python-{uuid.uuid4().hex[:8]}"
        self.limiter = open_limiter()

    @task
    def acquire(self):
        begin, failure = time.perf_counter(), None
        try:
            with self.limiter.acquire(entity_id=self.entity, resource="api", consume={"rpm": 1}):
                pass
        except Exception as e:
            failure = e
        self.environment.events.request.fire(
            request_type="ACQUIRE",
            name="api",
            response_time=(time.perf_counter() - begin) * 1000,
            response_length=0,
            exception=failure,
            context={},
        )
