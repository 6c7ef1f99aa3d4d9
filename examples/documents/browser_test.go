package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/blobtx/blobtx/internal/testenv"
)

// browser is a headless Chromium before a real server; see the pages it shows
// with go test -artifacts, or make screenshots.
type browser struct {
	*world
	ctx  context.Context
	base string

	mu       sync.Mutex
	mistakes []string // of the page: exceptions, and what its policy forbids
	shots    int
}

type action = chromedp.Action[chromedp.Void]

// chromium finds Debian's package or another Chromium on PATH.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	testenv.Missing(t, `needs Chromium; "make services" installs Debian's package chromium`)
	return ""
}

func newBrowser(t *testing.T, around func(http.Handler) http.Handler) *browser {
	path := chromium(t)
	b := &browser{world: newWorld(t)}
	b.maxSize = 64 << 20
	server := httptest.NewServer(around(b.handler))
	b.base = server.URL
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.WindowSize(1100, 800), chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(time.Minute))
	if os.Geteuid() == 0 { // whose browser refuses to start with its sandbox
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // a page that never gets there
	ctx, cancelBrowser := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(func() {
		cancelBrowser()
		cancel()
		server.CloseClientConnections()
		server.Close()
		require.Empty(t, b.mistakes)
	})
	b.ctx = ctx
	return b
}

// tab opens the page in a tab of its own.
func (b *browser) tab(parent context.Context) context.Context {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(parent)
	b.t.Cleanup(cancel)
	require.NoError(b.t, chromedp.Listen(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.mistakes = append(b.mistakes, fmt.Sprint(e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
		case *log.EventEntryAdded:
			if e.Entry.Source != log.EntrySourceNetwork { // where statuses like 412 are told
				b.mistakes = append(b.mistakes, e.Entry.Text)
			}
		}
	}))
	b.run(ctx, chromedp.Navigate(b.base+"/"), until(`!document.getElementById("empty").hidden || document.querySelector("#list tr")`))
	return ctx
}

func (b *browser) run(ctx context.Context, actions ...action) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(ctx, actions...))
}

// drop drags a file from the desktop onto what selector finds, and lets go.
func (b *browser) drop(tab context.Context, selector, file string) {
	b.t.Helper()
	at, err := chromedp.Run(tab, chromedp.Evaluate[[]float64](fmt.Sprintf(`(() => {
		const e = document.querySelector(%q);
		e.scrollIntoView({ block: "center" });
		const r = e.getBoundingClientRect();
		return [r.left + r.width / 2, r.top + r.height / 2];
	})()`, selector)))
	require.NoError(b.t, err)
	data := &input.DragData{Items: []*input.DragDataItem{}, Files: []string{file}, DragOperationsMask: 1}
	for _, kind := range []input.DispatchDragEventType{input.DispatchDragEventTypeDragEnter, input.DispatchDragEventTypeDragOver, input.DispatchDragEventTypeDrop} {
		_, err := chromedp.Call(tab, input.DispatchDragEvent, input.DispatchDragEventParams{Type: kind, X: at[0], Y: at[1], Data: data})
		require.NoError(b.t, err)
	}
}

// replaceFirst presses the first row's Replace and chooses a file.
func (b *browser) replaceFirst(tab context.Context, file string) {
	b.t.Helper()
	_, err := chromedp.Call(tab, page.SetInterceptFileChooserDialog, page.SetInterceptFileChooserDialogParams{Enabled: true})
	require.NoError(b.t, err)
	opened, err := chromedp.Run(tab, chromedp.WaitEvent(page.FileChooserOpened, func(page.EventFileChooserOpened) bool { return true }, chromedp.Click("#list .replace")))
	require.NoError(b.t, err)
	_, err = chromedp.Call(tab, dom.SetFileInputFiles, dom.SetFileInputFilesParams{Files: []string{file}, BackendNodeID: opened.BackendNodeID})
	require.NoError(b.t, err)
}

// until waits for a condition of the page, in its own language.
func until(condition string) action {
	return func(ctx context.Context, target *chromedp.Target) (none chromedp.Void, err error) {
		if _, err = chromedp.Poll[bool]("Boolean("+condition+")", chromedp.WithPollingTimeout(time.Minute))(ctx, target); err != nil {
			err = fmt.Errorf("until %s: %w", condition, err)
		}
		return none, err
	}
}

