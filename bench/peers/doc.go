// Package peers lets Pawl and its peers work under the same limits, and judges them by what their
// processes did.
//
// Each engine gets a database of its own, a few hundred jobs, and processes that do nothing but work.
// A process writes to its journal when it begins a job and when it ends it. While the jobs are worked
// off, some processes are killed and replaced, or stopped until their leases have run out. The journals
// then show the most that were at work at one time and that began within a second, beside what the
// engine permits. A second load, after that, shows whether all that the limit permits is still given.
//
// Engines differ in what they promise. The table says so for each, and an engine is not measured under
// a limit that it does not offer.
package peers
