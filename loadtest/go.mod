module github.com/zeroae/zae-limiter-go/loadtest

go 1.26.0

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0
	github.com/go-zeromq/zmq4 v0.17.0
	github.com/google/go-cmp v0.7.0
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	github.com/vmihailenco/msgpack/v5 v5.4.1
	github.com/zeroae/zae-limiter-go v0.0.0
	github.com/zeroae/zae-limiter-go/internal/yamlfile v0.0.0
	go.yaml.in/yaml/v3 v3.0.5
)

require (
	github.com/go-zeromq/goczmq/v4 v4.2.2 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	github.com/vmihailenco/tagparser/v2 v2.0.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	gonum.org/v1/gonum v0.17.0 // indirect
)
