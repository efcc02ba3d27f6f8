package mutant

import "github.com/pawlhq/pawl/store"

// A verb of a faulty store, for what changes one whatever it is.
func aheadOf(s *faulty) *verb[store.AheadParams, int]                        { return &s.ahead }
func askOf(s *faulty) *verb[store.AskWorkersParams, int]                     { return &s.askWorkers }
func cancelOf(s *faulty) *verb[store.CancelParams, []store.ControlResult]    { return &s.cancel }
func claimOf(s *faulty) *verb[store.ClaimParams, store.Claimed]              { return &s.claim }
func commitOf(s *faulty) *verb[store.CommitParams, []store.CommitResult]     { return &s.commit }
func createOf(s *faulty) *verb[store.CreateParams, []store.CreateResult]     { return &s.create }
func extendOf(s *faulty) *verb[store.ExtendParams, []store.LeaseState]       { return &s.extend }
func findOf(s *faulty) *verb[store.FindParams, store.Run]                    { return &s.find }
func fireOf(s *faulty) *verb[store.FireParams, store.FireResult]             { return &s.fire }
func forkOf(s *faulty) *verb[store.ForkParams, store.CreateResult]           { return &s.fork }
func importOf(s *faulty) *verb[store.ImportParams, bool]                     { return &s.imports }
func lockOf(s *faulty) *verb[store.LockParams, store.LockResult]             { return &s.lock }
func purgeOf(s *faulty) *verb[store.PurgeParams, int]                        { return &s.purge }
func putScheduleOf(s *faulty) *verb[store.PutScheduleParams, store.Schedule] { return &s.putSchedule }
func setStateOf(s *faulty) *verb[store.SetStateParams, []store.StateEntry]   { return &s.setState }
func signalOf(s *faulty) *verb[store.SignalParams, []store.SignalResult]     { return &s.signal }
func stepsOf(s *faulty) *verb[store.StepsParams, store.StepPage]             { return &s.readSteps }
