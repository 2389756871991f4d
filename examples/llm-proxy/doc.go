// Package llmproxy tests the command zae-limiter proxy with the SDKs of OpenAI and
// Anthropic, as the README shows it.
package llmproxy
