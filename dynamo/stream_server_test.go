package dynamo_test

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

// streamServer stands between a client and the engine. For the streams of the
// table it answers itself, by the rules of the service; the rest is the
// engine's.
type streamServer struct {
	*proxy

	mu        sync.Mutex
	faults    plan
	streams   []*scriptedStream // in the order of their making
	log       []string          // stream requests: the operation and the shard
	sequence  int
	batch     int            // most records in an answer
	page      int            // most shards in an answer
	lifetimes int            // of iterators: those of an earlier one have expired
	echo      *scriptedShard // where places appear that are kept
}

type scriptedStream struct {
	server     *streamServer
	arn, label string
	view       string
	off        bool // no longer the table's
	gone       bool // nobody knows it any more
	shards     []*scriptedShard
}

// newStreamServer runs until the end of the test. The table has a stream
// without shards.
func newStreamServer(tb testing.TB) *streamServer {
	tb.Helper()
	s := &streamServer{batch: 1000, page: 100, faults: always(pass)}
	s.proxy = newProxy(tb, s.plan)
	s.Replace("NEW_AND_OLD_IMAGES")
	return s
}

// Faults is what happens to requests from now on, those of streams included.
func (s *streamServer) Faults(faults plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = faults
}

// SwitchOff closes the table's stream, which can still be read.
func (s *streamServer) SwitchOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.streams[len(s.streams)-1]
	last.off = true
	for _, h := range last.shards {
		h.closed = true
	}
}

// Replace gives the table a new stream.
func (s *streamServer) Replace(view string) *scriptedStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	label := fmt.Sprintf("2030-01-01T00:00:00.%03d", len(s.streams))
	st := &scriptedStream{server: s, label: label, arn: "arn:aws:dynamodb:us-east-1:000000000000:table/scripted/stream/" + label, view: view}
	s.streams = append(s.streams, st)
	return st
}

// Expire ends the life of all iterators.
func (s *streamServer) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lifetimes++
}

// Log is what streams were asked for, such as "GetRecords a", since the last call.
func (s *streamServer) Log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log = nil
	return log
}

func (s *streamServer) plan(op string, body []byte) fault {
	s.mu.Lock()
	faults, echo := s.faults, s.echo
	s.mu.Unlock()
	f := faults(op, body)
	if f.name != pass.name {
		return f
	}
	switch op {
	case "DescribeStream", "GetShardIterator", "GetRecords":
		return fault{pass.name, func(x *exchange) { x.answer(s.reply(op, x.body)) }}
	case "DescribeTable":
		return fault{pass.name, func(x *exchange) { x.answer(s.describe(x.execute(x.body))) }}
	case "PutItem":
		if echo != nil && strings.Contains(string(body), "#STREAM#") {
			return fault{pass.name, func(x *exchange) { reply := x.execute(x.body); echo.echo(x.body); x.answer(reply) }}
		}
	}
	return f
}

// describe puts the scripted stream into the description of the table.
func (s *streamServer) describe(reply wireReply) wireReply {
	var in struct{ Table json.RawMessage }
	if reply.status != http.StatusOK || json.Unmarshal(reply.body, &in) != nil {
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
		in.Table, _ = withMember(in.Table, name, v)
	}
	return answered(map[string]any{"Table": in.Table})
}

func answered(v any) wireReply {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return wireReply{http.StatusOK, http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, body}
}

func streamFailure(kind string) wireReply {
	return failure(http.StatusBadRequest, kind, `"message":"made up"`)
}

// streamAsk has the members of all stream requests.
type streamAsk struct {
	StreamArn, ExclusiveStartShardId           string
	ShardId, ShardIteratorType, SequenceNumber string
	ShardIterator                              string
}

func (s *streamServer) reply(op string, body []byte) wireReply {
	var ask streamAsk
	if err := json.Unmarshal(body, &ask); err != nil {
		return streamFailure("SerializationException")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if op == "GetRecords" {
		return s.records(ask.ShardIterator)
	}
	i := slices.IndexFunc(s.streams, func(st *scriptedStream) bool { return st.arn == ask.StreamArn && !st.gone })
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

// list is a page of the shards after one.
func (st *scriptedStream) list(after string) wireReply {
	shards := []map[string]any{}
	description := map[string]any{"StreamArn": st.arn, "StreamLabel": st.label, "StreamStatus": "ENABLED", "StreamViewType": st.view}
	if st.off {
		description["StreamStatus"] = "DISABLED"
	}
	begin := 1 + slices.IndexFunc(st.shards, func(h *scriptedShard) bool { return h.id == after })
	for _, h := range st.shards[begin:] {
		if h.hidden {
			continue
		}
		if len(shards) == st.server.page {
			description["LastEvaluatedShardId"] = shards[len(shards)-1]["ShardId"]
			break
		}
		shards = append(shards, h.description())
	}
	description["Shards"] = shards
	return answered(map[string]any{"StreamDescription": description})
}

func (st *scriptedStream) iterator(ask streamAsk) wireReply {
	for _, h := range st.shards {
		if h.id != ask.ShardId || h.gone {
			continue
		}
		st.server.log = append(st.server.log, "GetShardIterator "+h.name)
		place := h.trimmed
		if ask.ShardIteratorType == "AFTER_SEQUENCE_NUMBER" {
			place = 1 + slices.Index(h.sequences, ask.SequenceNumber)
			if place == 0 {
				return streamFailure("ValidationException")
			}
		}
		if place < h.trimmed {
			return streamFailure("TrimmedDataAccessException")
		}
		return answered(map[string]any{"ShardIterator": h.iterator(place)})
	}
	return streamFailure("ResourceNotFoundException")
}

// records are those after an iterator, of which shard and place can be read.
func (s *streamServer) records(iterator string) wireReply {
	parts := strings.Split(iterator, "|")
	place, err := strconv.Atoi(parts[len(parts)-1])
	if err != nil || len(parts) != 4 {
		return streamFailure("ValidationException")
	}
	if parts[2] != strconv.Itoa(s.lifetimes) {
		return streamFailure("ExpiredIteratorException")
	}
	for _, st := range s.streams {
		for _, h := range st.shards {
			if st.arn == parts[0] && h.id == parts[1] && !h.gone && !st.gone {
				s.log = append(s.log, "GetRecords "+h.name)
				return h.read(place, s.batch)
			}
		}
	}
	return streamFailure("ResourceNotFoundException")
}
