package dynamotest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// StreamServer is a proxy that answers the requests for the table's streams
// itself, by the rules of the service. It forwards the rest to the engine.
type StreamServer struct {
	*Proxy

	mu         sync.Mutex
	faults     Plan
	streams    []*Stream // in order of creation
	log        []string  // stream requests: the operation and the shard
	sequence   int
	Batch      int    // maximum number of records in an answer
	Page       int    // maximum number of shards in an answer
	Generation int    // of iterators; earlier ones have expired
	Echo       *Shard // receives a record of every stored position; may be nil
}

// Stream is a scripted stream of the table.
type Stream struct {
	Server     *StreamServer
	arn, label string
	view       string
	off        bool // disabled
	Gone       bool // deleted
	Shards     []*Shard
}

// NewStreamServer starts a server that runs until the end of the test. The table
// has a stream without shards.
func NewStreamServer(tb testing.TB) *StreamServer {
	tb.Helper()
	s := &StreamServer{Batch: 1000, Page: 100, faults: Always(Pass)}
	s.Proxy = NewProxy(tb, s.plan)
	s.Replace("NEW_AND_OLD_IMAGES")
	return s
}

// SetFaults replaces the plan for later requests, stream requests included.
func (s *StreamServer) SetFaults(faults Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = faults
}

// SwitchOff closes the table's stream. It can still be read.
func (s *StreamServer) SwitchOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.streams[len(s.streams)-1]
	last.off = true
	for _, h := range last.Shards {
		h.Closed = true
	}
}

// Replace creates a new stream for the table.
func (s *StreamServer) Replace(view string) *Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	label := fmt.Sprintf("2030-01-01T00:00:00.%03d", len(s.streams))
	st := &Stream{
		Server: s, label: label, arn: "arn:aws:dynamodb:us-east-1:000000000000:table/scripted/stream/" + label,
		view: view,
	}
	s.streams = append(s.streams, st)
	return st
}

// Stream returns the table's latest stream.
func (s *StreamServer) Stream() *Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[len(s.streams)-1]
}

// Remove deletes the stream.
func (st *Stream) Remove() {
	st.Server.mu.Lock()
	defer st.Server.mu.Unlock()
	st.Gone = true
}

// Expire expires all iterators.
func (s *StreamServer) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Generation++
}

// Log returns the stream requests since the last call, such as "GetRecords a".
func (s *StreamServer) Log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log = nil
	return log
}

func (s *StreamServer) plan(op string, body []byte) Fault {
	s.mu.Lock()
	faults, echo := s.faults, s.Echo
	s.mu.Unlock()

	f := faults(op, body)
	if f.Name != Pass.Name {
		return f
	}

	switch op {
	case "DescribeStream", "GetShardIterator", "GetRecords":
		return Fault{Name: Pass.Name, Act: func(x *Exchange) { x.Answer(s.reply(op, x.Body)) }}
	case "DescribeTable":
		return Fault{Name: Pass.Name, Act: func(x *Exchange) { x.Answer(s.describe(x.Execute(x.Body))) }}
	case "PutItem":
		// Storing a position changes the table, so a real stream would have a
		// record of it.
		if echo != nil && strings.Contains(string(body), "#STREAM#") {
			return Fault{Name: Pass.Name, Act: func(x *Exchange) {
				reply := x.Execute(x.Body)
				echo.echo(x.Body)
				x.Answer(reply)
			}}
		}
	}
	return f
}

