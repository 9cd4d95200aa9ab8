package console

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"polystalk/codec/conversation"
)

// picture is for the README and the guide:
//
//	go test ./cmd/polystalkd/e2e/console -run Picture -picture ../../../../router/http/picture.png
var picture = flag.String("picture", "", "write the picture of the console to `FILE`")

// pictureMost is how many bytes it may have.
const pictureMost = 60_000

// TestPicture: it can be taken as it stands in the guide, of tubes that are busy, and is small.
func TestPicture(t *testing.T) {
	long(t)
	s := serve(t)
	work := 2 * time.Second
	if *picture != "" {
		work = 40 * time.Second // so that quantiles and rates have something to say
	}
	s.busy(work)
	b := open(t, s.base, "tubes?sort=-ready", look{})
	b.do(chromedp.EmulateViewport(1280, 560))
	b.reads("thumbnails")
	b.reads("live")
	b.shows("what workers do", "document.querySelector('tbody [data-column=watching]').innerText !== ''")
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	shot, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	noErr(t, err)
	small := reduced(t, shot)
	expect(t, len(small) <= pictureMost, "the picture has %d bytes, want at most %d", len(small), pictureMost)
	if *picture != "" {
		noErr(t, os.WriteFile(*picture, small, 0o644))
	}
	if _, err := os.Stat("../../../../router/http/picture.png"); err != nil {
		t.Error(err)
	}
}

// busy runs producers and workers of some tubes for a while; not all workers keep up.
func (s *server) busy(over time.Duration) {
	tubes := []struct {
		name         string
		first        int           // jobs that are there from the start
		put, take    time.Duration // between two; 0: nobody does
		size, buried int
	}{
		{"mail", 140, 30 * time.Millisecond, 20 * time.Millisecond, 320, 3},
		{"thumbnails", 2210, 15 * time.Millisecond, 25 * time.Millisecond, 90, 0},
		{"invoices", 12, 400 * time.Millisecond, 300 * time.Millisecond, 1400, 1},
		{"search-index", 610, 25 * time.Millisecond, 24 * time.Millisecond, 210, 0},
		{"webhooks", 48, 60 * time.Millisecond, 50 * time.Millisecond, 700, 17},
		{"payments", 0, 150 * time.Millisecond, 40 * time.Millisecond, 260, 0},
		{"reports/nightly", 31, 0, 0, 5200, 0},
		{"sms", 0, 90 * time.Millisecond, 30 * time.Millisecond, 120, 0},
		{"exports", 5, 900 * time.Millisecond, 700 * time.Millisecond, 2600, 0},
		{"cleanup", 0, time.Second, 200 * time.Millisecond, 40, 0},
	}
	// every lets one connection act now and then while the test runs; a busy one is skipped.
	every := func(pause time.Duration, turn func(c *conversation.Client) error) {
		if pause == 0 {
			return
		}
		c := s.Client()
		go func() {
			for turn(c) == nil {
				time.Sleep(time.Duration(float64(pause) * (0.5 + rand.Float64())))
			}
		}()
	}
	for _, u := range tubes {
		body := bytes.Repeat([]byte("x"), u.size)
		fillMany(s.t, s.Listen[0], u.first, func(int) string { return u.name }, func(int) string { return string(body) })
		for range u.buried {
			id := s.put(u.name, "no such user", `, "delay_seconds": 60`) // no worker may have it first
			s.api("POST", "jobs/"+id+"/bury", "")
		}
		put := fmt.Sprintf("put 0 0 60 %d\r\n%s\r\n", len(body), body)
		every(u.put, func(c *conversation.Client) error {
			if _, err := c.Ask("use " + u.name + "\r\n"); err != nil {
				return err
			}
			_, err := c.Ask(put)
			return err
		})
		every(u.take, func(c *conversation.Client) error {
			if _, err := c.Ask("watch " + u.name + "\r\n"); err != nil {
				return err
			}
			reply, err := c.Ask("reserve-with-timeout 1\r\n")
			if id := strings.Fields(string(reply)); err == nil && len(id) > 1 {
				_, err = c.Ask("delete " + id[1] + "\r\n")
			}
			return err
		})
	}
	time.Sleep(over)
}

// reduced is a picture with few colours, which a screen of text hardly shows.
func reduced(t *testing.T, shot []byte) []byte {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(shot))
	noErr(t, err)
	often := make(map[color.RGBA]int)
	r := img.Bounds()
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(img.At(x, y)).(color.RGBA) }
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			often[at(x, y)]++
		}
	}
	all := slices.SortedFunc(maps.Keys(often), func(a, b color.RGBA) int { return cmp.Compare(often[b], often[a]) })
	var few color.Palette
	for _, c := range all[:min(255, len(all))] {
		few = append(few, c)
	}
	out := image.NewPaletted(r, few)
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			out.Set(x, y, at(x, y))
		}
	}
	var b bytes.Buffer
	noErr(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, out))
	return b.Bytes()
}
