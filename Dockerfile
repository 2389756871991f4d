# syntax=docker/dockerfile:1
#
#	docker build --target cli -t zae-limiter .	the static program alone
#	docker build --target locust -t zae-limiter-locust .	Locust, with the program beside it

# The folder and the certificates that the static program needs.
FROM --platform=$BUILDPLATFORM golang:1.26 AS root
RUN mkdir -p /root-of-cli/tmp /root-of-cli/etc/ssl/certs && chmod 1777 /root-of-cli/tmp && \
	cp /etc/ssl/certs/ca-certificates.crt /root-of-cli/etc/ssl/certs/

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
# The modules of the workspace alone, so that a change of the code downloads nothing again.
COPY go.work go.work.sum go.mod go.sum ./
COPY cmd/go.mod cmd/go.sum cmd/
COPY dynamo/go.mod dynamo/go.sum dynamo/
COPY dynamo/infra/go.mod dynamo/infra/go.sum dynamo/infra/
COPY grpclimit/go.mod grpclimit/go.sum grpclimit/
COPY internal/yamlfile/go.mod internal/yamlfile/go.sum internal/yamlfile/
COPY llm/go.mod llm/go.sum llm/
COPY loadtest/go.mod loadtest/go.sum loadtest/
COPY manifest/go.mod manifest/go.sum manifest/
COPY sqlite/go.mod sqlite/go.sum sqlite/
COPY telemetry/go.mod telemetry/go.sum telemetry/
RUN go mod download
COPY . .
ARG TARGETOS TARGETARCH VERSION
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false \
	-ldflags "-s -w${VERSION:+ -X github.com/zeroae/zae-limiter-go/cmd/internal/cli.version=$VERSION}" \
	-o /out/zae-limiter ./cmd/zae-limiter
RUN CGO_ENABLED=0 GOOS=linux GOARCH=$TARGETARCH go build -trimpath -buildvcs=false -ldflags "-s -w" \
	-o /out/zae-limiter-function ./cmd/zae-limiter-function

FROM python:3.12-slim AS locust
RUN pip install --no-cache-dir locust==2.47.0 && useradd --create-home locust
COPY --from=build /out/zae-limiter /usr/local/bin/zae-limiter
WORKDIR /mnt/locust
USER locust
EXPOSE 8089 5557
ENTRYPOINT ["locust"]

# GoReleaser builds this target, in a folder with the programs of each platform (.goreleaser.yaml).
FROM scratch AS release
ARG TARGETPLATFORM
COPY --from=root /root-of-cli/ /
COPY $TARGETPLATFORM/zae-limiter $TARGETPLATFORM/zae-limiter-function /
ENV HOME=/tmp
USER 65532:65532
ENTRYPOINT ["/zae-limiter"]

# The last target is the default. Any user may write to HOME, which holds the embedded store.
FROM scratch AS cli
COPY --from=root /root-of-cli/ /
COPY --from=build /out/ /
ENV HOME=/tmp
USER 65532:65532
ENTRYPOINT ["/zae-limiter"]
