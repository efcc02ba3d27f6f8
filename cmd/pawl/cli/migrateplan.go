package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/store"
)

func (a *app) migratePlanCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "plan",
		Short: "Show which locks missing migrations take",
		Long: `Show the statements of missing migrations, the tables that they lock, what the
locks block, and roughly for how long. Nothing is changed.

WAITS is the longest time for which a worker's statement has to wait. TAKES is how
long the migration's statement takes. Both are estimates from the number of rows;
the real times depend on the machine. On PostgreSQL, an index is built while
workers write, and the build takes longer if old transactions are open.`,
		Example: "  pawl migrate plan",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.schemaPlan(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(asPlan(p))
			}
			a.print("%s\n\n", clean(p.Place))
			t := table{head: []string{"VERSION", "TABLE", "ROWS", "LOCK", "BLOCKS", "WAITS", "TAKES", "STATEMENT"}}
			for _, s := range p.Steps {
				version := cell{text: fmt.Sprint(s.Version), right: true}
				if s.Table == "" {
					t.add(version, text("new"), cell{}, cell{}, text("nothing"), cell{}, cell{}, text(shorten(s.SQL)))
					continue
				}
				rows := cell{text: "unknown", right: true}
				if s.Rows >= 0 {
					rows = number(s.Rows)
				}
				if s.AtLeast {
					rows.text += "+"
				}
				t.add(version, text(s.Table), rows, text(s.Lock), text(s.Blocks.String()), text(roughly(s.Longest)), text(roughly(s.Takes)), text(shorten(s.SQL)))
			}
			a.printTable(&t, "Nothing to do: the schema has every migration that this program knows.")
			return nil
		},
	}
}

func (a *app) schemaPlan(ctx context.Context) (store.SchemaPlan, error) {
	db, err := a.url(false)
	if err != nil {
		return store.SchemaPlan{}, err
	}
	return backends.PlanOf(ctx, db)
}

// roughly formats an estimate.
func roughly(d time.Duration) string {
	switch {
	case d < 0:
		return "unknown"
	case d == 0:
		return "no time"
	case d < time.Second:
		return "< 1s"
	}
	return "~" + span(d.Round(time.Second))
}

// shorten cuts a statement.
func shorten(sql string) string {
	if r := []rune(sql); len(r) > 60 {
		return string(r[:57]) + "..."
	}
	return sql
}

type planJSON struct {
	Place   string     `json:"place"`
	Version int64      `json:"version"`
	Newest  int64      `json:"newest"`
	Steps   []stepPlan `json:"steps"`
}

type stepPlan struct {
	Version   int64    `json:"version"`
	Migration string   `json:"migration"`
	SQL       string   `json:"sql"`
	Table     string   `json:"table,omitempty"`
	Rows      *int64   `json:"rows,omitempty"`
	AtLeast   bool     `json:"at_least,omitempty"`
	Bytes     *int64   `json:"bytes,omitempty"`
	Lock      string   `json:"lock,omitempty"`
	Blocks    string   `json:"blocks"`
	Waits     *float64 `json:"waits_seconds,omitempty"`
	Takes     *float64 `json:"takes_seconds,omitempty"`
}

func asPlan(p store.SchemaPlan) planJSON {
	return planJSON{p.Place, p.Version, p.Newest, each(p.Steps, func(s store.PlannedStep) stepPlan {
		out := stepPlan{Version: s.Version, Migration: s.Migration, SQL: s.SQL, Table: s.Table, AtLeast: s.AtLeast, Lock: s.Lock, Blocks: s.Blocks.String()}
		if s.Table == "" {
			return out
		}
		count := func(n int64) *int64 {
			if n < 0 {
				return nil
			}
			return &n
		}
		seconds := func(d time.Duration) *float64 {
			if d < 0 {
				return nil
			}
			n := d.Seconds()
			return &n
		}
		out.Rows, out.Bytes, out.Waits, out.Takes = count(s.Rows), count(s.Bytes), seconds(s.Longest), seconds(s.Takes)
		return out
	})}
}
