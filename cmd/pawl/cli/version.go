package cli

import (
	"io/fs"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/migrations"
)

// versionJSON describes the build of this program.
type versionJSON struct {
	Version  string `json:"version"`
	Library  string `json:"library"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"` // since that revision
	Built    string `json:"built,omitempty"`    // the time of the revision
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Schema is the newest schema version that the program knows, of each kind of database: "postgres" and
	// "sqlite", which Turso shares.
	Schema map[string]int64 `json:"schema"`
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the program, the library and the schema",
		Long: `Print the version of this program and of its library, the revision that it was
built from, and the newest schema version that it knows for each kind of
database. The command does not connect to a database.`,
		Example: "  pawl version\n  pawl version --json | jq -r .version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := buildVersion()
			if a.json {
				return a.printJSON(v)
			}
			a.print("pawl %s\n", clean(v.Version))
			for _, line := range [][2]string{{"library", v.Library}, {"revision", v.revision()}, {"go", v.Go + ", " + v.Platform}} {
				if line[1] != "" {
					a.print("  %-9s %s\n", line[0], clean(line[1]))
				}
			}
			a.print("  %-9s postgres %d, sqlite and turso %d\n", "schema", v.Schema["postgres"], v.Schema["sqlite"])
			return nil
		},
	}
}

const library = "github.com/pawlhq/pawl"

// newest returns the highest version among migrations, whose files begin with it.
func newest(files fs.FS) (version int64) {
	names, _ := fs.Glob(files, "*.sql") // the pattern is valid
	for _, name := range names {
		number, _, _ := strings.Cut(name, "_")
		if n, err := strconv.ParseInt(number, 10, 64); err == nil {
			version = max(version, n)
		}
	}
	return version
}

func buildVersion() versionJSON {
	v := versionJSON{Version: "unknown", Library: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	v.Schema = map[string]int64{"postgres": newest(migrations.Postgres()), "sqlite": newest(migrations.SQLite())}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = info.Main.Version
	if info.Main.Path == library {
		v.Library = v.Version
	}
	for _, m := range info.Deps {
		if m.Path == library {
			v.Library = m.Version
			if m.Replace != nil {
				v.Library = strings.TrimSpace(m.Replace.Path + " " + m.Replace.Version)
			}
		}
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Built = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (v versionJSON) revision() string {
	s := v.Revision
	if v.Built != "" {
		s += " of " + v.Built
	}
	if v.Modified {
		s += ", modified"
	}
	return s
}
