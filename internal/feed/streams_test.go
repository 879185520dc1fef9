package feed

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestStreams_BoundIsOnePrincipals(t *testing.T) {
	s, err := NewStreams(prometheus.NewPedanticRegistry(), 2)
	if err != nil {
		t.Fatal(err)
	}
	enter := func(principal string) func() {
		t.Helper()
		leave, err := s.Enter(principal)
		if err != nil {
			t.Fatal(err)
		}
		return leave
	}
	first, second, other := enter("ann"), enter("ann"), enter("bob")
	_, err = s.Enter("ann")
	if limit := (*LimitError)(nil); !errors.As(err, &limit) || limit.Limit != "streams" || limit.Max != 2 {
		t.Errorf("the third of two: %v", err)
	}
	if n := testutil.ToFloat64(s.open); n != 3 {
		t.Errorf("%v are shown, want 3", n)
	}
	first()
	enter("ann")()
	second()
	other()
	if n := testutil.ToFloat64(s.open); n != 0 || len(s.of) != 0 {
		t.Errorf("when all have gone %v are shown, %d principals are kept", n, len(s.of))
	}
}

func TestStreams_DefaultAndRegistration(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	s, err := NewStreams(reg, 0)
	if err != nil || s.max != DefaultMaxStreams {
		t.Errorf("max %d (%v)", s.max, err)
	}
	if _, err := NewStreams(reg, 0); err == nil {
		t.Error("the metric was registered twice")
	}
}
