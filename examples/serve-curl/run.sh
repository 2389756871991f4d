#!/bin/sh
# Limits the use of a model with zae-limiter serve and curl: three requests and
# 1,000 tokens a minute for each key.
set -eu

address=${ADDRESS:-127.0.0.1:9235}
folder=$(mktemp -d)
store=sqlite:$folder/limits.db
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; wait; rm -r "$folder"' EXIT

# Another program that listens there would answer in place of the server.
busy() {
  echo "serve-curl: something listens on $address already; choose a free port, as in ADDRESS=127.0.0.1:9236 $0" >&2
  exit 1
}
free=0
curl -sS -o "$folder/probe" --max-time 2 "http://$address/readyz" 2>/dev/null || free=$?
[ "$free" -eq 7 ] || busy # 7: curl could not connect

# The limits, and the server. A client acquires with the token.
zae-limiter resource set-defaults gpt-4 -l rpm:3 -l tpm:1000 --store "$store"
(echo tokens:; zae-limiter serve token gateway 2>"$folder/token") >"$folder/tokens.yaml"
token=$(sed 's/.*: //' "$folder/token")
zae-limiter serve --store "$store" --listen "$address" --tokens "$folder/tokens.yaml" &
server=$!
tries=0
until curl -fsS -o "$folder/ready" "http://$address/readyz" 2>/dev/null; do
  kill -0 "$server" 2>/dev/null || { echo "serve-curl: the server did not start on $address" >&2; exit 1; }
  tries=$((tries + 1))
  [ "$tries" -lt 300 ] || exit 1
  sleep 0.1
done

call() {
  curl -sS -H "Authorization: Bearer $token" -H 'Content-Type: application/json' -w '\nstatus %{http_code}\n' "http://$address$1" -d "$2"
}

# Take one request and an estimate of 800 tokens.
answer=$(call /v1/acquire '{"entity_id":"key-abc","resource":"gpt-4","consume":{"rpm":1,"tpm":800}}')
lease=$(echo "$answer" | sed -n 's/.*"lease_id":"\([0-9a-f]*\)".*/\1/p')
echo "acquired lease $lease"

# The work used 250 tokens, so the rest is given back.
call "/v1/leases/$lease/commit" '{"used":{"tpm":250}}'

# The fourth request of this minute is refused with status 429.
for _ in 2 3 4; do
  call /v1/acquire '{"entity_id":"key-abc","resource":"gpt-4","consume":{"rpm":1,"tpm":1},"commit":true}' | tail -n 1
done
