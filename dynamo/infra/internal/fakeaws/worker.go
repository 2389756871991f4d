package fakeaws

import (
	"fmt"
	"strings"
)

// Worker is a function that can be invoked.
type Worker struct {
	Timeout int // seconds
	// Run returns the response of a synchronous invocation, and whether the
	// function failed.
	Run func(request []byte) (response string, failed bool)
	// Started holds the requests of asynchronous invocations.
	Started []string
}

// routeWorker sets the operation of r on a worker and returns its handler.
func (c *Cloud) routeWorker(r *Request, path string) func(*Request) *Reply {
	// The parts are "", the version, "functions", the name and the operation.
	parts := strings.Split(path, "/")
	r.Key, r.Op = parts[3], "Invoke"
	if parts[4] == "configuration" {
		r.Op = "GetFunctionConfiguration"
	}
	return c.serveWorker
}

// serveWorker answers calls about a worker.
func (c *Cloud) serveWorker(r *Request) *Reply {
	w := c.Workers[r.Key]
	switch {
	case w == nil:
		return ErrorReply(r, 404, "ResourceNotFoundException", "Function not found: "+r.Key)
	case r.Op == "GetFunctionConfiguration":
		return &Reply{200, nil, fmt.Appendf(nil, `{"FunctionName":%q,"Timeout":%d}`, r.Key, w.Timeout)}
	case r.Header.Get("X-Amz-Invocation-Type") == "Event":
		w.Started = append(w.Started, string(r.Body))
		return &Reply{202, map[string]string{"X-Amzn-Requestid": fmt.Sprintf("%08d-request", len(w.Started))}, nil}
	}

	response, failed := w.Run(r.Body)
	header := map[string]string{}
	if failed {
		header["X-Amz-Function-Error"] = "Unhandled"
	}

	return &Reply{200, header, []byte(response)}
}
