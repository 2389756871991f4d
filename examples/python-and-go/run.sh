#!/bin/sh
# Lets a Go program and a Python program take turns on one table of DynamoDB.
# PYTHON names an interpreter that has zae-limiter 0.10.0, exactly that release.
set -eu
cd "$(dirname "$0")"
go run . -table "${TABLE:=shared}"
"${PYTHON:-python3}" service.py "$TABLE"
go run . -table "$TABLE"
"${PYTHON:-python3}" service.py "$TABLE"
