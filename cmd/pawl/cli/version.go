package cli

import (
	"context"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/backends"
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
	Schema   int64  `json:"schema"` // the newest that it knows
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the program, the library and the schema",
		Long: `Print the version of this program and of its library, the revision that it was
built from, and the newest schema version that it knows. The command does not
connect to a database.`,
		Example: "  pawl version\n  pawl version --json | jq -r .version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := buildVersion(cmd.Context())
			if a.json {
				return a.printJSON(v)
			}
			a.print("pawl %s\n", clean(v.Version))
			for _, line := range [][2]string{{"library", v.Library}, {"revision", v.revision()}, {"go", v.Go + ", " + v.Platform}} {
				if line[1] != "" {
					a.print("  %-9s %s\n", line[0], clean(line[1]))
				}
			}
			a.print("  %-9s %d\n", "schema", v.Schema)
			return nil
		},
	}
}

const library = "github.com/pawlhq/pawl"

func buildVersion(ctx context.Context) versionJSON {
	v := versionJSON{Version: "unknown", Library: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	// All backends have the same schema versions.
	if schema, err := backends.SchemaOf(ctx, "sqlite::memory:"); err == nil {
		v.Schema = int64(schema.Newest)
	}
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
