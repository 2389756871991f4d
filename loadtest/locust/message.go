package locust

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// Types of messages, as Locust spells them. The last group belongs to the file
// that File writes.
const (
	msgAck         = "ack"
	msgHeartbeat   = "heartbeat"
	msgSpawn       = "spawn"
	msgStop        = "stop"
	msgQuit        = "quit"
	msgReconnect   = "reconnect"
	msgSpawned     = "spawning_complete"
	msgUpdateClass = "update_user_class"

	msgReady     = "client_ready"
	msgSpawning  = "spawning"
	msgStopped   = "client_stopped"
	msgStats     = "stats"
	msgException = "exception"

	msgTest      = "zae_limiter_test"     // a test begins: its ID and scenario
	msgJoined    = "zae_limiter_joined"   // the worker takes part in it
	msgTestStop  = "zae_limiter_stop"     // stop users and report
	msgTestEnded = "zae_limiter_stopped"  // the report has left
	msgTeardown  = "zae_limiter_teardown" // remove the namespace of the test
	msgTornDown  = "zae_limiter_removed"  // it is removed, or an error

	// maxMessage is the most bytes of a message from the master.
	maxMessage = 1 << 20
	// messageFields counts type, data and worker.
	messageFields = 3
)

// message is one message in either direction.
type message struct {
	kind string
	data any // to send
	// from is an earlier name of the worker that sends the message, or "" for
	// its present name.
	from string
	raw  msgpack.RawMessage // received
}

// encode returns the triple of a message of a worker.
func (m message) encode(worker string) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := msgpack.NewEncoder(&buffer)
	encoder.UseCompactInts(true)
	err := encoder.EncodeMulti(triple{m.kind, m.data, cmp.Or(m.from, worker)})
	return buffer.Bytes(), err
}

type triple struct {
	kind   string
	data   any
	worker string
}

// EncodeMsgpack encodes a triple as an array.
func (t triple) EncodeMsgpack(e *msgpack.Encoder) error {
	return errors.Join(e.EncodeArrayLen(messageFields), e.EncodeString(t.kind), e.Encode(t.data),
		e.EncodeString(t.worker))
}

// decodeMessage decodes a triple. The data stay as they are, since their form
// depends on the type.
func decodeMessage(frame []byte) (message, error) {
	if len(frame) > maxMessage {
		return message{}, fmt.Errorf("message of %d bytes: longer than %d", len(frame), maxMessage)
	}

	if err := checkNesting(frame); err != nil {
		return message{}, fmt.Errorf("no message of Locust: %w", err)
	}

	rest := bytes.NewReader(frame)
	decoder := msgpack.NewDecoder(rest)
	n, err := decoder.DecodeArrayLen()
	if err != nil || n != messageFields {
		return message{}, errors.New("no message of Locust: it is not an array of type, data and worker")
	}

	var m message
	if m.kind, err = decoder.DecodeString(); err == nil {
		m.raw, err = decoder.DecodeRaw()
	}
	if err == nil {
		err = decoder.Skip()
	}
	if err == nil && rest.Len() > 0 {
		err = errors.New("bytes after its end")
	}

	if err != nil {
		return message{}, fmt.Errorf("no message of Locust: %w", err)
	}
	return m, nil
}

// maxNesting is the depth of arrays and maps that a message may have. Locust's
// have 4.
const maxNesting = 32

var (
	errNested = fmt.Errorf("its arrays and maps are nested more than %d deep", maxNesting)
	errCut    = errors.New("it ends too early")
	errNone   = errors.New("a value is missing")
)

// checkNesting rejects MessagePack whose arrays and maps are nested too deeply,
// since the decoder calls itself for each level, and values that are cut off. The
// decoder itself rejects everything else.
func checkNesting(frame []byte) error {
	var err error
	rest := bytes.NewReader(frame)
	for decoder := msgpack.NewDecoder(rest); err == nil && rest.Len() > 0; {
		err = skipValue(decoder, 0)
	}

	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errCut
	case errors.Is(err, errNested):
		return err
	}
	return nil
}

// skipValue reads a value at a depth.
func skipValue(d *msgpack.Decoder, depth int) error {
	code, err := d.PeekCode()
	if err != nil {
		return errNone
	}

	var values int
	switch {
	case msgpcode.IsFixedArray(code), code == msgpcode.Array16, code == msgpcode.Array32:
		values, err = d.DecodeArrayLen()
	case msgpcode.IsFixedMap(code), code == msgpcode.Map16, code == msgpcode.Map32:
		values, err = d.DecodeMapLen()
		values *= 2 // a key and a value
	default:
		return d.Skip()
	}

	if values > 0 && depth == maxNesting {
		return errNested
	}
	for i := 0; err == nil && i < values; i++ {
		err = skipValue(d, depth+1)
	}
	return err
}

// spawnOrder says how many users of each class to run.
type spawnOrder struct {
	Timestamp   float64        `msgpack:"timestamp"`
	Counts      map[string]int `msgpack:"user_classes_count"`
	StopTimeout float64        `msgpack:"stop_timeout"` // seconds
	// Options are the options of the master. Some may be secrets, so that they are
	// never printed.
	Options struct {
		ResetStats bool `msgpack:"reset_stats"`
	} `msgpack:"parsed_options"`
}

// testOrder names a test.
type testOrder struct {
	ID       string `msgpack:"id"`
	Scenario string `msgpack:"scenario"`
	Keep     bool   `msgpack:"keep"` // the namespace stays after the test
}

func (m message) decode(into any) error {
	if err := msgpack.Unmarshal(m.raw, into); err != nil {
		return fmt.Errorf("message %q: %w", m.kind, err)
	}
	return nil
}
