package webdemo

import (
	"bytes"
	"embed"
	"encoding/json"
	"html/template"
	"net/http"
	"reflect"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/web"
)

//go:embed assets
var assets embed.FS

type healthJSON struct {
	Status string `json:"status" doc:"healthy, or unhealthy if the store does not answer"`
}

func (h *Handler) gatewayRoutes() []route {
	return []route{
		{
			Route: web.Route[*call]{
				Method: http.MethodPost, Path: chatPath,
				Summary: "Complete a chat, with an API key in X-API-Key or as a bearer token",
				Request: reflect.TypeFor[chatBody](), Answer: reflect.TypeFor[completion](),
			},
			status: http.StatusOK, serve: h.serveChat,
		},
		{
			Route: web.Route[*call]{
				Method: http.MethodGet, Path: "/health", Summary: "Show whether the demo can serve",
				Answer: reflect.TypeFor[healthJSON](),
			},
			status: http.StatusOK, serve: h.serveHealth,
		},
	}
}

func (h *Handler) serveHealth(w http.ResponseWriter, r *http.Request) {
	if err := h.lim.Ping(r.Context()); err != nil {
		// A ping that its client cut short says nothing about the store.
		if !gone(r, err) {
			h.opts.OnError(err)
		}
		h.send(w, r, http.StatusServiceUnavailable, healthJSON{"unhealthy"})
		return
	}

	h.send(w, r, http.StatusOK, healthJSON{"healthy"})
}

// pages returns the pages by path.
func (h *Handler) pages() (map[string]http.HandlerFunc, error) {
	document := h.openAPI()
	text, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return nil, err
	}

	templates, err := template.ParseFS(assets, "assets/*.html")
	if err != nil {
		return nil, err
	}

	render := func(name string, data any) (http.HandlerFunc, error) {
		var page bytes.Buffer
		err := templates.ExecuteTemplate(&page, name, data)
		return static("text/html; charset=utf-8", page.Bytes()), err
	}

	docs, err := render("docs.html", h.reference(document))
	if err != nil {
		return nil, err
	}

	style, err := assets.ReadFile("assets/style.css")
	return map[string]http.HandlerFunc{
		"/{$}": h.index(templates), "/docs": docs, "/style.css": static("text/css; charset=utf-8", style),
		"/openapi.json": static("application/json", append(text, '\n')),
	}, err
}

// index serves the first page, which shows calls by the address of its request.
func (h *Handler) index(templates *template.Template) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data := struct {
			Dashboard bool
			URL       string
		}{h.opts.Dashboard != nil, "http://" + r.Host}

		// The page is complete before it is sent, so that an error can still have a
		// status of its own.
		var page bytes.Buffer
		if err := templates.ExecuteTemplate(&page, "index.html", data); err != nil {
			h.fail(w, r, err)
			return
		}
		static("text/html; charset=utf-8", page.Bytes())(w, r)
	}
}

// static serves a body.
func static(media string, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", media)
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	}
}
