package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/store"
)

func (a *app) migrateCommand() *cobra.Command {
	return group("migrate", "Bring the database's schema up to date", `Bring the database's schema up to date, tell how far it is, or print the SQL for
those who apply it themselves.

A program works with databases that have the very schema that it knows. Programs
migrate when they open a store, unless the URL says migrate=false.`,
		a.migrateUpCommand(), a.migrateStatusCommand(), a.migrateSQLCommand())
}

func (a *app) schema(ctx context.Context) (store.Schema, error) {
	db, err := a.url(false)
	if err != nil {
		return store.Schema{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	s, err := backends.SchemaOf(bounded, db)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%s did not answer within %v (--connect-timeout): %w", a.where(), a.patience, store.ErrUnavailable)
	}
	return s, err
}

func (a *app) migrateUpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Apply the migrations that are missing",
		Long: `Apply the migrations that are missing; with none missing, do nothing. An SQLite
file that does not exist is made. Several may do it at a time: each migration is
applied once.`,
		Example: "  pawl migrate up --db sqlite:pawl.db",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			before, err := a.schema(ctx)
			if err != nil {
				return err
			}
			db, err := a.url(true)
			if err != nil {
				return err
			}
			st, err := a.open(ctx, db)
			if err != nil {
				return err
			}
			if err := st.Close(); err != nil {
				return err
			}
			after, err := a.schema(ctx)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(asSchema(after))
			}
			if before.Version == after.Version {
				a.print("%s is up to date, at version %d.\n", clean(after.Place), after.Version)
				return nil
			}
			a.print("%s went from version %d to %d.\n", clean(after.Place), before.Version, after.Version)
			return nil
		},
	}
}

type schemaJSON struct {
	Place      string          `json:"place"`
	Version    int64           `json:"version"`
	Newest     int64           `json:"newest"`
	Migrations []migrationJSON `json:"migrations"`
}

type migrationJSON struct {
	Version   int64      `json:"version"`
	Name      string     `json:"name,omitempty"`
	AppliedAt *time.Time `json:"applied_at,omitempty"`
}

func asSchema(s store.Schema) schemaJSON {
	return schemaJSON{s.Place, s.Version, s.Newest, each(s.Migrations, func(m store.Migration) migrationJSON {
		return migrationJSON{m.Version, m.Name, asTime(m.AppliedAt)}
	})}
}

func (a *app) migrateStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Tell which migrations were applied",
		Long: `Tell which migrations were applied, and change nothing. The exit code is 0 if the
schema is that of this program, and 1 if it is older or newer.`,
		Example: "  pawl migrate status",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.schema(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				if err := a.printJSON(asSchema(s)); err != nil {
					return err
				}
			} else {
				a.print("%s\n\n", clean(s.Place))
				t := table{head: []string{"VERSION", "MIGRATION", "APPLIED"}}
				for _, m := range s.Migrations {
					name, at := text(m.Name), text(a.when(m.AppliedAt))
					if m.Name == "" {
						name = styled(yellow, "unknown to this program")
					}
					if m.AppliedAt.IsZero() {
						at = styled(yellow, "no")
					}
					t.add(cell{text: fmt.Sprint(m.Version), right: true}, name, at)
				}
				a.printTable(&t, "There are no migrations.")
			}
			switch {
			case s.Version < s.Newest:
				return &codedError{exitFailed, fmt.Errorf("the schema has version %d and this program needs %d: run pawl migrate up, or apply what 'pawl migrate sql --since %d' prints", s.Version, s.Newest, s.Version)}
			case s.Version > s.Newest:
				return &codedError{exitFailed, fmt.Errorf("the schema has version %d and this program knows versions up to %d: use a newer one", s.Version, s.Newest)}
			}
			return nil
		},
	}
}

func (a *app) migrateSQLCommand() *cobra.Command {
	var since int64
	cmd := &cobra.Command{
		Use:   "sql [flags]",
		Short: "Print the SQL of the migrations",
		Long: `Print the SQL of the migrations, as one transaction, for those who apply it
themselves. It connects to nothing: the URL says the dialect and, for
PostgreSQL, the name of the schema.`,
		Example: "  pawl migrate sql --db postgres:///?schema=pawl | psql orders",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().Int64Var(&since, "since", 0, "leave out the migrations up to this `version`, which the database has")
	cmd.RunE = func(*cobra.Command, []string) error {
		db, err := a.url(false)
		if err != nil {
			return err
		}
		sql, err := backends.SchemaSQL(db, since)
		if err != nil {
			return err
		}
		if sql == "" {
			a.note("There is nothing to do: that is the newest version.\n")
		}
		a.print("%s", sql)
		return nil
	}
	return cmd
}
