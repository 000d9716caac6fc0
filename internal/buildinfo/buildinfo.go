package buildinfo

import (
	"runtime/debug"
)

// version is set with -ldflags "-X …/internal/buildinfo.version=v1.2.3".
var version string

const module = "github.com/postrider/postrider"

// Version returns Postrider's version in the running program, which may be another that embeds it.
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, d := range info.Deps {
		if d.Path == module {
			return d.Version
		}
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}
