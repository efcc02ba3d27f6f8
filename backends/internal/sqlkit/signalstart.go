package sqlkit

import "github.com/pawlhq/pawl/store"

// StartMet is the run that is in the way of a start with a signal. Rank says why: 0, it has had the
// signal; 1, it holds the external id; 2, it has the same ID.
type StartMet struct {
	store.Found
	Namespace string
	Rank      int64
}

// Scan reads the columns rank, id, namespace, workflow, status and created_at.
func (m *StartMet) Scan(scan Scan) error {
	var status, created int64
	err := scan(&m.Rank, ID(&m.ID), &m.Namespace, &m.Workflow, &status, &created)
	m.Status, m.Had, m.Holds = store.Status(status), m.Rank == 0, m.Rank == 1
	return err
}

// By returns the result of the start.
func (m *StartMet) By(namespace string, r *store.NewRun) store.CreateResult {
	if m.Namespace != namespace {
		return store.CreateResult{Err: InAnotherNamespace(m.ID)}
	}
	res, _ := r.Reaches(m.Found)
	return res
}

// Again reports whether the start is to be sent again: the run holds the external id by now and would
// have got the signal.
func (m *StartMet) Again(namespace string, r *store.NewRun) bool {
	_, deliver := r.Reaches(m.Found)
	return m.Namespace == namespace && deliver
}
