package config

// JudgeReport is a judge, when it is asked, and when the next one is.
type JudgeReport struct {
	Place  Place     `json:"place"`
	Name   string    `json:"name"`
	Type   JudgeType `json:"type"`
	Model  string    `json:"model"`  // "" for the default of the type, or none
	Host   string    `json:"host"`   // that is called, "" for none
	Key    string    `json:"key"`    // the variable whose key is sent, "" when none is
	When   string    `json:"when"`   // "" for always
	Below  float64   `json:"below"`  // confidence under which the next one is asked, 0 for never
	OnNext bool      `json:"onNext"` // a failure asks the next one
}

func reportJudge(j *Judge) JudgeReport {
	r := JudgeReport{
		Place: j.Place, Name: j.Name, Type: j.Type, Model: j.Model, Host: hostOf(j.URL),
		When: j.When, Below: j.Below, OnNext: j.OnNext,
	}
	if kind, known := judgeKindOf(j.Type); known && r.Host == "" {
		r.Host = hostOf(kind.host)
	}
	if j.Key != "" {
		r.Key = j.keyVariable
	}
	return r
}
