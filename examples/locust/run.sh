#!/bin/sh
# Runs a load test under Locust, with two workers of zae-limiter on one file.
set -eu
cd "$(dirname "$0")"
port=${PORT:-5557}
folder=$(mktemp -d)
store=sqlite:$folder/limits.db
workers=
trap 'kill $workers 2>/dev/null || true; wait; rm -r "$folder"' EXIT

zae-limiter loadtest locustfile checkout.yaml >"$folder/checkout.py"
zae-limiter namespace register default --store "$store" # creates the file that both workers open
for i in 1 2; do
  zae-limiter loadtest worker checkout.yaml --master "127.0.0.1:$port" --store "$store" &
  workers="$workers $!"
done
# Locust prints its summary to stderr.
"${LOCUST:-locust}" -f "$folder/checkout.py" --master --master-bind-host 127.0.0.1 --master-bind-port "$port" \
  --expect-workers 2 --expect-workers-max-wait 60 --headless --users 40 --spawn-rate 100 --run-time "${RUN_TIME:-10s}" --only-summary 2>&1
wait
