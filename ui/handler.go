package ui

import (
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/postrider/postrider/ui/act"
	"github.com/postrider/postrider/ui/api"
	"github.com/postrider/postrider/ui/pages"
	"github.com/postrider/postrider/ui/source"
	"github.com/postrider/postrider/web"
)

// Handler is the monitor. It is safe for concurrent use.
type Handler struct {
	options Options
	auth    *authenticator
	hosts   map[string]bool
	desk    *act.Desk
	pages   *pages.Pages
	api     *api.API
	chain   http.Handler
}

// NewHandler builds the monitor. Mount it at the root of a host name, below a
// path with [http.StripPrefix], or below Options.BasePath without it:
//
//	mux.Handle("/admin/outbox/", http.StripPrefix("/admin/outbox", handler))
//
// An address without the closing slash would break the page's relative links; http.ServeMux redirects it by itself.
func NewHandler(options Options) (*Handler, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	options = options.withDefaults()

	cache, shared := options.Source.(*Cache)
	if !shared {
		var err error
		if cache, err = NewCache(options.Source, CacheConfig{Logger: options.Logger}); err != nil {
			return nil, err
		}
	}
	static, err := web.Static()
	if err != nil {
		return nil, fmt.Errorf("ui: %w", err)
	}
	desk := &act.Desk{
		Cache: cache, Readiness: source.NewReadiness(options.Ready, cache), ShowPayload: options.ShowPayload,
		Environment: options.Environment, Version: options.Version, Logger: options.Logger,
	}
	desk.Use(act.Means{Operator: options.Operator, Replays: options.Replays, Replayable: true, Resizes: options.Resizes, ReadOnly: options.ReadOnly})
	human, err := pages.New(desk)
	if err != nil {
		return nil, err
	}
	h := &Handler{
		options: options, auth: newAuthenticator(options.Auth, options.Logger), hosts: hostSet(options.AllowedHosts),
		desk: desk, pages: human, api: api.New(desk, options.MaxStreams),
	}
	routes, err := h.routes(static)
	if err != nil {
		return nil, err
	}
	if h.chain, err = h.protect(routes); err != nil {
		return nil, err
	}
	return h, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.chain.ServeHTTP(w, r) }

// CloseStreams ends the open event streams and refuses new ones. Register it
// with http.Server.RegisterOnShutdown; Shutdown would otherwise wait for them.
func (h *Handler) CloseStreams() { h.api.CloseStreams() }

func (h *Handler) routes(static fs.FS) (http.Handler, error) {
	compress, err := gzhttp.NewWrapper()
	if err != nil {
		return nil, fmt.Errorf("ui: compression: %w", err)
	}
	assets, err := newAssets(static)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	guarded := func(pattern string, handle http.HandlerFunc) {
		mux.Handle(pattern, h.guard(handle))
	}
	compressed := func(pattern string, handle http.HandlerFunc) {
		mux.Handle(pattern, h.guard(compress(handle)))
	}
	mux.HandleFunc("GET /healthz", h.live)
	mux.HandleFunc("GET /readyz", h.ready)
	h.pages.Routes(compressed, guarded)
	compressed("GET /static/{file}", func(w http.ResponseWriter, r *http.Request) {
		if !assets.serve(w, r, r.PathValue("file")) {
			h.fail(w, r, http.StatusNotFound)
		}
	})
	for _, one := range h.api.Routes() {
		if one.Plain {
			guarded(one.Pattern(), one.Handle)
			continue
		}
		compressed(one.Pattern(), one.Handle)
	}
	if h.options.Gatherer != nil {
		metrics := promhttp.HandlerFor(h.options.Gatherer, promhttp.HandlerOpts{
			ErrorHandling:     promhttp.ContinueOnError,
			ErrorLog:          promLog{h.options.Logger},
			EnableOpenMetrics: true,
		})
		guarded("GET /metrics", metrics.ServeHTTP)
	}
	guarded("/", h.unknown(mux))
	return mux, nil
}

// unknown answers requests without a route: 405 where another method has one, 404 otherwise.
func (h *Handler) unknown(mux *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for method, names := range map[string]string{http.MethodGet: "GET, HEAD", http.MethodPost: "POST"} {
			probe := r.Clone(r.Context())
			probe.Method = method
			if _, pattern := mux.Handler(probe); pattern != "/" {
				allowed = append(allowed, names)
			}
		}
		if len(allowed) > 0 {
			slices.Sort(allowed)
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			h.fail(w, r, http.StatusMethodNotAllowed)
			return
		}
		h.fail(w, r, http.StatusNotFound)
	}
}

