package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/api"
	"github.com/pawlhq/pawl/api/client"
	"github.com/pawlhq/pawl/api/mcp"
	"github.com/pawlhq/pawl/engine"
)

// leastToken is the minimum length of a token in bytes.
const leastToken = 16

// serving is the configuration of the command serve.
type serving struct {
	listen, tokenFile string
	readOnly, mcp     bool
	namespaces        []string
	origins           []string
	webhooks          []string // files
}

func (a *app) serveCommand() *cobra.Command {
	var s serving
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Serve the console and the HTTP API",
		Long: `Serve the console at /, the HTTP API below /api/, and its description at
/api/openapi.json, until the command is interrupted.

On a loopback address, everybody on this machine may do everything. On any other
address, the command needs --token-file, and every request needs the token in the
file: "Authorization: Bearer TOKEN". The command speaks HTTP; on a network, put a
proxy that speaks HTTPS in front of it.

--mcp adds tools for assistants at /mcp (Model Context Protocol). They only read.

--webhook sends changes of runs of the namespace to the URL in the file, a JSON
object with "name" and "url", and if needed "secret", "old_secret", "workflows",
"kinds" and "keep". Without "secret", PAWL_WEBHOOK_SECRET has it. Any number of
processes may have the same webhook: one of them sends at a time.`,
		Example: `  pawl serve --db sqlite:quickstart.db
  pawl serve --listen :8080 --token-file /run/secrets/pawl-token --read-only`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&s.listen, "listen", "127.0.0.1:8080", "`address` to listen on; port 0 means any free port")
	f.StringVar(&s.tokenFile, "token-file", "", "`file` with the token that requests need, at least 16 bytes")
	f.BoolVar(&s.readOnly, "read-only", false, "refuse every request that changes something")
	f.BoolVar(&s.mcp, "mcp", false, "serve tools for assistants at /mcp")
	f.StringSliceVar(&s.namespaces, "namespaces", nil, "comma-separated further `namespaces` to serve")
	f.StringSliceVar(&s.origins, "trust-origin", nil, "`origin` of pages, such as https://ops.example.com, that may change things besides the server's own")
	f.StringArrayVar(&s.webhooks, "webhook", nil, "`file` of a webhook to send changes of runs to; may be given several times")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), s) }
	return cmd
}

// serve serves until ctx ends.
func (a *app) serve(ctx context.Context, s serving) error {
	gate, err := s.gate()
	if err != nil {
		return err
	}
	for _, o := range s.origins {
		if err := http.NewCrossOriginProtection().AddTrustedOrigin(o); err != nil {
			return usage("--trust-origin: %v", err)
		}
	}
	if err := s.checkAddress(ctx, gate != nil); err != nil {
		return err
	}
	eng, err := a.engine(ctx)
	if err != nil {
		return err
	}
	senders, err := a.senders(eng, s.webhooks)
	if err != nil {
		return err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return usage("--listen: %v", err)
	}
	if !loopback(ln.Addr()) && gate == nil {
		_ = ln.Close()
		return needsToken(ln.Addr().String())
	}
	srv := &http.Server{
		Handler: s.handler(eng, gate), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }, // ends streams
		ErrorLog:    slog.NewLogLogger(eng.Logger().Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	defer deliver(ctx, eng, senders)()
	if a.json {
		if err := a.printLine(map[string]string{"url": "http://" + ln.Addr().String() + "/"}); err != nil {
			return err
		}
	} else {
		a.print("Serving namespace %q of %s at http://%s/ (API: /api/). Interrupt to stop.\n", eng.Namespace(), clean(a.where()), ln.Addr())
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := srv.Shutdown(bounded); err != nil {
		_ = srv.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// gate reads the token; nil: there is none.
func (s *serving) gate() (*api.Gate, error) {
	if s.tokenFile == "" {
		return nil, nil
	}
	data, err := os.ReadFile(s.tokenFile)
	if err != nil {
		return nil, usage("--token-file: %v", err)
	}
	token := strings.TrimSpace(string(data))
	if len(token) < leastToken {
		return nil, usage("--token-file: the token has %d bytes; want at least %d, for example the output of: openssl rand -hex 32", len(token), leastToken)
	}
	return api.NewGate(token), nil
}

// checkAddress refuses an address that is not loopback, unless there is a token. It looks before the
// port is opened.
func (s *serving) checkAddress(ctx context.Context, token bool) error {
	host, _, err := net.SplitHostPort(s.listen)
	if err != nil {
		return usage("--listen: %v; want for example 127.0.0.1:8080", err)
	}
	if token {
		return nil
	}
	if host == "" {
		return needsToken(s.listen)
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return usage("--listen: %v", err)
	}
	if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !a.Unmap().IsLoopback() }) {
		return needsToken(s.listen)
	}
	return nil
}

func needsToken(address string) error {
	return usage("%s is not a loopback address: others could change runs; pass --token-file, or listen on 127.0.0.1", address)
}

func loopback(addr net.Addr) bool {
	ap, err := netip.ParseAddrPort(addr.String())
	return err == nil && ap.Addr().Unmap().IsLoopback()
}

// handler is what serve serves.
func (s *serving) handler(eng *engine.Engine, gate *api.Gate) http.Handler {
	opts := []api.Option{api.Namespaces(s.namespaces...), api.TrustOrigins(s.origins...), api.Authorize(s.authorize(gate != nil))}
	if gate != nil {
		opts = append(opts, api.Actor(func(r *http.Request) string {
			host, _, _ := net.SplitHostPort(r.RemoteAddr)
			return "token@" + host
		}))
	}
	guarded := func(h http.Handler) http.Handler { return h }
	if gate != nil {
		guarded = gate.Wrap
	}
	h := api.New(eng, opts...)
	mux := http.NewServeMux()
	mux.Handle("/api/", guarded(http.StripPrefix("/api", h)))
	if s.mcp {
		mux.Handle("/mcp", guarded(mcp.New(client.Local(h))))
	}
	mux.Handle("/", consoleHandler(eng, h, gate))
	return mux
}

// authorize decides what callers may do: with a token, those who have it; otherwise, those on this
// machine.
func (s *serving) authorize(token bool) func(context.Context, api.Action, api.Target) error {
	return func(ctx context.Context, act api.Action, t api.Target) error {
		if s.readOnly && !act.Reads() {
			return fmt.Errorf("%s is refused: pawl serve was started with --read-only", act)
		}
		if token {
			return nil
		}
		return api.LocalOnly(ctx, act, t)
	}
}
