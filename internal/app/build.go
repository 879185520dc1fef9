package app

import (
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// Build tells which binary this is.
type Build struct {
	Version  string `json:"version"`  // of the release, "devel" outside one
	Revision string `json:"revision"` // of the source, "unknown" when it was not stamped; "+dirty" when it had changes
	Go       string `json:"go"`
}

// ReadBuild reads what the compiler stamped into the binary.
func ReadBuild() Build {
	b := Build{Version: "devel", Revision: "unknown", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	dirty := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if dirty {
		b.Revision += "+dirty"
	}
	return b
}

// registerBuild shows the build as a metric that is always 1.
func registerBuild(reg prometheus.Registerer, b Build) error {
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "attend_build_info",
		Help: "Which binary this is; always 1.",
	}, []string{"version", "revision", "go_version"})
	info.WithLabelValues(b.Version, b.Revision, b.Go).Set(1)
	return reg.Register(info)
}
