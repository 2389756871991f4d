package function

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/manifest"
)

// provision applies limits that programs or templates declare.
type provision struct {
	manifest.Provisioner
	log *slog.Logger
}

func newProvision(env environment, out io.Writer) (*provision, error) {
	level, err := parseLevel(env.get("LOG_LEVEL", "INFO"))
	if err != nil {
		return nil, err
	}
	return &provision{manifest.Provisioner{Open: openTable, Table: env.get("TABLE_NAME", defaultTable)}, newLog(out, level, "provisioner")}, nil
}

func openTable(ctx context.Context, table string) (limiter.Repository, error) {
	repo, err := dynamo.Connect(ctx, table, &dynamo.Options{Namespace: "_", Timeout: tableTimeout})
	if err != nil {
		return nil, err
	}
	return repo, nil
}

// handle answers a request, and logs how that went.
func (p *provision) handle(ctx context.Context, request json.RawMessage) (any, error) {
	log := p.log.With("request_id", requestID(ctx), "table_name", p.Table)
	log.Info("Lambda invocation started")
	answer, err := p.Handle(ctx, request)
	if err != nil {
		log.Error("Error applying limits: " + err.Error())
		return nil, err
	}
	if told, ok := answer.(*manifest.ResourceAnswer); ok {
		log = log.With("status", told.Status, "reason", told.Reason)
	}
	log.Info("Lambda invocation completed")
	return answer, nil
}
