package hooks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
)

// notification is one as Alertmanager sends it, version 4.
const notification = `{
  "version": "4", "groupKey": "{}/{severity=\"page\"}:{alertname=\"DiskFull\"}", "truncatedAlerts": 0, "status": "firing", "receiver": "attend",
  "groupLabels": {"alertname": "DiskFull"}, "commonLabels": {"alertname": "DiskFull", "cluster": "a"}, "commonAnnotations": {},
  "externalURL": "http://am:9093",
  "alerts": [
    {"status": "firing", "labels": {"alertname": "DiskFull", "cluster": "a", "host": "db-1"}, "annotations": {"summary": "db-1 is  full", "description": "95 %"},
     "startsAt": "2026-09-21T14:13:20.5Z", "endsAt": "0001-01-01T00:00:00Z", "generatorURL": "http://p", "fingerprint": "a1b2c3d4e5f60718"},
    {"status": "resolved", "labels": {"alertname": "DiskFull", "host": "db-2"}, "annotations": {"description": "db-2 was full"},
     "startsAt": "2026-09-21T14:00:00Z", "endsAt": "2026-09-21T14:13:20Z", "generatorURL": "", "fingerprint": "0718a1b2c3d4e5f6"}
  ]}`

func alertsHook(scope string) Hook {
	return Hook{Name: "am", Type: Alertmanager, Bearer: []string{token}, Scope: scope}
}

func (w *world) notify(body string) sent {
	w.t.Helper()
	return w.post("am", body, asJSON(bearer()...)...)
}

