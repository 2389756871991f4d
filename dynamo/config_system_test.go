package dynamo_test

import (
	"errors"
	"testing"

	"github.com/zeroae/zae-limiter-go"
)

func TestConfigOfTheSystemIsStoredAsPythonStoresIt(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.set(limiter.Scope{}, perMinute)
	s.holds(system, systemConfig, `
		config_version N 1
		l_rpm_cp N 60
		l_rpm_ra N 60
		l_rpm_rp N 60
		GSI4PK S {ns}
		GSI4SK S {ns}/SYSTEM#`)
	s.ok(s.deleteConfig(limiter.Scope{}))
	s.lacks(system, systemConfig)
	s.setMode(limiter.Allow)
	s.holds(system, systemConfig, `
		config_version N 1
		on_unavailable S allow
		GSI4PK S {ns}
		GSI4SK S {ns}/SYSTEM#`)
}

// TestSystemKeepsWhatOthersStoredInItsItem: Python forgets for how long audit
// events are to be kept when it sets limits.
func TestSystemKeepsWhatOthersStoredInItsItem(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	const others = "audit_retention_days N 365\nfuture S text\nflag BOOL true\nempty NULL\n"
	s.write(system, systemConfig, others+"on_unavailable S allow\nl_old_cp N 1\nl_old_ra N 1\nl_old_rp N 1")
	s.set(limiter.Scope{}, perMinute)
	const limits = "l_rpm_cp N 60\nl_rpm_ra N 60\nl_rpm_rp N 60\n"
	const index = "GSI4PK S {ns}\nGSI4SK S {ns}/SYSTEM#\n"
	s.holds(system, systemConfig, others+limits+index+"config_version N 1\non_unavailable S allow")
	s.equal("mode", s.repo.OnUnavailable(), limiter.Allow)
	s.setMode(limiter.Block)
	s.holds(system, systemConfig, others+limits+index+"config_version N 1\non_unavailable S block")
	s.ok(s.deleteConfig(limiter.Scope{}))
	s.holds(system, systemConfig, others+index)
	if err := s.deleteConfig(limiter.Scope{}); !errors.Is(err, limiter.ErrNotFound) {
		t.Errorf("a second delete: %v, want not found", err)
	}
	s.holds(system, systemConfig, others+index)
}

func TestModeLeavesLimitsAloneEvenDamagedOnes(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.write(system, systemConfig, "l_rpm_cp N 60\nl_rpm_ra S sixty")
	s.setMode(limiter.Allow)
	s.holds(system, systemConfig, `
		l_rpm_cp N 60
		l_rpm_ra S sixty
		on_unavailable S allow
		config_version N 1
		GSI4PK S {ns}
		GSI4SK S {ns}/SYSTEM#`)
}

// TestSystemChangesThatMeetLoseNothing lets something else happen between the
// read and the write of a change.
func TestSystemChangesThatMeetLoseNothing(t *testing.T) {
	t.Parallel()
	for name, meet := range map[string]struct {
		other func(s *storedTable)
		want  string
	}{
		"retention appears": {
			func(s *storedTable) { s.change(system, systemConfig, "audit_retention_days", "30") },
			"audit_retention_days N 30\non_unavailable S allow\nfuture S old",
		},
		"mode changes": {
			func(s *storedTable) { s.write(system, systemConfig, "on_unavailable S block\nfuture S old") },
			"on_unavailable S block\nfuture S old",
		},
		"everything goes": {func(s *storedTable) { s.drop(system, systemConfig) }, ""},
		"what is not ours changes": {
			func(s *storedTable) { s.write(system, systemConfig, "on_unavailable S allow\nfuture S new") },
			"on_unavailable S allow\nfuture S new",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStoredTable(t)
			s.write(system, systemConfig, "on_unavailable S allow\nfuture S old\nl_old_cp N 1\nl_old_ra N 1\nl_old_rp N 1")
			s.wire.before(isTransaction, func() { meet.other(s) })
			s.set(limiter.Scope{}, perMinute)
			s.holds(system, systemConfig, meet.want+`
				l_rpm_cp N 60
				l_rpm_ra N 60
				l_rpm_rp N 60
				config_version N 1
				GSI4PK S {ns}
				GSI4SK S {ns}/SYSTEM#`)
			cfg, err := s.repo.Config(t.Context(), limiter.Scope{})
			s.ok(err)
			s.equal("mode without asking", s.repo.OnUnavailable(), cfg.OnUnavailable)
		})
	}
}

func isTransaction(c *wireCall) bool { return c.op == "TransactWriteItems" }

func TestDeletedSystemLimitsThatMeetRetentionKeepIt(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.set(limiter.Scope{}, perMinute)
	s.wire.before(isTransaction, func() { s.change(system, systemConfig, "audit_retention_days", "30") })
	s.ok(s.deleteConfig(limiter.Scope{}))
	s.holds(system, systemConfig, "audit_retention_days N 30\nGSI4PK S {ns}\nGSI4SK S {ns}/SYSTEM#")
}

// TestModeIsForgottenWhenItIsUnset: another process may have removed it.
func TestModeIsForgottenWhenItIsUnset(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.setMode(limiter.Allow)
	s.drop(system, systemConfig)
	_, err := s.repo.Config(t.Context(), limiter.Scope{})
	s.ok(err)
	s.equal("mode", s.repo.OnUnavailable(), limiter.OnUnavailable(""))
}
