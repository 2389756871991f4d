package locust

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestSilentMasterIsReplaced(t *testing.T) {
	inBubble(t, nil, func(m *fakeMaster) {
		m.say(msgAck, nil)
		m.say(msgTest, testOrder{ID: "00112233", Scenario: "simple"})
		m.live(10 * time.Second)
		m.spawn(1, 1, 1)
		m.swarm().happen(nil)
		begin := time.Now()
		m.awaitLink()
		if took := time.Since(begin); took < 5*time.Second || took > 5*time.Second+2*retryPause {
			t.Errorf("it connects again after %v", took)
		}
		if m.swarm().noted() != "[setup A=1 B=1 stopped]" {
			t.Errorf("its swarm did %s", m.swarm().noted())
		}
		m.wantAll(msgReady)
		m.say(msgAck, nil)
		if got := m.wantKinds(msgQuit); got[0].from != "worker-1" || m.link().name != "worker-1~2" {
			t.Errorf("%q takes leave as %q", m.link().name, got[0].from)
		}
		m.say(msgTest, testOrder{ID: "00112233", Scenario: "simple"})
		m.spawn(2, 1, 1)
		m.wantKinds(msgJoined, msgSpawning, msgSpawned)
		m.say(msgReconnect, nil)
		m.awaitLink()
		m.say(msgAck, nil)
		if got := m.wantKinds(msgReady, msgQuit); got[1].from != "worker-1~2" || m.link().name != "worker-1~3" {
			t.Errorf("%q takes leave as %q", m.link().name, got[1].from)
		}
	})
}

// What could not be sent is in the first report after the connection is back.
func TestUnsentReportIsKeptForTheSameTest(t *testing.T) {
	for _, again := range []string{"00112233", "44556677"} {
		inBubble(t, nil, func(m *fakeMaster) {
			m.say(msgAck, nil)
			m.say(msgTest, testOrder{ID: "00112233", Scenario: "simple"})
			m.spawn(1, 1, 1)
			m.swarm().happen(nil)
			m.swarm().happen(errors.New("too slow"))
			m.link().mu.Lock()
			m.link().broken = errors.New("broken")
			m.link().mu.Unlock()
			m.awaitLink()
			m.say(msgAck, nil)
			m.say(msgTest, testOrder{ID: again, Scenario: "simple"})
			m.spawn(2, 1, 1)
			m.say(msgQuit, nil)
			<-m.ended
			want := Totals{Requests: 4, Failures: 1} // two, and the last task of each swarm
			if again != "00112233" {
				want = Totals{Requests: 1}
			}
			if m.totals != want {
				t.Errorf("test %s: it reported %+v, want %+v", again, m.totals, want)
			}
		})
	}
}

func TestReceiveErrorOpensANewConnection(t *testing.T) {
	for name, r := range map[string]received{
		"error": {err: errors.New("reset by peer")}, "reconnect": {message: message{kind: msgReconnect}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(m *fakeMaster) {
				m.say(msgAck, nil)
				m.spawn(1, 2, 0)
				m.deliver(r)
				if m.swarm().noted() != "[setup A=2 B=0 stopped]" {
					t.Errorf("the swarm did %s", m.swarm().noted())
				}
				m.awaitLink()
				m.wantAll(msgReady)
			})
		})
	}
}

func TestGivesUpAfterAMinuteWithoutAMaster(t *testing.T) {
	for name, change := range map[string]func(*fakeMaster){
		"that refuses":      func(m *fakeMaster) { m.refuse.Store(true) },
		"that says nothing": func(*fakeMaster) {},
		"that went away":    func(*fakeMaster) {},
		"with a shorter end": func(m *fakeMaster) {
			m.refuse.Store(true)
			m.opts.GiveUp = 3 * time.Second
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := start(t, change)
				want := time.Minute
				switch name {
				case "that went away":
					m.say(msgAck, nil)
					m.live(7 * time.Second)
					m.refuse.Store(true)
				case "with a shorter end":
					want = 3 * time.Second
				}
				begin := time.Now()
				<-m.ended
				took := time.Since(begin)
				if m.err == nil || took < want || took > want+time.Second {
					t.Errorf("%v after %v, want %v", m.err, took, want)
				}
				if len(m.logged) > 2 {
					t.Errorf("it logged %q", m.logged)
				}
			})
		})
	}
}

func TestMasterOfAnotherScenario(t *testing.T) {
	inBubble(t, nil, func(m *fakeMaster) {
		m.say(msgAck, nil)
		m.say(msgTest, testOrder{ID: "00112233", Scenario: "stress"})
		<-m.ended
		m.wantKinds(msgReady, msgException, msgQuit)
		if m.err == nil || !strings.Contains(m.err.Error(), `runs scenario "stress" and this worker "simple"`) {
			t.Errorf("%v", m.err)
		}
	})
}

