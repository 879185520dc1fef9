package app

import (
	"context"
	"errors"
	"fmt"
)

// cleanups undo what was built, the last first. New and Start push onto it and
// drain it when they fail half-way; Stop drains it at the end. So there is one
// order of ending, whoever ends.
type cleanups []cleanup

type cleanup struct {
	name string
	run  func(context.Context) error
}

func (c *cleanups) push(name string, run func(context.Context) error) {
	*c = append(*c, cleanup{name, run})
}

// drain runs all of them and joins their errors.
func (c *cleanups) drain(ctx context.Context) error {
	var errs []error
	for len(*c) > 0 {
		last := (*c)[len(*c)-1]
		*c = (*c)[:len(*c)-1]
		if err := last.run(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", last.name, err))
		}
	}
	return errors.Join(errs...)
}
