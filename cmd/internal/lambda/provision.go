package lambda

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/manifest"
)

// provisionHandler applies limits that programs or templates declare.
type provisionHandler struct {
	manifest.Provisioner
	log *slog.Logger
}

func newProvisionHandler(env environment, out io.Writer) (*provisionHandler, error) {
	level, err := parseLevel(env.get("LOG_LEVEL", "INFO"))
	if err != nil {
		return nil, err
	}
	return &provisionHandler{
		manifest.Provisioner{Open: openTable, Table: env.get("TABLE_NAME", defaultTable)},
		newLog(out, level, "provisioner"),
	}, nil
}

func openTable(ctx context.Context, table string) (limiter.Repository, error) {
	repo, err := dynamo.Connect(ctx, table, &dynamo.Options{Namespace: "_", Timeout: tableTimeout})
	if err != nil {
		return nil, err
	}
	return repo, nil
}

// handle responds to a request and logs the result.
func (h *provisionHandler) handle(ctx context.Context, request json.RawMessage) (any, error) {
	log := h.log.With("request_id", requestID(ctx), "table_name", h.Table)
	log.Info("Lambda invocation started")

	answer, err := h.Handle(ctx, request)
	if err != nil {
		log.Error("Error applying limits: " + err.Error())
		return nil, err
	}

	// A failure is an answer to CloudFormation too, so the log says which it
	// was.
	if resource, ok := answer.(*manifest.ResourceAnswer); ok {
		log = log.With("status", resource.Status, "reason", resource.Reason)
	}
	log.Info("Lambda invocation completed")
	return answer, nil
}
