// Package expr compiles and evaluates conditions: short expressions in CEL
// over a window, over a verdict, or over the body of an incoming request.
//
// It is the one place that knows CEL, and decides for all conditions alike what
// they may see, cost and do:
//
//   - Variables are typed, so that a misspelt name or field is a mistake when
//     the configuration is read, with its line and column. What producers send
//     (data, facts, body) is JSON without a schema and looked at as it comes.
//   - A condition is a function of its variables. It has no clock, and walks
//     through a map in the order of its keys, so that it gives the same answer
//     on every machine. The one exception are named time zones (see [Zone]).
//   - Its cost is bounded (see [CostLimit]), however large the window.
//   - A condition that fails at run time, at a missing key for example, is not
//     met; the failure is returned for whoever counts it. Nothing crashes.
package expr
