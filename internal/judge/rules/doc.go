// Package rules is the judge that is a file: conditions in order, each with the
// route of the windows that meet it. The first that is met counts.
//
//	rules:
//	  - name: paged
//	    when: '"alert.fired" in names && events.exists(e, e.data.severity == "critical")'
//	    then: interrupt
//	  - when: counts.closing > 0
//	    then: queue
//	default: skip
//
// Such a judge is a function of the window. The fold asks it at the instant of
// the close, so that a decision takes no call, no time and no place, and comes
// out the same when the log is folded again. Only a file that looks at facts, or
// names a time zone, is asked through the call path, as a model is.
package rules
