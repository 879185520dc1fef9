package app

import (
	"strings"
	"testing"
)

// Two daemons under one configured name must not take each other's leases for
// their own.
func TestReplicaName_IsOfOneProcess(t *testing.T) {
	for _, configured := range []string{"", "east"} {
		a, b := replicaName(configured), replicaName(configured)
		if a == b {
			t.Errorf("two replicas that are named %q are both called %q", configured, a)
		}
		if !strings.HasPrefix(a, configured) {
			t.Errorf("the replica named %q is called %q", configured, a)
		}
	}
}
