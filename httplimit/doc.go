// Package httplimit puts a limiter in front of HTTP handlers and behind HTTP
// clients.
//
// A [Middleware] acquires before its handler runs and settles afterwards:
//
//	limit := httplimit.New(lim, func(r *http.Request) (limiter.Request, error) {
//		return limiter.Request{
//			Entity: r.Header.Get("X-Api-Key"), Resource: "api", Consume: limiter.Tokens("rpm", 1),
//		}, nil
//	}, &httplimit.Options{OnError: func(r *http.Request, err error) {
//		slog.ErrorContext(r.Context(), "limits", "error", err)
//	}})
//	http.ListenAndServe(":8080", limit.Handler(mux))
//
// A request without an entity, here without a key, gets status 401. OnError receives
// what the client must not see, such as that "api" has no limits.
//
// A handler that learns later what it used calls [Used]. A refused client gets
// status 429 and a [Problem] document. Every answer has the fields RateLimit and
// RateLimit-Policy, see [Fields].
//
// A [Transport] does the same for a client's calls to another service. It waits for
// room and honours the field Retry-After.
//
// The package shows a client the limits of its own entity, and never an entity's
// ID, the numbers of a parent, or the text of an error.
package httplimit
