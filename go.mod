module github.com/zeroae/zae-limiter-go

go 1.26.0
