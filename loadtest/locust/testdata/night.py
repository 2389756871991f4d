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
from gevent.event import Event
from locust import LoadTestShape, User, events, task
from locust.runners import MasterRunner

SCENARIO = "night"
NAMESPACE = "loadtest-night-"  # and the ID of the test
KEEP = False  # whether the namespace stays after a test
PICKER = "--class-picker" in sys.argv or os.environ.get("LOCUST_USERCLASS_PICKER", "").lower() == "true"
STOP_SECONDS = 10  # for workers to stop and report, in addition to Locust's stop timeout
REMOVE_SECONDS = 120  # for a worker to remove the namespace
BALANCE_SECONDS = 10  # until the same users are divided again

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
    """A test, and what its workers have answered."""

    def __init__(self):
        self.id = uuid.uuid4().hex[:8]
        self.namespace = NAMESPACE + self.id
        self.joined = set()
        self.stopped = set()
        self.asked = set()  # workers that had to remove the namespace
        self.stopping = False
        self.over = Event()

    def order(self):
        return {"id": self.id, "scenario": SCENARIO, "keep": KEEP}

    def workers(self):
        """The workers that take part and are still there."""
        return [w for w in connected() if w in self.joined]


class State:
    runner = None
    test = None  # the last one that began
    division = None  # of users between workers, which may be under way
    left = []  # tests whose namespace no worker has removed yet
    answers = {}  # of workers that had to remove a namespace


def connected():
    clients = State.runner.clients
    return [w for w in sorted(clients) if clients[w].state != "missing"]


def wait(done, seconds):
    with gevent.Timeout(seconds, False):
        while not done():
            gevent.sleep(0.01)


def on_joined(msg, **_):
    if State.test:
        State.test.joined.add(msg.node_id)


def on_stopped(msg, **_):
    if State.test:
        State.test.stopped.add(msg.node_id)


def on_removed(msg, **_):
    State.answers[msg.node_id, msg.data["id"]] = msg.data.get("error")


@events.init.add_listener
def on_init(environment, **_):
    if not isinstance(environment.runner, MasterRunner):
        sys.exit(f"this file is for a master: start Locust with --master, and workers with: zae-limiter loadtest worker {SCENARIO}")
    State.runner = environment.runner
    State.runner.register_message("zae_limiter_joined", on_joined)
    State.runner.register_message("zae_limiter_stopped", on_stopped)
    State.runner.register_message("zae_limiter_removed", on_removed)
    gevent.spawn(balance)
    gevent.spawn(sweep)

    gevent.spawn(follow, os.getppid())


def follow(parent):
    """End with the process that started this one."""
    while os.getppid() == parent:
        gevent.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


def balance():
    """Divide the users again after workers have come or gone.

    Locust does so once in a test, and never again.
    """
    before, pause = None, 0
    while True:
        gevent.sleep(1)
        users = uneven()
        pause = max(pause - 1, 0)
        # Reports may be on their way, so the difference has to last. A division
        # that changes nothing is repeated, but not at once.
        if users and users == before and not pause:
            pause = BALANCE_SECONDS
            log.info("Dividing %d users between %d workers again", State.runner.target_user_count, len(users))
            State.division = gevent.spawn(State.runner.start, State.runner.target_user_count, State.runner.spawn_rate)
            State.division.join()
        elif users != before:
            pause = 0
        before = users


def uneven():
    """The users of each worker, if they differ from what the test should have."""
    runner, dispatcher = State.runner, State.runner._users_dispatcher
    if runner.state != "running" or not runner.spawning_completed or dispatcher is None:
        return None
    if dispatcher.get_current_user_count() != runner.target_user_count:
        return None  # users still start or stop
    users = {w: runner.clients[w].user_count for w in connected()}
    if not users or sum(users.values()) == runner.target_user_count and (min(users.values()) > 0 or max(users.values()) < 2):
        return None
    return users


@events.test_start.add_listener
def on_test_start(**_):
    last = State.test
    if last and last.stopping:
        last.over.wait()  # so that its stop and its removal never meet the new test
    elif last:
        State.left.append(last)
    State.test = Test()
    log.info("Test %s begins in namespace %s", State.test.id, State.test.namespace)
    State.runner.send_message("zae_limiter_test", State.test.order())


@events.worker_connect.add_listener
def on_worker_connect(client_id, **_):
    if State.test and not State.test.stopping:
        State.runner.send_message("zae_limiter_test", State.test.order(), client_id)


@events.test_stopping.add_listener
def on_test_stopping(**_):
    if State.division:
        State.division.kill()  # at its end, it would call the stopped test running
    if State.test:
        State.test.stopping = True


@events.test_stop.add_listener
def on_test_stop(environment, **_):
    test = State.test
    if not test or test.over.is_set():
        return
    try:
        end(test, environment.stop_timeout + STOP_SECONDS)
    finally:
        test.over.set()


def end(test, seconds):
    # A headless master ends a test by quitting, and waits only 0.5 s for the
    # last reports. So the workers stop and report first.
    for worker in test.workers():
        State.runner.send_message("zae_limiter_stop", None, worker)
    wait(lambda: test.stopped.issuperset(test.workers()), seconds)
    if KEEP:
        log.info("Namespace %s stays", test.namespace)
    elif not remove(test, test.workers()):
        State.left.append(test)
        log.warning("Namespace %s was not removed; the next worker that connects removes it", test.namespace)


def remove(test, workers):
    """Ask one worker after the other until one has removed the namespace."""
    for worker in workers:
        test.asked.add(worker)
        key = worker, test.id
        State.runner.send_message("zae_limiter_teardown", test.order(), worker)
        wait(lambda k=key: k in State.answers or k[0] not in connected(), REMOVE_SECONDS)
        error = State.answers.pop(key, "no answer")
        if not error:
            log.info("Namespace %s is removed", test.namespace)
            return True
        log.warning("Worker %s: %s", worker, error)
    return False


def sweep():
    """Remove what ended tests left, once there are workers again."""
    while True:
        gevent.sleep(1)
        if KEEP or State.test and State.test.stopping and not State.test.over.is_set():
            continue
        for test in list(State.left):
            if remove(test, [w for w in connected() if w not in test.asked]):
                State.left.remove(test)
