package webtest

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// screenshots is the folder of the pictures that each run leaves for a human.
const screenshots = "screenshots"

// resize sets the size of the window in CSS pixels.
func (b *tab) resize(width, height int64) {
	b.t.Helper()
	b.do("resize", chromedp.EmulateViewport(width, height))
}

// media emulates the settings of the system: light or dark, and whether it
// reduces motion.
func (b *tab) media(scheme string, reduceMotion bool) {
	b.t.Helper()
	motion := "no-preference"
	if reduceMotion {
		motion = "reduce"
	}
	b.do("emulate media", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia,
			emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
				{Name: "prefers-color-scheme", Value: scheme},
				{Name: "prefers-reduced-motion", Value: motion},
			}})
		return err
	}))
}

// keep writes a picture of the window to the folder of screenshots.
func (b *tab) keep(name string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	quickly := true // rather than small
	picture, err := chromedp.Call(ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{OptimizeForSpeed: &quickly})
	if err != nil {
		b.t.Errorf("screenshot %s: %v", name, err)
		return
	}
	file := filepath.Join(screenshots, strings.ReplaceAll(name, "/", "-")+".png")
	if err := os.MkdirAll(screenshots, 0o750); err != nil {
		b.t.Error(err)
		return
	}
	if err := os.WriteFile(file, picture.Data, 0o600); err != nil {
		b.t.Error(err)
	}
}
