package locust

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// inBubble runs a test whose time the test controls.
func inBubble(t *testing.T, change func(*fakeMaster), test func(m *fakeMaster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		m := start(t, change)
		test(m)
		m.cancel()
		<-m.ended
	})
}

func TestAnnouncesItselfAndReportsWhileIdle(t *testing.T) {
	inBubble(t, nil, func(m *fakeMaster) {
		m.wantAll(msgReady)
		m.say(msgAck, map[string]any{"index": 0})
		m.live(3500 * time.Millisecond)
		got := m.take(msgHeartbeat)
		if len(got) != 3 || got[0].after != time.Second || got[0].data["state"] != stateReady ||
			got[0].data["current_cpu_usage"] == nil || got[0].data["current_memory_usage"] == nil {
			t.Errorf("the first heartbeat is %v", got[0])
		}
		m.live(3 * time.Second)
		got = m.take(msgStats)
		want := map[string]any{"A": int8(0), "B": int8(0)}
		if len(got) != 1 || got[0].after != 6*time.Second {
			t.Fatalf("the reports are %v", got)
		}
		if diff := cmp.Diff(want, got[0].data["user_classes_count"]); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRunsTheUsersThatTheMasterOrders(t *testing.T) {
	inBubble(t, nil, func(m *fakeMaster) {
		m.say(msgAck, nil)
		m.say(msgTest, testOrder{ID: "00112233", Scenario: "simple"})
		m.wantKinds(msgReady, msgJoined)
		m.spawn(10, 1, 2)
		got := m.wantKinds(msgSpawning, msgSpawned)
		want := map[string]any{"user_classes_count": map[string]any{"A": int8(1), "B": int8(2)}, "user_count": int8(3)}
		if diff := cmp.Diff(want, got[1].data); diff != "" {
			t.Error(diff)
		}
		m.spawn(11, 4, 0)
		m.wantKinds(msgSpawning, msgSpawned)
		m.spawn(11, 9, 9) // not newer
		m.spawn(5, 9, 9)  // overtaken
		m.wantKinds(msgSpawning, msgSpawning)
		if calls := m.swarm().noted(); calls != "[setup A=1 B=2 A=4 B=0]" {
			t.Errorf("the swarm did %s", calls)
		}
		if m.swarm().ID != "00112233" || m.swarm().Worker != "worker-1" {
			t.Errorf("the test is %+v", m.swarm().Test)
		}
		m.live(time.Second)
		if beats := m.take(msgHeartbeat); beats[0].data["state"] != stateRunning {
			t.Errorf("the heartbeat is %v", beats[0])
		}
	})
}

func TestStopReportsBeforeItSaysSo(t *testing.T) {
	inBubble(t, func(m *fakeMaster) { m.stopTime = 2 * time.Second }, func(m *fakeMaster) {
		m.say(msgAck, nil)
		m.spawn(1, 1, 1)
		m.swarm().happen(nil)
		m.take(msgStats)
		m.say(msgStop, nil)
		m.wantAll()
		m.live(2 * time.Second)
		got := slices.DeleteFunc(m.take(msgStats), func(s sent) bool { return s.kind == msgHeartbeat })
		m.compareKinds(got, []string{msgStats, msgStopped, msgReady})
		total := got[0].data["stats_total"].(map[string]any)
		if total["num_requests"] != int8(2) || got[0].data["user_count"] != int8(0) {
			t.Errorf("the last report is %v", got[0].data)
		}
		m.spawn(2, 1, 0) // another test
		m.wantKinds(msgSpawning, msgSpawned)
		if len(m.swarms) != 2 || m.swarm().noted() != "[setup A=1 B=0]" {
			t.Errorf("%d swarms, the last did %s", len(m.swarms), m.swarm().noted())
		}
	})
}

// A spawn order that arrives while users stop begins a test of its own.
func TestSpawnDuringStopWaitsForItsEnd(t *testing.T) {
	inBubble(t, func(m *fakeMaster) { m.stopTime = time.Second }, func(m *fakeMaster) {
		m.say(msgAck, nil)
		m.spawn(1, 1, 1)
		m.wantKinds(msgReady, msgSpawning, msgSpawned)
		m.say(msgStop, nil)
		m.spawn(2, 3, 0)
		m.live(time.Second)
		m.wantKinds(msgSpawning, msgStopped, msgReady, msgSpawned)
		if len(m.swarms) != 2 || m.swarms[0].noted() != "[setup A=1 B=1 stopped]" ||
			m.swarms[1].noted() != "[setup A=3 B=0]" {
			t.Errorf("%d swarms, the first did %s", len(m.swarms), m.swarms[0].noted())
		}
	})
}

func TestStopEndsASetup(t *testing.T) {
	wait := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	inBubble(t, func(m *fakeMaster) { m.setup = wait }, func(m *fakeMaster) {
		m.say(msgAck, nil)
		m.spawn(1, 1, 1)
		m.spawn(2, 2, 2)
		m.live(2 * time.Second)
		m.wantKinds(msgReady, msgSpawning, msgSpawning)
		m.say(msgStop, nil)
		m.wantKinds(msgStopped, msgReady)
	})
}

func TestFailedSetupIsShownToTheMaster(t *testing.T) {
	failed := errors.New("no table")
	inBubble(t, func(m *fakeMaster) { m.setup = func(context.Context) error { return failed } }, func(m *fakeMaster) {
		m.say(msgAck, nil)
		m.spawn(1, 1, 1)
		<-m.ended
		got := m.wantKinds(msgReady, msgSpawning, msgException, msgQuit)
		if !errors.Is(m.err, failed) || got[2].data["msg"] != "no table" {
			t.Errorf("%v, %v", m.err, got[2])
		}
	})
}

// The master waits 0.5 s for the last report, also if tasks take longer.
func TestLastReportLeavesHalfASecondAfterQuit(t *testing.T) {
	for name, change := range map[string]func(*fakeMaster){
		"quick tasks":               func(m *fakeMaster) { m.stopTime = 100 * time.Millisecond },
		"long tasks":                func(m *fakeMaster) { m.stopTime = time.Hour },
		"tasks that ignore the end": func(m *fakeMaster) { m.stopTime, m.stuck = time.Second, true },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, change, func(m *fakeMaster) {
				m.say(msgAck, nil)
				m.spawn(1, 1, 1)
				m.swarm().happen(nil)
				m.take(msgStats)
				begin := time.Since(m.begin)
				m.say(msgQuit, nil)
				<-m.ended
				got := m.wantAll(msgStats, msgQuit)
				want := int64(1)
				if name == "quick tasks" {
					want = 2 // with the task that was running
				}
				if got[0].after-begin >= 500*time.Millisecond || m.totals.Requests != want || m.err != nil {
					t.Errorf("the last report left after %v, with %d requests, %v", got[0].after-begin,
						m.totals.Requests, m.err)
				}
			})
		})
	}
}

