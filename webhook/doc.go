// Package webhook tells other systems of changes of runs, by HTTP.
//
// A [Sender] delivers the changes of one subscription to one URL: that a run was created, has completed, has failed,
// was canceled, paused or resumed. A change is stored in the transaction that makes it (see [store.Outboxer]), and waits until the
// receiver has accepted it. So no change is lost in a crash, of whatever process, and none is sent that has not happened.
//
// # What receivers can rely on
//
// Each change is delivered at least once. A receiver may get it again, after a lost answer or while two senders overlap; the
// header webhook-id is the same each time, and no other change has it.
//
// The changes of one run arrive in order: the next one is sent when the receiver has accepted the one before. Changes of different
// runs arrive side by side and in no order. A change that is delivered again may arrive after later ones of its run; data.seq
// tells which is later.
//
// A request is a POST of JSON, an [Event], that is signed as the Standard Webhooks specification says. [Verify] checks it.
//
// # What senders do
//
// An answer with a status of 200 to 299 accepts a change. Anything else, also a redirection, which is not followed, is a failure.
// The change is sent again after 5 s, and then after twice as long each time, up to an hour, with some jitter; an
// answer's Retry-After is respected, up to an hour. Meanwhile the changes of other runs go on. A change is dropped when it has
// waited for as long as [Endpoint.Keep] says.
//
// After several failures in a row, the receiver counts as down: the sender sends one change at a time, after pauses of up to five
// minutes, until one is accepted. A change that was not sent meanwhile has no failed attempt.
//
// An answer of 410 Gone ends the sender: [Sender.Run] returns [ErrGone]. The subscription stays, and so do its changes, until they
// are too old or a sender runs again; [engine.Engine.Unsubscribe] deletes both.
//
// Any number of processes may run a sender of one subscription. One of them sends at a time.
package webhook
