// Package examples holds the files that people start from: kinds for five
// sorts of agents, rules for three of them, hooks for three senders, a
// configuration with every key explained, and real events to try them on. The
// demo runs on them, and tests read each one.
package examples

import "embed"

// Files holds kinds/*.json, rules/*.yaml, hooks/*.yaml, attend.yaml and events/*.ndjson:
// events/github.ndjson are 329 events of 16 repositories, made from published
// webhook examples; events/dpkg.ndjson are 5,091 lines of a package manager's
// log, in which nothing should wake anyone.
//
//go:embed attend.yaml kinds/*.json rules/*.yaml hooks/*.yaml events/*.ndjson
var Files embed.FS
