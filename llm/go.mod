module github.com/zeroae/zae-limiter-go/llm

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/zeroae/zae-limiter-go v0.0.0
	github.com/zeroae/zae-limiter-go/internal/yamlfile v0.0.0
	go.yaml.in/yaml/v3 v3.0.5
)
