package locust

import (
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// maxNesting is the depth of arrays and maps that a message may have. Locust's
// have 4.
const maxNesting = 32

var errCut = errors.New("it ends too early")

// checkNesting rejects MessagePack whose arrays and maps are nested too deeply,
// since the decoder calls itself for each level.
func checkNesting(data []byte) error {
	// open has the number of values that each array and map around this value
	// still needs.
	var open []uint64

	for len(data) > 0 {
		// Several arrays and maps can end at the same value.
		for len(open) > 0 && open[len(open)-1] == 0 {
			open = open[:len(open)-1]
		}
		if len(open) > 0 {
			open[len(open)-1]--
		}

		size, values, err := measure(data)
		if err != nil {
			return err
		}

		data = data[size:]
		if values == 0 {
			continue
		}

		if len(open) == maxNesting {
			return fmt.Errorf("its arrays and maps are nested more than %d deep", maxNesting)
		}
		open = append(open, values)
	}
	return nil
}

// measure returns the size of the first value without the values inside it, and
// the number of values inside it.
func measure(data []byte) (size, values uint64, err error) {
	l := layoutOf(data[0])
	header := 1 + l.width
	if len(data) < header {
		return 0, 0, errCut
	}

	count := l.count
	for _, digit := range data[1:header] {
		count = count<<8 | uint64(digit)
	}

	size = uint64(header) + l.payload
	// A string counts its bytes, which are no values of their own.
	if l.each == 0 {
		size += count
	}

	if size > uint64(len(data)) {
		return 0, 0, errCut
	}
	return size, count * l.each, nil
}

// layout describes the bytes of a value after its code.
type layout struct {
	// width is the number of bytes that hold the count.
	width int
	// count is set if the code itself holds the count.
	count uint64
	// each is 1 for an array, which counts values, and 2 for a map, which counts
	// pairs. It is 0 if the count is one of bytes.
	each uint64
	// payload is the number of bytes beside the count and what it counts.
	payload uint64
}

const ofMap = 2 // a key and a value

// layoutOf returns the layout that a code stands for. No byte follows a code
// without a case.
func layoutOf(code byte) layout {
	switch {
	case msgpcode.IsFixedArray(code):
		return layout{count: uint64(code & msgpcode.FixedArrayMask), each: 1}
	case msgpcode.IsFixedMap(code):
		return layout{count: uint64(code & msgpcode.FixedMapMask), each: ofMap}
	case msgpcode.IsFixedString(code):
		return layout{count: uint64(code & msgpcode.FixedStrMask)}
	case msgpcode.IsFixedExt(code):
		return layout{payload: 1 + 1<<(code-msgpcode.FixExt1)}
	}

	switch code {
	case msgpcode.Array16:
		return layout{width: 2, each: 1}
	case msgpcode.Array32:
		return layout{width: 4, each: 1}
	case msgpcode.Map16:
		return layout{width: 2, each: ofMap}
	case msgpcode.Map32:
		return layout{width: 4, each: ofMap}
	}
	return scalarLayout(code)
}

func scalarLayout(code byte) layout {
	switch code {
	case msgpcode.Str8, msgpcode.Bin8:
		return layout{width: 1}
	case msgpcode.Str16, msgpcode.Bin16:
		return layout{width: 2}
	case msgpcode.Str32, msgpcode.Bin32:
		return layout{width: 4}
	case msgpcode.Ext8:
		return layout{width: 1, payload: 1}
	case msgpcode.Ext16:
		return layout{width: 2, payload: 1}
	case msgpcode.Ext32:
		return layout{width: 4, payload: 1}
	case msgpcode.Uint8, msgpcode.Int8:
		return layout{payload: 1}
	case msgpcode.Uint16, msgpcode.Int16:
		return layout{payload: 2}
	case msgpcode.Uint32, msgpcode.Int32, msgpcode.Float:
		return layout{payload: 4}
	case msgpcode.Uint64, msgpcode.Int64, msgpcode.Double:
		return layout{payload: 8}
	}
	return layout{}
}
