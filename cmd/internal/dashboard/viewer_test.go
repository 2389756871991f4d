package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// streamWriter is the answer of a stream. A write that is late fails.
type streamWriter struct {
	header http.Header
	*io.PipeWriter
	late *time.Timer
}

func (w *streamWriter) Header() http.Header { return w.header }
func (w *streamWriter) WriteHeader(int)     {}
func (w *streamWriter) Flush()              {}

func (w *streamWriter) SetWriteDeadline(at time.Time) error {
	if at.IsZero() {
		w.late.Stop()
		return nil
	}
	w.late = time.AfterFunc(time.Until(at), func() { _ = w.CloseWithError(os.ErrDeadlineExceeded) })
	return nil
}

// viewing is a viewer of a test.
type viewing struct {
	r      *rig
	id     string
	events *bufio.Reader
	pipe   *io.PipeReader
	cancel context.CancelFunc
	ended  chan struct{} // closed when the handler has returned
	cookie *http.Cookie
}

// watching opens a stream of the rig's session that watches entities, and reads
// their first rows.
func (r *rig) watching(entities ...string) *viewing {
	r.t.Helper()
	v := r.view(r.cookie)
	v.watch(entities...)
	v.rows()
	return v
}

// view opens a stream and reads its first event.
func (r *rig) view(cookie *http.Cookie) *viewing {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	from, to := io.Pipe()
	v := &viewing{
		r: r, events: bufio.NewReader(from), pipe: from, cancel: cancel, ended: make(chan struct{}),
		cookie: cookie,
	}
	q := request{path: "/api/stream", cookie: cookie}.http()
	go func() {
		defer close(v.ended)
		r.ServeHTTP(&streamWriter{header: http.Header{}, PipeWriter: to}, q.WithContext(ctx))
		_ = to.Close()
	}()
	var hello struct{ ID string }
	v.next("hello", &hello)
	v.id = hello.ID
	return v
}

// leave ends the stream as a client that goes.
func (v *viewing) leave() {
	v.cancel()
	_ = v.pipe.Close()
	<-v.ended
}

// read returns the next event, io.EOF at the end of the stream.
func (v *viewing) read() (name, data string, err error) {
	for {
		line, err := v.events.ReadString('\n')
		if err != nil {
			return "", "", err
		}
		switch line = strings.TrimSuffix(line, "\n"); {
		case strings.HasPrefix(line, "event: "):
			name = line[7:]
		case strings.HasPrefix(line, "data: "):
			data = line[6:]
		case line == "" && name != "":
			return name, data, nil
		}
	}
}

// next reads events until one of a name, and decodes it.
func (v *viewing) next(want string, into any) {
	v.r.t.Helper()
	for {
		name, data, err := v.read()
		if err != nil {
			v.r.t.Fatalf("the stream ended before %s: %v", want, err)
		}
		if name == want {
			if err := json.Unmarshal([]byte(data), into); err != nil {
				v.r.t.Fatalf("%s: %v", data, err)
			}
			return
		}
	}
}

type rowsData struct {
	Rows []Row
	Gone [][2]string
	At   time.Time
}

func (v *viewing) rows() rowsData {
	v.r.t.Helper()
	var d rowsData
	v.next("rows", &d)
	return d
}

// watch replaces what the viewer watches in gpt-4.
func (v *viewing) watch(entities ...string) {
	v.r.t.Helper()
	keys := [][2]string{}
	for _, e := range entities {
		keys = append(keys, [2]string{e, "gpt-4"})
	}
	body, _ := json.Marshal(map[string]any{"id": v.id, "keys": keys})
	v.r.wantOf(200, request{path: "/api/watch", body: string(body), cookie: v.cookie})
}

// drain reads the stream until it ends.
func (v *viewing) drain() {
	for {
		if _, _, err := v.read(); err != nil {
			return
		}
	}
}

// counted counts the reads of buckets.
type counted struct {
	limiter.Repository
	reads, keys atomic.Int64
	fail        atomic.Bool
	damaged     string // an entity
}

func (c *counted) BucketPage(ctx context.Context, now time.Time, q limiter.BucketQuery) (limiter.BucketPage, error) {
	return c.Repository.(limiter.BucketPager).BucketPage(ctx, now, q)
}

func (c *counted) BucketsAt(ctx context.Context, now time.Time, keys []limiter.Scope) ([]limiter.Bucket, error) {
	c.reads.Add(1)
	c.keys.Add(int64(len(keys)))
	if c.fail.Load() {
		return nil, errors.New("the network is down")
	}
	for _, key := range keys {
		if key.Entity == c.damaged {
			return nil, &limiter.CorruptError{Item: key.Entity, Reason: "a test"}
		}
	}
	return c.Repository.(limiter.BucketPager).BucketsAt(ctx, now, keys)
}

// newCountedRig returns a rig in a bubble, on a store that counts its reads.
func newCountedRig(t *testing.T, opts Options) (*rig, *counted) {
	t.Helper()
	opts.Now = time.Now
	r := newRig(t, opts)
	store := &counted{Repository: r.repo}
	r.opts.Open = func(context.Context, string) (limiter.Repository, error) { return store, nil }
	return r, store
}
