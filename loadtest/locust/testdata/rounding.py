"""Prints response times and the buckets that Locust puts them into, as JSON."""

import json
import random

from locust.stats import bucket_response_time

values = [x / 8 for x in range(0, 900)]
values += [float(x) for x in range(95, 1100, 5)] + [float(x) for x in range(950, 12000, 50)] + [float(x) for x in range(9500, 40000, 500)]
for edge in (99.5, 100.0, 105.0, 115.0, 994.9999999, 995.0, 1050.0, 1150.0, 9950.0, 10500.0, 11500.0, 145.00000000000003, 144.99999999999997):
    values.append(edge)
random.seed(247)
values += [random.lognormvariate(3, 3) for _ in range(1500)]
print(json.dumps([[x, bucket_response_time(x)] for x in values if x < 1e9], separators=(",", ":")).replace("],[", "],\n["))
