"""The Locust master of scenario night of zae-limiter.

    zae-limiter loadtest locustfile night > night.py
    locust -f night.py --master
    zae-limiter loadtest worker night --master HOST

The users run in workers of zae-limiter. The classes below only have their names
and weights, by which the master divides the users. When a test begins, the master
sends its ID to all workers, which then share a namespace. At the end all workers
stop and report, and one of them removes the namespace.
"""

import logging
import os
import signal
import sys
import uuid

import gevent
from locust import LoadTestShape, User, events, task
from locust.runners import MasterRunner

SCENARIO = "night"
NAMESPACE = "loadtest-night-"  # and the ID of the test
KEEP = False  # whether the namespace stays after a test
PICKER = "--class-picker" in sys.argv or os.environ.get("LOCUST_USERCLASS_PICKER", "").lower() == "true"
STOP_SECONDS = 10  # for workers to stop and report, in addition to Locust's stop timeout
REMOVE_SECONDS = 120  # for a worker to remove the namespace

log = logging.getLogger("zae_limiter")


class GoUser(User):
    abstract = True

    @task
    def runs_in_go(self):
        raise NotImplementedError(f"{type(self).__name__} runs in a worker of zae-limiter only")


class Walker(GoUser):
    weight = 1


class Runner(GoUser):
    weight = 3


class Stages(LoadTestShape):
    abstract = True
    stages = ()  # seconds, users, users a second

    def tick(self):
        left = self.get_run_time()
        for seconds, users, rate in self.stages:
            if left < seconds:
                return users, rate
            left -= seconds
        return None


class Calm(Stages):
    abstract = not PICKER
    stages = (
        (60, 5, 0.5),
    )


class Storm(Stages):
    abstract = False
    stages = (
        (1.5, 50, 10),
        (3600, 5, 1),
    )


class Test:
    """The current test, and what its workers have answered."""

    def __init__(self):
        self.runner = None
        self.id = None
        self.joined = set()
        self.stopped = set()
        self.removed = {}

    def order(self):
        return {"id": self.id, "scenario": SCENARIO}

    def workers(self):
        """The workers that take part and are still there."""
        clients = self.runner.clients
        return [w for w in sorted(self.joined) if w in clients and clients[w].state != "missing"]

    def wait(self, done, seconds):
        with gevent.Timeout(seconds, False):
            while not done():
                gevent.sleep(0.01)


test = Test()


@events.init.add_listener
def on_init(environment, **_):
    if not isinstance(environment.runner, MasterRunner):
        sys.exit(f"this file is for a master: start Locust with --master, and workers with: zae-limiter loadtest worker {SCENARIO}")
    test.runner = environment.runner
    test.runner.register_message("zae_limiter_joined", lambda msg, **_: test.joined.add(msg.node_id))
    test.runner.register_message("zae_limiter_stopped", lambda msg, **_: test.stopped.add(msg.node_id))
    test.runner.register_message("zae_limiter_removed", lambda msg, **_: test.removed.update({msg.node_id: msg.data}))

    gevent.spawn(follow, os.getppid())


def follow(parent):
    """End with the process that started this one."""
    while os.getppid() == parent:
        gevent.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


@events.test_start.add_listener
def on_test_start(**_):
    test.id = uuid.uuid4().hex[:8]
    test.joined, test.stopped, test.removed = set(), set(), {}
    log.info("Test %s begins in namespace %s", test.id, NAMESPACE + test.id)
    test.runner.send_message("zae_limiter_test", test.order())


@events.worker_connect.add_listener
def on_worker_connect(client_id, **_):
    if test.id:
        test.runner.send_message("zae_limiter_test", test.order(), client_id)


@events.test_stop.add_listener
def on_test_stop(environment, **_):
    # A headless master ends a test by quitting, and waits only 0.5 s for the
    # last reports. So the workers stop and report first.
    for worker in test.workers():
        test.runner.send_message("zae_limiter_stop", None, worker)
    test.wait(lambda: test.stopped.issuperset(test.workers()), environment.stop_timeout + STOP_SECONDS)
    ended, test.id = test.id, None
    if KEEP:
        log.info("Namespace %s stays", NAMESPACE + ended)
    elif not remove(ended):
        log.warning("Namespace %s was not removed", NAMESPACE + ended)


def remove(ended):
    """Ask one worker after the other until one has removed the namespace."""
    for worker in test.workers():
        test.runner.send_message("zae_limiter_teardown", {"id": ended, "scenario": SCENARIO}, worker)
        test.wait(lambda w=worker: w in test.removed or w not in test.workers(), REMOVE_SECONDS)
        answer = test.removed.get(worker, {"error": "no answer"})
        if not answer["error"]:
            log.info("Namespace %s is removed", NAMESPACE + ended)
            return True
        log.warning("Worker %s: %s", worker, answer["error"])
    return False