// choose presses a button of the conflict's dialog.
func choose(text string) action {
	return chromedp.Click(fmt.Sprintf(`//dialog//button[text()=%q]`, text))
}

func (b *browser) screenshot(tab context.Context, name string) {
	b.t.Helper()
	png, err := chromedp.Run(tab, chromedp.CaptureScreenshot())
	require.NoError(b.t, err)
	require.True(b.t, bytes.HasPrefix(png, []byte("\x89PNG")))
	b.shots++
	path := filepath.Join(b.t.ArtifactDir(), fmt.Sprintf("%s-%d-%s.png", b.t.Name(), b.shots, name))
	require.NoError(b.t, os.WriteFile(path, png, 0o600))
	b.t.Logf("screenshot %s", path)
}

// file makes a file as a person would have it.
func file(t *testing.T, name, text string) string {
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// gate lets uploads through up to half of their bytes, and the rest once opened.
type gate struct {
	open chan struct{}
	half int64
}

type gated struct {
	io.ReadCloser
	*gate
	read int64
}

func (g *gated) Read(p []byte) (int, error) {
	if g.read >= g.half {
		<-g.open
	}
	n, err := g.ReadCloser.Read(p)
	g.read += int64(n)
	return n, err
}

func (g *gate) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > g.half {
			r.Body = &gated{r.Body, g, 0}
		}
		next.ServeHTTP(w, r)
	})
}

func TestPageStoresReplacesAndDeletes(t *testing.T) {
	slow := &gate{make(chan struct{}), 16 << 20}
	b := newBrowser(t, slow.around)
	tab := b.tab(b.ctx)
	b.screenshot(tab, "empty")

	b.drop(tab, "#drop", file(t, "film.bin", strings.Repeat("film", 8<<20)))
	b.run(tab, until(`(() => { const p = document.querySelector("#transfers progress"); return p && p.value > 0.1 && p.value < 1; })()`))
	b.screenshot(tab, "progress")
	b.agree(0) // half an upload is nothing
	close(slow.open)
	b.run(tab, until(`document.querySelector("#transfers .done")?.textContent.includes("stored")`), until(`document.querySelectorAll("#list tr").length === 1`))

	// Chosen, not dragged: the way of the keyboard.
	b.run(tab, chromedp.SetUploadFiles("#choose", []string{file(t, "notes.txt", "one")}),
		until(`document.querySelectorAll("#list tr").length === 2`), until(`document.querySelector("#list a").textContent === "notes.txt"`))
	b.screenshot(tab, "stored")
	b.drop(tab, "#list tr", file(t, "notes 2.txt", "two"))
	b.run(tab, until(`document.querySelector("#list a").textContent === "notes 2.txt"`))
	list, err := b.listDocuments(t.Context(), "", 10)
	require.NoError(t, err)
	require.Equal(t, "two", b.bytes(list[0]))
	require.Equal(t, "text/plain", list[0].ContentType)
	require.Equal(t, int64(32<<20), list[1].Size)
	b.agree(2)

	b.drop(tab, "#drop", file(t, "too large.bin", strings.Repeat("x", 65<<20)))
	b.run(tab, until(`document.querySelector("#transfers .failed")?.textContent.includes("at most 67108864 bytes")`))
	b.agree(2)

	b.run(tab, chromedp.Click("#list .delete"), until(`document.querySelectorAll("#list tr").length === 1`),
		until(`document.getElementById("status").textContent === "notes 2.txt is deleted"`))
	b.agree(1)
	_, err = chromedp.Call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
	require.NoError(t, err)
	b.run(tab, chromedp.EmulateViewport(400, 980))
	b.screenshot(tab, "dark-and-narrow")
}

