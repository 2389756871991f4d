package dynamotest

import (
	"encoding/json"
	"fmt"
	"maps"
)

// Shard is a shard of a scripted stream.
type Shard struct {
	Stream    *Stream
	Name, ID  string
	Parent    string
	records   []map[string]any
	sequences []string // of the records
	Closed    bool
	Hidden    bool // not listed
	Gone      bool // not readable
	Trimmed   int  // number of the first readable record
	Blanks    int  // number of empty answers before the next record
}

// NewShard adds an open shard without records.
func (st *Stream) NewShard(name string, parent *Shard) *Shard {
	st.Server.mu.Lock()
	defer st.Server.mu.Unlock()
	h := &Shard{Stream: st, Name: name, ID: "shardId-00000000000000000000-" + name}
	if parent != nil {
		h.Parent = parent.ID
	}
	st.Shards = append(st.Shards, h)
	return h
}

// Update changes the shard under the lock of the server.
func (h *Shard) Update(change func(*Shard)) {
	h.Stream.Server.mu.Lock()
	defer h.Stream.Server.mu.Unlock()
	change(h)
}

// Put adds records of items that have nothing but these names.
func (h *Shard) Put(names ...string) *Shard {
	for _, name := range names {
		h.Add(StreamRecord("entity/ENTITY#"+name, "#META", map[string]any{"name": StringValue(name)}))
	}
	return h
}

// Close closes the shard.
func (h *Shard) Close() *Shard {
	h.Update(func(h *Shard) { h.Closed = true })
	return h
}

// Add adds a record. It sets the sequence number unless the record has one,
// which may be nil.
func (h *Shard) Add(record map[string]any) {
	h.Update(func(h *Shard) {
		h.Stream.Server.sequence++
		sequence := ""
		if about, _ := record["dynamodb"].(map[string]any); about != nil {
			// The record belongs to the caller, so only a copy gets the number.
			record, about = maps.Clone(record), maps.Clone(about)
			if _, without := about["SequenceNumber"]; !without {
				sequence = fmt.Sprintf("1%020d", h.Stream.Server.sequence)
				about["SequenceNumber"] = sequence
			}
			record["dynamodb"] = about
		}

		h.records, h.sequences = append(h.records, record), append(h.sequences, sequence)
	})
}

// echo adds the record of a PutItem request.
func (h *Shard) echo(body []byte) {
	var put struct{ Item map[string]any }
	if err := json.Unmarshal(body, &put); err != nil {
		panic(err)
	}
	h.Add(map[string]any{"eventName": "MODIFY", "dynamodb": map[string]any{
		"Keys": map[string]any{"PK": put.Item["PK"], "SK": put.Item["SK"]}, "NewImage": put.Item,
	}})
}

// StreamRecord returns the record of a changed item with its new image.
func StreamRecord(pk, sk string, image map[string]any) map[string]any {
	keys := map[string]any{"PK": StringValue(pk), "SK": StringValue(sk)}
	image["PK"], image["SK"] = keys["PK"], keys["SK"]

	return map[string]any{
		"eventID": "1", "eventName": "MODIFY", "eventSource": "aws:dynamodb", "eventVersion": "1.1",
		"awsRegion": "us-east-1",
		"dynamodb": map[string]any{
			"ApproximateCreationDateTime": 1893456000, "Keys": keys, "NewImage": image, "SizeBytes": 1,
			"StreamViewType": "NEW_AND_OLD_IMAGES",
		},
	}
}

// StringValue returns a string in the wire format.
func StringValue(s string) any { return map[string]any{"S": s} }

func (h *Shard) description() map[string]any {
	numbers := map[string]any{"StartingSequenceNumber": "100000000000000000000"}
	if h.Closed {
		numbers["EndingSequenceNumber"] = "199999999999999999999"
	}

	d := map[string]any{"ShardId": h.ID, "SequenceNumberRange": numbers}
	if h.Parent != "" {
		d["ParentShardId"] = h.Parent
	}
	return d
}

func (h *Shard) iterator(position int) string {
	return fmt.Sprintf("%s|%s|%d|%d", h.Stream.arn, h.ID, h.Stream.Server.Generation, position)
}

// read returns at most limit records from a position on, and the next iterator.
// The end of a closed shard has none.
func (h *Shard) read(position, limit int) Reply {
	if position < h.Trimmed {
		return streamFailure("TrimmedDataAccessException")
	}

	end := min(position+limit, len(h.records))
	if h.Blanks > 0 {
		h.Blanks--
		return answered(map[string]any{"Records": []any{}, "NextShardIterator": h.iterator(position)})
	}

	reply := map[string]any{"Records": h.records[position:end]}
	if !h.Closed || end < len(h.records) {
		reply["NextShardIterator"] = h.iterator(end)
	}
	return answered(reply)
}

// RecordNames returns the names of the readable records: that of the shard and a
// number.
func (h *Shard) RecordNames() (names []string) {
	for i := range h.records[h.Trimmed:] {
		if !h.Gone {
			names = append(names, fmt.Sprintf("%s%d", h.Name, h.Trimmed+i))
		}
	}
	return names
}
