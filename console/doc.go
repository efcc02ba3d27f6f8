// Package console is a web console for Pawl: pages that show what runs do and why they wait, and with
// which people steer them.
//
//	h := api.New(eng)
//	http.Handle("/pawl/api/", http.StripPrefix("/pawl/api", h))
//	http.Handle("/pawl/", http.StripPrefix("/pawl", console.New(h)))
//
// The console reads and writes only through the HTTP API, in process. So the API's Authorize function
// decides what a viewer sees and may do, and its Actor function who the journal says that he is. By
// default only viewers on the same machine may use it.
//
// The pages are rendered on the server and work without JavaScript; with it, they update themselves.
// The console needs no files and no other server: styles and scripts are part of the program. All links
// are relative, so it works below any path and behind a proxy that changes the path.
//
// Pages that update themselves are rendered once for all viewers who see the same: see [Viewers].
package console
