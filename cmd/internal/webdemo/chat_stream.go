package webdemo

import (
	"context"
	"encoding/json"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/pause"
	"github.com/zeroae/zae-limiter-go/llm"
)

// chunk is a part of a streamed answer.
type chunk struct {
	ID      string        `json:"id"`
	Object  string        `json:"object"`
	Created int64         `json:"created"`
	Model   string        `json:"model"`
	Choices []chunkChoice `json:"choices"`
	Usage   *usage        `json:"usage,omitempty"`
}

type chunkChoice struct {
	Index  int     `json:"index"`
	Delta  delta   `json:"delta"`
	Finish *string `json:"finish_reason"`
}

type delta struct {
	Role    string `json:"role,omitempty"`
	Content string `json:"content,omitempty"`
}

// chatStream sends one answer as server-sent events.
type chatStream struct {
	send    func([]byte) error
	request *llm.Request
	answer  simulated
	first   chunk // what all chunks have in common
	sent    int   // words
	whole   bool  // every word was sent
}

func now() int64 { return time.Now().Unix() }

// run sends the words of the answer until ctx ends or the client takes no more.
func (s *chatStream) run(ctx context.Context) {
	if pause.For(ctx, s.answer.begin) != nil || s.sendChoice(chunkChoice{Delta: delta{Role: "assistant"}}, nil) != nil {
		return
	}

	begun, count := time.Now(), len(s.answer.words)
	for i, word := range s.answer.words {
		if i > 0 {
			word = " " + word
		}

		// The time of a word counts from the first one, so that late words
		// catch up.
		due := begun.Add(s.answer.write * time.Duration(i+1) / time.Duration(count))

		// For does not look at ctx if the word is late.
		if pause.For(ctx, time.Until(due)) != nil || ctx.Err() != nil || s.sendChoice(
			chunkChoice{Delta: delta{Content: word}}, nil,
		) != nil {
			return
		}

		s.sent++
	}

	s.whole = true
}

// usage returns what was sent.
func (s *chatStream) usage() usage {
	return newUsage(s.request.Prompt, s.answer.tokensOf(s.sent))
}

// finish sends the end of the stream. The usage comes with the last choice, or in a
// chunk of its own if the client asked for that.
func (s *chatStream) finish() error {
	used, reason := s.usage(), s.answer.finish(s.request)
	last := chunkChoice{Finish: &reason}

	if !s.request.StreamUsage {
		if err := s.sendChoice(last, &used); err != nil {
			return err
		}
		return s.send([]byte("data: [DONE]\n\n"))
	}

	if err := s.sendChoice(last, nil); err != nil {
		return err
	}

	// OpenAI sends the usage in a chunk without choices.
	c := s.first
	c.Choices, c.Usage = []chunkChoice{}, &used
	if err := s.sendChunk(c); err != nil {
		return err
	}

	return s.send([]byte("data: [DONE]\n\n"))
}

func (s *chatStream) sendChoice(choice chunkChoice, u *usage) error {
	c := s.first
	c.Choices, c.Usage = []chunkChoice{choice}, u
	return s.sendChunk(c)
}

func (s *chatStream) sendChunk(c chunk) error {
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return s.send([]byte("data: " + string(body) + "\n\n"))
}
