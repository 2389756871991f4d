"""Runs moto's server on a free port of the loopback address and prints its URL. It stops when stdin is closed, or
after an hour."""

import copy
import logging
import os
import select
import sys

# Before moto is imported: its SDK calls must not depend on the settings of a developer.
for name in [name for name in os.environ if name.startswith(("AWS_", "MOTO_"))]:
    del os.environ[name]

from moto.awslambda.models import LambdaBackend
from moto.cloudformation import models, parsing
from moto.core.config import default_user_config
from moto.server import ThreadedMotoServer

LIMIT = 3600  # seconds


def with_lists_without_no_value(clean_json):
    """Removes AWS::NoValue from lists, where moto leaves None."""

    def clean(value, resources):
        cleaned = clean_json(value, resources)
        return [one for one in cleaned if one is not None] if isinstance(value, list) else cleaned

    return clean


def with_conditions(exports):
    """Skips exports whose condition is false. moto evaluates them and fails."""

    def conditional(outputs):
        holds = outputs._resource_map.lazy_condition_map
        shown = copy.copy(outputs)
        shown._output_json_map = {
            name: output for name, output in outputs._output_json_map.items() if holds.get(output.get("Condition"), True)
        }
        return exports(shown)

    return conditional


def with_what_is_there(diff):
    """Skips updates of resources whose condition is false. moto tries to update them and fails."""

    def found(resources, template, parameters=None):
        changes = diff(resources, template, parameters)
        changes["Modify"] = [name for name in changes["Modify"] if name in resources._parsed_resources]
        return changes

    return found


def with_what_stays(update):
    """Keeps a resource that moto cannot update. moto drops it."""

    def updated(logical_id, resource_json, resources, **where):
        return update(logical_id, resource_json, resources, **where) or resources[logical_id]

    return updated


def with_resources_that_are_there(stack):
    """Leaves out resources whose condition is false, or that moto cannot create."""
    return [resource for resource in stack.resource_map.values() if resource is not None]


def with_no_outputs_when_deleted(outputs):
    """Returns no outputs of a deleted stack, since its resources are gone."""
    return lambda stack: None if stack.status == "DELETE_COMPLETE" else outputs(stack)


def with_tags(apply):
    """Applies the tags and parameters of a change set, too."""

    def applied(change_set):
        apply(change_set)
        change_set.stack.tags, change_set.stack.parameters = change_set.tags, change_set.parameters

    return applied


def with_lists_as_text(parameters):
    """Returns parameters that are lists as text, as they were given. moto returns how Python prints a list."""

    def as_text(value):
        return ",".join(value) if isinstance(value, list) else value

    def texts(stack):
        found = parameters(stack)
        if isinstance(found, list):
            return [{**one, "ParameterValue": as_text(one["ParameterValue"])} for one in found]
        return {name: as_text(value) for name, value in found.items()}

    return texts


models.Stack.parameter_list = property(with_lists_as_text(models.Stack.parameter_list.fget))
models.Stack.stack_parameters = property(with_lists_as_text(models.Stack.stack_parameters.fget))
parsing.ResourceMap.build_resource_diff = with_what_is_there(parsing.ResourceMap.build_resource_diff)
parsing.parse_and_update_resource = with_what_stays(parsing.parse_and_update_resource)
models.Stack.stack_resources = property(with_resources_that_are_there)
models.Stack.outputs = property(with_no_outputs_when_deleted(models.Stack.outputs.fget))
models.ChangeSet.apply = with_tags(models.ChangeSet.apply)
LambdaBackend.send_dynamodb_items = lambda *_: b""  # event sources are not read, which would start a container
parsing.clean_json = with_lists_without_no_value(parsing.clean_json)
parsing.OutputMap.exports = property(with_conditions(parsing.OutputMap.exports.fget))

default_user_config["lambda"] = {"use_docker": False}  # no function runs
default_user_config["iam"] = {"load_aws_managed_policies": True}  # a role may attach them

logging.getLogger("werkzeug").setLevel(logging.ERROR)  # no line for every request
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print("http://%s:%d" % server.get_host_and_port(), flush=True)
while select.select([sys.stdin], [], [], LIMIT)[0] and os.read(sys.stdin.fileno(), 4096):
    pass
os._exit(0)  # nothing to save, and no thread to wait for
