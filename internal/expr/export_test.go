package expr

import "slices"

// Spent is what the expressions evaluated on these variables cost so far.
func Spent(v *Vars) uint64 { return v.spent }

// Unpriced lists the functions that an expression may call and that have no
// price, but for those that CEL plans as something else than a call.
func (e *Env) Unpriced() []string {
	known, planned := prices(), []string{"_&&_", "_||_", "_?_:_", "_[_]", "_[?_]", "_?._", "in", "_in_"}
	var missing []string
	for name := range e.env.Functions() { //arch:sorted below
		if _, ok := known[name]; !ok && !slices.Contains(planned, name) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing
}
