package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// pageRow is a measured way to use a limiter. Times are in nanoseconds.
type pageRow struct {
	what           string
	callers, calls int
	perSecond      float64
	p50, p95, p99  float64
	cpu            float64 // of the client, for one call; 0 if unknown
	notes          string
	command        string // repeats this row; "" if the source's command does
}

// pageSource measures one table of the page.
type pageSource struct {
	name, title, about string
	measure            func(context.Context, pageOptions) ([]pageRow, error)
}

// pageTable is a measured table.
type pageTable struct {
	source pageSource
	rows   []pageRow
}

// pageSources lists the tables in order.
var pageSources = []pageSource{
	{"memory", "In the process", "Package `memory`. One call is an acquire of two limits and its commit.", memoryRows},
	{"sqlite", "In one file", "Package `sqlite`, beside the cheapest safe statement that a limiter could " +
		"use: one prepared UPDATE that returns its row and " +
		"judges nothing. Files are in WAL mode with synchronous=NORMAL.", sqliteRows},
	{
		"stub", "The client of a table alone",
		"Package `dynamo` against a stub in a process of its own, which answers at once: what remains is the client. " +
			"The raw call is the SDK's UpdateItem with the same request. The Python library is 0.10.0, with asyncio.",
		stubRows,
	},
	{"dynamodb", "DynamoDB Local", "Package `dynamo` against DynamoDB Local on the same machine. The engine " +
		"uses most of the CPU, so these figures compare " +
		"clients with each other. They do not predict latency in AWS.", engineRows},
	{"escrow", "Tokens in escrow", "Package `escrow` around `dynamo`, against a stub that answers after 5 " +
		"ms, like a table in the same region. Beside it are the same calls " +
		"without it, the SDK's UpdateItem, `redis_rate` with one limit on a Redis of the same machine, and " +
		"package `memory`. Keys of the Zipf rows are requested " +
		"unequally often. The LLM rows estimate, adjust and commit. [performance.md](performance.md) says " +
		"when to use it.", escrowPageRows},
	{"loads", "Load tests", "Scenarios of `zae-limiter loadtest local`, each by the command beside it. The " +
		"scenarios `simple` and `llm_gateway` " +
		"wait between calls, so their latency counts and their throughput does not. Where a scenario uses " +
		"several resources, percentiles are of the busiest.", loadRows},
}

func pageTables() []string {
	names := make([]string, len(pageSources))
	for i, s := range pageSources {
		names[i] = s.name
	}
	return names
}

func (t *pageTable) chartFile() string { return "benchmarks-" + t.source.name + ".svg" }

// markdown returns the table in Markdown.
func (t *pageTable) markdown() string {
	var b strings.Builder
	b.WriteString(
		"| what | callers | calls | calls/s | p50 | p95 | p99 | client CPU per call | " +
			"|\n|---|--:|--:|--:|--:|--:|--:|--:|---|\n",
	)

	for _, r := range t.rows {
		cpu, notes := "", r.notes
		if r.cpu > 0 {
			cpu = shortTime(r.cpu)
		}

		if r.command != "" {
			notes = strings.TrimSpace(notes + " `" + r.command + "`")
		}

		fmt.Fprintf(&b, "| %s | %d | %d | %s | %s | %s | %s | %s | %s |\n", r.what, r.callers, r.calls,
			count(r.perSecond), shortTime(r.p50), shortTime(r.p95), shortTime(r.p99), cpu, notes)
	}
	return b.String()
}

// count returns a rate with three digits that matter and a comma at thousands.
func count(n float64) string {
	if n < 100 {
		return fmt.Sprintf("%.1f", n)
	}

	digits := fmt.Sprintf("%.0f", n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// shortTime returns nanoseconds with a unit and about three digits.
func shortTime(ns float64) string {
	if ns == 0 {
		// The histograms of load tests count microseconds.
		return "< 1 µs"
	}

	units := []struct {
		unit string
		size time.Duration
	}{{"s", time.Second}, {"ms", time.Millisecond}, {"µs", time.Microsecond}}

	for _, u := range units {
		if v := ns / float64(u.size); v >= 1 {
			return fmt.Sprintf("%.3g %s", v, u.unit)
		}
	}

	return fmt.Sprintf("%.0f ns", ns)
}

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
