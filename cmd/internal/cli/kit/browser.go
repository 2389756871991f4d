package kit

import (
	"context"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/cli/kit/child"
)

// OpenBrowser opens a page in the user's browser if stdout is a terminal and there
// is a screen. A token that is not empty follows the URL as its fragment. A failure
// is a warning. The caller calls the returned function at its end, which removes
// the file below.
//
// Every user of the machine can read the arguments of programs, and the first to
// send the token has its session. So the browser gets the path of a file that only
// this user can read, and the file leads to the page.
func (c *Console) OpenBrowser(ctx context.Context, url, token string) (remove func()) {
	switch {
	// A pipe or a machine without a screen has no user in front of it, so only
	// the URL is printed.
	case !c.Terminal || !HasScreen(runtime.GOOS):
	case token == "":
		c.StartBrowser(ctx, url)
	// A browser in a snap would show an error for the file, so it gets the URL
	// without the token.
	case confined(ctx):
		c.Say("The browser cannot read private files; open the URL above, or paste its token into the page.")
		c.StartBrowser(ctx, url)
	default:
		folder, err := writeRedirect(url + "#token=" + token)
		if err != nil {
			c.Warn(noBrowser, err)
			break
		}
		c.StartBrowser(ctx, filepath.Join(folder, redirectFile))
		return func() { _ = os.RemoveAll(folder) }
	}

	return func() {}
}

const noBrowser = "cannot open the browser: %v; open the URL above"

const redirectFile = "dashboard.html"

// writeRedirect writes a file that leads to a URL, and returns its folder. Both are
// for this user only.
func writeRedirect(url string) (string, error) {
	folder, err := os.MkdirTemp("", "zae-limiter-")
	if err != nil {
		return "", err
	}

	if err := os.WriteFile(filepath.Join(folder, redirectFile), []byte(redirect(url)), 0o600); err != nil {
		return "", errors.Join(err, os.RemoveAll(folder))
	}
	return folder, nil
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

// StartBrowser starts the program that opens a file or a URL, and does not wait for
// it. The browser outlives this program.
func (c *Console) StartBrowser(ctx context.Context, target string) {
	words := append(opener(runtime.GOOS), target)
	// The context of the command ends before the browser does.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), words[0], words[1:]...)
	// The terminal sends Ctrl-C to the whole process group, and it must not end
	// the browser.
	child.OwnGroup(cmd)
	if err := cmd.Start(); err != nil {
		c.Warn(noBrowser, err)
		return
	}

	// A failure after the end of the command would appear under the next prompt
	// of the shell.
	go func() {
		if err := cmd.Wait(); err != nil && ctx.Err() == nil {
			c.Warn(noBrowser, fmt.Errorf("%s: %w", words[0], err))
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

// HasScreen reports whether a browser can show something to the user.
func HasScreen(system string) bool {
	switch system {
	case "windows":
		return true
	case "darwin":
		// A session over SSH would open the browser on the screen of the remote
		// machine.
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
	// A desktop service that hangs must not delay the command.
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()

	name, err := exec.CommandContext(ctx, "xdg-settings", "get", "default-web-browser").Output()
	return err == nil && strings.Contains(string(name), "_")
}
