module github.com/zeroae/zae-limiter-go/webtest

go 1.26.0

replace (
	github.com/zeroae/zae-limiter-go => ..
	github.com/zeroae/zae-limiter-go/cmd => ../cmd
	github.com/zeroae/zae-limiter-go/dynamo => ../dynamo
	github.com/zeroae/zae-limiter-go/dynamo/infra => ../dynamo/infra
	github.com/zeroae/zae-limiter-go/grpclimit => ../grpclimit
	github.com/zeroae/zae-limiter-go/internal/yamlfile => ../internal/yamlfile
	github.com/zeroae/zae-limiter-go/llm => ../llm
	github.com/zeroae/zae-limiter-go/loadtest => ../loadtest
	github.com/zeroae/zae-limiter-go/manifest => ../manifest
	github.com/zeroae/zae-limiter-go/sqlite => ../sqlite
	github.com/zeroae/zae-limiter-go/telemetry => ../telemetry
)

require (
	github.com/chromedp/cdproto v0.157.8
	github.com/chromedp/chromedp v0.21.0
	github.com/google/go-cmp v0.7.0
	github.com/zeroae/zae-limiter-go v0.0.0
	github.com/zeroae/zae-limiter-go/sqlite v0.0.0
)

require (
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	golang.org/x/sys v0.49.0 // indirect
	modernc.org/libc v1.77.1 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
	modernc.org/sqlite v1.60.1 // indirect
)
