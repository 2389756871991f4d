package dynamo_test

import (
	"encoding/json"
	"fmt"
	"maps"
)

// scriptedShard is a part of a scripted stream.
type scriptedShard struct {
	stream    *scriptedStream
	name, id  string
	parent    string
	records   []map[string]any
	sequences []string // of the records
	closed    bool
	hidden    bool // it is listed no more
	gone      bool // it cannot be read any more
	trimmed   int  // the records before this one are gone
	blanks    int  // answers without records that come before the next record
}

// Shard is a new one, open and without records.
func (st *scriptedStream) Shard(name string, parent *scriptedShard) *scriptedShard {
	st.server.mu.Lock()
	defer st.server.mu.Unlock()
	h := &scriptedShard{stream: st, name: name, id: "shardId-00000000000000000000-" + name}
	if parent != nil {
		h.parent = parent.id
	}
	st.shards = append(st.shards, h)
	return h
}

// Set changes the shard.
func (h *scriptedShard) Set(change func(*scriptedShard)) {
	h.stream.server.mu.Lock()
	defer h.stream.server.mu.Unlock()
	change(h)
}

// Put adds records of items that have nothing but these names.
func (h *scriptedShard) Put(names ...string) *scriptedShard {
	for _, name := range names {
		h.Add(streamRecord("entity/ENTITY#"+name, "#META", map[string]any{"name": wireText(name)}))
	}
	return h
}

// Close adds nothing more.
func (h *scriptedShard) Close() *scriptedShard {
	h.Set(func(h *scriptedShard) { h.closed = true })
	return h
}

// Add adds a record. Its part about the table gets a sequence number, unless it
// says that it has none.
func (h *scriptedShard) Add(record map[string]any) {
	h.Set(func(h *scriptedShard) {
		h.stream.server.sequence++
		sequence := ""
		if about, _ := record["dynamodb"].(map[string]any); about != nil {
			record, about = maps.Clone(record), maps.Clone(about)
			if _, without := about["SequenceNumber"]; !without {
				sequence = fmt.Sprintf("1%020d", h.stream.server.sequence)
				about["SequenceNumber"] = sequence
			}
			record["dynamodb"] = about
		}
		h.records, h.sequences = append(h.records, record), append(h.sequences, sequence)
	})
}

// echo adds the record of a request that put an item.
func (h *scriptedShard) echo(body []byte) {
	var put struct{ Item map[string]any }
	if err := json.Unmarshal(body, &put); err != nil {
		panic(err)
	}
	h.Add(map[string]any{"eventName": "MODIFY", "dynamodb": map[string]any{
		"Keys": map[string]any{"PK": put.Item["PK"], "SK": put.Item["SK"]}, "NewImage": put.Item,
	}})
}

// streamRecord is a change of an item, which it has the new image of.
func streamRecord(pk, sk string, image map[string]any) map[string]any {
	keys := map[string]any{"PK": wireText(pk), "SK": wireText(sk)}
	image["PK"], image["SK"] = keys["PK"], keys["SK"]
	return map[string]any{
		"eventID": "1", "eventName": "MODIFY", "eventSource": "aws:dynamodb", "eventVersion": "1.1", "awsRegion": "us-east-1",
		"dynamodb": map[string]any{"ApproximateCreationDateTime": 1893456000, "Keys": keys, "NewImage": image, "SizeBytes": 1, "StreamViewType": "NEW_AND_OLD_IMAGES"},
	}
}

// wireText is a string as the wire has it.
func wireText(s string) any { return map[string]any{"S": s} }

func (h *scriptedShard) description() map[string]any {
	numbers := map[string]any{"StartingSequenceNumber": "100000000000000000000"}
	if h.closed {
		numbers["EndingSequenceNumber"] = "199999999999999999999"
	}
	d := map[string]any{"ShardId": h.id, "SequenceNumberRange": numbers}
	if h.parent != "" {
		d["ParentShardId"] = h.parent
	}
	return d
}

func (h *scriptedShard) iterator(place int) string {
	return fmt.Sprintf("%s|%s|%d|%d", h.stream.arn, h.id, h.stream.server.lifetimes, place)
}

// read is the answer for a place: at most so many records, and where to go on,
// which is nowhere at the end of a closed shard.
func (h *scriptedShard) read(place, most int) wireReply {
	if place < h.trimmed {
		return streamFailure("TrimmedDataAccessException")
	}
	end := min(place+most, len(h.records))
	if h.blanks > 0 {
		h.blanks--
		return answered(map[string]any{"Records": []any{}, "NextShardIterator": h.iterator(place)})
	}
	reply := map[string]any{"Records": h.records[place:end]}
	if !h.closed || end < len(h.records) {
		reply["NextShardIterator"] = h.iterator(end)
	}
	return answered(reply)
}
