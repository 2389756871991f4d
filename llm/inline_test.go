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
	letters := func(data string) string { return strings.Replace(source("document", ""), png, data, 1) }
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
			llm.Chat, content(`{"image_url":{"url":"data:im\u0061ge/png;base64,` + png + `"}}`), 1,
		},
		"an escaped data URL": {
			llm.Chat, content(`{"image_url":{"url":"\u0064ata:image\/png;base64,` + png + `"}}`), 1,
		},
		"an escaped letter": {
			llm.Chat, content(`{"image_url":{"url":"data:image/png;base64,\u0069VBORw0KGgo"}}`), 1,
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
		"an image of Messages":              {llm.Messages, content(source("image", "")), 1},
		"a document":                        {llm.Messages, content(source("document", "")), -1},
		"a document, escaped":               {llm.Messages, content(source(`docum\u0065nt`, "")), -1},
		"a document, repeated":              {llm.Messages, content(source("image", "") + "," + source("document", "")), -1},
		"a document, a letter in an escape": {llm.Messages, content(letters(`\u0069VBORw0KGgo`)), -1},
		"a document, a space":               {llm.Messages, content(letters(`iVBO Rw0KGgo`)), -1},
		"a document, a tab":                 {llm.Messages, content(letters(`iVBO\tRw0KGgo`)), -1},
		"a document, a line end":            {llm.Messages, content(letters(`iVBO\u000aRw0KGgo`)), -1},
		"a document, no base64":             {llm.Messages, content(letters(`\u00e9!`)), -1},
		"an image, a letter in an escape": {
			llm.Messages, content(strings.Replace(source("image", ""), "iVBO", `\u0069VBO`, 1)), 1,
		},
		"an image, a space": {llm.Messages, content(strings.Replace(source("image", ""), "iVBO", "iV BO", 1)), 1},
		"escaped names": {
			llm.Messages,
			content(`{"typ\u0065":"image","sour\u0063e":{"t\u0079pe":"base64","d\u0061ta":"` + png + `"}}`), 1,
		},
		"names in another case": {
			llm.Messages, content(`{"type":"image","SOURCE":{"type":"base64","Data":"` + png + `"}}`), 1,
		},
		"a name that ends": {
			llm.Messages, content(`{"type":"document","source\u0000x":{"type":"base64","data":"` + png + `"}}`), -1,
		},
		"a source without a type": {llm.Messages, content(`{"type":"document","source":{"data":"` + png + `"}}`), -1},
		"a type of another name": {
			llm.Messages, content(`{"type":"document","source":{"Type":"text","data":"` + png + `"}}`), -1,
		},
		"a type twice": {llm.Messages, content(source("document", `,"type":"text"`)), -1},
		"a type twice, first text": {
			llm.Messages, content(`{"type":"document","source":{"type":"text","t\u0079pe":"base64","data":"x y"}}`), -1,
		},
		"text of a PDF": {
			llm.Messages,
			content(`{"type":"document","source":{"type":"text","media_type":"application/pdf","data":"x y"}}`), -1,
		},
		"data twice":             {llm.Messages, content(source("image", `,"data":"AAAA"`)), -1},
		"a block without a type": {llm.Messages, content(`{"source":{"type":"base64","data":"` + png + `"}}`), -1},
		"a block with two types": {
			llm.Messages, content(`{"type":"image","type":"document","source":{"type":"base64","data":"AA"}}`), -1,
		},
		"a type after its data": {
			llm.Messages, content(`{"source":{"data":"` + png + `","type":"base64"},"type":"image"}`), 1,
		},
		"images in a document": {
			llm.Messages,
			content(`{"type":"document","source":{"type":"content","content":[` + source("image", "") + `,` +
				`{"type":"text","text":"x"}]}}`), 1,
		},
		"a document of text": {
			llm.Messages, content(`{"type":"document","source":{"type":"content","content":"two words"}}`), 0,
		},
		"a document without a source": {llm.Messages, content(`{"type":"document","bytes":"AAAA"}`), -1},
		"a false argument": {
			llm.Messages, content(`{"Input":{"source":{"type":"base64","data":"` + png + `"}}}`), -1,
		},
		"an argument elsewhere": {
			llm.Messages, `,"max_tokens":10,"x":{"input":{"source":{"type":"base64","data":"` + png + `"}}}`, -1,
		},
		"deeper than any format": {
			llm.Messages,
			content(strings.Repeat("[", 80) + source("image", "") + strings.Repeat("]", 80)), -1,
		},
		"an image in an own field": {llm.Chat, content(`{"type":"image","data":"` + png + `"}`), -1},
		"bytes in an own field":    {llm.Chat, content(`{"type":"image","image":{"bytes":"` + png + `"}}`), -1},
		"an image in a source":     {llm.Chat, content(`{"type":"image","source":{"type":"content","content":"AA"}}`), -1},
		"a file as a string":       {llm.Chat, content(`{"type":"file","file":"` + png + `"}`), -1},
		"data with a media type":   {llm.Chat, content(`{"data":"` + png + `","mime_type":"image/png"}`), -1},
		"a part without content":   {llm.Chat, content(`{"type":"input_video"}`), -1},
		"a part of another case":   {llm.Chat, content(`{"type":"videoUrl","x":"` + png + `"}`), -1},
		"sound, a letter in an escape": {
			llm.Chat, content(`{"type":"input_audio","input_audio":{"data":"\u0069VBO","format":"mp3"}}`), -1,
		},
		"an image in an unknown field": {llm.Chat, `,"max_tokens":10,"x":[` + pngBlock + `]`, 1},
		"thoughts that are hidden": {
			llm.Messages, content(`{"type":"redacted_thinking","data":"` + png + `"}`), 0,
		},
		"reasoning that is hidden": {
			llm.Chat,
			`,"max_tokens":10,"messages":[{"reasoning_details":[{"type":"reasoning.encrypted","data":"` + png + `"}]}]`,
			0,
		},
		"a profile":          {llm.Chat, content(`{"type":"profile","data":"x y"}`), -1},
		"a text with a type": {llm.Chat, content(`{"type":"profile","text":"x y"}`), 0},
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

// An image in a field that a server may read as text reserves its bytes too.
func TestImagesInUnknownFieldsReserveTheirBytes(t *testing.T) {
	req := parse(t, llm.Chat, `,"max_tokens":10,"documents":[{"image_url":"data:image/png;base64,`+
		strings.Repeat("AAAA", 10_000)+`"}]`)
	lim := newLimiter(t, memory.New(nil), limiter.Quota("spend", 1_000_000, limiter.EveryMonth))
	costs := newCosts(t, lim, &llm.Options{Prices: tokenPrice(llm.Price{Input: 1_000_000, Image: 1600})})
	lease, err := costs.Acquire(ctx, "key", "m", req)
	if err != nil || lease.Estimate().Cost < 20_000+1600 {
		t.Errorf("%+v, %v", lease, err)
	}
}
