package field

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// benchState is a Field in which ten agents with roles write, in turn, about
// topics of a thousand entries each.
func benchState(b *testing.B, entries int) (s *State, text int) {
	b.Helper()
	s = NewState()
	for i := range 10 {
		err := s.Apply(&Change{Kind: KindRegistered, Agent: fmt.Sprint("agent", i), Role: fmt.Sprintf("%s of watch %d", []string{"pilot", "cook"}[i%2], i)})
		if err != nil {
			b.Fatal(err)
		}
	}
	for i := range entries {
		c := &Change{
			Kind: KindWritten, At: int64(i), Epoch: int64(i), ID: fmt.Sprintf("01J8ZQ4Y%018d", i), Agent: fmt.Sprint("agent", i*7%10),
			Intent: strings.Repeat("so that it is known ", 3)[:12+i*31%48],
			Entry:  json.RawMessage(fmt.Sprintf(`{"topic":"topic-%d","price":%d,"source":"survey of the %d harbours","seen":true}`, i%(entries/1000), i%17, i%97)),
		}
		if err := s.Apply(c); err != nil {
			b.Fatal(err)
		}
		text += len(c.ID) + len(c.Intent) + len(c.Entry)
	}
	return s, text
}

// fullSort is rank without index, blocks or bounds.
func (v *view) fullSort(most int) []*record {
	var all []candidate
	for n := range v.s.list.len {
		r := v.s.list.at(int32(n))
		if r.status == codeCommitted && r.agent != v.agent && (!v.filtered || r.topic == v.topic) {
			all = append(all, candidate{v.components(r).score(), r})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	var out []*record
	for _, c := range all[:min(most, len(all))] {
		out = append(out, c.record)
	}
	return out
}

var benchQuestions = []struct{ name, params string }{
	{"topic", `{"agent":"stranger","topic":"topic-0","max_units":20,"only_topic":true}`},
	{"topic-first", `{"agent":"stranger","topic":"topic-0","max_units":20}`},
	{"any", `{"agent":"stranger","max_units":20}`},
	{"role", `{"agent":"agent3","max_units":20}`},
	{"topic-role", `{"agent":"agent3","topic":"topic-0","max_units":20}`},
}

// The metric full/this is how many times longer sorting everything takes.
func benchQuestion(b *testing.B, op Op, answer func(s *State, q *Query)) {
	for _, size := range []int{1000, 100_000, 1_000_000} {
		s, _ := benchState(b, size)
		for _, question := range benchQuestions {
			q, err := ParseQuery(op, json.RawMessage(question.params), DefaultSettings())
			if err != nil {
				b.Fatal(err)
			}
			name := fmt.Sprintf("%d/%s", size, question.name)
			var full float64
			b.Run(name+"/full-sort", func(b *testing.B) {
				for b.Loop() {
					s.view(q, DefaultSettings()).fullSort(q.MaxUnits)
				}
				full = float64(b.Elapsed()) / float64(b.N)
			})
			b.Run(name+"/attend", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					answer(s, q)
				}
				if full > 0 {
					b.ReportMetric(full/(float64(b.Elapsed())/float64(b.N)), "full/this")
				}
			})
		}
	}
}

func BenchmarkAttune(b *testing.B) {
	benchQuestion(b, OpAttune, func(s *State, q *Query) { s.Attune(q, DefaultSettings()) })
}

func BenchmarkReckon(b *testing.B) {
	benchQuestion(b, OpReckon, func(s *State, q *Query) { s.Reckon(q, DefaultSettings()) })
}

func BenchmarkDecideWrite(b *testing.B) {
	s, _ := benchState(b, 1000)
	params := json.RawMessage(`{"agent":"agent1","entry":{"topic":"topic-0","price":3,"source":"survey"},"intent":"so that it is known"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Decide(OpWrite, params, DefaultSettings(), Draw{ID: "new"}); err != nil {
			b.Fatal(err)
		}
	}
}

// Reading a change of the log and applying it, as at a start.
func BenchmarkLoad(b *testing.B) {
	const n = 100_000
	bodies := make([][]byte, n)
	for i := range bodies {
		bodies[i] = fmt.Appendf(nil, `{"kind":"written","at":%d,"epoch":%d,"id":"01J8ZQ4Y%018d","agent":"agent%d","intent":"so that it is known","entry":{"topic":"topic-%d","price":%d}}`, i, i, i, i%10, i%100, i%17)
	}
	b.ReportAllocs()
	for b.Loop() {
		s := NewState()
		for _, body := range bodies {
			c, err := DecodeChange(Format, body)
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Apply(c); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/change")
}

// What a million entries take, and how much of it is not their own text.
func BenchmarkMemory(b *testing.B) {
	const n = 1_000_000
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for b.Loop() {
		before := heap()
		s, text := benchState(b, n)
		used := float64(heap() - before)
		b.ReportMetric(used/n, "B/entry")
		b.ReportMetric((used-float64(text))/n, "overhead-B/entry")
		runtime.KeepAlive(s)
	}
}
