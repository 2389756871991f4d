module github.com/zeroae/zae-limiter-go/manifest

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	github.com/zeroae/zae-limiter-go v0.0.0
	github.com/zeroae/zae-limiter-go/internal/yamlfile v0.0.0
	go.yaml.in/yaml/v3 v3.0.5
	golang.org/x/sync v0.23.0
)

require golang.org/x/text v0.42.0 // indirect
