package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
)

// BenchmarkMemory profiles one contender: go test -run '^$' -bench
// 'Memory/zae-limiter/1000000$' -cpuprofile cpu.out.
func BenchmarkMemory(b *testing.B) {
	for _, name := range libraryNames {
		for _, n := range fullConfig().keys {
			once := sync.OnceValues(func() (library, error) {
				return newLibrary(context.Background(), name, newKeyset(n), 1)
			})
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				lib, err := once() // only if it is selected
				if err != nil {
					b.Fatal(err)
				}
				timeLoop(b, parallel(1, lib.take))
			})
		}
	}
}

// BenchmarkSQLite profiles our store and the bare statement, by number of
// goroutines.
func BenchmarkSQLite(b *testing.B) {
	callers := fullConfig().callers
	dbs, err := openDatabases(context.Background(), slices.Max(callers))
	if err != nil {
		b.Fatal(err)
	}
	for _, n := range callers {
		b.Run(fmt.Sprintf("%s/%d", nameOurs, n), func(b *testing.B) { timeLoop(b, parallel(n, dbs.ours.take)) })
		b.Run(fmt.Sprintf("bare/%d", n), func(b *testing.B) { timeLoop(b, parallel(n, dbs.shared.take)) })
	}
	if err := dbs.close(); err != nil {
		b.Error(err)
	}
}

// BenchmarkStub profiles calls to a stub without delay, by number of callers:
// the client alone.
func BenchmarkStub(b *testing.B) {
	ctx := context.Background()
	g, err := newRig(ctx, newStub(b, 0))
	if err != nil {
		b.Fatal(err)
	}
	for _, p := range g.probes(ctx, fullConfig().callers, nil) {
		b.Run(fmt.Sprintf("%s/%d", p.id.what, p.id.callers), func(b *testing.B) {
			timeLoop(b, func(n int) error { _, err := p.run(n); return err })
		})
	}
	if err := g.close(); err != nil {
		b.Error(err)
	}
}

func timeLoop(b *testing.B, run func(int) error) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	if err := run(b.N); err != nil {
		b.Fatal(err)
	}
}