// protect wraps the routes in the checks of every request, outermost last.
func (h *Handler) protect(routes http.Handler) (http.Handler, error) {
	origins := http.NewCrossOriginProtection()
	for _, origin := range h.options.TrustedOrigins {
		if err := origins.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("ui: Options.TrustedOrigins: %w", err)
		}
	}
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.failWith(w, r, http.StatusForbidden, "cross_origin", "The request came from another site.")
	}))
	chain := origins.Handler(routes)
	chain = http.MaxBytesHandler(chain, h.options.MaxBodyBytes)
	chain = h.mount(chain)
	chain = h.logged(chain)
	return securityHeaders(chain), nil
}

// mount removes the base path where a proxy kept it, and refuses unclean paths: http.ServeMux would redirect them to an address
// without it.
func (h *Handler) mount(next http.Handler) http.Handler {
	base := h.options.BasePath
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if base != "" && r.URL.Path == base {
			// Relative, since the address the browser sees is not known here.
			w.Header().Set("Location", path.Base(base)+"/")
			w.WriteHeader(http.StatusPermanentRedirect)
			return
		}
		if base != "" && strings.HasPrefix(r.URL.Path, base+"/") {
			http.StripPrefix(base, h.clean(next)).ServeHTTP(w, r)
			return
		}
		h.clean(next).ServeHTTP(w, r)
	})
}

func (h *Handler) clean(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := r.URL.Path
		cleaned := path.Clean(p)
		if p != "/" && cleaned != "/" && strings.HasSuffix(p, "/") {
			cleaned += "/"
		}
		if !strings.HasPrefix(p, "/") || cleaned != p {
			h.fail(w, r, http.StatusNotFound)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// guard checks the host name and the visitor's access. The health checks are outside of it: probes come by address and without credentials.
func (h *Handler) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hostAllowed(r, h.hosts) {
			h.failWith(w, r, http.StatusMisdirectedRequest, "host_not_allowed",
				"This host name is not allowed. Add it to the monitor's allowed hosts (--http-host).")
			return
		}
		judged := h.auth.judge(r)
		switch r := act.WithIdentity(r, judged.Identity); {
		case judged.Access == AccessNone:
			h.refuse(w, r, judged)
		case h.desk.Access(act.Who(r)) == AccessReadOnly && r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.failWith(w, r, http.StatusForbidden, "read_only", "Actions are not allowed here: access is read-only.")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, judged verdict) {
	switch judged.refusal {
	case untrustedProxy:
		h.failWith(w, r, http.StatusForbidden, "proxy_not_trusted",
			"The header with the user's name did not come from a trusted proxy (--http-users-file), or was not one plain name.")
		return
	case tooManyAttempts:
		w.Header().Set("Retry-After", strconv.Itoa(int(judged.retry/time.Second)+1))
		h.failWith(w, r, http.StatusTooManyRequests, "too_many_attempts", "Too many wrong passwords of this user, or too many wrong tokens, came from this address. Wait a little.")
		return
	case notRefused:
	}
	if !h.auth.enabled() {
		h.failWith(w, r, http.StatusForbidden, "authentication_not_configured",
			"Without authentication the monitor answers on loopback addresses only. Set --http-users-file (POSTRIDER_HTTP_USERS_FILE), or Options.Auth where it is embedded.")
		return
	}
	challenges := h.auth.challenges()
	if len(challenges) == 0 {
		h.fail(w, r, http.StatusForbidden)
		return
	}
	w.Header()["Www-Authenticate"] = challenges
	h.fail(w, r, http.StatusUnauthorized)
}

func securityHeaders(next http.Handler) http.Handler {
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// logged writes one record a request: at debug level, or as a warning when the server failed. Health probes leave no record.
func (h *Handler) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The path is taken now, since mounting shortens it.
		requestPath := r.URL.Path
		recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(recorder, r)
		if strings.HasSuffix(requestPath, "/healthz") || strings.HasSuffix(requestPath, "/readyz") {
			return
		}
		level := slog.LevelDebug
		if recorder.status >= http.StatusInternalServerError {
			level = slog.LevelWarn
		}
		h.options.Logger.LogAttrs(r.Context(), level, "monitor request",
			slog.String(logMethod, r.Method), slog.String(logPath, requestPath),
			slog.Int(logStatus, recorder.status), slog.String(logRemote, r.RemoteAddr))
	})
}

type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (s *statusRecorder) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController flush and set deadlines.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// promLog writes promhttp's errors to the structured log.
type promLog struct{ logger *slog.Logger }

func (p promLog) Println(v ...any) {
	p.logger.Warn("metrics endpoint", logError, source.Scrub(strings.TrimSpace(fmt.Sprintln(v...))))
}
