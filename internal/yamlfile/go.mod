module github.com/zeroae/zae-limiter-go/internal/yamlfile

go 1.26.0

require go.yaml.in/yaml/v3 v3.0.5
