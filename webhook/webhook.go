package webhook

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/store"
)

// Endpoint is what a sender sends, and where to.
type Endpoint struct {
	// Name is the name of the subscription. The changes that wait belong to it, so it stays when the URL changes.
	Name string
	// URL is where requests go, with the scheme http or https.
	URL string
	// Secret signs requests.
	Secret Secret
	// OldSecret, if set, signs them too, so that a receiver may change its secret at another time than the sender.
	OldSecret Secret
	Workflows []string           // empty: changes of all workflows
	Kinds     []store.ChangeKind // empty: changes of all kinds
	Keep      time.Duration      // how long a change waits at most; 0: store.DefaultKeepChanges
}

// Sender delivers the changes of one subscription. Make one with [New].
type Sender struct {
	engine      *engine.Engine
	endpoint    Endpoint
	keys        [][]byte
	client      *http.Client
	log         *slog.Logger
	owner       string
	concurrency int
	timeout     time.Duration
	poll        time.Duration
	first, most time.Duration // of the pauses after a failed delivery
	hold        time.Duration
}

// Option configures a sender.
type Option func(*Sender)

// Concurrency sets how many requests are in progress at most, each of another run. The default, also for 0 or less, is 8.
func Concurrency(n int) Option {
	return func(s *Sender) { s.concurrency = cmp.Or(max(n, 0), defaultConcurrency) }
}

// Timeout sets how long a request may take, until the receiver has answered completely. The default, also for 0 or less, is 15 s.
func Timeout(d time.Duration) Option {
	return func(s *Sender) { s.timeout = cmp.Or(max(d, 0), defaultTimeout) }
}

// Poll sets how often an idle sender looks for changes, and so how late a change is sent at most. The default, also for 0 or less, is 1 s.
func Poll(d time.Duration) Option {
	return func(s *Sender) { s.poll = cmp.Or(max(d, 0), defaultPoll) }
}

// Backoff sets the pause after the first failed delivery of a change, and the longest one. The defaults, also for 0 or less, are 5 s and an hour.
func Backoff(first, most time.Duration) Option {
	return func(s *Sender) {
		s.first = cmp.Or(max(first, 0), defaultFirst)
		s.most = max(s.first, cmp.Or(max(most, 0), defaultMost))
	}
}

// Transport sets what sends requests, instead of a copy of http.DefaultTransport.
func Transport(t http.RoundTripper) Option { return func(s *Sender) { s.client.Transport = t } }

const (
	defaultConcurrency = 8
	maxConcurrency     = 200
	defaultTimeout     = 15 * time.Second
	defaultPoll        = time.Second
	defaultFirst       = 5 * time.Second
	defaultMost        = time.Hour
	lockFor            = 30 * time.Second // a sender that dies keeps others waiting for so long
)

// New makes a sender. It does not access the database. It fails with store.ErrInvalid if the endpoint is not valid; the error contains
// neither the URL nor a secret.
func New(eng *engine.Engine, ep Endpoint, opts ...Option) (*Sender, error) {
	s := &Sender{engine: eng, endpoint: ep, log: eng.Logger(), owner: "sender " + store.NewID().String(), hold: lockFor,
		concurrency: defaultConcurrency, timeout: defaultTimeout, poll: defaultPoll, first: defaultFirst, most: defaultMost,
		client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		s.client.Transport = t.Clone()
	}
	for _, opt := range opts {
		opt(s)
	}
	s.concurrency = min(s.concurrency, maxConcurrency)
	rule := store.PutSubscriptionParams{Namespace: eng.Namespace(), Subscription: s.Subscription()}
	if err := rule.Validate(); err != nil {
		return nil, fmt.Errorf("webhook %q: %w", ep.Name, err)
	}
	u, err := url.Parse(ep.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("webhook %q: %w", ep.Name, store.Invalid("URL", "want one that begins with https:// or http://"))
	}
	for i, secret := range []Secret{ep.Secret, ep.OldSecret} {
		if i > 0 && secret == "" {
			continue
		}
		key, err := secret.key()
		if err != nil {
			return nil, fmt.Errorf("webhook %q: %w", ep.Name, store.Invalid("secret", err.Error()))
		}
		s.keys = append(s.keys, key)
	}
	return s, nil
}

// Subscription returns what the sender subscribes to, so that a program can put it before it sends: changes wait from then on.
func (s *Sender) Subscription() store.Subscription {
	return store.Subscription{Name: s.endpoint.Name, Workflows: s.endpoint.Workflows, Kinds: s.endpoint.Kinds, Keep: s.endpoint.Keep}
}

// ErrGone means that the receiver has answered 410 Gone: it wants no changes any more.
var ErrGone = errors.New("the receiver has answered that it is gone")
