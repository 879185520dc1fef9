package postgres

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"attend/internal/engine"
	"attend/internal/store"
)

// # The log that was opened
//
// A database that was restored to an earlier moment, or a standby that had not
// received everything when it took over, gives positions anew that this process
// has already acknowledged or handed out. So wherever the end of the log is
// read it is compared with the furthest that is known, which was noted before
// the question was sent: behind that the same log cannot end. And its epoch is
// the one of the opening. Where the log is looked at without writing, the last
// record that was read must be there too. Once any of this fails, the store does
// nothing more.

// expect is what the log must still be when it is looked at.
type expect struct {
	end   engine.Position // it went up to here before
	epoch string
	last  engine.Position // a record that was read
	stamp engine.Time     // its stamp; 0 for none
}

// expect notes what a question to be sent now must find.
func (t *tables) expect() expect {
	known, last, stamp := t.tail.mark()
	return expect{known, t.epoch, last, stamp}
}

// check compares what was found, and has the store end when the log is another.
func (t *tables) check(want expect, end engine.Position, epoch string) error {
	switch {
	case epoch != want.epoch:
		return t.replace(fmt.Errorf("%w: its epoch is %s, and was %s", store.ErrReplaced, epoch, want.epoch))
	case end < want.end:
		return t.replace(fmt.Errorf("%w: it ends at position %d, and went up to %d", store.ErrReplaced, end, want.end))
	}
	return nil
}

// selectStamp reads the stamp of the record at a position; null when it was
// deleted.
const selectStamp = "(SELECT stamp FROM @events WHERE position = $3 UNION ALL SELECT stamp FROM @steps WHERE position = $3)"

// checkRecord compares the last record that was read with what stands there
// now: another replica may have written to the log of now, up to where this one
// knew the log of before.
func (t *tables) checkRecord(want expect, stamp *int64) error {
	if stamp != nil && want.stamp != 0 && engine.Time(*stamp) != want.stamp {
		return t.replace(fmt.Errorf("%w: another record stands at position %d", store.ErrReplaced, want.last))
	}
	return nil
}

// replace notes that the log is another one, for good, and wakes who waits. The
// first reason counts.
func (t *tables) replace(err error) error {
	t.replaced.CompareAndSwap(nil, &err)
	t.tail.stir()
	return *t.replaced.Load()
}

// guarded turns the error of the division by which a statement refuses to write
// to another log into that.
func (t *tables) guarded(want expect, err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "22012" {
		return t.replace(fmt.Errorf("%w: it does not go up to position %d any more, or its epoch is not %s", store.ErrReplaced, want.end, want.epoch))
	}
	return err
}
