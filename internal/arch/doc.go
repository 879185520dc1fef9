// Package arch holds the rules of the project's shape that a compiler and a
// linter cannot say, as tests. Each rule carries its reason, and each is shown
// to fail on a small source or package list of its own, so that no rule can
// rot into one that accepts everything.
//
//	layers_test.go      who may import whom: the arrows of ARCHITECTURE.md
//	binary_test.go      what must never be linked into the daemon
//	source_test.go      what no source file may hold, with examples
//	vars_test.go        package variables are constants in all but name
//	pure_test.go        the fold: no clock, goroutine, channel, or map order
//	files_test.go       names, lengths, paths of somebody's machine
//	docs_test.go        README, guides and Makefile name only what exists
//	quickstart_test.go  what README and docs/mcp.md tell people to type, typed
//	dockerfile_test.go  the image, as far as it shows without an engine
//
// A line that breaks a rule for a good reason is marked, and says why:
//
//	//arch:sorted why      a map range whose order cannot show
//	//arch:constant why    a package variable that nobody changes
//	//arch:sleep why       a test that must let real time pass
//	//arch:skip why        a test that cannot run everywhere
//
// The mark stands on the line itself or on the line above. A mark without a
// reason is a finding.
package arch