// describe adds the scripted stream to the description of the table.
func (s *StreamServer) describe(reply Reply) Reply {
	var in struct{ Table json.RawMessage }
	if reply.Status != http.StatusOK || json.Unmarshal(reply.Body, &in) != nil {
		return reply
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams[len(s.streams)-1]
	members := map[string]any{"LatestStreamArn": st.arn, "LatestStreamLabel": st.label}
	if !st.off {
		members["StreamSpecification"] = map[string]any{"StreamEnabled": true, "StreamViewType": st.view}
	}

	for name, v := range members {
		in.Table, _ = WithMember(in.Table, name, v)
	}
	return answered(map[string]any{"Table": in.Table})
}

func answered(v any) Reply {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return Reply{http.StatusOK, http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, body}
}

func streamFailure(kind string) Reply {
	return Failure(http.StatusBadRequest, kind, `"message":"made up"`)
}

// streamAsk has the members of all stream requests.
type streamAsk struct {
	StreamArn, ExclusiveStartShardId           string
	ShardId, ShardIteratorType, SequenceNumber string
	ShardIterator                              string
}

func (s *StreamServer) reply(op string, body []byte) Reply {
	var ask streamAsk
	if err := json.Unmarshal(body, &ask); err != nil {
		return streamFailure("SerializationException")
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if op == "GetRecords" {
		return s.records(ask.ShardIterator)
	}

	i := slices.IndexFunc(s.streams, func(st *Stream) bool { return st.arn == ask.StreamArn && !st.Gone })
	// The log has failed requests too.
	if op == "DescribeStream" {
		s.log = append(s.log, op)
	}

	if i < 0 {
		return streamFailure("ResourceNotFoundException")
	}

	if op == "DescribeStream" {
		return s.streams[i].list(ask.ExclusiveStartShardId)
	}
	return s.streams[i].iterator(ask)
}

// list returns a page of the shards after one.
func (st *Stream) list(after string) Reply {
	shards := []map[string]any{}
	description := map[string]any{
		"StreamArn": st.arn, "StreamLabel": st.label, "StreamStatus": "ENABLED", "StreamViewType": st.view,
	}
	if st.off {
		description["StreamStatus"] = "DISABLED"
	}

	// An unknown shard has the index -1, so the list begins with the first one.
	begin := 1 + slices.IndexFunc(st.Shards, func(h *Shard) bool { return h.ID == after })
	for _, h := range st.Shards[begin:] {
		if h.Hidden {
			continue
		}
		if len(shards) == st.Server.Page {
			description["LastEvaluatedShardId"] = shards[len(shards)-1]["ShardId"]
			break
		}

		shards = append(shards, h.description())
	}

	description["Shards"] = shards
	return answered(map[string]any{"StreamDescription": description})
}

func (st *Stream) iterator(ask streamAsk) Reply {
	for _, h := range st.Shards {
		if h.ID != ask.ShardId || h.Gone {
			continue
		}

		st.Server.log = append(st.Server.log, "GetShardIterator "+h.Name)

		position := h.Trimmed
		if ask.ShardIteratorType == "AFTER_SEQUENCE_NUMBER" {
			position = 1 + slices.Index(h.sequences, ask.SequenceNumber)
			if position == 0 {
				return streamFailure("ValidationException")
			}
		}

		if position < h.Trimmed {
			return streamFailure("TrimmedDataAccessException")
		}

		return answered(map[string]any{"ShardIterator": h.iterator(position)})
	}
	return streamFailure("ResourceNotFoundException")
}

// records returns the records after an iterator, which encodes stream, shard,
// generation and position.
func (s *StreamServer) records(iterator string) Reply {
	parts := strings.Split(iterator, "|")
	position, err := strconv.Atoi(parts[len(parts)-1])
	if err != nil || len(parts) != 4 {
		return streamFailure("ValidationException")
	}

	if parts[2] != strconv.Itoa(s.Generation) {
		return streamFailure("ExpiredIteratorException")
	}

	for _, st := range s.streams {
		for _, h := range st.Shards {
			if st.arn == parts[0] && h.ID == parts[1] && !h.Gone && !st.Gone {
				s.log = append(s.log, "GetRecords "+h.Name)
				return h.read(position, s.Batch)
			}
		}
	}
	return streamFailure("ResourceNotFoundException")
}
