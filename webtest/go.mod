module github.com/zeroae/zae-limiter-go/webtest

go 1.26.0

replace github.com/zeroae/zae-limiter-go => ..

require (
	github.com/chromedp/cdproto v0.157.8
	github.com/chromedp/chromedp v0.21.0
)

require github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
