// Package libsqlclient opens a Turso or libSQL database with Turso's Go driver,
// github.com/tursodatabase/libsql-client-go, instead of package turso's own client.
//
//	st, err := libsqlclient.Open(ctx, "libsql://name-org.turso.io", turso.WithToken(token))
//
// It tests the contract with a second client, and goose uses it to migrate. Package turso's own
// client is the usual choice: the driver sends a second request for each call, takes longer to
// parse long statements, and brings an SQL parser into the program. It reports neither what the
// server counts nor what other processes write; therefore a worker looks for new work every
// max_sleep. It must connect to the primary, not to a replica.
//
// [Open] takes the options of package turso. [Transport] is for programs that set options of
// the driver.
package libsqlclient
