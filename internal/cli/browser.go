package cli

import (
	"context"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// openBrowser opens the page at a URL with its token in the user's browser, if
// there is a screen. A failure is a warning. The caller calls the function that it
// returns in the end.
//
// Every user of the machine can read the arguments of programs, and whoever sends
// the token first has the session. So the browser gets the path of a file that only
// this user can read, and the file leads to the page.
func (c *console) openBrowser(ctx context.Context, url, token string) (remove func()) {
	remove = func() {}
	if !hasScreen(runtime.GOOS) {
		return remove
	}
	if confined(ctx) {
		c.say("The browser cannot read private files; copy the URL above, or paste its token into the page.")
		c.start(ctx, url)
		return remove
	}
	folder, err := os.MkdirTemp("", "zae-limiter-") // readable by this user only
	if err != nil {
		c.warn("cannot open the browser: %v; open the URL above", err)
		return remove
	}
	file := filepath.Join(folder, "dashboard.html")
	if err := os.WriteFile(file, []byte(redirect(url+"#token="+token)), 0o600); err != nil {
		c.warn("cannot open the browser: %v; open the URL above", err)
	} else {
		c.start(ctx, file)
	}
	return func() { _ = os.RemoveAll(folder) }
}

// redirect returns a page that leads to a URL.
func redirect(url string) string {
	return fmt.Sprintf(`<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url=%[1]s">
<title>zae-limiter</title>
<a href="%[1]s">The dashboard</a>
`, html.EscapeString(url))
}

// start starts the program that opens a file or a URL. It does not wait for it,
// and the browser survives this program.
func (c *console) start(ctx context.Context, target string) {
	words := append(opener(runtime.GOOS), target)
	cmd := exec.CommandContext(context.WithoutCancel(ctx), words[0], words[1:]...)
	ownGroup(cmd) // Ctrl-C must not end a browser
	if err := cmd.Start(); err != nil {
		c.warn("cannot open the browser: %v; open the URL above", err)
		return
	}
	go func() {
		if err := cmd.Wait(); err != nil && ctx.Err() == nil {
			c.warn("cannot open the browser: %s: %v; open the URL above", words[0], err)
		}
	}()
}

// opener returns the command of a system that opens a file or a URL.
func opener(system string) []string {
	switch system {
	case "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler"}
	case "darwin":
		return []string{"open"}
	}
	return []string{"xdg-open"}
}

// hasScreen reports whether a browser can show something to the user.
func hasScreen(system string) bool {
	switch system {
	case "windows":
		return true
	case "darwin":
		return os.Getenv("SSH_CONNECTION") == ""
	}
	return os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
}

// confined reports whether the default browser is a snap, which sees no private
// files. The desktop file of a snap has the name SNAP_PROGRAM.desktop.
func confined(ctx context.Context) bool {
	if runtime.GOOS != "linux" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	name, err := exec.CommandContext(ctx, "xdg-settings", "get", "default-web-browser").Output()
	return err == nil && strings.Contains(string(name), "_")
}
