package server

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// TestCodecRepairsNestedTexts decodes a message that is nested and has a map.
func TestCodecRepairsNestedTexts(t *testing.T) {
	valid, err := structpb.NewStruct(map[string]any{"a": []any{"bad", 1.5, map[string]any{"b": "good"}}})
	if err != nil {
		t.Fatal(err)
	}
	data, err := proto.Marshal(valid)
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.Replace(data, []byte("bad"), []byte("b\xffd"), 1)
	var got structpb.Struct
	if err := newTolerantCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, &got); err != nil {
		t.Fatal(err)
	}
	want, _ := structpb.NewStruct(map[string]any{"a": []any{"b\uFFFDd", 1.5, map[string]any{"b": "good"}}})
	if !proto.Equal(&got, want) {
		t.Errorf("decoded %v, want %v", &got, want)
	}
}

// A message of empty fields takes fifty times its size in memory, so it is not
// decoded.
func TestCodecBoundsFields(t *testing.T) {
	for fields, fits := range map[int]bool{maxWireFields: true, maxWireFields + 1: false, 8 << 20: false} {
		var got structpb.ListValue
		err := newTolerantCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(bytes.Repeat([]byte("\x0a\x00"), fields))},
			&got)
		if (err == nil) != fits || !fits && len(got.GetValues()) > 0 {
			t.Errorf("%d fields: %v with %d values", fields, err, len(got.GetValues()))
		}
	}
}

// FuzzCodec checks that bytes of a stranger never panic, and that a message which
// gRPC's codec decodes is unchanged.
func FuzzCodec(f *testing.F) {
	f.Add([]byte("\x0a\x03a\xffb"))
	f.Add([]byte("\x0a\x80"))
	f.Add(bytes.Repeat([]byte("\x0a\x7f"), 64))
	f.Fuzz(func(t *testing.T, data []byte) {
		codec := newTolerantCodec()
		var plain, tolerant structpb.Struct
		err := codec.CodecV2.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, &plain)
		if got := codec.Unmarshal(
			mem.BufferSlice{mem.SliceBuffer(data)}, &tolerant,
		); err == nil && (got != nil || !proto.Equal(&plain, &tolerant)) {
			t.Errorf("decoded %v (%v), want %v", &tolerant, got, &plain)
		}
	})
}
