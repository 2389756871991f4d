package infra

// masterScript starts the Locust master. $LOCUSTFILE is a Python file in the user's
// folder, or the name of a scenario, whose file the program prints.
const masterScript = `#!/bin/sh
set -eu
scenario=${LOCUSTFILE:-simple}
file=$ZAE_LIMITER_SCENARIOS/$scenario
if [ "${file%.py}" = "$file" ] || [ ! -f "$file" ]; then
	file=${TMPDIR:-/tmp}/locustfile.py
	zae-limiter loadtest locustfile "$scenario" -C "$ZAE_LIMITER_SCENARIOS" >"$file"
fi
# Locust separates classes by spaces.
LOCUST_USER_CLASSES=$(echo "${LOCUST_USER_CLASSES:-}" | tr ',' ' ')
export LOCUST_USER_CLASSES
exec locust --master --master-bind-host '*' --master-bind-port 5557 \
	--web-host 0.0.0.0 --web-port 8089 --class-picker --enable-rebalancing -f "$file"
`

// dockerfile returns the description of the image. Locust runs on Python; the rest
// is one program.
func (c *loadContent) dockerfile() string {
	install := "RUN pip install --no-cache-dir locust==" + c.locust + "\n"
	if c.hasRequirements() {
		install += "COPY scenarios/requirements.txt /tmp/requirements.txt\n" +
			"RUN pip install --no-cache-dir locust==" + c.locust + " -r /tmp/requirements.txt\n"
	}

	return `FROM python:3.13-slim
ENV PYTHONUNBUFFERED=1 ZAE_LIMITER_SCENARIOS=/scenarios
` + install + `COPY zae-limiter locust-master /usr/local/bin/
COPY scenarios/ /scenarios/
WORKDIR /scenarios
RUN useradd --system --no-create-home locust
USER locust
EXPOSE 8089 5557 5558
CMD ["locust-master"]
`
}
