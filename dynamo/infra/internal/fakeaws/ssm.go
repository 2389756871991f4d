package fakeaws

import (
	"encoding/json"
	"fmt"
)

// Session is a session of Systems Manager.
type Session struct {
	Target, DocumentName string
	Parameters           map[string][]string
	Ended                bool
}

// serveSSM answers Systems Manager.
func (c *Cloud) serveSSM(r *Request) *Reply {
	var in struct {
		Session
		SessionId string
	}

	if err := json.Unmarshal(r.Body, &in); err != nil {
		c.tb.Errorf("%s: %v", r.Op, err)
	}

	if c.Sessions == nil {
		c.Sessions = map[string]*Session{}
	}

	switch r.Op {
	case "StartSession":
		id := fmt.Sprintf("session-%d", len(c.Sessions)+1)
		c.Sessions[id] = &in.Session
		return jsonReply(Tree{"SessionId": id, "TokenValue": "secret-token", "StreamUrl": "wss://example.com/" + id})
	case "TerminateSession":
		if s := c.Sessions[in.SessionId]; s != nil {
			s.Ended = true
		}
		return jsonReply(Tree{"SessionId": in.SessionId})
	}

	c.tb.Errorf("no handler for %s", r.Op)
	return ErrorReply(r, 400, "InvalidAction", r.Op)
}
