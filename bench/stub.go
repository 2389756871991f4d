package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// stub is a server that measures the clients of a table, since it costs almost
// nothing itself. It keeps items that are put. It answers an update with the
// stored item, without making the update. Conditions always hold.
type stub struct {
	delay time.Duration // before each answer
	mu    sync.RWMutex
	items map[stubKey]storedItem
}

type stubKey struct{ pk, sk string }

// storedItem holds an item and its encoded answer to an update.
type storedItem struct{ item, updated json.RawMessage }

// stubItem holds the needed fields of an item or a key.
type stubItem struct {
	PK, SK struct{ S string }
}

func (i *stubItem) key() stubKey { return stubKey{i.PK.S, i.SK.S} }

// stubRequest holds the needed fields of all requests.
type stubRequest struct {
	Key           stubItem
	Item          json.RawMessage
	TransactItems []struct {
		Put struct{ Item json.RawMessage }
	}
	RequestItems map[string]struct{ Keys []stubItem }
}

// stubTable is the answer to DescribeTable, with the names of our indexes.
const stubTable = `{"Table":{"TableStatus":"ACTIVE","GlobalSecondaryIndexes":[` +
	`{"IndexName":"GSI1"},{"IndexName":"GSI2"},{"IndexName":"GSI3"},{"IndexName":"GSI4"}]}}`

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}

	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	answer, err := s.answer(operation, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}

	time.Sleep(s.delay)
	h := w.Header()
	h.Set("Content-Type", "application/x-amz-json-1.0")
	h.Set("Content-Length", strconv.Itoa(len(answer)))
	h.Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(answer)), 10))
	h.Set("X-Amzn-Requestid", "UTLEQ3KCS36VJ41KHI3M4AIB0FVV4KQNSO5AEMVJF66Q9ASUAAJG")

	_, _ = w.Write(answer)
}

func (s *stub) answer(operation string, body []byte) (json.RawMessage, error) {
	var in stubRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}

	switch operation {
	case "UpdateItem":
		if it, ok := s.get(in.Key.key()); ok {
			return it.updated, nil
		}
	case "GetItem":
		if it, ok := s.get(in.Key.key()); ok {
			return json.Marshal(map[string]any{"Item": it.item})
		}
	case "BatchGetItem":
		return json.Marshal(map[string]any{"Responses": s.getAll(&in), "UnprocessedKeys": struct{}{}})
	case "Query":
		return json.RawMessage(`{"Items":[],"Count":0,"ScannedCount":0}`), nil
	case "DescribeTable":
		return json.RawMessage(stubTable), nil
	case "PutItem":
		return json.RawMessage("{}"), s.put(in.Item)
	case "TransactWriteItems":
		for _, write := range in.TransactItems {
			if err := s.put(write.Put.Item); err != nil {
				return nil, err
			}
		}
	}

	return json.RawMessage("{}"), nil
}

func (s *stub) get(k stubKey) (storedItem, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	it, ok := s.items[k]
	return it, ok
}

// getAll returns the stored items by table.
func (s *stub) getAll(in *stubRequest) map[string][]json.RawMessage {
	found := map[string][]json.RawMessage{}
	for table, wanted := range in.RequestItems {
		// A nil slice would be null in JSON, where clients expect a list.
		found[table] = []json.RawMessage{}
		for _, k := range wanted.Keys {
			if it, ok := s.get(k.key()); ok {
				found[table] = append(found[table], it.item)
			}
		}
	}
	return found
}

// put keeps an item. It ignores an empty item: another action of a
// transaction.
func (s *stub) put(item json.RawMessage) error {
	if item == nil {
		return nil
	}

	var at stubItem
	if err := json.Unmarshal(item, &at); err != nil {
		return err
	}
	// The answer is encoded only once, so that an update costs the stub almost
	// nothing.
	updated, err := json.Marshal(map[string]any{"Attributes": item})
	if err != nil {
		return err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.items[at.key()] = storedItem{item, updated}
	return nil
}

// stubCommand is the first argument of a stub process. The second is its
// delay.
const stubCommand = "-stub"

// serveStub prints its URL and serves until in ends. It runs in a process of
// its own, so that the CPU time of this one is the client's alone.
func serveStub(ctx context.Context, delay string, in io.Reader, out io.Writer) error {
	d, err := time.ParseDuration(delay)
	if err != nil {
		return err
	}

	url, stop, err := serve(ctx, &stub{delay: d, items: map[stubKey]storedItem{}})
	if err != nil {
		return err
	}

	fmt.Fprintln(out, url)
	_, _ = io.Copy(io.Discard, in)
	return stop()
}

// serve starts a server on a free port.
func serve(ctx context.Context, handler http.Handler) (url string, stop func() error, err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}

	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until it is closed
	return "http://" + listener.Addr().String(), server.Close, nil
}