func TestPageShowsAConflictBetweenTwoTabs(t *testing.T) {
	b := newBrowser(t, func(h http.Handler) http.Handler { return h })
	first := b.create("contract.txt", "first")
	one := b.tab(b.ctx)
	two := b.tab(one) // another tab of the same browser: it shows the same version

	b.replaceFirst(one, file(t, "contract, by Ada.txt", "Ada's"))
	b.run(one, until(`document.querySelector("#list a").textContent === "contract, by Ada.txt"`))
	large := strings.Repeat("Bob", 5<<20) // the refusal comes before it is sent
	b.drop(two, "#list tr", file(t, "contract, by Bob.txt", large))
	b.run(two, until(`document.getElementById("conflict").open`))
	shown, err := chromedp.Run(two, chromedp.Text("#conflict"))
	require.NoError(t, err)
	for _, part := range []string{"Somebody was faster", "contract, by Ada.txt", "contract, by Bob.txt", "15 MiB", "Keep theirs", "Keep both", "Replace it with mine"} {
		require.Contains(t, shown, part)
	}
	b.run(two, until(`[...document.querySelectorAll("button, a, input, progress")].every((e) => e.labels?.length || e.ariaLabel || e.textContent.trim())`))
	b.screenshot(two, "conflict")
	require.Equal(t, "Ada's", b.bytes(first), "nothing is overwritten before the choice")
	b.run(two, choose("Replace it with mine"), until(`document.querySelector("#list a").textContent === "contract, by Bob.txt"`))
	require.Equal(t, large, b.bytes(first))
	b.agree(1)

	// The first tab still shows Ada's. It may keep what it does not know ...
	b.run(one, chromedp.Click("#list .delete"), until(`document.getElementById("conflict").open`))
	b.screenshot(one, "conflict-with-a-delete")
	b.run(one, chromedp.KeyEvent(kb.Escape), until(`!document.getElementById("conflict").open`), until(`document.querySelector("#list a").textContent === "contract, by Bob.txt"`))
	b.agree(1)
	// ... and delete what it knows.
	b.run(one, chromedp.Click("#list .delete"), until(`!document.getElementById("empty").hidden`))
	b.agree(0)

	b.drop(two, "#list tr", file(t, "contract, late.txt", "late"))
	b.run(two, until(`document.getElementById("conflict").open`), until(`document.getElementById("what").textContent === "It is gone"`))
	b.screenshot(two, "conflict-with-what-is-gone")
	b.run(two, choose("Store mine as a new document"), until(`document.querySelector("#list a")?.textContent === "contract, late.txt"`))
	b.agree(1)
}

func TestPageShowsMore(t *testing.T) {
	b := newBrowser(t, func(h http.Handler) http.Handler { return h })
	for i := range 41 {
		b.create(fmt.Sprint(i), "x")
	}
	tab := b.tab(b.ctx)
	for _, rows := range []string{"20", "40", "41"} {
		b.run(tab, until(`document.querySelectorAll("#list tr").length === `+rows))
		if rows != "41" {
			b.run(tab, chromedp.Click("#more"))
		}
	}
	b.run(tab, until(`document.getElementById("more").hidden`))
	titles, err := chromedp.Run(tab, chromedp.Evaluate[[]string](`[...new Set([...document.querySelectorAll("#list a")].map((a) => a.textContent))]`))
	require.NoError(t, err)
	require.Len(t, titles, 41)
}

// The answer to a change is lost after it was committed, and then a proxy in
// between is busy. Browsers repeat some lost requests by themselves; the page asks
// again, too, under the same Idempotency-Key: one document, no conflict with itself.
func TestPageSurvivesALostAnswer(t *testing.T) {
	var mu sync.Mutex
	tries := map[string]int{}
	b := newBrowser(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "GET" {
				next.ServeHTTP(w, r)
				return
			}
			mu.Lock()
			tries[r.Method]++
			try := tries[r.Method]
			mu.Unlock()
			switch try {
			case 1:
				next.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler) // closes the connection
			case 2:
				w.WriteHeader(http.StatusServiceUnavailable)
			default:
				next.ServeHTTP(w, r)
			}
		})
	})
	tab := b.tab(b.ctx)
	b.drop(tab, "#drop", file(t, "once.txt", "one"))
	b.run(tab, until(`document.querySelector("#list a")?.textContent === "once.txt"`))
	b.agree(1)
	b.drop(tab, "#list tr", file(t, "twice.txt", "two"))
	b.run(tab, until(`document.querySelector("#list a").textContent === "twice.txt"`))
	b.agree(1)
	b.run(tab, chromedp.Click("#list .delete"), until(`!document.getElementById("empty").hidden`))
	b.agree(0)
	mu.Lock()
	defer mu.Unlock()
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		require.GreaterOrEqual(t, tries[method], 3, method)
	}
}
