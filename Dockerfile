# syntax=docker/dockerfile:1

# The image holds one static file and an empty folder, and runs as nobody in
# particular. There is no shell in it and no libc.
#
#   docker build -t attend .
#   docker run -v attend:/data -p 127.0.0.1:8787:8787 \
#     -e ATTEND_HOST=0.0.0.0 -e ATTEND_TOKEN="$(openssl rand -hex 32)" attend
#
# attend listens on loopback unless it is told otherwise, and inside a container
# loopback is the container's own: to be reached from outside it needs
# ATTEND_HOST, and then it wants ATTEND_TOKEN, because whoever can reach it can
# read what your agents are told.

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o /out/attend ./cmd/attend
# A new volume takes its owner from the folder that it covers.
RUN install -d -o 65532 -g 65532 /out/data

FROM scratch
COPY --from=build /out/attend /attend
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
WORKDIR /data
VOLUME /data
ENV ATTEND_STORE=sqlite:/data/attend.db
EXPOSE 8787
# Ready: the store answers, and the loop is within five seconds of the log's end.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["/attend", "ready"]
ENTRYPOINT ["/attend"]
CMD ["serve"]
