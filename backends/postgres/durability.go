package postgres

import "github.com/pawlhq/pawl/store"

// settings are those of a connection that determine which failures its commits survive. They come
// from the configuration of the server, the database or the role, or from the URL.
type settings struct{ synchronousCommit, fsync, fullPageWrites string }

// durability returns which failures commits under the settings survive. Without a synchronous
// standby, all values of synchronous_commit except off wait for the server's own disk.
func (s settings) durability() store.Durability {
	switch {
	case s.synchronousCommit == "off":
		return store.Delayed
	case s.fsync != "on", s.fullPageWrites != "on":
		return store.Buffered
	}
	return store.Durable
}

// finding describes the settings for people.
func (s settings) finding() store.Finding {
	f := store.Finding{Name: "durability"}
	if s.fsync != "on" {
		bad(&f, store.Warning, "fsync is off: a crash of the machine may destroy the database", "turn fsync on, unless you can afford to lose the data")
	}
	if s.fullPageWrites != "on" {
		bad(&f, store.Warning, "full_page_writes is off: a crash of the machine may leave pages half written", "turn full_page_writes on, unless the file system prevents torn pages")
	}
	if s.synchronousCommit == "off" {
		bad(&f, store.Warning, "synchronous_commit is off: a crash of the server may lose the last acknowledged commits",
			"turn synchronous_commit on where it is set (for the database, for the user, or in the URL), unless completed steps may run again")
	}
	if f.Level == store.Fine {
		f.Seen = "a commit waits for the disk (synchronous_commit=" + s.synchronousCommit + ")"
	}
	return f
}
