package dynamo_test

import (
	"errors"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/dynamotest"
)

func TestConfigOfTheSystemIsStoredAsPythonStoresIt(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.SetLimits(limiter.Scope{}, perMinute)
	s.CheckItem(system, systemConfig, `
		config_version N 1
		l_rpm_cp N 60
		l_rpm_ra N 60
		l_rpm_rp N 60
		GSI4PK S {ns}
		GSI4SK S {ns}/SYSTEM#`)
	s.Must(s.DeleteConfig(limiter.Scope{}))
	s.CheckNoItem(system, systemConfig)
	s.SetMode(limiter.Allow)
	s.CheckItem(system, systemConfig, `
		config_version N 1
		on_unavailable S allow
		GSI4PK S {ns}
		GSI4SK S {ns}/SYSTEM#`)
}

// Python drops the audit retention when it sets limits; Go keeps it.
func TestSystemKeepsWhatOthersStoredInItsItem(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	const others = "audit_retention_days N 365\nfuture S text\nflag BOOL true\nempty NULL\n"
	s.PutItem(system, systemConfig, others+"on_unavailable S allow\nl_old_cp N 1\nl_old_ra N 1\nl_old_rp N 1")
	s.SetLimits(limiter.Scope{}, perMinute)
	const limits = "l_rpm_cp N 60\nl_rpm_ra N 60\nl_rpm_rp N 60\n"
	const index = "GSI4PK S {ns}\nGSI4SK S {ns}/SYSTEM#\n"
	s.CheckItem(system, systemConfig, others+limits+index+"config_version N 1\non_unavailable S allow")
	s.Equal("mode", s.Repo.OnUnavailable(), limiter.Allow)
	s.SetMode(limiter.Block)
	s.CheckItem(system, systemConfig, others+limits+index+"config_version N 1\non_unavailable S block")
	s.Must(s.DeleteConfig(limiter.Scope{}))
	s.CheckItem(system, systemConfig, others+index)
	if err := s.DeleteConfig(limiter.Scope{}); !errors.Is(err, limiter.ErrNotFound) {
		t.Errorf("a second delete: %v, want not found", err)
	}
	s.CheckItem(system, systemConfig, others+index)
}

func TestModeLeavesLimitsAloneEvenDamagedOnes(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.PutItem(system, systemConfig, "l_rpm_cp N 60\nl_rpm_ra S sixty")
	s.SetMode(limiter.Allow)
	s.CheckItem(system, systemConfig, `
		l_rpm_cp N 60
		l_rpm_ra S sixty
		on_unavailable S allow
		config_version N 1
		GSI4PK S {ns}
		GSI4SK S {ns}/SYSTEM#`)
}

// TestSystemChangesThatMeetLoseNothing makes another change between the read and
// the write of a change.
func TestSystemChangesThatMeetLoseNothing(t *testing.T) {
	t.Parallel()
	for name, meet := range map[string]struct {
		other func(s *storedTable)
		want  string
	}{
		"retention appears": {
			func(s *storedTable) { s.SetNumber(system, systemConfig, "audit_retention_days", "30") },
			"audit_retention_days N 30\non_unavailable S allow\nfuture S old",
		},
		"mode changes": {
			func(s *storedTable) { s.PutItem(system, systemConfig, "on_unavailable S block\nfuture S old") },
			"on_unavailable S block\nfuture S old",
		},
		"everything goes": {func(s *storedTable) { s.DeleteItem(system, systemConfig) }, ""},
		"what is not ours changes": {
			func(s *storedTable) { s.PutItem(system, systemConfig, "on_unavailable S allow\nfuture S new") },
			"on_unavailable S allow\nfuture S new",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStoredTable(t)
			s.PutItem(system, systemConfig,
				"on_unavailable S allow\nfuture S old\nl_old_cp N 1\nl_old_ra N 1\nl_old_rp N 1")
			s.Wire.Before(isTransaction, func() { meet.other(s) })
			s.SetLimits(limiter.Scope{}, perMinute)
			s.CheckItem(system, systemConfig, meet.want+`
				l_rpm_cp N 60
				l_rpm_ra N 60
				l_rpm_rp N 60
				config_version N 1
				GSI4PK S {ns}
				GSI4SK S {ns}/SYSTEM#`)
			cfg, err := s.Repo.Config(t.Context(), limiter.Scope{})
			s.Must(err)
			s.Equal("mode without asking", s.Repo.OnUnavailable(), cfg.OnUnavailable)
		})
	}
}

func isTransaction(c *dynamotest.Call) bool { return c.Op == "TransactWriteItems" }

func TestDeletedSystemLimitsThatMeetRetentionKeepIt(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.SetLimits(limiter.Scope{}, perMinute)
	s.Wire.Before(isTransaction, func() { s.SetNumber(system, systemConfig, "audit_retention_days", "30") })
	s.Must(s.DeleteConfig(limiter.Scope{}))
	s.CheckItem(system, systemConfig, "audit_retention_days N 30\nGSI4PK S {ns}\nGSI4SK S {ns}/SYSTEM#")
}

// Another process may have removed the mode.
func TestModeIsForgottenWhenItIsUnset(t *testing.T) {
	t.Parallel()
	s := newStoredTable(t)
	s.SetMode(limiter.Allow)
	s.DeleteItem(system, systemConfig)
	_, err := s.Repo.Config(t.Context(), limiter.Scope{})
	s.Must(err)
	s.Equal("mode", s.Repo.OnUnavailable(), limiter.OnUnavailable(""))
}
