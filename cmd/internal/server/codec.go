package server

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// tolerantCodec decodes messages whose texts are not UTF-8. Envoy sends such texts if
// the header of a client has them. gRPC's codec would fail, and Envoy admits a client
// whose call failed. tolerantCodec also bounds the fields of a message, since an empty
// descriptor takes two bytes on the wire and about a hundred in memory.
type tolerantCodec struct{ encoding.CodecV2 }

func newTolerantCodec() tolerantCodec { return tolerantCodec{encoding.GetCodecV2("proto")} }

// Unmarshal decodes a message. It replaces bytes that are not UTF-8 by U+FFFD.
func (c tolerantCodec) Unmarshal(data mem.BufferSlice, v any) error {
	message, ok := v.(proto.Message)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()

	wire, of := whole.ReadOnlyData(), message.ProtoReflect().Descriptor()
	if left := countFields(wire, of, maxWireFields, maxNesting); left < 0 {
		return errManyFields
	}

	err := proto.Unmarshal(wire, message)
	if err == nil {
		return nil
	}

	// Few messages have texts to repair, so the others pay nothing for it.
	repaired, ok := repairTexts(wire, of, maxNesting)
	if !ok {
		return err
	}
	return proto.Unmarshal(repaired, message)
}

// maxNesting bounds the recursion of repairTexts. maxWireFields is far above what the
// configuration of an Envoy makes of any request.
const maxNesting, maxWireFields = 100, 10_000

var errManyFields = errors.New("the message has more than 10000 fields; send fewer descriptors")

// countFields subtracts the fields of a message from left and returns the rest. The
// rest is negative if the message has more fields or is nested too deeply. countFields
// stops at what cannot be decoded.
func countFields(data []byte, of protoreflect.MessageDescriptor, left, nesting int) int {
	if nesting == 0 {
		return -1
	}

	for len(data) > 0 && left >= 0 {
		number, kind, tag := protowire.ConsumeTag(data)
		// What cannot be decoded is left to Unmarshal, which says what is
		// wrong.
		if tag < 0 {
			return left
		}
		length := protowire.ConsumeFieldValue(number, kind, data[tag:])
		if length < 0 {
			return left
		}

		left--
		field := of.Fields().ByNumber(number)

		// An embedded message has fields of its own, and each costs memory.
		if kind == protowire.BytesType && field != nil && field.Kind() == protoreflect.MessageKind {
			content, _ := protowire.ConsumeBytes(data[tag:])
			left = countFields(content, field.Message(), left, nesting-1)
		}

		data = data[tag+length:]
	}
	return left
}

// repairTexts returns an encoded message with its texts as valid UTF-8. It reports
// false if the message is broken otherwise.
func repairTexts(data []byte, of protoreflect.MessageDescriptor, nesting int) ([]byte, bool) {
	if nesting == 0 {
		return nil, false
	}

	out := make([]byte, 0, len(data))
	for len(data) > 0 {
		number, kind, tag := protowire.ConsumeTag(data)
		if tag < 0 {
			return nil, false
		}
		length := protowire.ConsumeFieldValue(number, kind, data[tag:])
		if length < 0 {
			return nil, false
		}

		field, rest := data[:tag+length], data[tag+length:]
		data = rest
		known := of.Fields().ByNumber(number)

		if kind != protowire.BytesType || known == nil {
			out = append(out, field...)
			continue
		}

		content, _ := protowire.ConsumeBytes(field[tag:])
		content, ok := repairField(content, known, nesting)
		if !ok {
			return nil, false
		}
		out = protowire.AppendBytes(append(out, field[:tag]...), content)
	}
	return out, true
}

// repairField repairs the content of a field.
func repairField(content []byte, field protoreflect.FieldDescriptor, nesting int) ([]byte, bool) {
	switch field.Kind() {
	case protoreflect.StringKind:
		return bytes.ToValidUTF8(content, []byte(string(utf8.RuneError))), true
	case protoreflect.MessageKind:
		return repairTexts(content, field.Message(), nesting-1)
	}

	return content, true
}
