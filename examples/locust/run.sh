#!/bin/sh
# Runs a load test under Locust, with two workers of zae-limiter on one file.
set -eu
cd "$(dirname "$0")"
port=${PORT:-5557}
folder=$(mktemp -d)
workers=
trap 'kill $workers 2>/dev/null || true; wait; rm -r "$folder"' EXIT

zae-limiter loadtest locustfile checkout.yaml >"$folder/checkout.py"
for i in 1 2; do
  zae-limiter loadtest worker checkout.yaml --master "127.0.0.1:$port" --store "sqlite:$folder/limits.db" &
  workers="$workers $!"
done
# Locust prints its summary to stderr.
"${LOCUST:-locust}" -f "$folder/checkout.py" --master --master-bind-host 127.0.0.1 --master-bind-port "$port" \
  --expect-workers 2 --expect-workers-max-wait 60 --headless --users 40 --spawn-rate 100 --run-time "${RUN_TIME:-10s}" --only-summary 2>&1
wait
