package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/store"
)

func (a *app) migrateCommand() *cobra.Command {
	return group("migrate", "Migrate the database schema", `Migrate the database schema, show its version, or print the SQL so that you can
apply it yourself.

A program works with the newest schema version that it knows, and with later
versions that do not require a newer program. Programs migrate the schema when
they open a store, unless the URL contains migrate=false.`,
		a.migrateUpCommand(), a.migrateStatusCommand(), a.migratePlanCommand(), a.migrateSQLCommand())
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
		Short: "Apply missing migrations",
		Long: `Apply missing migrations. If none is missing, do nothing. If an SQLite file does
not exist, create it. Several programs may migrate at the same time: each
migration is applied once.`,
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
			a.print("%s was migrated from version %d to %d.\n", clean(after.Place), before.Version, after.Version)
			return nil
		},
	}
}

type schemaJSON struct {
	Place      string          `json:"place"`
	Version    int64           `json:"version"`
	Newest     int64           `json:"newest"`
	Minimum    int64           `json:"minimum,omitempty"`
	Migrations []migrationJSON `json:"migrations"`
}

type migrationJSON struct {
	Version   int64      `json:"version"`
	Name      string     `json:"name,omitempty"`
	AppliedAt *time.Time `json:"applied_at,omitempty"`
}

func asSchema(s store.Schema) schemaJSON {
	return schemaJSON{s.Place, s.Version, s.Newest, s.Minimum, each(s.Migrations, func(m store.Migration) migrationJSON {
		return migrationJSON{m.Version, m.Name, asTime(m.AppliedAt)}
	})}
}

func (a *app) migrateStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show which migrations have been applied",
		Long: `Show which migrations have been applied. Nothing is changed. The exit code is 0 if
this program works with the schema, and 1 if the schema is too old, or requires a
newer program.`,
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
				return &codedError{exitFailed, fmt.Errorf("schema version %d is too old; this program needs version %d: run pawl migrate up, or apply the output of pawl migrate sql --since %d", s.Version, s.Newest, s.Version)}
			case !s.Usable():
				return &codedError{exitFailed, fmt.Errorf("schema version %d is too new: it needs programs that know version %d or later, and this program knows versions up to %d; upgrade pawl",
					s.Version, s.Minimum, s.Newest)}
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
		Long: `Print the SQL of the migrations, so that you can apply it yourself. The command
does not connect to the database: the URL gives the SQL dialect and, for
PostgreSQL, the schema name.

The SQL is one transaction. With --since and PostgreSQL, it runs outside of a
transaction, so that workers do not wait for it. If it fails, print it again from
the version that 'pawl migrate status' shows.`,
		Example: "  pawl migrate sql --db postgres:///?schema=pawl | psql orders",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().Int64Var(&since, "since", 0, "omit migrations up to this `version`, the one that the database has")
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
			a.note("Nothing to do: %d is the newest version.\n", since)
		}
		a.print("%s", sql)
		return nil
	}
	return cmd
}
