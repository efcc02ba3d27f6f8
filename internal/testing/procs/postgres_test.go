package procs

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

func freshPostgres(t *testing.T, _ string, seed uint64) (string, *network) {
	n := newNetwork(t, seed, *everyFlag)
	prepare(t, n.server.URL())
	return n.server.URL(), n
}

// inPostgres translates a rule's query for PostgreSQL.
var inPostgres = strings.NewReplacer("leased<>0", "leased", "pausing<>0", "pausing", "min(id)", "min(id::text)")

// checkPostgres checks the schema's tables by the rules for SQLite's, except those about large
// inputs, which are not stored separately here.
func checkPostgres(ctx context.Context, url string) error {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, `SET search_path TO pawl`); err != nil {
		return err
	}
	var c complaints
	each := func(query string, row func(scan func(...any) error) error) error {
		rows, err := db.QueryContext(ctx, query)
		if err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
		defer rows.Close()
		for rows.Next() {
			if err := row(rows.Scan); err != nil {
				return fmt.Errorf("%s: %w", query, err)
			}
		}
		return rows.Err()
	}
	for _, rule := range sqliteRules {
		if strings.Contains(rule.query, "large_inputs") {
			continue
		}
		err := each(inPostgres.Replace(rule.query), func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			c.addf("%s: run %s", rule.says, id)
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := checkSteps(&c, each, "input"); err != nil {
		return err
	}
	return c.err()
}