// The last messages of a test with the file of ours: stop and report, remove the
// namespace, quit.
func TestTestEndsWithItsNamespace(t *testing.T) {
	inBubble(t, nil, func(m *fakeMaster) {
		m.say(msgAck, nil)
		m.say(msgTest, testOrder{ID: "00112233", Scenario: "simple"})
		m.spawn(1, 1, 1)
		m.take()
		m.say(msgTestStop, nil)
		m.wantAll(msgStats, msgTestEnded)
		for _, wrong := range []testOrder{{Scenario: "simple"}, {ID: "00112233", Scenario: "stress"}} {
			m.say(msgTeardown, wrong)
			if got := m.wantKinds(msgTornDown); got[0].data["error"] == nil {
				t.Errorf("%+v: %v", wrong, got)
			}
		}
		m.say(msgTeardown, testOrder{ID: "00112233", Scenario: "simple"})
		if got := m.wantKinds(msgTornDown); got[0].data["error"] != nil {
			t.Errorf("%v", got)
		}
		m.swarm().tearing = errors.New("throttled")
		m.say(msgTeardown, testOrder{ID: "00112233", Scenario: "simple"})
		if got := m.wantKinds(msgTornDown); got[0].data["error"] != "throttled" {
			t.Errorf("%v", got)
		}
		m.say(msgQuit, nil)
		<-m.ended
		if m.err != nil || m.swarm().noted() != "[setup A=1 B=1 stopped teardown teardown]" {
			t.Errorf("%v, %s", m.err, m.swarm().noted())
		}
	})
}

func TestForeignMasterNamesNoTest(t *testing.T) {
	inBubble(t, nil, func(m *fakeMaster) {
		m.say(msgAck, nil)
		m.spawn(1, 1, 0)
		if m.swarm().ID != "" {
			t.Errorf("the ID is %q", m.swarm().ID)
		}
	})
}

// The master asks any worker, since those of the test may have left.
func TestAnyWorkerRemovesTheNamespaceOfATest(t *testing.T) {
	inBubble(t, nil, func(m *fakeMaster) {
		m.say(msgAck, nil)
		m.say(msgTeardown, testOrder{ID: "99999999", Scenario: "simple"})
		got := m.wantKinds(msgReady, msgTornDown)
		if got[1].data["error"] != nil || got[1].data["id"] != "99999999" || m.swarm().ID != "99999999" ||
			m.swarm().noted() != "[teardown]" {
			t.Errorf("%v, %s", got, m.swarm().noted())
		}
	})
}

// A test that its master has not ended is removed after the master is gone, and
// named after an interrupt.
func TestWorkerLeavesATestBeforeItsEnd(t *testing.T) {
	for name, test := range map[string]struct {
		keep bool
		end  func(*fakeMaster)
		left string // the test that is named
		did  string
	}{
		"interrupt": {end: func(m *fakeMaster) { m.cancel() }, left: "00112233", did: "[setup A=1 B=1 stopped]"},
		"give up":   {end: gone, did: "[setup A=1 B=1 stopped teardown]"},
		"give up, no removal": {end: func(m *fakeMaster) {
			m.swarm().tearing = errors.New("throttled")
			gone(m)
		}, left: "00112233", did: "[setup A=1 B=1 stopped teardown]"},
		"give up, keep": {keep: true, end: gone, did: "[setup A=1 B=1 stopped]"},
		"quit":          {end: func(m *fakeMaster) { m.say(msgQuit, nil) }, did: "[setup A=1 B=1 stopped]"},
		"interrupt after the removal": {end: func(m *fakeMaster) {
			m.say(msgReconnect, nil)
			m.awaitLink()
			m.say(msgTeardown, testOrder{ID: "00112233", Scenario: "simple"})
			m.cancel()
		}, did: "[setup A=1 B=1 stopped teardown]"},
		"interrupt after the stop": {end: func(m *fakeMaster) {
			m.say(msgTestStop, nil)
			m.cancel()
		}, did: "[setup A=1 B=1 stopped]"},
	} {
		t.Run(name, func(t *testing.T) {
			left := ""
			inBubble(t, func(m *fakeMaster) { m.opts.Left = func(id string) { left += id } }, func(m *fakeMaster) {
				m.say(msgAck, nil)
				m.say(msgTest, testOrder{ID: "00112233", Scenario: "simple", Keep: test.keep})
				m.spawn(1, 1, 1)
				test.end(m)
				<-m.ended
				if left != test.left || m.swarm().noted() != test.did {
					t.Errorf("it left %q and did %s", left, m.swarm().noted())
				}
			})
		})
	}
}

// gone ends the master without a word.
func gone(m *fakeMaster) {
	m.refuse.Store(true)
	m.deliver(received{err: errors.New("reset by peer")})
}

// Only heartbeats and orders show that there is a master.
func TestGivesUpAMasterThatOnlyAcknowledges(t *testing.T) {
	inBubble(t, func(m *fakeMaster) { m.opts.GiveUp = 3 * time.Second }, func(m *fakeMaster) {
		begin := time.Now()
		for over := false; !over; {
			m.say(msgAck, nil)
			m.deliver(received{err: errors.New("reset by peer")})
			time.Sleep(2 * retryPause)
			synctest.Wait()
			select {
			case <-m.ended:
				over = true
			default:
				over = time.Since(begin) > time.Minute
			}
		}
		if took := time.Since(begin); m.err == nil || took > 4*time.Second || len(m.logged) > 2 {
			t.Errorf("%v after %v; it logged %q", m.err, took, m.logged)
		}
	})
}

func TestShortTimeToGiveUpShortensTheSilence(t *testing.T) {
	inBubble(t, func(m *fakeMaster) { m.opts.GiveUp = 1500 * time.Millisecond }, func(m *fakeMaster) {
		m.say(msgAck, nil)
		m.live(3 * time.Second)
		begin := time.Now()
		<-m.ended
		if took := time.Since(begin); m.err == nil || took > 2*time.Second {
			t.Errorf("%v after %v", m.err, took)
		}
	})
}
