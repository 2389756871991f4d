package llm_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/llm"
	"github.com/zeroae/zae-limiter-go/memory"
)

// The bytes of an image or a file in a request do not bound its tokens: a PNG of one
// colour has 590 bytes and costs thousands of tokens. Each is reserved at what the
// price list says of an image, else at the context, else refused.
func TestInlineFilesAreReservedWhole(t *testing.T) {
	const context, image = 100_000, 1600
	content := func(block string) string {
		return `,"max_tokens":10,"messages":[{"role":"user","content":[` + block + `]}]`
	}
	input := func(block string) string {
		return `,"max_output_tokens":10,"input":[{"role":"user","content":[` + block + `]}]`
	}
	const png = "iVBORw0KGgo"
	const pngBlock = `{"type":"image_url","image_url":{"url":"data:image/png;base64,` + png + `"}}`
	source := func(kind, more string) string {
		return `{"type":"` + kind + `","source":{"type":"base64","media_type":"image/png","data":"` + png + `"` + more +
			`}}`
	}
	for name, tc := range map[string]struct {
		format llm.Format
		fields string
		images int64 // -1 for a file, 0 for text
	}{
		"a data URL":    {llm.Chat, content(pngBlock), 1},
		"three of them": {llm.Chat, content(pngBlock + "," + pngBlock + "," + pngBlock), 3},
		"in upper case": {
			llm.Chat, content(`{"IMAGE_URL":{"url":"DATA:IMAGE/PNG;BASE64,` + png + `"}}`), 1,
		},
		"an escaped media type": {
			llm.Chat, content(`{"image_url":{"url":"data:im\u0061ge/png;base64,` + png + `"}}`), -1,
		},
		"a PDF as an image": {
			llm.Chat, content(`{"image_url":{"url":"data:application/pdf;base64,` + png + `"}}`), -1,
		},
		"a file": {
			llm.Chat,
			content(`{"type":"file","file":{"filename":"x","file_data":"data:image/png;base64,` + png + `"}}`),
			-1,
		},
		"sound": {
			llm.Chat, content(`{"type":"input_audio","input_audio":{"data":"` + png + `","format":"mp3"}}`), -1,
		},
		"a video": {
			llm.Chat, content(`{"video_url":{"url":"data:video/mp4;base64,` + png + `"}}`), -1,
		},
		"an image and a file": {llm.Chat, content(pngBlock + `,{"file":{"file_data":"` + png + `"}}`), -1},
		"text that looks like an image": {
			llm.Chat, content(`{"type":"text","text":"data:image/png;base64,` + png + `"}`), 0,
		},
		"an image of Responses": {
			llm.Responses, input(`{"type":"input_image","image_url":"data:image/png;base64,` + png + `"}`), 1,
		},
		"a file of Responses": {
			llm.Responses, input(`{"type":"input_file","file_data":"data:application/pdf;base64,` + png + `"}`),
			-1,
		},
		"a file by data URL": {
			llm.Responses, input(`{"type":"input_file","file_url":"data:application/pdf;base64,` + png + `"}`),
			-1,
		},
		"an image of Messages": {llm.Messages, content(source("image", "")), 1},
		"a document":           {llm.Messages, content(source("document", "")), -1},
		"a document, escaped":  {llm.Messages, content(source(`docum\u0065nt`, "")), -1},
		"a document, repeated": {llm.Messages, content(source("image", "") + "," + source("document", "")), -1},
		"a result of a tool": {
			llm.Messages, content(`{"type":"tool_result","content":[` + source("image", "") + `]}`), 1,
		},
		"an argument of a tool": {
			llm.Messages,
			content(`{"type":"tool_use","input":{"source":{"type":"base64","data":"` + png + `"}}}`), 0,
		},
		"a plain document": {
			llm.Messages,
			content(`{"type":"document","source":{"type":"text","media_type":"text/plain","data":"two words"}}`),
			0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			req := parse(t, tc.format, tc.fields)
			reserved := func(price llm.Price) (int64, error) {
				price.Input = 1_000_000
				lim := newLimiter(t, memory.New(nil), limiter.Quota("spend", 10_000_000, limiter.EveryMonth))
				lease, err := newCosts(t, lim, &llm.Options{Prices: tokenPrice(price)}).Acquire(ctx, "key", "m", req)
				if err != nil {
					return 0, err
				}
				return lease.Estimate().Cost - 10, nil // 10 for the answer
			}
			got, err := reserved(llm.Price{})
			if tc.images != 0 {
				if !errors.Is(err, llm.ErrUnbounded) {
					t.Errorf("without sizes: %d, %v", got, err)
				}
			} else if err != nil || got > 1000 {
				t.Errorf("without sizes: %d, %v", got, err)
			}
			if got, err = reserved(llm.Price{Context: context}); err != nil || (got == context) != (tc.images != 0) {
				t.Errorf("with a context: %d, %v", got, err)
			}
			got, err = reserved(llm.Price{Context: context, Image: image})
			if want := tc.images * image; err != nil || tc.images < 0 && got != context || tc.images >= 0 &&
				(got < want || got > want+1000) {
				t.Errorf("with the tokens of an image: %d, %v; want %d images", got, err, tc.images)
			}
		})
	}
}

// A large image reserves its tokens and not its bytes, where they are known.
func TestLargeImagesReserveTheirTokens(t *testing.T) {
	req := parse(t, llm.Chat,
		`,"max_tokens":10,"messages":[{"content":[{"image_url":{"url":"data:image/png;base64,`+
			strings.Repeat("AAAA", 100_000)+`"}}]}]`)
	lim := newLimiter(t, memory.New(nil), limiter.Quota("spend", 1_000_000, limiter.EveryMonth))
	costs := newCosts(t, lim, &llm.Options{Prices: tokenPrice(llm.Price{Input: 1_000_000, Image: 1600})})
	lease, err := costs.Acquire(ctx, "key", "m", req)
	if err != nil || lease.Estimate().Cost > 2000 {
		t.Errorf("%+v, %v", lease, err)
	}
}
