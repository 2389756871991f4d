"""Runs moto's server on a free port of the loopback address and prints its URL. It stops when stdin is closed, or
after an hour if it was forgotten."""

import copy
import logging
import os
import select
import sys

# Before moto is imported: whatever it asks its own SDK for must not depend on who runs the tests.
for name in [name for name in os.environ if name.startswith(("AWS_", "MOTO_"))]:
    del os.environ[name]

from moto.awslambda.models import LambdaBackend
from moto.cloudformation import models, parsing
from moto.core.config import default_user_config
from moto.server import ThreadedMotoServer

LIMIT = 3600  # seconds


def with_lists_without_no_value(clean_json):
    """AWS::NoValue takes its place in a list away; moto leaves None there."""

    def clean(value, resources):
        cleaned = clean_json(value, resources)
        return [one for one in cleaned if one is not None] if isinstance(value, list) else cleaned

    return clean


def with_conditions(exports):
    """An output whose condition does not hold is not exported; moto evaluates it nevertheless, and fails."""

    def conditional(outputs):
        holds = outputs._resource_map.lazy_condition_map
        shown = copy.copy(outputs)
        shown._output_json_map = {
            name: output for name, output in outputs._output_json_map.items() if holds.get(output.get("Condition"), True)
        }
        return exports(shown)

    return conditional


def with_what_is_there(diff):
    """A resource whose condition does not hold is not modified; moto tries to, and fails."""

    def found(resources, template, parameters=None):
        changes = diff(resources, template, parameters)
        changes["Modify"] = [name for name in changes["Modify"] if name in resources._parsed_resources]
        return changes

    return found


def with_what_stays(update):
    """A resource that moto cannot update stays as it is; moto forgets it."""

    def updated(logical_id, resource_json, resources, **where):
        return update(logical_id, resource_json, resources, **where) or resources[logical_id]

    return updated


def with_resources_that_are_there(stack):
    """Those whose condition does not hold, or that moto cannot make, are none."""
    return [resource for resource in stack.resource_map.values() if resource is not None]


def with_no_outputs_when_deleted(outputs):
    """Outputs refer to resources, which have gone with the stack."""
    return lambda stack: None if stack.status == "DELETE_COMPLETE" else outputs(stack)


def with_tags(apply):
    """A change set has tags too."""

    def applied(change_set):
        apply(change_set)
        change_set.stack.tags, change_set.stack.parameters = change_set.tags, change_set.parameters

    return applied


parsing.ResourceMap.build_resource_diff = with_what_is_there(parsing.ResourceMap.build_resource_diff)
parsing.parse_and_update_resource = with_what_stays(parsing.parse_and_update_resource)
models.Stack.stack_resources = property(with_resources_that_are_there)
models.Stack.outputs = property(with_no_outputs_when_deleted(models.Stack.outputs.fget))
models.ChangeSet.apply = with_tags(models.ChangeSet.apply)
LambdaBackend.send_dynamodb_items = lambda *_: b""  # no event source is read: it would start a container
parsing.clean_json = with_lists_without_no_value(parsing.clean_json)
parsing.OutputMap.exports = property(with_conditions(parsing.OutputMap.exports.fget))

default_user_config["lambda"] = {"use_docker": False}  # no function runs
default_user_config["iam"] = {"load_aws_managed_policies": True}  # a role may attach one of them

logging.getLogger("werkzeug").setLevel(logging.ERROR)  # no line for every request
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print("http://%s:%d" % server.get_host_and_port(), flush=True)
while select.select([sys.stdin], [], [], LIMIT)[0] and os.read(sys.stdin.fileno(), 4096):
    pass
os._exit(0)  # in memory there is nothing to save, and no thread to wait for