func TestQuitDuringStop(t *testing.T) {
	inBubble(t, func(m *fakeMaster) { m.stopTime = time.Hour }, func(m *fakeMaster) {
		m.say(msgAck, nil)
		m.spawn(1, 1, 1)
		m.say(msgStop, nil)
		m.take(msgStats)
		begin := time.Since(m.begin)
		m.say(msgQuit, nil)
		<-m.ended
		if got := m.wantAll(msgStats, msgQuit); got[0].after-begin >= 500*time.Millisecond {
			t.Errorf("the last report left after %v", got[0].after-begin)
		}
	})
}

func TestInterruptReportsAndLeaves(t *testing.T) {
	inBubble(t, func(m *fakeMaster) { m.stopTime = time.Second }, func(m *fakeMaster) {
		m.say(msgAck, nil)
		m.spawn(1, 1, 1)
		m.take(msgStats)
		m.cancel()
		<-m.ended
		m.compareKinds(m.take(msgStats), []string{msgStats, msgQuit})
		if m.err != nil || m.totals.Requests != 1 || m.swarm().noted() != "[setup A=1 B=1 stopped]" {
			t.Errorf("%v, %d requests, %s", m.err, m.totals.Requests, m.swarm().noted())
		}
	})
}

// The options of a master may hold secrets.
func TestLogsUnknownMessagesOnceAndNoOptions(t *testing.T) {
	inBubble(t, nil, func(m *fakeMaster) {
		m.say(msgAck, nil)
		for range 3 {
			m.say("dance", "with me")
			m.deliver(received{err: &garbageError{errors.New("no message of Locust")}})
			m.say(msgSpawn, "nonsense")
		}
		m.spawn(1, 1, 0)
		m.say(msgUpdateClass, nil)
		m.wantKinds(msgReady, msgSpawning, msgSpawned)
		text := strings.Join(m.logged, "\n")
		if len(m.logged) != 4 || !strings.Contains(text, `"dance"`) || strings.Contains(text, "hunter2") {
			t.Errorf("it logged %d texts:\n%s", len(m.logged), text)
		}
	})
}

func TestUnknownClassIsShownToTheMasterOnce(t *testing.T) {
	inBubble(t, nil, func(m *fakeMaster) {
		m.say(msgAck, nil)
		for i := range 2 {
			m.say(msgSpawn, map[string]any{
				"timestamp": i + 1, "user_classes_count": map[string]int{"A": 1, "Z": 2},
				"parsed_options": map[string]any{},
			})
		}
		m.wantKinds(msgReady, msgSpawning, msgException, msgSpawned, msgSpawning, msgSpawned)
		if m.swarm().noted() != "[setup A=1 B=0 A=1 B=0]" {
			t.Error(m.swarm().noted())
		}
	})
}

func TestResetsStatisticsAfterSpawningIfTheMasterDoes(t *testing.T) {
	inBubble(t, nil, func(m *fakeMaster) {
		m.say(msgAck, nil)
		m.say(msgSpawn, map[string]any{
			"timestamp": 1.5, "user_classes_count": map[string]int{"A": 1}, "stop_timeout": 3,
			"parsed_options": map[string]any{"reset_stats": true},
		})
		m.swarm().happen(nil)
		m.say(msgSpawned, map[string]any{"user_count": 1})
		m.swarm().happen(nil)
		m.swarm().happen(nil)
		m.cancel()
		<-m.ended
		if m.totals.Requests != 3 { // two, and the last task
			t.Errorf("it reported %d requests", m.totals.Requests)
		}
	})
}
