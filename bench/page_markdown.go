package main

import (
	"fmt"
	"strings"
)

// pageMarkdown returns the page.
func pageMarkdown(m machine, tables []pageTable) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Benchmarks

<!-- Written by make report. Do not edit. -->

Every figure on this page was measured by `+"`make report`"+
		` on one machine, at one commit. Times depend on the machine, so compare rows of one
table with each other. `+"`make bench`"+` prints ratios with their spread.

| | |
|---|---|
| commit | %s |
| release | %s |
| date | %s |
| machine | %s, %d CPUs (%.1f of them free at the start), %s |
| Go | %s |

p50, p95 and p99 are percentiles of single calls. Where a table has no commands, each row is the median over several `+
		`rounds in which all
rows take turns, and the number of calls is the sum over the rounds.
`, m.commit, m.release, m.date, m.processor, m.processors, m.free, m.system, m.goVersion)

	for i := range tables {
		t := &tables[i]
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n![Latency from p50 to p99, with a mark at "+
			"p95](images/%s)\n\n%s\nRepeat it with `make report REPORTFLAGS='-only %s'`.\n",
			t.source.title, t.source.about, t.chartFile(), t.markdown(), t.source.name)
	}

	b.WriteString(publishedMarkdown)
	return b.String()
}

// publishedMarkdown has the figures that the Python project publishes. They are
// facts about other machines, not measurements of this run.
const publishedMarkdown = `
## Figures of the Python library

The project of the Python library publishes these figures. They were not measured here, and their conditions ` +
	`differ from those above:
they are for a table in AWS (us-east-1, on demand), the load comes from one Python process, and its users ` +
	`are Locust users.

| what | conditions | published |
|---|---|---|
| ` + "`max_rps`" + `, 10 users, 60 s | one Lambda function | 265 requests/s; p50 33 ms, p95 41 ms, p99 49 ms |
| ` + "`max_rps`" + `, 10 users, 60 s | Fargate, 1 vCPU, 2 GB | 387 requests/s; p50 21 ms, p95 35 ms, p99 44 ms |
| ` + "`simple`" + `, 10 users, 60 s | one Lambda function | 17.8 requests/s; p50 12 ms, p95 16 ms, p99 69 ms |
| ` + "`simple`" + `, 10 users, 60 s | Fargate, 1 vCPU, 2 GB | 18.8 requests/s; p50 10 ms, p95 17 ms, p99 390 ms |
| most acquires/s of one vCPU | Fargate, ` + "`max_rps`" + `, 20 to 40 users | about 385 |
| acquire of one limit | in-memory mock of DynamoDB, in the process | p50 9 ms |
| acquire of two limits | in-memory mock of DynamoDB, in the process | p50 11 ms |
| acquire with a cascade | in-memory mock of DynamoDB, in the process | p50 22 ms |
| acquire of one limit | LocalStack | p50 43 ms |
| acquire of one limit | AWS, client in the same region | p50 15 to 20 ms; 5 to 8 ms on the speculative path |
| acquire of one limit | AWS, client outside | p50 38 ms |

The rows "Python" above are the same library, measured here beside ours.
`