func TestAlertmanager_AnEventForEachAlert(t *testing.T) {
	w := newWorld(t, alertsHook(""))
	w.notify(notification).want(t, 200, "")
	firing, resolved := engine.Time(1790000000500), engine.Time(1790000000000)
	group := `"externalURL":"http://am:9093","fingerprint":"a1b2c3d4e5f60718","generatorURL":"http://p","groupKey":"{}/{severity=\"page\"}:{alertname=\"DiskFull\"}","groupLabels":{"alertname":"DiskFull"},`
	want := []Event{
		{
			Scope: `alerts:{}/{severity="page"}:{alertname="DiskFull"}`, Name: "alert.firing", ID: "a1b2c3d4e5f60718 2026-09-21T14:13:20.5Z firing", At: &firing,
			Text: "FIRING DiskFull: db-1 is full",
			Data: []byte(`{"annotations":{"summary":"db-1 is  full","description":"95 %"},"endsAt":"0001-01-01T00:00:00Z",` + group +
				`"labels":{"alertname":"DiskFull","cluster":"a","host":"db-1"},"receiver":"attend","startsAt":"2026-09-21T14:13:20.5Z","status":"firing"}`),
		},
		{
			Scope: `alerts:{}/{severity="page"}:{alertname="DiskFull"}`, Name: "alert.resolved", ID: "0718a1b2c3d4e5f6 2026-09-21T14:00:00Z resolved", At: &resolved,
			Text: "RESOLVED DiskFull: db-2 was full",
		},
	}
	want[1].Data = w.taken[1].Data
	if diff := cmp.Diff(want, w.taken, cmp.AllowUnexported(Event{})); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// A repetition changes nothing; what comes again later does, and so does its end.
func TestAlertmanager_Repetitions(t *testing.T) {
	w := newWorld(t, alertsHook(""))
	for i, c := range []struct {
		old, new string
		taken    int
	}{
		{"", "", 2},
		{"", "", 2},
		{`"status": "firing", "labels"`, `"status": "resolved", "labels"`, 3},
		{"2026-09-21T14:13:20.5Z", "2026-09-28T14:13:20.5Z", 4},
		{"db-1 is  full", "db-1 is full still", 4},
		{"a1b2c3d4e5f60718", "", 5},
		{"a1b2c3d4e5f60718", "", 5},
	} {
		w.notify(strings.Replace(notification, c.old, c.new, 1)).want(t, 200, "")
		if len(w.taken) != c.taken {
			t.Errorf("%d: %d events, want %d", i, len(w.taken), c.taken)
		}
	}
}

func TestAlertmanager_ScopesByLabel(t *testing.T) {
	w := newWorld(t, alertsHook("cluster:{labels.cluster}"))
	w.notify(notification).want(t, 200, "")
	if w.taken[0].Scope != "cluster:a" || w.taken[1].Scope != "alertmanager:am" {
		t.Errorf("scopes %q and %q", w.taken[0].Scope, w.taken[1].Scope)
	}
}

// One alert that is none does not keep the others out.
func TestAlertmanager_WhatIsNoAlert(t *testing.T) {
	for body, want := range map[string]string{
		`[]`:                               "no JSON object",
		`{}`:                               "no list alerts",
		`{"alerts":{}}`:                    "no list alerts",
		`{"alerts":[1]}`:                   "alerts[0]: is no object",
		`{"alerts":[{}]}`:                  "alerts[0]: status is neither firing nor resolved",
		`{"alerts":[{"status":"firing"}]}`: "alerts[0]: startsAt is no RFC 3339 time",
		`{"alerts":[{"status":"firing","labels":{"a":1}}]}`:                                                         "is no text",
		`{"alerts":[{"status":"firing","startsAt":"2026-01-02T03:04:05Z"},{"status":"off"}]}`:                       `"accepted":1,"duplicates":0,"rejected":1,"errors":[{"event":2,"error":"alerts[1]: status`,
		strings.Replace(notification, `"fingerprint": "0718a1b2c3d4e5f6"`, `"fingerprint": "0718", "status": 1`, 1): `"rejected":1`,
	} {
		w := newWorld(t, alertsHook(""))
		if got := w.notify(body); got.Code != 422 || !strings.Contains(got.Body.String(), want) {
			t.Errorf("%s: %d %s, want %s", body, got.Code, got.Body, want)
		}
	}
}

// What a group holds is told with each of its alerts, so that a notification must
// not become a multiple of itself.
func TestAlertmanager_ALargeGroupIsNotMultiplied(t *testing.T) {
	one := func(i int) string {
		return fmt.Sprintf(`{"status":"firing","startsAt":"2026-01-02T03:04:05Z","fingerprint":"%d"}`, i)
	}
	for _, alerts := range []int{1, 300, 2_000} {
		all := make([]string, alerts)
		for i := range all {
			all[i] = one(i)
		}
		for _, end := range []string{"a", "b"} {
			w := newWorld(t, alertsHook(""))
			body := `{"groupKey":"` + strings.Repeat("k", 300_000) + end + `","groupLabels":{"alertname":"DiskFull","x":"` + strings.Repeat("é", 300_000) + `"},"receiver":"attend","alerts":[` + strings.Join(all, ",") + `]}`
			w.notify(body).want(t, 200, "")
			total := 0
			for i := range w.taken {
				total += len(w.taken[i].Data) + len(w.taken[i].Scope)
			}
			if most := 3*maxGroupMembers + len(body); len(w.taken) != alerts || total > most {
				t.Errorf("%d alerts became %d events of %d bytes, want at most %d", alerts, len(w.taken), total, most)
			}
			var data struct {
				Attend note `json:"_attend"`
			}
			if err := json.Unmarshal(w.taken[0].Data, &data); err != nil || !data.Attend.Cut || data.Attend.Bytes < 600_000 || data.Attend.Bytes > len(body) {
				t.Errorf("the note is %+v: %v", data.Attend, err)
			}
			if scope := w.taken[0].Scope; len(scope) > maxScope {
				t.Errorf("the scope has %d bytes", len(scope))
			}
		}
	}
}

// A scope follows from the group, not from how many alerts a notification holds;
// groups whose keys differ far behind stay apart.
func TestAlertmanager_AScopeIsItsGroups(t *testing.T) {
	const alert = `{"status":"firing","startsAt":"2026-01-02T03:04:05Z"}`
	scope := func(key string, alerts int) string {
		w := newWorld(t, alertsHook(""))
		w.notify(`{"groupKey":"`+key+`","alerts":[`+alert+strings.Repeat(","+alert, alerts-1)+`]}`).want(t, 200, "")
		return w.taken[0].Scope
	}
	key := strings.Repeat("k", 480)
	if got := scope(key, 5_000); got != "alerts:"+key {
		t.Errorf("the scope is %q", got)
	}
	long := strings.Repeat("k", 5000)
	if scope(long+"a", 1) != scope(long+"a", 5_000) || scope(long+"a", 1) == scope(long+"b", 1) {
		t.Error("the scopes of long keys are not those of their groups")
	}
}

// Of many faults the first are told, and all are counted.
func TestAlertmanager_ManyFaults(t *testing.T) {
	w := newWorld(t, alertsHook(""))
	got := w.notify(`{"alerts":[1`+strings.Repeat(",1", 9999)+`]}`).want(t, 422, "eventsRejected").Body.String()
	if !strings.Contains(got, `"rejected":10000`) || strings.Count(got, "is no object") != maxFaults {
		t.Errorf("%d faults: %.200s", strings.Count(got, "is no object"), got)
	}
}
