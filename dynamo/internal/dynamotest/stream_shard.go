package dynamotest

import (
	"encoding/json"
	"fmt"
	"maps"
)

// scriptedShard is a part of a scripted stream.
type Shard struct {
	Stream    *Stream
	Name, ID  string
	Parent    string
	records   []map[string]any
	sequences []string // of the records
	Closed    bool
	Hidden    bool // it is listed no more
	Gone      bool // it cannot be read any more
	Trimmed   int  // the records before this one are gone
	Blanks    int  // answers without records that come before the next record
}

// Shard is a new one, open and without records.
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

// Set changes the shard.
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

// Close adds nothing more.
func (h *Shard) Close() *Shard {
	h.Update(func(h *Shard) { h.Closed = true })
	return h
}

// Add adds a record. Its part about the table gets a sequence number, unless it
// says that it has none.
func (h *Shard) Add(record map[string]any) {
	h.Update(func(h *Shard) {
		h.Stream.Server.sequence++
		sequence := ""
		if about, _ := record["dynamodb"].(map[string]any); about != nil {
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

// echo adds the record of a request that put an item.
func (h *Shard) echo(body []byte) {
	var put struct{ Item map[string]any }
	if err := json.Unmarshal(body, &put); err != nil {
		panic(err)
	}
	h.Add(map[string]any{"eventName": "MODIFY", "dynamodb": map[string]any{
		"Keys": map[string]any{"PK": put.Item["PK"], "SK": put.Item["SK"]}, "NewImage": put.Item,
	}})
}

// streamRecord is a change of an item, which it has the new image of.
func StreamRecord(pk, sk string, image map[string]any) map[string]any {
	keys := map[string]any{"PK": StringValue(pk), "SK": StringValue(sk)}
	image["PK"], image["SK"] = keys["PK"], keys["SK"]
	return map[string]any{
		"eventID": "1", "eventName": "MODIFY", "eventSource": "aws:dynamodb", "eventVersion": "1.1", "awsRegion": "us-east-1",
		"dynamodb": map[string]any{"ApproximateCreationDateTime": 1893456000, "Keys": keys, "NewImage": image, "SizeBytes": 1, "StreamViewType": "NEW_AND_OLD_IMAGES"},
	}
}

// wireText is a string as the wire has it.
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

func (h *Shard) iterator(place int) string {
	return fmt.Sprintf("%s|%s|%d|%d", h.Stream.arn, h.ID, h.Stream.Server.Generation, place)
}

// read is the answer for a place: at most so many records, and where to go on,
// which is nowhere at the end of a closed shard.
func (h *Shard) read(place, most int) Reply {
	if place < h.Trimmed {
		return streamFailure("TrimmedDataAccessException")
	}
	end := min(place+most, len(h.records))
	if h.Blanks > 0 {
		h.Blanks--
		return answered(map[string]any{"Records": []any{}, "NextShardIterator": h.iterator(place)})
	}
	reply := map[string]any{"Records": h.records[place:end]}
	if !h.Closed || end < len(h.records) {
		reply["NextShardIterator"] = h.iterator(end)
	}
	return answered(reply)
}

// names are those of the records that can be read.
func (h *Shard) RecordNames() (names []string) {
	for i := range h.records[h.Trimmed:] {
		if !h.Gone {
			names = append(names, fmt.Sprintf("%s%d", h.Name, h.Trimmed+i))
		}
	}
	return names
}
