// Package wire has the JSON documents of the HTTP API: what package api answers and package client
// returns. It imports only the standard library.
//
// Fields may be added in later versions; none is renamed or removed. Times are RFC 3339 in UTC. Run
// ids are UUIDs as text. Fields without a value are left out. The doc comments here are the
// descriptions in the OpenAPI document.
package wire
