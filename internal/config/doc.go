// Package config turns flags, variables and attend.yaml into one typed,
// validated [Config].
//
// # Where a value comes from
//
// A scalar (host, store, actThreshold …) is a key of attend.yaml and an
// environment variable whose name follows from the key: actThreshold is
// ATTEND_ACT_THRESHOLD. Those that people type daily are flags too:
// --act-threshold. A flag wins over a variable, a variable over the file, the
// file over the default. An empty variable counts as unset. The scalars of the
// Field stand under field in the file: scoring there is ATTEND_FIELD_SCORING
// and --field-scoring. Lists and maps (policy, scopes, floor, criteria,
// predicates, context) live in the file alone; kinds may also come from a file
// of its own or inline from a flag or variable.
//
// # Mistakes
//
// A mistake is never ignored, and never hides another one: [Load] reads
// everything, and returns every mistake with the file, line and column, or the
// flag or variable, where it was made, and how to mend it. An unknown key or
// ATTEND_ variable is a mistake. What is legal but probably not meant is a
// [Warning].
//
// Secrets are of type [Secret], which no printing verb, logger or encoder
// writes out, and no mistake quotes them.
package config
